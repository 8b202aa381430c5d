"""The kernel that stores tensors one after the other along a dimension, with a number in columns
that none has: of concatenations, padding and shifted rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import Pitch, RowRuns, row_start
from coda_ir.backends.triton.copy_kernel import ELEMENTS
from coda_ir.backends.triton.host.element_places import ElementPlaces
from coda_ir.backends.triton.host.literals import written
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    emitted,
    next_power_of_2,
    pointer_argument,
    rows_of_tiles,
)
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, stores_floats


@dataclass(frozen=True)
class Part:
    """A tensor in neighbouring columns of the result: its dimensions from the joined one on."""

    start: int
    """The first column, which may be one before the result."""
    columns: int
    first: int
    """The first element in memory."""
    by_row: Pitch
    """The elements of memory between rows, or where they start."""
    by_column: Pitch
    """The same of columns."""

    @staticmethod
    def of(places: ElementPlaces, dim: int, start: int) -> "Part | None":
        """Return the part whose dimension `dim` begins at number `start` of the result; None where
        places are known only at launch, or neighbours are not neighbours in memory.
        """
        outer, inner = (
            ElementPlaces(places.dims[half], places.strides[half], places.start)
            for half in (slice(dim), slice(dim, None))
        )
        by_row, by_column = _pitch(outer), _pitch(inner)
        if by_row is None or by_column is None or places.start.symbols:
            return None
        last = by_column.strides[0] if isinstance(by_column, RowRuns) else by_column
        if last != 1 or any(size.symbols for size in inner.dims):
            return None
        extent, *others = map(int, inner.dims)
        rest = prod(others)
        return Part(start * rest, extent * rest, int(places.start), by_row, by_column)

    def lines(self, number: int) -> list[str]:
        """Return the statements that load the columns of this part, as operand `number`."""
        start, stop = self.start, self.start + self.columns
        column = f"(column - {start})" if start else "column"
        terms = [str(self.first)] if self.first else []
        terms.append(row_start("row.to(tl.int64)", self.by_row))
        terms.append(column if self.by_column == 1 else row_start(column, self.by_column))
        return [
            f"is_part = inside & (column >= {start}) & (column < {stop})",
            f"place = {' + '.join(terms)}",
            f"value = tl.load(x{number}_ptr + place, mask=is_part, other=value)",
        ]


def _pitch(places: ElementPlaces) -> Pitch | None:
    """Return the elements between neighbours, or where each one is; None if that is not known."""
    runs = places.row_runs()
    return runs if runs is None or runs.extents else (*runs.strides, 1)[0]


def concat_kernel(
    result: SSAValue,
    name: str,
    dim: int,
    parts: Sequence[Part],
    number: float,
) -> EmittedKernel:
    """Emit the kernel of `parts` along dimension `dim` of `result`, with `number` elsewhere."""
    type, columns = element_type_of(result), prod(shape_of(result)[dim:])
    width = min(next_power_of_2(columns), ELEMENTS)
    height, tiles = ELEMENTS // width, -(-columns // width)
    loads = [line for index, part in enumerate(parts) for line in part.lines(index)]
    return emitted(
        name,
        [
            *(pointer_argument(f"x{n}_ptr", type, nth_operand(n)) for n in range(len(parts))),
            pointer_argument("out_ptr", type, nth_output(0)),
            KernelArgument("M", "i32", ROW_COUNT),
        ],
        [
            *rows_of_tiles(height, width, columns),
            f"value = {written(float(number) if stores_floats(type) else int(number))}",
            *loads,
            f"tl.store(out_ptr + row.to(tl.int64) * {columns} + column, value, mask=inside)",
        ],
        summary=f"{len(parts)} tensors in rows of {columns} elements",
        grid=ROW_COUNT.ceiling(height) * tiles,
    )
