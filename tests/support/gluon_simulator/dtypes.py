"""Element types: how values are held in numpy, rounded, converted and promoted.

A bfloat16 is held as the float32 of the same value, and so is a float8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from support.gluon_simulator.global_memory import GlobalMemory

Array = NDArray[Any]


@dataclass(frozen=True)
class DType:
    """An element type under Triton's name for it."""

    name: str
    primitive_bitwidth: int
    kind: str
    """One of bool, int, uint, float, pointer: in the order in which they are promoted."""

    @property
    def itemsize(self) -> int:
        return max(self.primitive_bitwidth // 8, 1)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The type of the arrays that hold its values."""
        if self.kind == "bool":
            return np.dtype(np.bool_)
        if self.kind == "pointer":
            return np.dtype(np.int64)
        return np.dtype(f"{self.kind}{32 if self.is_narrow else self.primitive_bitwidth}")

    @property
    def bits(self) -> np.dtype[Any]:
        """The type of the arrays that hold its bits."""
        return np.dtype(f"uint{8 * self.itemsize}")

    @property
    def is_narrow(self) -> bool:
        """True if numpy lacks the type, whose values a float32 holds."""
        return self.name in _NARROW

    @property
    def is_float8(self) -> bool:
        return self.is_narrow and self.primitive_bitwidth == 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def is_floating(self) -> bool:
        return self.is_float

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerType(DType):
    """A pointer to elements of one tensor; its values are offsets in elements."""

    element_ty: DType = field(kw_only=True)
    memory: GlobalMemory = field(kw_only=True, compare=False)


int1 = DType("int1", 1, "bool")
int8, int16, int32, int64 = (DType(f"int{bits}", bits, "int") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{bits}", bits, "uint") for bits in (8, 16, 32, 64))
float16, bfloat16 = DType("fp16", 16, "float"), DType("bf16", 16, "float")
float32, float64 = DType("fp32", 32, "float"), DType("fp64", 64, "float")
float8e4nv, float8e5 = DType("fp8e4nv", 8, "float"), DType("fp8e5", 8, "float")

_NARROW = {
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
}

_ALL = (
    *(int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64),
    *(float16, bfloat16, float32, float64, float8e4nv, float8e5),
)
DTYPES = {dtype.name: dtype for dtype in _ALL}

_TORCH = {
    torch.bool: int1,
    torch.int8: int8,
    torch.int16: int16,
    torch.int32: int32,
    torch.int64: int64,
    torch.uint8: uint8,
    torch.uint16: uint16,
    torch.uint32: uint32,
    torch.uint64: uint64,
    torch.float16: float16,
    torch.bfloat16: bfloat16,
    torch.float32: float32,
    torch.float64: float64,
    torch.float8_e4m3fn: float8e4nv,
    torch.float8_e5m2: float8e5,
}


_BITS = {1: torch.int8, 2: torch.int16}


def dtype_of(tensor: torch.Tensor) -> DType:
    return _TORCH[tensor.dtype]


def as_dtype(dtype: Any) -> DType:
    """`dtype`, or the type of the same name where it is one of `triton.language`."""
    return dtype if isinstance(dtype, DType) else DTYPES[dtype.name]


def rounded(values: Array, dtype: DType) -> Array:
    """float32 `values` as they are held for `dtype`: narrow floats are rounded to nearest even, and
    as the GPU's conversion does, those beyond the largest float8 are that.
    """
    if not dtype.is_narrow:
        return values.astype(dtype.numpy)
    narrow, wide = _NARROW[dtype.name], torch.tensor(np.asarray(values, np.float32))
    if dtype.is_float8:
        largest = torch.finfo(narrow).max
        wide = wide.clamp(-largest, largest)
    return wide.to(narrow).float().numpy()


def converted(values: Array, source: DType, target: DType) -> Array:
    """Values of `source` as `target`: floats to integers toward zero, wide integers wrap."""
    if source == target:
        return values
    if target.is_narrow:
        return rounded(values.astype(np.float32), target)
    if target.kind == "bool":
        return values != 0
    return values.astype(target.numpy)


def to_bits(values: Array, dtype: DType) -> Array:
    if dtype.is_narrow:
        narrow = torch.tensor(np.asarray(values, np.float32)).to(_NARROW[dtype.name])
        return narrow.view(_BITS[dtype.itemsize]).numpy().view(dtype.bits)
    return np.asarray(values, dtype.numpy).view(dtype.bits)


def from_bits(bits: Array, dtype: DType) -> Array:
    if dtype.is_narrow:
        signed = torch.tensor(np.asarray(bits, dtype.bits).view(f"int{dtype.primitive_bitwidth}"))
        return signed.view(_NARROW[dtype.name]).float().numpy()
    return np.asarray(bits, dtype.bits).view(dtype.numpy)


def undefined(shape: tuple[int, ...], dtype: DType) -> Array:
    """Return what nobody may rely on: NaN, or a number that no index is."""
    value = float("nan") if dtype.is_float else 119
    return np.full(shape, value, dtype.numpy)


def scalar_dtype(value: float) -> DType:
    """The type of a Python number."""
    if isinstance(value, bool | np.bool_):
        return int1
    if isinstance(value, int | np.integer):
        return int32 if -(2**31) <= value < 2**31 else int64
    return float32


_KINDS = ("bool", "int", "uint", "float")


def _rank(dtype: DType) -> int:
    return 1 if dtype.kind == "uint" else min(_KINDS.index(dtype.kind), 2)


def promoted(a: DType, b: DType, *, scalars: tuple[bool, bool], division: bool = False) -> DType:
    """The type that an operator computes in: that of a tensor beside a Python number."""
    if scalars[0] != scalars[1]:
        scalar, tensor = (a, b) if scalars[0] else (b, a)
        if _rank(scalar) <= _rank(tensor):
            half = tensor.is_float and tensor.primitive_bitwidth == 16
            return float32 if half and division else tensor
    if a.is_float or b.is_float:
        return _promoted_float(a, b, division)
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    return max((a, b), key=lambda dtype: (dtype.primitive_bitwidth, dtype.kind == "uint"))


def _promoted_float(a: DType, b: DType, division: bool) -> DType:
    for wide in (float64, float32):
        if wide in (a, b):
            return wide
    if float16 in (a, b):
        return float32 if division else float16
    return bfloat16 if a == b and not division else float32
