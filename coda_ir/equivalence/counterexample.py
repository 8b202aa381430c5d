"""Inputs for which a function computes different results than before, as text and as a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.equivalence.comparison import Difference, find_difference
from coda_ir.equivalence.samples import RUN_ERRORS, Mismatch, trace
from coda_ir.functions import returned_values
from coda_ir.remarks import format_location, source_position
from coda_ir.signatures import entry_name, entry_of, signature_of
from coda_ir.tensor_files import write_tensors


@dataclass(frozen=True)
class Origin:
    """A value of the function before the pass, and the value of the same name after it."""

    before: SSAValue
    after: SSAValue
    difference: Difference


def find_origin(before: FuncOp, after: FuncOp, arguments: Sequence[torch.Tensor]) -> Origin | None:
    """Return the first intermediate value that differs and explains the difference of the results.

    Values are taken for the same where they have the same name and shape. That a difference of one
    explains those of the results is checked: with the value of `after` in its place, `before` gives
    the results of `after`. None where there is no such value, or where one of both does not run.
    """
    try:
        _, old = trace(before, arguments)
        results, new = trace(after, arguments)
    except RUN_ERRORS:
        return None
    named = _by_name(after)
    for name, value in _by_name(before).items():
        other = named.get(name)
        if other is None or old.values[value].shape != new.values[other].shape:
            continue
        difference = find_difference(new.values[other], old.values[value])
        replaced = {value: new.values[other]}
        if difference is not None and _gives(before, arguments, replaced, results):
            return Origin(value, other, difference)
    return None


def _gives(
    before: FuncOp,
    arguments: Sequence[torch.Tensor],
    replaced: Mapping[SSAValue, torch.Tensor],
    results: Sequence[torch.Tensor],
) -> bool:
    """Return whether `before` computes `results` if the values of `replaced` are given."""
    try:
        found, _ = trace(before, arguments, replaced)
    except RUN_ERRORS:
        return False
    return all(
        got.shape == wanted.shape and find_difference(got, wanted) is None
        for got, wanted in zip(found, results, strict=True)
    )


def _by_name(func: FuncOp) -> dict[str, SSAValue]:
    """Return the values with a unique name, in order."""
    named, repeated = dict[str, SSAValue](), set[str]()
    for value in _values(func):
        if value.name_hint is None:
            continue
        if value.name_hint in named:
            repeated.add(value.name_hint)
        named[value.name_hint] = value
    return {name: value for name, value in named.items() if name not in repeated}


def _values(func: FuncOp) -> Iterator[SSAValue]:
    for op in func.body.block.ops:
        yield from op.results


def defining_op(value: SSAValue) -> Operation | None:
    """Return the operator that computes `value`; None for a parameter."""
    return value.owner if isinstance(value.owner, Operation) else None


SHOWN_ELEMENTS = 8


@dataclass(frozen=True)
class Counterexample:
    """A function that computes something else than before, and inputs that show it.

    `arguments` are float64 (and integers), by name.
    """

    function: str
    mismatch: Mismatch
    result_name: str | None = None
    location: LocationAttr | None = None
    """The place where the result is computed, before the pass."""
    sizes: Mapping[str, int] | None = None
    arguments: Mapping[str, torch.Tensor] | None = None
    origin: Origin | None = None

    def __str__(self) -> str:
        """Return several lines: the result, the first value that differs, and the inputs."""
        lines = [f"@{self.function}: {self._result()}"]
        if self.origin is not None:
            lines.append(f"  the first value that differs is {_describe(self.origin)}")
        if self.sizes:
            sizes = ", ".join(f"{symbol} = {size}" for symbol, size in self.sizes.items())
            lines.append(f"  sizes: {sizes}")
        if self.arguments:
            lines.append("  inputs:")
            lines += (f"    {name}: {summarize(x)}" for name, x in self.arguments.items())
        return "\n".join(lines)

    def _result(self) -> str:
        if self.mismatch.result is None:
            return str(self.mismatch.problem)
        name = f" ({self.result_name})" if self.result_name else ""
        place = "" if self.location is None else _at(self.location)
        verb = "is " if isinstance(self.mismatch.problem, Difference) else ": "
        return f"result {self.mismatch.result}{name}{place} {verb}{self.mismatch.problem}"

    def save(self, path: str | Path) -> None:
        """Write the arguments to a `.safetensors` file, for `coda-opt --run --inputs`."""
        write_tensors(Path(path), self.arguments or {})


def describe_failure(
    before: FuncOp,
    mismatch: Mismatch,
    sizes: Mapping[str, int],
    arguments: Sequence[torch.Tensor],
    origin: Origin | None,
) -> Counterexample:
    """Return the counterexample for `before`, with its names and locations."""
    name, location = None, None
    if mismatch.result is not None:
        value = returned_values(before)[mismatch.result]
        name = entry_name(entry_of(before.res_attrs, mismatch.result)) or value.name_hint
        op = defining_op(value)
        location = None if op is None else op.location
    names = [spec.name for spec in signature_of(before).arguments]
    named = dict(zip(names, arguments, strict=True))
    return Counterexample(
        before.sym_name.data, mismatch, name, location, dict(sizes), named, origin
    )


def _describe(origin: Origin) -> str:
    old, new = defining_op(origin.before), defining_op(origin.after)
    assert old is not None and new is not None
    text = f"%{origin.before.name_hint} of {old.name}{_at(old.location)}"
    if new.name != old.name:
        text += f", now of {new.name}"
    return f"{text}: {origin.difference}"


def _at(location: LocationAttr) -> str:
    known = not isinstance(location, UnknownLoc) and source_position(location) is not None
    return f" at {format_location(location)}" if known else ""


def summarize(x: torch.Tensor) -> str:
    """Return type, shape and elements; only the first ones if there are many."""
    kind = str(x.dtype).removeprefix("torch.")
    shape = "x".join(map(str, x.shape)) or "scalar"
    text = f"{kind} {shape}"
    if x.numel() <= SHOWN_ELEMENTS:
        return f"{text} {_elements(x.flatten())}"
    return f"{text} {_elements(x.flatten()[:SHOWN_ELEMENTS])[:-1]}, ...]"


def _elements(x: torch.Tensor) -> str:
    return "[" + ", ".join(f"{value.item():.6g}" for value in x) + "]"
