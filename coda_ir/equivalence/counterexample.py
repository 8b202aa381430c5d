"""Inputs on which a function does not compute what it did, as text and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.dialects.func import FuncOp

from coda_ir.equivalence.comparison import Difference
from coda_ir.equivalence.localization import Origin, defining_op
from coda_ir.equivalence.mismatch import Mismatch
from coda_ir.functions import returned_values
from coda_ir.remarks import format_location, source_position
from coda_ir.signatures import entry_name, entry_of, signature_of
from coda_ir.tensor_files import write_tensors

SHOWN_ELEMENTS = 8


@dataclass(frozen=True)
class Counterexample:
    """A function that computes something else than before, and inputs that show it.

    `arguments` are float64 (and integers), by name, as small and simple as the difference persists.
    """

    function: str
    mismatch: Mismatch
    result_name: str | None = None
    location: LocationAttr | None = None
    """Where the result is computed, before the pass."""
    sizes: Mapping[str, int] | None = None
    arguments: Mapping[str, torch.Tensor] | None = None
    origin: Origin | None = None

    def __str__(self) -> str:
        """Several lines: the result, the first value that differs, and the inputs."""
        lines = [f"@{self.function}: {self._result()}"]
        if self.origin is not None:
            lines.append(f"  the first value that differs is {_describe(self.origin)}")
        if self.sizes:
            sizes = ", ".join(f"{symbol} = {size}" for symbol, size in self.sizes.items())
            lines.append(f"  sizes: {sizes}")
        if self.arguments:
            lines += ["  inputs:", *_describe_inputs(self.arguments)]
        return "\n".join(lines)

    def _result(self) -> str:
        if self.mismatch.result is None:
            return str(self.mismatch.problem)
        name = f" ({self.result_name})" if self.result_name else ""
        place = "" if self.location is None else _at(self.location)
        verb = "is " if isinstance(self.mismatch.problem, Difference) else ": "
        return f"result {self.mismatch.result}{name}{place} {verb}{self.mismatch.problem}"

    def save(self, path: str | Path) -> None:
        """Write the arguments to a `.npz` file, for `coda-opt --run --inputs`."""
        write_tensors(Path(path), self.arguments or {})


def describe_failure(
    before: FuncOp,
    mismatch: Mismatch,
    sizes: Mapping[str, int],
    arguments: Sequence[torch.Tensor],
    origin: Origin | None,
) -> Counterexample:
    """The counterexample for `before` with the names and places that it states."""
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


def _describe_inputs(arguments: Mapping[str, torch.Tensor]) -> list[str]:
    lines = [f"    {name}: {summarize(x)}" for name, x in arguments.items() if x.any()]
    zeros = [name for name, x in arguments.items() if not x.any()]
    return [*lines, f"    zeros: {', '.join(zeros)}"] if zeros else lines


def summarize(x: torch.Tensor) -> str:
    """Type, shape and elements, those that are not zero where there are many."""
    kind = str(x.dtype).removeprefix("torch.")
    shape = "x".join(map(str, x.shape)) or "scalar"
    text = f"{kind} {shape}"
    if x.numel() <= SHOWN_ELEMENTS:
        return f"{text} {_elements(x.flatten())}"
    first = x.flatten()[0]
    if (x == first).all():
        return f"{text} all {first.item():g}"
    places = [tuple(int(i) for i in place) for place in x.nonzero()]
    if len(places) <= SHOWN_ELEMENTS:
        shown = ", ".join(f"{list(place)} = {x[place].item():g}" for place in places)
        return f"{text} zero but for {shown}"
    return f"{text} {_elements(x.flatten()[:SHOWN_ELEMENTS])[:-1]}, ...]"


def _elements(x: torch.Tensor) -> str:
    return "[" + ", ".join(f"{value.item():.6g}" for value in x) + "]"
