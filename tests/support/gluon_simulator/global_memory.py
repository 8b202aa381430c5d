"""Tensors of the host: pointers into them, and the boxes that tensor descriptors move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch

from support.gluon_simulator.dtypes import (
    Array,
    DType,
    PointerType,
    converted,
    dtype_of,
    from_bits,
    to_bits,
    undefined,
)
from support.gluon_simulator.errors import OutOfBoundsError, TmaError
from support.gluon_simulator.program import here
from support.gluon_simulator.tensors import Tensor, as_tensor, broadcast

_SIGNED_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class GlobalMemory:
    """The elements of a tensor from its first to its last one, in the order of addresses."""

    def __init__(self, tensor: torch.Tensor, name: str = "a tensor"):
        self.name, self.dtype = name, dtype_of(tensor)
        self.address = tensor.data_ptr()
        extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        flat = tensor.detach().as_strided((extent if tensor.numel() else 0,), (1,))
        signed = flat.view(_SIGNED_BITS[self.dtype.itemsize])
        self.bits: Array = signed.numpy().view(self.dtype.bits)

    def pointer(self) -> Tensor:
        dtype = PointerType("pointer", 64, "pointer", element_ty=self.dtype, memory=self)
        return Tensor(np.asarray(0, np.int64), dtype)

    def read(self, places: Array) -> Array:
        return from_bits(self.bits[places], self.dtype)

    def write(self, places: Array, values: Array) -> None:
        self.bits[places] = to_bits(values, self.dtype)

    def check(self, places: Array) -> None:
        if places.size and not (places.min() >= 0 and places.max() < self.bits.size):
            raise OutOfBoundsError(
                f"{here()}: elements {places.min()} to {places.max()} of {self.name},"
                f" which has {self.bits.size}"
            )


def _memory(pointer: Tensor) -> GlobalMemory:
    if not isinstance(pointer.dtype, PointerType):
        raise TypeError(f"{here()}: {pointer} is no pointer")
    return pointer.dtype.memory


def load(
    pointer: Tensor,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Tensor:
    """`gl.load`: lanes off the mask are `other`, and undefined without one."""
    memory = _memory(pointer)
    lanes = [pointer, as_tensor(True if mask is None else mask)]
    fill = undefined((), memory.dtype)
    if other is not None:
        other = as_tensor(other)
        lanes.append(other.to(memory.dtype))
    (places, active, *others), layout = broadcast(*lanes)
    memory.check(places[active])
    values = np.array(np.broadcast_to(others[0] if others else fill, places.shape))
    values[active] = memory.read(places[active])
    return Tensor(values, memory.dtype, layout)


def store(
    pointer: Tensor,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """`gl.store`; the value is converted to the type of the tensor."""
    memory = _memory(pointer)
    value = as_tensor(value)
    value = value.to(memory.dtype)
    lanes = [pointer, value, as_tensor(True if mask is None else mask)]
    (places, values, active), _ = broadcast(*lanes)
    if not pointer.shape and places.shape:
        raise ValueError(f"{here()}: a block is stored at one place")
    memory.check(places[active])
    memory.write(places[active], values[active])


def atomic_add(
    pointer: Tensor, val: Any, mask: Any = None, sem: str = "", scope: str = ""
) -> Tensor:
    """`gl.atomic_add`: the lanes add one after the other."""
    memory = _memory(pointer)
    lanes = [pointer, as_tensor(val), as_tensor(True if mask is None else mask)]
    (places, values, active), layout = broadcast(*lanes)
    memory.check(places[active])
    before = undefined(places.shape, memory.dtype)
    for lane in np.ndindex(places.shape):
        if active[lane]:
            before[lane] = memory.read(places[lane])
            total = converted(before[lane] + values[lane], memory.dtype, memory.dtype)
            memory.write(places[lane], np.asarray(total))
    return Tensor(before, memory.dtype, layout)


@dataclass(frozen=True)
class BlockType:
    element_ty: DType
    shape: list[int]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.element_ty.itemsize


@dataclass(eq=False)
class TensorDescriptor:
    """`triton.experimental.gluon.nvidia.hopper.TensorDescriptor`, on the host and in a kernel."""

    base: torch.Tensor
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: Any
    padding: str = "zero"

    def __post_init__(self) -> None:
        self.shape, self.strides = list(self.shape), list(self.strides)
        self.block_shape = list(self.block_shape)
        self.memory = GlobalMemory(self.base, "the tensor of a descriptor")
        for problem in self._problems():
            raise TmaError(f"{here()}: {problem}, in a descriptor of {self}")

    def __str__(self) -> str:
        shapes = f"shape {self.shape}, strides {self.strides}, box {self.block_shape}"
        return f"{self.dtype}, {shapes}"

    def _problems(self) -> list[str]:
        """Return what the hardware would refuse."""
        size, (*outer, inner) = self.dtype.itemsize, self.strides
        rank, box_bytes = len(self.shape), self.block_shape[-1] * self.dtype.itemsize
        swizzle = self.layout.swizzle_byte_width
        checks = {
            "a rank that is not 1 to 5": not 1 <= rank <= 5,
            "lists of different lengths": {rank} != {len(self.strides), len(self.block_shape)},
            "a base that is not aligned to 16 bytes": self.memory.address % 16 != 0,
            "a stride that is no multiple of 16 bytes": any(s * size % 16 for s in outer),
            "a stride that is not positive or too large": not all(
                0 < s * size < 2**40 for s in outer
            ),
            "elements of a row that are not adjacent": inner != 1,
            "an extent that is not 1 to 2**32": not all(0 < n <= 2**32 for n in self.shape),
            "a box with an extent that is not 1 to 256": not all(
                0 < n <= 256 for n in self.block_shape
            ),
            "a box with an extent that is no power of 2": any(
                n & (n - 1) for n in self.block_shape
            ),
            "a row of the box that is no multiple of 16 bytes": box_bytes % 16 != 0,
            "a row of the box that is smaller than the swizzle": 0 < box_bytes < swizzle,
            "a layout for elements of another size": self.layout.element_bitwidth != 8 * size,
            "a layout of another rank": self.layout.rank != rank,
            "more elements than the tensor has": self.memory.bits.size < self._extent() < 2**62,
        }
        return [problem for problem, is_found in checks.items() if is_found]

    def _extent(self) -> int:
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=False))

    @staticmethod
    def from_tensor(
        tensor: torch.Tensor,
        block_shape: Sequence[int],
        layout: Any,
        padding: str = "zero",
    ) -> TensorDescriptor:
        shape, strides = list(tensor.shape), list(tensor.stride())
        return TensorDescriptor(tensor, shape, strides, block_shape, layout, padding)

    @property
    def dtype(self) -> DType:
        return self.memory.dtype

    @property
    def block_type(self) -> BlockType:
        return BlockType(self.dtype, list(self.block_shape))

    def _inside(self, corner: Sequence[int]) -> tuple[Array, tuple[slice, ...]]:
        """The part of the box that is in the tensor: its bits, and its place in the box."""
        places = zip(corner, self.block_shape, self.shape, strict=True)
        bounds = [(first, max(first, 0), min(first + n, extent)) for first, n, extent in places]
        box = tuple(slice(low - first, max(high, low) - first) for first, low, high in bounds)
        extents = [max(high - low, 0) for _, low, high in bounds]
        size = self.dtype.itemsize
        steps = [(low, stride) for (_, low, _), stride in zip(bounds, self.strides, strict=True)]
        # Addresses have 64 bits: a descriptor may count on it that sums of steps wrap around.
        first = sum(low * stride * size for low, stride in steps) % 2**64 // size
        past = first + sum((n - 1) * s for n, s in zip(extents, self.strides, strict=True)) + 1
        if 0 in extents:
            return self.memory.bits[:0].reshape(extents), box
        if past > self.memory.bits.size:
            raise OutOfBoundsError(f"{here()}: element {past - 1} of a tensor by {self}")
        # A stride that no element takes may be larger than numpy's.
        both = zip(extents, self.strides, strict=True)
        strides = [size * (stride if n > 1 else 1) for n, stride in both]
        return np.lib.stride_tricks.as_strided(self.memory.bits[first:], extents, strides), box

    def read(self, corner: Sequence[int]) -> Array:
        """The elements of a box; those beyond the tensor are the padding."""
        inside, box = self._inside(corner)
        values = np.zeros(tuple(self.block_shape), self.dtype.numpy)
        if self.padding == "nan":
            values[...] = float("nan")
        values[box] = from_bits(inside, self.dtype)
        return values

    def write(self, corner: Sequence[int], values: Array) -> None:
        """Write a box; what is beyond the tensor is dropped."""
        inside, box = self._inside(corner)
        inside[...] = to_bits(values[box], self.dtype)
