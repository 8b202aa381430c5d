"""The bytes that kernels move, and the times that they take for them."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from coda_ir.cost_model.devices import Device
from coda_ir.dialects import coda
from coda_ir.storage import is_shifted_where_read
from coda_ir.symbolic_shapes import SymbolicShapes

EXTENT = 2048
"""The size that a symbol is taken to have."""

KERNEL_US = 3.0
"""Microseconds of a kernel beside those of the bytes that it moves: 1.3 to 2.0 of one that moves
few, and what it starts later than the one before it ended, on an H100."""

MEMORY_EFFICIENCY = 0.85
"""Share of the peak rate of memory that kernels reach."""

CACHED_BYTES = 40_000_000
"""Bytes that a kernel finds in the L2 cache, where those before it left them, or leaves there."""

CACHE_EFFICIENCY = 1.5
"""The rate of these bytes, as a multiple of the peak rate of memory. On an H100, with a cache of 50
MB, activations that moved 17, 34 and 67 MB took 4.4, 8.2 and 20 us, and a concatenation 73 for 226
MB."""


class Sizes(dict[str, int]):
    """The sizes of symbols, `EXTENT` for those without one."""

    def __missing__(self, symbol: str) -> int:
        return EXTENT


def kernel_us(bytes: int, device: Device) -> float:
    """Return the microseconds of a kernel that moves this number of bytes."""
    cached = min(bytes, CACHED_BYTES)
    cached_us = cached / (1e3 * CACHE_EFFICIENCY * device.memory_gb_per_s)
    return KERNEL_US + cached_us + moving_us(bytes - cached, device)


def moving_us(bytes: int, device: Device) -> float:
    """Return the microseconds of these bytes alone, from and to memory."""
    return bytes / (1e3 * MEMORY_EFFICIENCY * device.memory_gb_per_s)


def traffic(
    group: Iterable[Operation],
    shapes: SymbolicShapes,
    sizes: Mapping[str, int] | None = None,
    repeated: Iterable[Operation] = (),
    readers: Container[Operation] = (),
) -> int:
    """Return the bytes of one kernel of the operators that computes `repeated` ones again. It does
    not store what only `readers` read.
    """
    stored = set(group)
    members = stored.union(repeated)
    operands = {_loaded(value) for op in members for value in shapes.read_whole(op)}
    read = {value for value in operands if value.owner not in members}
    results = [result for op in stored for result in op.results]
    uses = {r: [use.operation for use in r.uses] for r in results}
    written = {r for r in results if any(op not in members and op not in readers for op in uses[r])}
    known = Sizes(shapes.usual_tiles) if sizes is None else sizes
    by_number = sum(shapes.looked_up(op).evaluate(known) for op in members)
    return sum(shapes.bytes(value).evaluate(known) for value in read | written) + by_number


def _loaded(value: SSAValue) -> SSAValue:
    """Return the tensor that a kernel loads to read `value`, which may be shifted rows of it."""
    op = value.owner
    return op.x if isinstance(op, coda.ShiftOp) and is_shifted_where_read(op) else value


@dataclass(frozen=True)
class Roofline:
    """The predicted time of a kernel, with its bytes and operations."""

    us: float
    """Predicted microseconds."""
    bytes: int
    """Bytes from and to memory."""
    flops: float
    """Operations of products of matrices."""
    memory_us: float
    """Microseconds of the bytes at the peak rate of memory."""
    products_us: float
    """Microseconds of the products at the peak rate of their type."""

    @property
    def roof_us(self) -> float:
        """The least microseconds of the kernel, by its bytes and its products."""
        return max(self.memory_us, self.products_us)

    @property
    def bound(self) -> str:
        """The resource that decides `roof_us`."""
        return "FLOPs" if self.products_us > self.memory_us else "bytes"
