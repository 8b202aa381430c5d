"""Grouped rows, with a weight for each group: tiles that stay inside of a group.

    tile_m, tile_n = grouped_tile(tl.program_id(0), M // BLOCK_M + tl.minimum(M, 8), 12, 8)
    row_group, first_row, end_row = rows_of_tile(ends_ptr, tile_m, M, 8, 8, BLOCK_M)
    if end_row == 0:
        return
    rows = first_row + tl.arange(0, BLOCK_M)
    row_mask = rows < end_row

Groups may begin within what would be a tile, so there is at most one more tile per group than the
rows fill. The kernel searches for the group of a tile, because the host does not know where groups
end; a program that finds none returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.backends.triton.argument_list import ArgumentList
from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, joined
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import FusedOp


@dataclass(frozen=True)
class RowGroups:
    """Writes how a program finds the rows of its tile."""

    ends: str
    """The parameter that points to the ends of the groups."""
    count: int

    @staticmethod
    def of(op: FusedOp, arguments: ArgumentList) -> RowGroups | None:
        """Return the groups of an operator; None if its rows are not grouped."""
        if op.groups is None or op.is_transposed:
            return None
        if op.is_numbered:
            return NumberedRows(arguments.operand(op.groups, "ids"), 1, op.summed_rows)
        return RowGroups(arguments.operand(op.groups, "ends"), group_count(op))

    def host_tiles(self, block_m: int) -> HostValue:
        """The largest possible number of row tiles."""
        if block_m == 1:
            return ROW_COUNT
        full = joined("(", ROW_COUNT, f") // {block_m}")
        return joined("(", full, " + min(", ROW_COUNT, f", {self.count}))")

    def device_tiles(self, block_m: str) -> str:
        """The largest possible number of row tiles, in the kernel."""
        return f"M // {block_m} + tl.minimum(M, {self.count})"

    def rows(self) -> list[str]:
        """Return the statements that define the rows of a tile, in a program that has some."""
        lanes = max(2, 1 << (self.count - 1).bit_length())
        place = f"{self.ends}, tile_m, M, {self.count}, {lanes}, BLOCK_M"
        return [
            f"row_group, first_row, end_row = rows_of_tile({place})",
            "if end_row == 0:",
            "    return",
            "rows = first_row + tl.arange(0, BLOCK_M)",
            "row_mask = rows < end_row",
            "# Rows past the end repeat the last one, so that loads need no mask.",
            "row = tl.minimum(rows, end_row - 1).to(tl.int64)",
        ]


@dataclass(frozen=True)
class NumberedRows(RowGroups):
    """Writes how a program finds the group of its only row, which the row names itself.

    rows = tile_m + tl.arange(0, BLOCK_M)
    row_mask = rows < M
    row = rows.to(tl.int64)
    row_group = tl.load(ids_ptr + tile_m)
    """

    summed: int
    """The rows side by side in one of x, whose products are added; the loop loads their numbers."""

    def rows(self) -> list[str]:
        lines = [
            "rows = tile_m + tl.arange(0, BLOCK_M)",
            "row_mask = rows < M",
            "row = rows.to(tl.int64)",
        ]
        return lines if self.summed > 1 else [*lines, f"row_group = tl.load({self.ends} + tile_m)"]


@dataclass(frozen=True)
class RaggedDepth:
    """Emits how a program finds the rows that it sums over: those of the group of its tile.

    row_group, tile_in_group = tile_m // 16, tile_m % 16
    first_row, end_row = rows_of_group(ends_ptr, row_group, K)
    """

    ends: str
    """The parameter that points to the ends of the groups."""
    count: int
    rows: int
    """The rows of the accumulator of a group."""

    @staticmethod
    def of(op: FusedOp, arguments: ArgumentList) -> RaggedDepth | None:
        """Return the ragged depth of an operator; None if it does not sum over groups of rows."""
        if op.groups is None or not op.is_transposed:
            return None
        return RaggedDepth(arguments.operand(op.groups, "ends"), *op.row_shape)

    def tiles(self, block_m: int) -> int:
        """The tiles of all groups."""
        return self.count * -(-self.rows // block_m)

    def statements(self, block_m: int) -> list[str]:
        """Return the statements that define the summed rows, and those of a tile.

        `x_row` are the rows of the accumulator of the group, `row` and `rows` those among all
        groups.
        """
        tiles = -(-self.rows // block_m)
        # Rows past the end repeat others, in whole vectors, so that loads need no mask.
        clamped = "group_rows" if self.rows % block_m == 0 else f"(group_rows % {self.rows})"
        return [
            f"row_group, first_of_tile = tile_m // {tiles}, tile_m % {tiles} * BLOCK_M",
            f"first_row, end_row = rows_of_group({self.ends}, row_group, K)",
            "group_rows = first_of_tile + tl.arange(0, BLOCK_M)",
            f"row_mask = group_rows < {self.rows}",
            f"rows = row_group * {self.rows} + group_rows",
            f"x_row = {clamped}.to(tl.int64)",
            f"row = row_group.to(tl.int64) * {self.rows} + x_row",
        ]


def group_count(op: FusedOp) -> int:
    """The number of groups of the rows, or `DYNAMIC_INDEX`."""
    assert op.groups is not None, "expected groups of rows"
    known = (shape_of(op.groups)[0], shape_of(op.weights[0])[0])
    return next((count for count in known if count != DYNAMIC_INDEX), DYNAMIC_INDEX)
