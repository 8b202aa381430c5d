"""The check of a call as straight code: what `Signature.check` finds, without saying what is wrong.

A function is generated for a signature and a device, since most of the time of the general check
goes into loops and dictionaries. It says yes only where `Signature.check` raises nothing, and no
for whatever needs more than that: the caller then asks `Signature.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from coda_ir.calls.arguments import Signature, TensorSpec, has_elements

Check = Callable[..., bool]
"""Whether the arguments of a call, by position, fit."""


class CallCheck:
    """What a function is called with, by position, where it is plain that it fits."""

    def __init__(self, signature: Signature, device: torch.device, *, trainable: bool = False):
        """A `trainable` function takes tensors that require gradients."""
        self._names = tuple(spec.name for spec in signature.arguments)
        check = make_check(signature, device, trainable=trainable)
        self._fits = RepeatedCheck(check, trainable=trainable)
        self._places = symbol_places(signature)

    def find(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[torch.Tensor] | None:
        """The tensors; None where `Signature.collect` and `Signature.check` have to be asked."""
        values = self._in_order(args, kwargs) if kwargs else args
        if values is None or len(values) != len(self._names) or not self._fits(*values):
            return None
        return values

    def sizes(self, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
        """The sizes of the symbols for what `find` gave."""
        return {
            symbol: tensors[index].shape[axis] for symbol, (index, axis) in self._places.items()
        }

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any] | None:
        """None where the names are not the right ones."""
        names = self._names[len(args) :]
        if len(names) != len(kwargs):
            return None
        try:
            return (*args, *map(kwargs.__getitem__, names))
        except KeyError:
            return None


def symbol_places(signature: Signature) -> dict[str, tuple[int, int]]:
    """The first argument and dimension of each symbol."""
    places: dict[str, tuple[int, int]] = {}
    for index, spec in enumerate(signature.arguments):
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, str):
                places.setdefault(dim, (index, axis))
    return places


def make_check(signature: Signature, device: torch.device, *, trainable: bool = False) -> Check:
    """A function of as many arguments as `signature` has, which may be anything.

    It gives True where they are dense tensors on `device` with the stated shapes and element types,
    no symbol has size 0, and, unless it is `trainable`, none requires a gradient that would have to
    be recorded.
    """
    names: dict[str, Any] = {
        "DEVICE": device,
        "Tensor": torch.Tensor,
        "is_grad_enabled": torch.is_grad_enabled,
        "strided": torch.strided,
        **{_dtype_name(spec): spec.dtype for spec in signature.arguments},
    }
    text = check_source(signature, device, trainable=trainable)
    exec(compile(text, f"<check of {signature.name}>", "exec"), names)
    return names["fits"]


class RepeatedCheck:
    """A check that looks first whether the tensors are like those that passed last.

    That takes a tenth of the time where PyTorch has the comparison in C++ that compiled models
    guard themselves with: of Python type, element type, device, sizes, strides, `requires_grad`
    and dispatch keys (layout, inference, autocast). No tensor is kept.
    """

    def __init__(self, check: Check, *, trainable: bool = False):
        """`trainable` is what the check was made for."""
        self._check = check
        self._is_trainable = trainable
        self._last: Check | None = None
        """Whether tensors are like the last ones."""
        self._last_required = False
        """Whether one of those required a gradient, which must not be recorded."""

    def __call__(self, *values: Any) -> bool:
        last = self._last
        is_like_last = last is not None and last(*values)
        if is_like_last and not (self._last_required and torch.is_grad_enabled()):
            return True
        if not (self._check(*values) and all(map(has_elements, values))):
            return False
        self._last = _likeness(values)
        required = any(tensor.requires_grad for tensor in values)
        self._last_required = required and not self._is_trainable
        return True


def _likeness(tensors: Sequence[torch.Tensor]) -> Check | None:
    """Whether others are like these tensors; None where PyTorch cannot tell."""
    internals: Any = torch._C  # pyright: ignore[reportPrivateUsage]
    dynamo = getattr(internals, "_dynamo", None)
    make = getattr(getattr(dynamo, "guards", None), "TensorGuards", None)
    if make is None:
        return None
    try:
        return make(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    except (TypeError, RuntimeError):  # another version of it, or tensors that it does not know
        return None


def check_source(signature: Signature, device: torch.device, *, trainable: bool = False) -> str:
    """The text of the function, over the names that `make_check` gives it."""
    parameters = ", ".join(f"x{index}" for index in range(len(signature.arguments)))
    required = [f"x{index}.requires_grad" for index in range(len(signature.arguments))]
    if trainable or not required:
        last = "return True"
    else:
        last = f"return not (is_grad_enabled() and ({' or '.join(required)}))"
    lines = [f"def fits({parameters}):", *_statements(signature, device), last]
    return "\n    ".join(lines) + "\n"


def _statements(signature: Signature, device: torch.device) -> Iterator[str]:
    symbols: dict[str, str] = {}
    has_number = device != torch.device(device.type)
    for index, spec in enumerate(signature.arguments):
        x = f"x{index}"
        conditions = [f"isinstance({x}, Tensor)", f"{x}.layout is strided"]
        conditions.append(f"{x}.dtype is {_dtype_name(spec)}")
        # Of a device without a number, the first tensor says which one the others are on.
        if has_number:
            conditions.append(f"{x}.device == DEVICE")
        elif index == 0:
            conditions.append(f"(device := {x}.device).type == DEVICE.type")
        else:
            conditions.append(f"{x}.device == device")
        conditions += _shape_conditions(x, spec, symbols)
        yield f"if not ({' and '.join(conditions)}): return False"


def _shape_conditions(x: str, spec: TensorSpec, symbols: dict[str, str]) -> Iterator[str]:
    """`symbols` has the variables of the symbols that are bound; new ones, not 0, are added."""
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
