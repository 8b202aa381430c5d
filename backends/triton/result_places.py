"""Places of results with fewer elements than a tile has columns."""

from collections.abc import Sequence
from typing import NamedTuple

from coda_ir.backends.triton.kernel import indented
from coda_ir.backends.triton.ports import ROWS
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.tiling import ColumnRange


class Groups(NamedTuple):
    """The groups of columns of a tile, for each of which a result has one element."""

    columns: ColumnRange
    elements: int
    """Columns (pairs) of a group."""

    @property
    def lanes(self) -> int:
        """The number of lanes of the tile that a group occupies."""
        return self.columns.padded_group if self.columns.is_padded else self.elements

    def numbers(self, tile: str) -> str:
        """Return the numbers of the groups of tile number `tile`, within the range."""
        count = self.columns.lanes // self.lanes
        return f"{tile} * {count} + tl.arange(0, {count})"

    def place(self, number: str, per_row: int) -> str:
        """Return where the elements of groups are in a tensor with `per_row` in each row."""
        first = self.columns.offset // self.elements
        group = f"({first} + {number})" if first else number
        return f"{ROWS.name}[:, None] * {per_row} + {group}[None, :]"

    def mask(self, number: str) -> str:
        """Return the mask of existing elements."""
        rows, columns = f"{ROWS.mask}[:, None]", self.columns
        if columns.extent % (columns.per_tile * columns.subtiles) == 0:
            return rows
        return f"{rows} & ({number} < {columns.extent // self.elements})[None, :]"


def in_first_tile(pointer: str, tile: str) -> tuple[str, str]:
    """Return the address and the mask of an element for each row, in the first of its tiles."""
    return f"{pointer} + {ROWS.name}[:, None]", f"{ROWS.mask}[:, None] & ({tile} == 0)"


def place_of_row(rows: tuple[int, int, int], row: str) -> str:
    """The row of a concatenation that `row` of one of its parts is, for `PlaceAttr.rows`."""
    offset, width, period = rows
    within = f"{row} % {width} + {offset}" if offset else f"{row} % {width}"
    return f"{row} // {width} * {period} + {within}"


def place_of_column(place: PlaceAttr, column: str, pitch: int = 0) -> str:
    """The column of a concatenation that `column` of one of its parts is, the first one where it is
    in several places. Columns past the end are past the end of the row, which has
    `pitch` elements.
    """
    offset, width, period = place.numbers
    if pitch >= 2**31:
        column = f"{column}.to(tl.int64)"
    within = f"{column} % {width} + {offset}" if offset else f"{column} % {width}"
    return f"{column} // {width} * {period * place.copies.data} + {within}"


def in_copies(place: PlaceAttr, store: Sequence[str]) -> list[str]:
    """Return the statements `store` for each copy of a run, by its number `copy`."""
    return [f"for copy in range({place.copies.data}):", *indented(store)]


def in_run(place: PlaceAttr, run: str, address: str, mask: str) -> tuple[str, str]:
    """Return the address and the mask of a store in a run of each period, by its number `run`."""
    return (
        f"{address} + {run} * {place.width.data}",
        f"{mask} & ({run} >= 0) & ({run} < {place.runs})",
    )


def is_in_range(columns: ColumnRange, wanted: str) -> str:
    """Return the condition that the range has column `wanted` of the segment."""
    return f"({wanted} >= {columns.offset}) & ({wanted} < {columns.offset + columns.extent})"


def owner_of_column(columns: ColumnRange, n: int, wanted: str, inside: str) -> str:
    """Return the tile that has column `wanted` of `n`; tile 0 if no tile has it."""
    offset = columns.offset
    local = f"({wanted} - {offset})" if offset else wanted
    elsewhere = "0" if columns.extent == n else "-1"
    if not offset and columns.extent != n:
        elsewhere = f"tl.where(({wanted} < 0) | ({wanted} >= {n}), 0, -1)"
    return f"tl.where({inside}, {local} // {columns.per_tile}, {elsewhere})"
