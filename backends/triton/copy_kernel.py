"""The kernel that copies a transposition or a part of a tensor to a tensor without gaps.

Where elements of the last dimension are neighbours in memory, programs copy rows. Otherwise, they
copy tiles of two dimensions: the last one, and the one along which elements are neighbours. Loads
and stores are both wide then; Triton transposes the tile in shared memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Attribute

from coda_ir.backends.triton.argument_list import RowRuns, row_start
from coda_ir.backends.triton.host.element_places import ONE, ElementPlaces
from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    emitted,
    next_power_of_2,
    planes_of_tiles,
    pointer_argument,
    rows_of_tiles,
)
from coda_ir.dialects.element_types import BY_ATTRIBUTE

ELEMENTS = 2048
"""Elements of a tile."""

MAX_COLUMNS = 64
"""Columns of a transposed tile, at most, where it has as many rows."""


@dataclass(frozen=True)
class Copy:
    """A copy of elements to a tensor in row-major order."""

    type: Attribute
    """The type of the elements."""
    extents: tuple[int, ...]
    """Extents of the result; the first one does not matter if it is `counted`."""
    strides: tuple[int, ...]
    """Elements of memory between neighbours along each dimension."""
    start: int = 0
    """The first element in memory."""

    @staticmethod
    def of(places: ElementPlaces, type: Attribute) -> "Copy | None":
        """Return the copy of a view with elements of `type`; None where places are known only at
        launch, for elements in row-major order, and for types that kernels do not have.
        """
        runs, known = places.runs(), BY_ATTRIBUTE.get(type)
        numbers = [*(extent for extent, _ in runs[1:]), *(stride for _, stride in runs)]
        is_in_order = len(runs) < 2 and all(stride == ONE for _, stride in runs)
        if is_in_order or any(size.symbols for size in (*numbers, places.start)):
            return None
        first, *others = (extent for extent, _ in runs)
        extents = (1 if first.symbols else int(first), *map(int, others))
        copy = Copy(type, extents, tuple(int(stride) for _, stride in runs), int(places.start))
        is_known = 0 in copy.counted or not first.symbols
        has_type = known is not None and known.triton is not None
        return copy if is_known and has_type and 0 not in extents else None

    @property
    def tile_elements(self) -> int:
        """The elements of the dimensions that tiles have."""
        axes = range(len(self.extents))
        return prod(self.extents[axis] for axis in axes if axis not in self.counted)

    @property
    def across(self) -> int | None:
        """The dimension that is transposed with the last one; None where rows are copied."""
        axes = range(len(self.strides) - 1)
        is_of_rows = self.strides[-1] <= 1 or not axes
        return None if is_of_rows else min(axes, key=lambda axis: self.strides[axis])

    @property
    def counted(self) -> Sequence[int]:
        """The dimensions that no tile has, whose elements a launch counts."""
        return [axis for axis in range(len(self.strides) - 1) if axis != self.across]

    def kernel(self, name: str) -> EmittedKernel:
        """Emit the kernel, where M is the number of `counted` elements."""
        lines, programs = self._rows() if self.across is None else self._tiles(self.across)
        return emitted(
            name,
            [
                pointer_argument("x_ptr", self.type, nth_operand(0)),
                pointer_argument("out_ptr", self.type, nth_output(0)),
                KernelArgument("M", "i32", ROW_COUNT),
            ],
            [
                *lines,
                "value = tl.load(x_ptr + place, mask=inside)",
                "tl.store(out_ptr + at, value, mask=inside)",
            ],
            summary=f"a copy in another order, {self.extents[-1]} elements in its last dimension",
            grid=programs,
        )

    def _rows(self) -> tuple[list[str], HostValue]:
        """Return the statements that find the elements of a tile of rows, and the programs."""
        columns, width = self.extents[-1], min(next_power_of_2(self.extents[-1]), ELEMENTS)
        height, tiles = ELEMENTS // width, -(-columns // width)
        lines = [
            *rows_of_tiles(height, width, columns),
            f"place = {self.start} + {self._start('row', self.strides)}",
            f"place += column.to(tl.int64) * {self.strides[-1]}",
            f"at = row.to(tl.int64) * {columns} + column",
        ]
        return lines, ROW_COUNT.ceiling(height) * tiles

    def _tiles(self, across: int) -> tuple[list[str], HostValue]:
        """Return the same of a tile that is transposed."""
        rows, columns = self.extents[across], self.extents[-1]
        width = min(next_power_of_2(columns), MAX_COLUMNS)
        height = min(next_power_of_2(rows), ELEMENTS // width)
        width = min(next_power_of_2(columns), ELEMENTS // height)
        row_tiles, tiles = -(-rows // height), -(-columns // width)
        steps = [prod(self.extents[axis + 1 :]) for axis in range(len(self.extents))]
        lines = [
            *planes_of_tiles(height, width, row_tiles, tiles),
            f"inside = (row < {rows}) & (column < {columns})",
            f"place = {self.start} + {self._start('plane', self.strides)}",
            f"place += row.to(tl.int64) * {self.strides[across]}",
            f"place += column.to(tl.int64) * {self.strides[-1]}",
            f"at = {self._start('plane', steps)} + row.to(tl.int64) * {steps[across]} + column",
        ]
        return lines, ROW_COUNT * (row_tiles * tiles)

    def _start(self, number: str, steps: Sequence[int]) -> str:
        """Return where counted element `number` starts, with `steps` between neighbours."""
        axes = self.counted[::-1]
        extents = tuple(self.extents[axis] for axis in axes[:-1])
        runs = RowRuns(extents, tuple(steps[axis] for axis in axes))
        return row_start(number, runs) if axes else "0"
