"""Values of a kernel: blocks and scalars, with Triton's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.gluon_simulator.dtypes import (
    Array,
    DType,
    PointerType,
    as_dtype,
    converted,
    from_bits,
    int1,
    int64,
    promoted,
    rounded,
    scalar_dtype,
    to_bits,
)
from support.gluon_simulator.layouts import DerivedLayout, expanded, items_of

Operand = Any
"""A Tensor or a Python number."""


@dataclass(frozen=True)
class TensorType:
    element_ty: DType
    shape: list[int]
    layout: object

    @property
    def scalar(self) -> DType:
        return self.element_ty


class Tensor:
    """A block, or a scalar (no dimensions) that is known at run time only."""

    def __init__(self, values: Array, dtype: DType, layout: object = None):
        self._values = np.asarray(values)
        self.dtype = dtype
        self.layout = layout

    @property
    def values(self) -> Array:
        return self._values

    @property
    def shape(self) -> list[int]:
        return list(self._values.shape)

    @property
    def numel(self) -> int:
        return self._values.size

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape, self.layout)

    def like(self, values: Array) -> Tensor:
        """`values` in the type and layout of this tensor."""
        return Tensor(values, self.dtype, self.layout)

    def to(self, dtype: Any, fp_downcast_rounding: None = None, bitcast: bool = False) -> Tensor:
        target = as_dtype(dtype)
        if not bitcast:
            return Tensor(converted(self.values, self.dtype, target), target, self.layout)
        if self.dtype.itemsize != target.itemsize:
            raise TypeError(f"cannot bitcast {self.dtype} to {target}")
        return Tensor(from_bits(to_bits(self.values, self.dtype), target), target, self.layout)

    cast = to

    def reshape(self, *shape: Any) -> Tensor:
        extents = _sequence(shape)
        if int(np.prod(extents)) != self.numel:
            raise ValueError(f"cannot reshape {self.shape} to {extents}")
        layout = DerivedLayout(f"reshape{extents}", self.layout)
        return Tensor(self.values.reshape(extents), self.dtype, layout)

    def permute(self, *dims: Any) -> Tensor:
        order = _sequence(dims)
        layout = DerivedLayout(f"permute{order}", self.layout)
        return Tensor(self.values.transpose(order), self.dtype, layout)

    def expand_dims(self, axis: int) -> Tensor:
        return Tensor(np.expand_dims(self.values, axis), self.dtype, expanded(self.layout))

    def broadcast_to(self, *shape: Any) -> Tensor:
        return self.like(np.broadcast_to(self.values, _sequence(shape)))

    def __getitem__(self, key: Any) -> Tensor:
        result = self
        for axis, item in enumerate(items_of(key)):
            if item is None:
                result = result.expand_dims(axis)
            elif item != slice(None):
                raise TypeError(f"a block is indexed by None and `:` only, not {item}")
        return result

    def _scalar(self) -> Any:
        if self._values.ndim:
            raise TypeError(f"a block of shape {self.shape} is no condition, bound or index")
        return self.values[()]

    def __bool__(self) -> bool:
        return bool(self._scalar())

    def __index__(self) -> int:
        if self.dtype.is_float:
            raise TypeError(f"a {self.dtype} is no index")
        return int(self._scalar())

    def __repr__(self) -> str:
        if self._values.ndim:
            return f"<{self.dtype}{self.shape}>"
        return f"{self.values[()]}:{self.dtype}"

    def __add__(self, other: Operand) -> Tensor:
        return add(self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return add(other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return subtract(self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return subtract(other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return multiply(self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return multiply(other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return divide(other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        return elementwise(_quotient, self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return elementwise(_quotient, other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return elementwise(np.fmod, self, other, division=True)

    def __rmod__(self, other: Operand) -> Tensor:
        return elementwise(np.fmod, other, self, division=True)

    def __and__(self, other: Operand) -> Tensor:
        return elementwise(np.bitwise_and, self, other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Tensor:
        return elementwise(np.bitwise_or, self, other)

    __ror__ = __or__

    def __xor__(self, other: Operand) -> Tensor:
        return elementwise(np.bitwise_xor, self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Operand) -> Tensor:
        return elementwise(np.left_shift, self, other)

    def __rlshift__(self, other: Operand) -> Tensor:
        return elementwise(np.left_shift, other, self)

    def __rshift__(self, other: Operand) -> Tensor:
        return elementwise(np.right_shift, self, other)

    def __rrshift__(self, other: Operand) -> Tensor:
        return elementwise(np.right_shift, other, self)

    def __neg__(self) -> Tensor:
        return self.like(-self.values)

    def __pos__(self) -> Tensor:
        return self

    def __invert__(self) -> Tensor:
        return self.like(~self.values)

    def __lt__(self, other: Operand) -> Tensor:
        return compare(np.less, self, other)

    def __le__(self, other: Operand) -> Tensor:
        return compare(np.less_equal, self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return compare(np.greater, self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return compare(np.greater_equal, self, other)

    def __eq__(self, other: object) -> Any:
        return compare(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return compare(np.not_equal, self, other)


def _sequence(items: tuple[Any, ...]) -> list[int]:
    """The integers given as one sequence or one by one."""
    extents = items_of(items[0]) if len(items) == 1 else items
    return [int(unwrapped(extent)) for extent in extents]


def unwrapped(value: Any) -> Any:
    """The value of a `triton.language.constexpr`, such as a constant that `tl` code shares."""
    return value.value if type(value).__name__ == "constexpr" else value


def as_tensor(value: Operand) -> Tensor:
    value = unwrapped(value)
    if isinstance(value, Tensor):
        return value
    dtype = scalar_dtype(value)
    return Tensor(np.asarray(value, dtype.numpy), dtype)


def broadcast(*tensors: Tensor) -> tuple[list[Array], object]:
    """The values of tensors in one shape, and its layout; blocks must have the same rank."""
    blocks = [tensor for tensor in tensors if tensor.shape]
    if len({len(block.shape) for block in blocks}) > 1:
        raise ValueError(f"cannot broadcast blocks of shapes {[block.shape for block in blocks]}")
    layouts = [block.layout for block in blocks if block.layout is not None]
    shape = np.broadcast_shapes(*(tuple(tensor.shape) for tensor in tensors))
    values = [np.broadcast_to(tensor.values, shape) for tensor in tensors]
    return values, layouts[0] if layouts else None


def aligned(*operands: Operand, division: bool = False) -> tuple[list[Array], DType, object]:
    """Operands in their common type and shape; with the layout of the blocks among them."""
    are_scalars = [not isinstance(unwrapped(operand), Tensor) for operand in operands]
    tensors = [as_tensor(operand) for operand in operands]
    dtype, is_scalar = tensors[0].dtype, are_scalars[0]
    for tensor, other_is_scalar in zip(tensors[1:], are_scalars[1:], strict=True):
        scalars = (is_scalar, other_is_scalar)
        dtype = promoted(dtype, tensor.dtype, scalars=scalars, division=division)
        is_scalar = is_scalar and other_is_scalar
    arrays, layout = broadcast(*(tensor.to(dtype) for tensor in tensors))
    return arrays, dtype, layout


def elementwise(
    operation: Callable[..., Any], *operands: Operand, division: bool = False
) -> Tensor:
    """An operation in the operands' common type, rounded to it."""
    arrays, dtype, layout = aligned(*operands, division=division)
    return Tensor(rounded(np.asarray(operation(*arrays)), dtype), dtype, layout)


