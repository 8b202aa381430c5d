"""Shared memory: allocations, views of them, and the order of all accesses to each byte.

What has not been written is NaN. An access that conflicts with another one (same bytes, one of the
two a write) has to be ordered after it by waits, in whatever schedule.
"""

from __future__ import annotations

import itertools
import linecache
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from support.gluon_simulator.barriers import Barrier
from support.gluon_simulator.clocks import Clock, Epoch
from support.gluon_simulator.dtypes import Array, DType, as_dtype, undefined
from support.gluon_simulator.errors import (
    BarrierError,
    DataRaceError,
    MissingFenceError,
    OutOfBoundsError,
)
from support.gluon_simulator.layouts import DerivedLayout, items_of
from support.gluon_simulator.program import current, frame_of_kernel, here
from support.gluon_simulator.tensors import Tensor, as_tensor, unwrapped


@dataclass(eq=False)
class Access:
    """A read or a write of a view, by a partition itself or by an asynchronous operation."""

    view: Array
    is_write: bool
    is_asynchronous: bool
    what: str
    clock: Clock
    """The knowledge of the partition when it began."""
    place: str = field(default_factory=here)
    end: Epoch | None = None
    """The end; None while it is under way."""
    fences: list[Epoch] = field(default_factory=list[Epoch])
    """The fences that made a write visible to the asynchronous proxy."""

    def __post_init__(self) -> None:
        self.bounds = np.lib.array_utils.byte_bounds(self.view)

    def __str__(self) -> str:
        return f"the {self.what} of {self.place}"

    def overlaps(self, other: Access) -> bool:
        (low, high), (other_low, other_high) = self.bounds, other.bounds
        if high <= other_low or other_high <= low:
            return False
        return np.shares_memory(self.view, other.view)

    def covers(self, other: Access) -> bool:
        (low, high), (other_low, other_high) = self.bounds, other.bounds
        return high - low == self.view.nbytes and low <= other_low and other_high <= high


@dataclass(eq=False)
class Allocation:
    """The result of one `allocate_shared_memory`."""

    name: str
    dtype: DType
    data: Array
    accesses: list[Access] = field(default_factory=list[Access])
    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])

    def begin(self, access: Access) -> Access:
        """Note an access that begins, after a check against the others."""
        for other in self.accesses:
            if (access.is_write or other.is_write) and access.overlaps(other):
                self._check(access, other)
        if access.is_write:
            self.accesses = [other for other in self.accesses if not access.covers(other)]
        self.accesses.append(access)
        return access

    def end(self, access: Access, epoch: Epoch) -> None:
        access.end = epoch
        if not access.is_write:
            self.accesses = [
                other
                for other in self.accesses
                if other is access or not _is_repeated(other, access)
            ]

    def _check(self, access: Access, other: Access) -> None:
        if other.end is None:
            raise DataRaceError(f"{self.name}: {access} begins before {other} is over")
        if not other.end.is_before(access.clock):
            raise DataRaceError(
                f"{self.name}: nothing that {access} waited for says that {other} is over"
            )
        unfenced = access.is_asynchronous and other.is_write and not other.is_asynchronous
        if unfenced and not any(fence.is_before(access.clock) for fence in other.fences):
            raise MissingFenceError(
                f"{self.name}: no fence_async_shared between {other} and {access}"
            )

    def fence(self, clock: Mapping[str, int], epoch: Epoch) -> None:
        """Make the writes that `clock` knows visible to asynchronous operations."""
        for access in self.accesses:
            is_plain_write = access.is_write and not access.is_asynchronous
            if is_plain_write and access.end is not None and access.end.is_before(clock):
                access.fences.append(epoch)

    def check_finished(self) -> None:
        for barrier in self.barriers.values():
            if barrier.expected_bytes:
                raise BarrierError(f"the kernel ends with {barrier.name} in {barrier.state}")

    def describe(self) -> str:
        return "; ".join(f"{b.name} in {b.state}" for b in self.barriers.values())


def _is_repeated(old: Access, new: Access) -> bool:
    """Return whether the read `old` says nothing beyond `new`, a later one by the same
    partition.
    """
    if old.is_write or old.end is None or new.end is None or old.bounds != new.bounds:
        return False
    return old.end.agent == new.end.agent and old.view.shape == new.view.shape


@dataclass(frozen=True)
class SharedType:
    element_ty: DType
    shape: list[int]
    layout: object
    alloc_shape: list[int]


