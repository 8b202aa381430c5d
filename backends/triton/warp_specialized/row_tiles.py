"""The rows of a tile in the loops of a persistent kernel, grouped or not.

Each group of warps walks over the tiles on its own. If rows are in groups, it finds the group of
a tile from that of the tile before, which is the same one or close to it:

    row_group, tiles_before, group_start, end_row = -1, 0, 0, 0
    for program in range(...):
        ...
        row_group, tiles_before, group_start, end_row = group_of_tile(ends_ptr, tile_m, row_group,
                                                                      ...)
        if row_group < 128:
            first_row = group_start + (tile_m - tiles_before) * 128
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coda_ir.backends.triton.kernel import call, indented
from coda_ir.backends.triton.row_groups import RaggedDepth, RowGroups

_PLACE = ("row_group", "tiles_before", "group_start", "end_row")
"""The group of a tile, the tiles and the rows before it, and its end."""


@dataclass(frozen=True)
class RowTiles:
    """Emits which rows a tile has."""

    groups: RowGroups | None
    ragged: RaggedDepth | None
    block_m: int

    @property
    def end(self) -> str:
        """The name of the row after the last one that a tile may have."""
        return "M" if self.groups is None and self.ragged is None else "end_row"

    @property
    def first(self) -> str:
        """The first row of a tile, as an expression."""
        if self.groups is not None:
            return f"group_start + (tile_m - tiles_before) * {self.block_m}"
        if self.ragged is not None:
            return f"row_group * M + {self.first_of_group}"
        return f"tile_m * {self.block_m}"

    @property
    def first_of_group(self) -> str:
        """The first row within a group whose rows are columns of x."""
        assert self.ragged is not None
        return f"tile_m % {self._tiles_of_group} * {self.block_m}"

    @property
    def _tiles_of_group(self) -> int:
        assert self.ragged is not None
        return -(-self.ragged.rows // self.block_m)

    def before(self) -> list[str]:
        """Return the statements before the loop over tiles."""
        if self.groups is None:
            return []
        return [f"{', '.join(_PLACE)} = -1, 0, 0, 0"]

    def within(self, body: Sequence[str], helpers: set[str]) -> list[str]:
        """Return `body` for tiles that have rows, after the statements that find them."""
        if self.groups is not None:
            helpers.add("group_of_tile")
            count = self.groups.count
            arguments = (self.groups.ends, "tile_m", *_PLACE, "M", str(count), str(self.block_m))
            find = call(f"{', '.join(_PLACE)} = group_of_tile", arguments)
            return [*find, f"if row_group < {count}:", *indented(body)]
        if self.ragged is not None:
            helpers.add("rows_of_group")
            return [
                f"row_group = tile_m // {self._tiles_of_group}",
                "end_row = row_group * M + M",
                f"first_k, end_k = rows_of_group({self.ragged.ends}, row_group, K)",
                *body,
            ]
        return list(body)
