"""The rows of a tile in the loops of a persistent kernel, grouped or not.

Each group of warps walks over the tiles on its own. If rows are in groups, all tiles of a group
come before those of the next one. So its weights are read once, and the group of a tile is found
from that of the tile before, which is the same one or close to it:

    row_group, tiles_before, group_start, end_row = -1, 0, 0, 0
    for program in range(...):
        row_group, tiles_before, group_start, end_row = group_of_tile(ends_ptr, program // 12,
                                                                      row_group, ...)
        if row_group < 128:
            tile_m, tile_n = grouped_tile(program - tiles_before * 12,
                                          tl.cdiv(end_row - group_start, 128), 12, 8)
            first_row = group_start + tile_m * 128
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
            return f"group_start + tile_m * {self.block_m}"
        if self.ragged is not None:
            return f"row_group * {self.ragged.rows} + {self.first_of_group}"
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

    def numbered(self, tiles_m: str, tiles_n: int) -> tuple[str, str]:
        """Return the number of a tile within its group, or among all, and the rows of tiles there,
        of which there are `tiles_m` in all.
        """
        if self.groups is None:
            return "program", tiles_m
        rows = f"tl.cdiv(end_row - group_start, {self.block_m})"
        return f"program - tiles_before * {tiles_n}", rows

    def within(self, tile: str, body: Sequence[str], tiles_n: int) -> list[str]:
        """Return the statements that find a tile, and `body` for tiles that have rows."""
        if self.groups is not None:
            count, place = self.groups.count, f"program // {tiles_n}"
            arguments = (self.groups.ends, place, *_PLACE, "M", str(count), str(self.block_m))
            find = call(f"{', '.join(_PLACE)} = group_of_tile", arguments)
            return [*find, f"if row_group < {count}:", *indented([tile, *body])]
        if self.ragged is not None:
            return [
                tile,
                f"row_group = tile_m // {self._tiles_of_group}",
                f"end_row = (row_group + 1) * {self.ragged.rows}",
                f"first_k, end_k = rows_of_group({self.ragged.ends}, row_group, K)",
                *body,
            ]
        return [tile, *body]