def compare(operation: Callable[..., Any], a: Operand, b: Operand) -> Tensor:
    arrays, _, layout = aligned(a, b)
    return Tensor(np.asarray(operation(*arrays)), int1, layout)


def add(a: Operand, b: Operand) -> Tensor:
    a, b = as_tensor(a) if _is_pointer(a) else a, as_tensor(b) if _is_pointer(b) else b
    if _is_pointer(b):
        a, b = b, a
    return _moved(a, b, np.add) if _is_pointer(a) else elementwise(np.add, a, b)


def subtract(a: Operand, b: Operand) -> Tensor:
    return _moved(a, b, np.subtract) if _is_pointer(a) else elementwise(np.subtract, a, b)


def multiply(a: Operand, b: Operand) -> Tensor:
    return elementwise(np.multiply, a, b)


def _is_pointer(value: Operand) -> bool:
    return isinstance(value, Tensor) and isinstance(value.dtype, PointerType)


def _moved(pointer: Tensor, offset: Operand, operation: Callable[..., Any]) -> Tensor:
    (places, offsets), layout = broadcast(pointer, as_tensor(offset).to(int64))
    return Tensor(operation(places, offsets), pointer.dtype, layout)


def divide(a: Operand, b: Operand) -> Tensor:
    """`/` of numbers: of integers it is a float32."""
    arrays, dtype, layout = aligned(a, b, division=True)
    if not dtype.is_float:
        return divide(as_tensor(a).to(scalar_dtype(0.0)), as_tensor(b).to(scalar_dtype(0.0)))
    return Tensor(rounded(np.divide(*arrays), dtype), dtype, layout)


def _quotient(a: Array, b: Array) -> Array:
    """Integer division toward zero."""
    if a.dtype.kind == "f":
        raise TypeError("// takes integers")
    return (a - np.fmod(a, b)) // b
