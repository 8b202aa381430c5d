"""The check of a call as straight-line code, equivalent to `Signature.check` but without its
reports.

A function is generated for a signature and a device, because the general check spends most of its
time in loops and dictionaries. The function accepts a call only if `Signature.check` raises
nothing. For all other calls, the caller runs `Signature.check`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from coda_ir.argument_template import ArgumentTemplate
from coda_ir.calls.arguments import (
    PLAIN_DISPATCH,
    Signature,
    TensorSpec,
    is_derived,
    may_have_tangents,
    symbol_places,
)
from coda_ir.diagnostics import OptionError, closest, expect_kind, symbols_remedy

Check = Callable[..., bool]
"""A check that the arguments of a call, by position, fit."""


class CallCheck:
    """The fast check of a call: it finds the arguments by position if they obviously fit."""

    def __init__(self, signature: Signature, device: torch.device, *, trainable: bool = False):
        """Set up the check; a `trainable` function accepts tensors that require gradients."""
        self._names = tuple(spec.name for spec in signature.arguments)
        self._fits = make_check(signature, device, trainable=trainable)
        self._places = symbol_places(signature)

    def find(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[torch.Tensor] | None:
        """Return the tensors; None if `Signature.collect` and `Signature.check` must decide."""
        values = self._in_order(args, kwargs) if kwargs else args
        if values is None or len(values) != len(self._names) or not self._fits(*values):
            return None
        return values

    def sizes(self, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
        """Return the sizes of the symbols for the result of `find`."""
        return {symbol: place.size(tensors) for symbol, place in self._places.items()}

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the values in order; None if the names do not match."""
        names = self._names[len(args) :]
        if len(names) != len(kwargs):
            return None
        try:
            return (*args, *map(kwargs.__getitem__, names))
        except KeyError:
            return None


def check_sizes(sizes: Mapping[str, object], signature: Signature) -> None:
    """Raise CodaError for a size that no call has: of another symbol, or no number of elements."""
    expect_kind("sizes", sizes, Mapping, "pass a dictionary, such as {'M': 4096}")
    symbols = symbol_places(signature)
    for symbol, size in sizes.items():
        if symbol not in symbols:
            raise OptionError(
                f"{signature.name} has no dimension '{symbol}'",
                closest(str(symbol), symbols, symbols_remedy(symbols)),
            )
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise OptionError(f"the size {symbol} is {size!r}", "pass an integer, 0 or more")


def make_check(signature: Signature, device: torch.device, *, trainable: bool = False) -> Check:
    """Make a function with as many parameters as `signature` has arguments; it accepts any values.

    It gives True where they are dense tensors on `device` with the stated shapes and element types,
    none is empty, has a tangent or is a negative view, and, unless it is `trainable`, none requires
    a gradient that would have to be recorded.
    """
    names: dict[str, Any] = {
        "DEVICE": device,
        "Tensor": torch.Tensor,
        "plain": PLAIN_DISPATCH,
        "is_grad_enabled": torch.is_grad_enabled,
        "may_have_tangents": may_have_tangents,
        **{_dtype_name(spec): spec.dtype for spec in signature.arguments},
    }
    text = check_source(signature, device, trainable=trainable)
    exec(compile(text, f"<check of {signature.name}>", "exec"), names)
    return names["fits"]


def check_source(signature: Signature, device: torch.device, *, trainable: bool = False) -> str:
    """Return the source of the function, which uses the names that `make_check` provides."""
    parameters = ", ".join(f"x{index}" for index in range(len(signature.arguments)))
    required = [f"x{index}.requires_grad" for index in range(len(signature.arguments))]
    if trainable or not required:
        last = "return not may_have_tangents()"
    else:
        recorded = f"is_grad_enabled() and ({' or '.join(required)})"
        last = f"return not (may_have_tangents() or {recorded})"
    lines = [*_statements(signature, device), last]
    body = [f"        {line}" for line in lines]
    # Tensors without elements in memory have no address; a condition may divide by 0.
    end = ["    except (ArithmeticError, RuntimeError, ValueError):", "        return False"]
    return "\n".join([f"def fits({parameters}):", "    try:", *body, *end, ""])


def _statements(signature: Signature, device: torch.device) -> Iterator[str]:
    symbols: dict[str, str] = {}
    has_number = device != torch.device(device.type)
    for index, spec in enumerate(signature.arguments):
        x = f"x{index}"
        conditions = [f"isinstance({x}, Tensor)", f"{x}.__torch_dispatch__ is plain"]
        conditions += [f"{x}.data_ptr()", f"{x}.dtype is {_dtype_name(spec)}", f"not {x}.is_neg()"]
        # Of a device without a number, the first tensor says which one the others are on.
        if has_number:
            conditions.append(f"{x}.device == DEVICE")
        elif index == 0:
            conditions.append(f"(device := {x}.device).type == DEVICE.type")
        else:
            conditions.append(f"{x}.device == device")
        conditions += _shape_conditions(x, spec, symbols)
        yield f"if not ({' and '.join(conditions)}): return False"
    derived = [dim for dim in symbols if is_derived(dim)]
    for symbol, (index, axis, divisor) in symbol_places(signature).items():
        symbols.setdefault(symbol, f"(x{index}.shape[{axis}] // {divisor})")
    for dim in derived:
        size = ArgumentTemplate.parse(dim)
        if size.symbols <= symbols.keys():
            yield f"if {symbols[dim]} != {size.render((), symbols)}: return False"
    for condition in map(ArgumentTemplate.parse, signature.conditions):
        yield f"if not ({condition.render((), symbols)}): return False"


def _shape_conditions(x: str, spec: TensorSpec, symbols: dict[str, str]) -> Iterator[str]:
    """Yield conditions on a shape. `symbols` has the variables of the bound symbols; new ones,
    which must not be 0, are added.
    """
    if all(isinstance(dim, int) or dim in symbols for dim in spec.dims):
        extents = [symbols[dim] if isinstance(dim, str) else str(dim) for dim in spec.dims]
        yield f"{x}.shape == ({', '.join(extents)}{',' * (len(extents) == 1)})"
        return
    yield f"len(shape := {x}.shape) == {len(spec.dims)}"
    for axis, dim in enumerate(spec.dims):
        if isinstance(dim, int):
            yield f"shape[{axis}] == {dim}"
        elif dim in symbols:
            yield f"shape[{axis}] == {symbols[dim]}"
        elif dim is not None:
            symbols[dim] = f"size{len(symbols)}"
            yield f"({symbols[dim]} := shape[{axis}])"


def _dtype_name(spec: TensorSpec) -> str:
    return str(spec.dtype).removeprefix("torch.")
