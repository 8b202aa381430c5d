"""Operations that run beside a partition: TMA loads and stores, warp group products, and waits for
them.

Each takes effect as late as it may: a load when the schedule draws it, a store and a product when
they are waited for. Until then nobody may touch the shared memory that it uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.gluon_simulator.barriers import Barrier
from support.gluon_simulator.clocks import Epoch, join
from support.gluon_simulator.dtypes import Array, float32, float64
from support.gluon_simulator.errors import BarrierError, TmaError, UnfinishedError
from support.gluon_simulator.global_memory import TensorDescriptor, load
from support.gluon_simulator.program import Partition, current, here
from support.gluon_simulator.shared_memory import Access, SharedView
from support.gluon_simulator.tensors import Tensor, as_tensor, unwrapped

# TMA


@dataclass(eq=False)
class _Load:
    descriptor: TensorDescriptor
    corner: list[int]
    target: SharedView
    barrier: Barrier
    access: Access
    place: str

    def finish(self) -> None:
        values = self.descriptor.read(self.corner)
        self.target.view[...] = values.reshape(self.target.shape)
        epoch = self.barrier.receive(self.descriptor.block_type.nbytes)
        self.target.allocation.end(self.access, epoch)


@dataclass(eq=False)
class _Store:
    descriptor: TensorDescriptor
    corner: list[int]
    source: SharedView
    access: Access
    partition: Partition
    place: str

    def finish(self) -> None:
        values = self.source.view.reshape(self.descriptor.block_shape)
        self.descriptor.write(self.corner, values)
        self.source.allocation.end(self.access, self.partition.epoch())


def _checked_corner(
    descriptor: TensorDescriptor, coord: Sequence[Any], view: SharedView
) -> list[int]:
    """The coordinates of a box; raises TmaError unless `view` holds what the box does."""
    corner = [as_tensor(place).__index__() for place in coord]
    if len(corner) != len(descriptor.shape):
        raise TmaError(f"{here()}: {len(corner)} coordinates for a descriptor of {descriptor}")
    if any(not -(2**31) <= place < 2**31 for place in corner):
        raise TmaError(f"{here()}: the coordinates {corner} have more than 32 bits")
    if [n for n in view.shape if n > 1] != [n for n in descriptor.block_shape if n > 1]:
        raise TmaError(f"{here()}: {view.name} is {view.shape}, for a descriptor of {descriptor}")
    if view.dtype != descriptor.dtype:
        raise TmaError(f"{here()}: {view.name} is {view.dtype}, for a descriptor of {descriptor}")
    if len(view.shape) == len(corner) and view.layout != descriptor.layout:
        raise TmaError(
            f"{here()}: {view.name} has the layout {view.layout},"
            f" its descriptor {descriptor.layout}"
        )
    return corner


def async_copy_global_to_shared(
    tensor_desc: TensorDescriptor,
    coord: Sequence[Any],
    barrier: SharedView,
    result: SharedView,
    pred: Any = True,
) -> None:
    """Begin a load; its bytes arrive at the barrier when the schedule lets it end."""
    program = current()
    program.pause()
    corner = _checked_corner(tensor_desc, coord, result)
    if not pred:
        return
    access = result.begin("TMA load", is_write=True, is_asynchronous=True)
    result.poison()
    target = barrier.barrier()
    program.loads.append(_Load(tensor_desc, corner, result, target, access, here()))


def async_copy_shared_to_global(
    tensor_desc: TensorDescriptor, coord: Sequence[Any], src: SharedView
) -> None:
    """Begin a store, as a group of its own."""
    program = current()
    program.pause()
    corner = _checked_corner(tensor_desc, coord, src)
    access = src.begin("TMA store", is_write=False, is_asynchronous=True)
    partition = program.running
    partition.stores.append(_Store(tensor_desc, corner, src, access, partition, here()))


def store_wait(pendings: Any) -> None:
    """Wait until all but the last `pendings` stores have read shared memory."""
    program = current()
    program.pause()
    stores = program.running.stores
    while len(stores) > unwrapped(pendings):
        stores.popleft().finish()


# Copies by threads


@dataclass(eq=False)
class _Copy:
    values: Array
    target: SharedView
    access: Access


@dataclass(eq=False)
class _Copies:
    """Copies of the threads of a partition since they last arrived at a barrier."""

    copies: list[_Copy]
    barrier: Barrier
    threads: int
    place: str

    def finish(self) -> None:
        epoch = Epoch(self.barrier.name, self.barrier.phase + 1)
        for copy in self.copies:
            copy.target.view[...] = copy.values
            copy.target.allocation.end(copy.access, epoch)
        self.barrier.arrive(self.threads, {})


def copy_global_to_shared(
    smem: SharedView,
    pointer: Tensor,
    mask: Any = None,
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> None:
    """Begin to copy elements, and zeros where they are off the mask."""
    program = current()
    program.pause()
    values = load(pointer, mask, None if mask is None else 0)
    if values.shape != smem.shape or values.dtype != smem.dtype:
        raise TypeError(f"{here()}: {values} is copied to {smem.name}, a {smem.dtype}{smem.shape}")
    access = smem.begin("copy", is_write=True, is_asynchronous=False)
    smem.poison()
    program.running.copies.append(_Copy(values.values, smem, access))


def copy_arrive(mbarrier: SharedView, increment_count: Any = True) -> None:
    """Each thread arrives once all that it copied is there."""
    program = current()
    program.pause()
    if unwrapped(increment_count):
        raise NotImplementedError("the simulator has threads that a barrier counts already")
    partition = program.running
    copies, partition.copies = list(partition.copies), []
    threads = 32 * partition.warps
    program.loads.append(_Copies(copies, mbarrier.barrier(), threads, here()))


def make_tensor_descriptor(
    base: Tensor,
    shape: Sequence[Any],
    strides: Sequence[Any],
    block_shape: Sequence[Any],
    layout: Any,
    padding_option: str = "zero",
) -> TensorDescriptor:
    raise NotImplementedError("the simulator has tensor descriptors of the host only")


def fence_async_shared(cluster: bool = False) -> None:
    """Let asynchronous operations see what this partition knows to be stored."""
    program = current()
    partition = program.running
    for allocation in program.allocations:
        allocation.fence(partition.clock, partition.epoch())


# mbarriers


def init(mbarrier: SharedView, count: Any) -> None:
    mbarrier.init_barrier(int(unwrapped(count)))


def invalidate(mbarrier: SharedView) -> None:
    mbarrier.remove_barrier()


def expect(mbarrier: SharedView, bytes: Any, pred: Any = True) -> None:
    """Arrive once, and let the phase wait for `bytes` bytes."""
    program = current()
    program.pause()
    barrier = mbarrier.barrier()
    if pred:
        barrier.expect(int(unwrapped(bytes)))
        barrier.arrive(1, program.running.release())


def arrive(mbarrier: SharedView, *, count: Any = 1, pred: Any = True) -> None:
    program = current()
    program.pause()
    barrier = mbarrier.barrier()
    if pred:
        barrier.arrive(int(unwrapped(count)), program.running.release())


def wait(mbarrier: SharedView, phase: Any, pred: Any = True, deps: Sequence[Any] = ()) -> None:
    """Wait for the phase of parity `phase`: the current one, or the one before, which is over."""
    program = current()
    barrier, parity = mbarrier.barrier(), int(as_tensor(phase).__index__())
    if parity not in (0, 1):
        raise BarrierError(f"{here()}: the parity {parity} is neither 0 nor 1")
    if not pred:
        return
    clock = program.running.clock
    program.pause()
    barrier.waited_for(parity, clock.get(barrier.name, 0))
    program.wait(lambda: barrier.has_passed(parity), f"{barrier.name} with parity {parity}")
    completed = barrier.waited_for(parity, clock.get(barrier.name, 0))
    join(clock, barrier.completed[completed])


# Warp group products


class Accumulator(Tensor):
    """The sum of a product under way: its values exist after a wait that it is passed through."""

    def __init__(self, product: _Product, *, is_waited_for: bool):
        super().__init__(np.empty(product.shape), float32, product.layout)
        self.product, self.is_waited_for = product, is_waited_for

    @property
    def values(self) -> Array:
        if not self.is_waited_for or self.product.result is None:
            raise UnfinishedError(
                f"{here()}: the accumulator of {self.product.place} is used before a"
                " warpgroup_mma_wait for it"
            )
        return self.product.result


@dataclass(eq=False)
class _Product:
    a: SharedView | Tensor
    b: SharedView
    start: Tensor | None
    accesses: list[tuple[SharedView, Access]]
    partition: Partition
    place: str
    shape: list[int]
    layout: object
    result: Array | None = None

    def finish(self) -> None:
        a = self.a.view if isinstance(self.a, SharedView) else self.a.values
        total = a.astype(float64.numpy) @ self.b.view.astype(float64.numpy)
        if isinstance(self.start, Accumulator):
            total += self.start.product.result
        elif self.start is not None:
            total += self.start.values
        self.start = None
        self.result = total.astype(float32.numpy)
        for view, access in self.accesses:
            view.allocation.end(access, self.partition.epoch())


def warpgroup_mma_init(value: Tensor) -> Tensor:
    return value


def warpgroup_mma(
    a: SharedView | Tensor,
    b: SharedView,
    acc: Tensor,
    *,
    use_acc: Any = True,
    precision: str | None = None,
    max_num_imprecise_acc: int | None = None,
    is_async: Any = False,
) -> Tensor:
    """acc + a @ b, in float32; `a` and `b` may be read until a wait for the product."""
    _check_product(a, b, acc)
    partition = current().running
    views = [view for view in (a, b) if isinstance(view, SharedView)]
    begin = [(v, v.begin("warpgroup_mma", is_write=False, is_asynchronous=True)) for v in views]
    start = acc if use_acc else None
    product = _Product(a, b, start, begin, partition, here(), acc.shape, acc.layout)
    partition.products.append(product)
    if unwrapped(is_async):
        return Accumulator(product, is_waited_for=False)
    return warpgroup_mma_wait(0, (Accumulator(product, is_waited_for=False),))


def _check_product(a: SharedView | Tensor, b: SharedView, acc: Tensor) -> None:
    (m, k), (rows, n) = a.shape, b.shape
    depth = 32 // a.dtype.itemsize
    is_legal = (
        rows == k
        and acc.shape == [m, n]
        and (a.dtype == b.dtype or (a.dtype.is_float8 and b.dtype.is_float8))
        and acc.dtype == float32
        and m % 64 == n % 8 == k % depth == 0
    )
    if not is_legal:
        raise TypeError(
            f"{here()}: warpgroup_mma of {a.dtype}{a.shape} and {b.dtype}{b.shape} to"
            f" {acc.dtype}{acc.shape}; m is a multiple of 64, n of 8, k of {depth}"
        )
    shared = [(x, axis) for x, axis in ((a, 1), (b, 0)) if isinstance(x, SharedView)]
    for operand, axis in shared if a.dtype.itemsize == 1 else ():
        if operand.view.strides[axis] != operand.view.itemsize:
            raise TypeError(f"{here()}: {operand.name} of 8 bits has no neighbours along k")


def warpgroup_mma_wait(num_outstanding: Any = 0, deps: Sequence[Tensor] | None = None) -> Any:
    """Wait until at most `num_outstanding` products of this partition are under way."""
    if deps is None:
        raise ValueError("warpgroup_mma_wait deps must be given")
    program = current()
    program.pause()
    products = program.running.products
    while len(products) > unwrapped(num_outstanding):
        products.popleft().finish()
    results = [
        Accumulator(dep.product, is_waited_for=True) if isinstance(dep, Accumulator) else dep
        for dep in deps
    ]
    return results[0] if len(results) == 1 else tuple(results)
