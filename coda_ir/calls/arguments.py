"""Checks of the tensors that a compiled function is called with.

Each message ends with the remedy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import torch

from coda_ir.argument_template import ArgumentTemplate
from coda_ir.diagnostics import ArgumentError, counted
from coda_ir.symbolic_size import SymbolicSize

_forward_ad: Any = import_module("torch.autograd.forward_ad")


@dataclass(frozen=True)
class TensorSpec:
    """The name, extents (number, symbol, or None if unknown) and element type of a tensor."""

    name: str
    dims: tuple[int | str | None, ...]
    dtype: torch.dtype
    is_weight: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {short_name(self.dtype)}{format_dims(self.dims)}"


def short_name(dtype: torch.dtype) -> str:
    """Return `bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")


def format_dims(dims: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in dims) + "]"


@dataclass(frozen=True)
class Signature:
    """The arguments and results of a function."""

    name: str
    arguments: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    conditions: tuple[str, ...] = ()
    """Comparisons that hold for the sizes of every call, as in Python: `T == S`, `B % 2 == 0`."""

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        return f"{self.name}({', '.join(map(str, self.arguments))}) -> ({results})"

    def collect(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """Return the values of a call in the order of the arguments."""
        if len(args) > len(self.arguments):
            raise ArgumentError(
                f"{self.name} takes {len(self.arguments)} arguments, got {len(args)}",
                f"pass {', '.join(spec.name for spec in self.arguments)}",
            )
        values = dict(zip((spec.name for spec in self.arguments), args, strict=False))
        for name, value in kwargs.items():
            self._check_name(name, values)
            values[name] = value
        missing = [spec for spec in self.arguments if spec.name not in values]
        if missing:
            raise ArgumentError(
                f"{self.name} is missing {counted(len(missing), 'argument')}: "
                + ", ".join(spec.name for spec in missing),
                "pass " + "; ".join(map(str, missing)),
            )
        return [values[spec.name] for spec in self.arguments]

    def _check_name(self, name: str, given: Mapping[str, object]) -> None:
        names = [spec.name for spec in self.arguments]
        if name not in names:
            raise ArgumentError(
                f"{self.name} has no argument '{name}'", f"its arguments are {', '.join(names)}"
            )
        if name in given:
            raise ArgumentError(
                f"argument {name} of {self.name} is given both by position and by name",
                "pass it once",
            )

    def check(
        self, values: Sequence[object], device: torch.device | None, *, trainable: bool = False
    ) -> tuple[list[torch.Tensor], dict[str, int]]:
        """Return the values as tensors, and the sizes of the symbols.

        Without a `device`, all tensors have to be on the device of the first one. Raises an
        ArgumentError if a type, element type, device or shape is wrong, or if a tensor requires a
        gradient that a function which is not `trainable` cannot compute.
        """
        tensors: list[torch.Tensor] = []
        bindings: dict[str, tuple[int, str]] = {}
        for spec, value in zip(self.arguments, values, strict=True):
            tensor = _check_tensor(spec, value)
            if tensor.requires_grad and torch.is_grad_enabled() and not trainable:
                raise ArgumentError(
                    f"argument {spec.name} requires a gradient, but this program has no backward",
                    "compile a program with training=True, or a model with torch.compile; without "
                    f"gradients, call inside torch.no_grad(), or pass {spec.name}.detach()",
                )
            device = _check_device(spec, tensor, device)
            _check_shape(spec, tensor, bindings)
            tensors.append(tensor.resolve_neg())
        sizes = {symbol: place.size(tensors) for symbol, place in symbol_places(self).items()}
        for spec, tensor in zip(self.arguments, tensors, strict=True):
            _check_derived(spec, tensor, sizes)
        for condition in self.conditions:
            if not _holds(condition, sizes):
                raise self._unmet(condition, sizes)
        return tensors, sizes

    def _unmet(self, condition: str, sizes: Mapping[str, int]) -> ArgumentError:
        places = symbol_places(self)
        given = ", ".join(
            f"{symbol} is {sizes[symbol]} (dimension {axis} of {self.arguments[index].name})"
            for symbol, (index, axis, _) in places.items()
            if symbol in ArgumentTemplate.parse(condition).symbols
        )
        return ArgumentError(
            f"{self.name} is for sizes with {condition}, but in this call {given}",
            "pass tensors of such sizes; export a model again with an example of other sizes",
        )

    def empty_results(
        self, bindings: Mapping[str, int], device: torch.device
    ) -> list[torch.Tensor] | None:
        """Return the results if none of them has elements at these sizes; None otherwise."""
        results: list[torch.Tensor] = []
        for spec in self.results:
            shape = [_size(dim, bindings) for dim in spec.dims]
            if 0 not in shape or None in shape:
                return None
            extents = [extent for extent in shape if extent is not None]
            results.append(torch.empty(extents, dtype=spec.dtype, device=device))
        return results


def _holds(condition: str, sizes: Mapping[str, int]) -> bool:
    try:
        return ArgumentTemplate.parse(condition).value(sizes)
    except ZeroDivisionError:
        return False


def _size(dim: int | str | None, bindings: Mapping[str, int]) -> int | None:
    if dim is None:
        return None
    size = SymbolicSize.product([dim])
    return size.evaluate(bindings) if size.symbols <= bindings.keys() else None


def _not_a_tensor(spec: TensorSpec, value: object) -> ArgumentError:
    kind = "None" if value is None else f"of type {type(value).__name__}"
    remedy = f"convert it with torch.as_tensor({spec.name})"
    if value is None:
        remedy = f"pass {spec}; an operand that is never passed is left out of the program"
    elif isinstance(value, torch.nn.Module):
        remedy = f"pass one of its parameters, such as {spec.name}.weight"
    return ArgumentError(f"argument {spec.name} is {kind}, expected a torch.Tensor", remedy)


def _check_tensor(spec: TensorSpec, value: object) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise _not_a_tensor(spec, value)
    if value.is_nested:
        raise ArgumentError(
            f"argument {spec.name} is a nested tensor, expected a dense tensor",
            f"pad it, with {spec.name}.to_padded_tensor(0)",
        )
    if value.layout != torch.strided:
        raise ArgumentError(
            f"argument {spec.name} has layout {value.layout}, expected a dense tensor",
            f"convert it with {spec.name}.to_dense()",
        )
    if not (is_plain(value) and has_elements(value)):
        raise _transformed(spec, value)
    if _forward_ad.unpack_dual(value).tangent is not None:
        raise ArgumentError(
            f"argument {spec.name} has a tangent, which a compiled program does not compute",
            "use the PyTorch model for forward-mode derivatives",
        )
    if value.dtype != spec.dtype:
        raise ArgumentError(
            f"argument {spec.name} has element type {short_name(value.dtype)}, expected "
            f"{short_name(spec.dtype)}",
            f"convert it with {spec.name}.to({spec.dtype})",
        )
    return value


PLAIN_DISPATCH = getattr(torch.Tensor, "__torch_dispatch__")  # noqa: B009  (it has no type)
"""The dispatch of tensor classes that leave operators as they are."""


_NUMBER = torch.zeros((), device="cpu")


def may_have_tangents() -> bool:
    """Return whether a call is inside of `torch.autograd.forward_ad.dual_level`."""
    # Outside of all levels a tensor is its own primal; inside of one, the primal is a view of it.
    return _forward_ad.unpack_dual(_NUMBER).primal is not _NUMBER


def is_plain(tensor: Any) -> bool:
    """Return whether the class of a tensor is none of PyTorch's for tracing or parallelism."""
    return tensor.__torch_dispatch__ is PLAIN_DISPATCH


def has_elements(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has elements in memory, unlike those of torch.func's transforms."""
    if tensor.device.type == "meta" or tensor.numel() == 0:
        return True
    try:
        return tensor.data_ptr() != 0
    except (RuntimeError, ValueError):
        return False


def _transformed(spec: TensorSpec, tensor: torch.Tensor) -> ArgumentError:
    if is_plain(tensor):
        return ArgumentError(
            f"argument {spec.name} is a tensor of a transform of torch.func, such as vmap or grad, "
            "which cannot see into a compiled program",
            "call the program outside of it: instead of vmap, add a dimension to the program; "
            "instead of grad, compile with training=True and call backward()",
        )
    return ArgumentError(
        f"argument {spec.name} is of type {type(tensor).__name__}, expected a tensor with elements "
        "in memory",
        "pass a plain torch.Tensor; where PyTorch traces the caller (torch.export, make_fx), make "
        "the call a torch.library.custom_op",
    )


def _check_device(
    spec: TensorSpec, tensor: torch.Tensor, expected: torch.device | None
) -> torch.device:
    """Check the device of a tensor; return the one that the next tensors must be on."""
    device = tensor.device
    if expected is None or device == expected:
        return device
    if device.type != expected.type or expected.index not in (None, device.index):
        remedy = f"move it with {spec.name}.to('{expected}')"
        if device.type == "meta":
            remedy = "pass a tensor with data: those on meta have none"
        elif device.type in ("cpu", "cuda"):
            remedy += f", or compile with device='{device}'"
        raise ArgumentError(f"argument {spec.name} is on {device}, expected {expected}", remedy)
    return tensor.device


class Place(NamedTuple):
    """The extent that determines a symbol: that of an argument, divided by `divisor`."""

    argument: int
    axis: int
    divisor: int = 1

    def size(self, tensors: Sequence[torch.Tensor]) -> int:
        """Return the size of the symbol for the arguments of a call."""
        return tensors[self.argument].shape[self.axis] // self.divisor


def symbol_places(signature: Signature) -> dict[str, Place]:
    """Return what determines each symbol: the first dimension that is it, or a multiple of it."""
    places: dict[str, Place] = {}
    multiples: dict[str, Place] = {}
    for index, spec in enumerate(signature.arguments):
        for axis, dim in enumerate(spec.dims):
            multiple = SymbolicSize.of(dim).multiple if isinstance(dim, str) else None
            if multiple is not None:
                symbol, divisor = multiple
                found = places if divisor == 1 else multiples
                found.setdefault(symbol, Place(index, axis, divisor))
    return {**multiples, **places}


def is_derived(dim: int | str | None) -> bool:
    """Return whether an extent is computed from symbols, such as `2*M`."""
    return isinstance(dim, str) and not dim.isidentifier()


def _check_derived(spec: TensorSpec, tensor: torch.Tensor, sizes: Mapping[str, int]) -> None:
    """Check the extents of `tensor` that are computed from symbols."""
    for axis, dim in enumerate(spec.dims):
        size = SymbolicSize.of(dim) if dim is not None and is_derived(dim) else None
        if size is None or not size.symbols <= sizes.keys():
            continue
        if size.evaluate(sizes) != tensor.shape[axis]:
            known = ", ".join(f"{symbol} = {sizes[symbol]}" for symbol in sorted(size.symbols))
            raise ArgumentError(
                f"argument {spec.name} has shape {format_dims(tensor.shape)}: dimension {axis} is "
                f"{tensor.shape[axis]}, expected {dim}, where {known}",
                f"pass a tensor of shape {format_dims(spec.dims)}",
            )


def _check_shape(
    spec: TensorSpec, tensor: torch.Tensor, bindings: dict[str, tuple[int, str]]
) -> None:
    """Check the extents of `tensor`; `bindings` has the size of each symbol, and its tensor."""
    shape = tensor.shape
    if len(shape) != len(spec.dims):
        raise ArgumentError(
            f"argument {spec.name} has shape {format_dims(shape)} of rank {len(shape)}, expected "
            f"rank {len(spec.dims)}",
            f"pass a tensor of shape {format_dims(spec.dims)}",
        )
    for axis, (size, dim) in enumerate(zip(shape, spec.dims, strict=True)):
        if isinstance(dim, str):
            known, giver = bindings.setdefault(dim, (size, spec.name))
            if known != size:
                raise _conflict(dim, known, giver, size, spec.name)
        elif dim is not None and dim != size:
            raise ArgumentError(
                f"argument {spec.name} has shape {format_dims(shape)}: dimension {axis} is {size}, "
                f"expected {dim}",
                f"pass a tensor of shape {format_dims(spec.dims)}",
            )


def _conflict(symbol: str, known: int, giver: str, size: int, name: str) -> ArgumentError:
    return ArgumentError(
        f"symbol {symbol} is bound to {known} by argument {giver} and to {size} by argument {name}",
        f"give every dimension {symbol} the same size",
    )