class SharedView:
    """A `shared_memory_descriptor`."""

    def __init__(self, allocation: Allocation, view: Array, layout: object):
        self.allocation, self.view, self.layout = allocation, view, layout

    @property
    def dtype(self) -> DType:
        return self.allocation.dtype

    @property
    def shape(self) -> list[int]:
        return list(self.view.shape)

    @property
    def rank(self) -> int:
        return self.view.ndim

    @property
    def numel(self) -> int:
        return self.view.size

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    @property
    def type(self) -> SharedType:
        return SharedType(self.dtype, self.shape, self.layout, list(self.allocation.data.shape))

    def index(self, index: Any) -> SharedView:
        place = as_tensor(index).__index__()
        if not 0 <= place < self.shape[0]:
            raise OutOfBoundsError(f"{here()}: index {place} of {self.shape[0]} in {self.name}")
        return SharedView(self.allocation, self.view[place], self.layout)

    def slice(self, start: Any, length: Any, dim: int = 0) -> SharedView:
        start, length = unwrapped(start), unwrapped(length)
        if not isinstance(start, int) or not isinstance(length, int):
            raise TypeError("slice takes constants")
        if not 0 <= start <= start + length <= self.shape[dim]:
            raise OutOfBoundsError(
                f"{here()}: slice {start}:{start + length} of {self.shape} in {self.name}"
            )
        place: list[Any] = [slice(None)] * self.rank
        place[dim] = slice(start, start + length)
        return SharedView(self.allocation, self.view[tuple(place)], self.layout)

    def permute(self, order: Any) -> SharedView:
        layout = DerivedLayout(f"permute{tuple(order)}", self.layout)
        return SharedView(self.allocation, self.view.transpose(order), layout)

    def reshape(self, shape: Any) -> SharedView:
        layout = DerivedLayout(f"reshape{tuple(shape)}", self.layout)
        return SharedView(self.allocation, self.view.reshape(shape, copy=False), layout)

    def _reinterpret(self, dtype: Any, shape: Any, layout: object) -> SharedView:
        if as_dtype(dtype) != self.dtype:
            raise NotImplementedError("the simulator cannot reinterpret elements of another type")
        flat = self.view.reshape(-1, copy=False)[: prod(items_of(shape))]
        return SharedView(self.allocation, flat.reshape(shape, copy=False), layout)

    def _keep_alive(self) -> None:
        pass

    def load(self, layout: object) -> Tensor:
        partition = current().running
        access = self.begin("load", is_write=False, is_asynchronous=False)
        values = self.view.copy()
        self.allocation.end(access, partition.epoch())
        return Tensor(values, self.dtype, layout)

    def store(self, value: Tensor) -> None:
        if value.shape != self.shape or value.dtype != self.dtype:
            raise TypeError(f"{value} is stored in {self.name}, a {self.dtype}{self.shape}")
        access = self.begin("store", is_write=True, is_asynchronous=False)
        self.view[...] = value.values
        self.allocation.end(access, current().running.epoch())

    def begin(self, what: str, *, is_write: bool, is_asynchronous: bool) -> Access:
        clock = current().running.clock
        access = Access(self.view, is_write, is_asynchronous, what, clock)
        return self.allocation.begin(access)

    def poison(self) -> None:
        self.view[...] = undefined(self.view.shape, self.dtype)

    @property
    def name(self) -> str:
        return self.allocation.name

    # mbarriers

    @property
    def _element(self) -> int:
        if self.numel != 1 or self.dtype.name != "int64":
            raise BarrierError(f"{here()}: {self.name}, {self.dtype}{self.shape}, is no mbarrier")
        offset = self.view.ctypes.data - self.allocation.data.ctypes.data
        return offset // self.view.itemsize

    def barrier(self) -> Barrier:
        """The mbarrier in this place."""
        barrier = self.allocation.barriers.get(self._element)
        if barrier is None:
            raise BarrierError(f"{here()}: {self.name}[{self._element}] is not initialized")
        return barrier

    def init_barrier(self, count: int) -> None:
        element = self._element
        if element in self.allocation.barriers:
            raise BarrierError(f"{here()}: {self.name}[{element}] is initialized twice")
        self.allocation.barriers[element] = Barrier(f"{self.name}[{element}]", count)

    def remove_barrier(self) -> None:
        self.barrier()
        del self.allocation.barriers[self._element]


def allocate(
    element_ty: Any, shape: Any, layout: object, value: Tensor | None = None
) -> SharedView:
    """`gl.allocate_shared_memory`."""
    dtype = as_dtype(element_ty)
    extents = tuple(int(unwrapped(extent)) for extent in shape)
    program = current()
    taken = {allocation.name for allocation in program.allocations}
    candidates = itertools.chain(
        [(hint := _variable())], (f"{hint}#{i}" for i in itertools.count(2))
    )
    name = next(name for name in candidates if name not in taken)
    allocation = Allocation(name, dtype, undefined(extents, dtype))
    program.allocations.append(allocation)
    view = SharedView(allocation, allocation.data, layout)
    if value is not None:
        view.store(value)
    return view


def _variable() -> str:
    """The variable that the line being executed assigns to."""
    frame = frame_of_kernel()
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno) if frame else ""
    match = re.match(r"\s*(\w+)\s*=", line)
    return match[1] if match else "shared"
