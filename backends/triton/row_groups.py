"""Rows in groups, each of which has weights of its own: tiles that stay inside of a group.

    tile_m, tile_n = grouped_tile(tl.program_id(0), M // BLOCK_M + tl.minimum(M, 8), 12, 8)
    row_group, first_row, end_row = rows_of_tile(ends_ptr, tile_m, M, 8, 8, BLOCK_M)
    if end_row == 0:
        return
    rows = first_row + tl.arange(0, BLOCK_M)
    row_mask = rows < end_row

Groups begin in the middle of what would be a tile, so that there are more tiles than rows fill: one
more for each group at most. The kernel looks for the group of a tile, as the host does not know
where groups end; a program that finds none is done.
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
        """None where the rows are in no groups."""
        if op.groups is None:
            return None
        return RowGroups(arguments.operand(op.groups, "ends"), group_count(op))

    def host_tiles(self, block_m: int) -> HostValue:
        """The most tiles that the rows can have."""
        full = joined("(", ROW_COUNT, f") // {block_m}")
        return joined("(", full, " + min(", ROW_COUNT, f", {self.count}))")

    def device_tiles(self, block_m: str) -> str:
        """The same in the kernel."""
        return f"M // {block_m} + tl.minimum(M, {self.count})"

    def rows(self, helpers: set[str]) -> list[str]:
        """Statements that define the rows of a tile, in a program that has some."""
        helpers.add("rows_of_tile")
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


def group_count(op: FusedOp) -> int:
    """The number of groups that rows are in, or `DYNAMIC_INDEX`."""
    assert op.groups is not None, "expected groups of rows"
    known = (shape_of(op.groups)[0], shape_of(op.weights[0])[0])
    return next((count for count in known if count != DYNAMIC_INDEX), DYNAMIC_INDEX)
