"""The order in which an epilogue visits the subtiles of a tile: by the operands they need."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from coda_ir.backends.triton.kernel import indented
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import Port, ResultKind, Segment
from coda_ir.dialects.gemm.buffers import TILE_PORTS, Moves
from coda_ir.dialects.gemm.tiling import ColumnRange

PLACE = "place"
"""The variable of the outer loop: the number of a subtile within its period."""


@dataclass(frozen=True)
class SubtileOrder:
    """The order of the subtiles of a tile: those that are `period` apart follow each other.

    For a tile of two heads in four subtiles, the period is 2 and the order 0, 2, 1, 3. The number
    of a subtile stays the variable `subtile` of the innermost loop.
    """

    subtiles: int
    period: int
    """After how many subtiles their operands repeat; all subtiles where these do not."""

    @property
    def is_plain(self) -> bool:
        return self.period in (1, self.subtiles)

    @property
    def repeats(self) -> int:
        """The number of subtiles that need the same operands."""
        return self.subtiles // self.period

    @property
    def numbers(self) -> tuple[int, ...]:
        """The subtiles in this order."""
        places = range(self.period)
        return tuple(
            subtile for first in places for subtile in range(first, self.subtiles, self.period)
        )

    @property
    def place(self) -> str:
        """The number of a subtile within its period."""
        return "subtile" if self.is_plain else PLACE

    def loops(self, shared: Sequence[str], body: Sequence[str]) -> list[str]:
        """Return the loop over subtiles around `body`, after the statements that they share."""
        if self.is_plain:
            return [*shared, f"for subtile in tl.static_range({self.subtiles}):", *body]
        inner = f"for subtile in tl.static_range({PLACE}, {self.subtiles}, {self.period}):"
        outer = f"for {PLACE} in tl.static_range({self.period}):"
        return [outer, *indented([*shared, inner, *body])]

    # Subtiles that are joined to a box: neighbours, which the order takes apart.

    def allows(self, joined: int) -> bool:
        """Return whether the expressions below hold for boxes of that many subtiles."""
        return self.is_plain or joined in (1, self.period)

    def begins_holding(self, joined: int) -> str:
        """Return whether a subtile is the first one held for its box and for those beside it."""
        return f"subtile % {joined} == 0" if self.is_plain else "subtile == 0"

    def held(self, joined: int) -> list[str]:
        """Return the places of the subtiles of a box among those held, by its last subtile."""
        if self.is_plain:
            return [str(number) for number in range(joined)]
        first = f"subtile // {self.period}"
        return [first, *(f"{self.repeats * number} + {first}" for number in range(1, joined))]

    def box(self, joined: int) -> str:
        """Return the number of complete boxes before that of `subtile`, in brackets if needed."""
        if joined > 1:
            return f"(subtile // {joined})"
        if self.is_plain:
            return "subtile"
        return f"({self.repeats} * {PLACE} + subtile // {self.period})"


def subtile_order(segment: Segment, columns: ColumnRange, moves: Moves) -> SubtileOrder:
    """Return the order in which operands that vary by column, except tiles, are loaded least often.

    It is the plain one where one of them does not repeat within a tile: a bias beside the tables of
    a rotary embedding is loaded for each subtile, and so are they. It stays plain as well where
    tiles are loaded, in the order of their subtiles, and where partials are added up over subtiles;
    then what is the same for all subtiles is still loaded once.
    """
    plain = SubtileOrder(columns.subtiles, columns.subtiles)
    periods = [
        _period(segment, port)
        for index, port in enumerate(segment.ports)
        if port.kind.has_columns
        and port.kind not in TILE_PORTS
        and any(argument.uses for argument in segment.port_args(index))
    ]
    if not periods or None in periods:
        return plain
    every = lcm(*(period for period in periods if period is not None), columns.lanes)
    found = SubtileOrder(columns.subtiles, every // columns.lanes)
    if found.subtiles % found.period:
        return plain
    is_free = (
        not moves.loads
        and all(result.port.kind.data != ResultKind.PARTIAL_ROW for result in segment.results)
        and all(map(found.allows, moves.joined))
    )
    return found if is_free or found.is_plain else plain


def _period(segment: Segment, port: Port) -> int | None:
    """Return after how many columns (in pair mode, pairs) a port's elements repeat, if they do."""
    if not port.kind.is_table or port.kind.is_group:
        return None
    width = shape_of(port.value)[-1]
    group = segment.group_size or 2
    if segment.pairing is None or port.kind.is_half or group // 2 % width == 0:
        return width
    # The columns after a half of a group are those of the next group.
    return group // 2 * (width // gcd(width, group))
