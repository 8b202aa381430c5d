"""The order in which an epilogue visits the parts of a tile: those that need the same operands
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from coda_ir.backends.triton.kernel import indented
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import Port, ResultKind, Segment
from coda_ir.dialects.gemm.slots import TILE_PORTS, Moves
from coda_ir.dialects.gemm.tiling import ColumnRange

PLACE = "place"
"""The variable of the outer loop: the number of a part within its period."""


@dataclass(frozen=True)
class PartOrder:
    """The order of the parts of a tile, in which parts that are `period` apart follow each other.

    Of a tile of two heads in four parts, the period is 2 and the order 0, 2, 1, 3. The number of a
    part stays the variable `part` of the innermost loop.
    """

    parts: int
    period: int
    """After how many parts their operands repeat; all parts where these do not."""

    @property
    def is_plain(self) -> bool:
        return self.period in (1, self.parts)

    @property
    def repeats(self) -> int:
        """The number of parts that need the same operands."""
        return self.parts // self.period

    @property
    def numbers(self) -> tuple[int, ...]:
        """The parts in this order."""
        places = range(self.period)
        return tuple(part for first in places for part in range(first, self.parts, self.period))

    @property
    def place(self) -> str:
        """The number of a part within its period."""
        return "part" if self.is_plain else PLACE

    def loops(self, shared: Sequence[str], body: Sequence[str]) -> list[str]:
        """Return the loop whose `body` is that of a part, after the statements that parts share."""
        if self.is_plain:
            return [*shared, f"for part in tl.static_range({self.parts}):", *body]
        inner = f"for part in tl.static_range({PLACE}, {self.parts}, {self.period}):"
        outer = f"for {PLACE} in tl.static_range({self.period}):"
        return [outer, *indented([*shared, inner, *body])]

    # Parts that are joined to a box: neighbours, which the order takes apart.

    def allows(self, joined: int) -> bool:
        """Return whether the expressions below hold for boxes of so many parts."""
        return self.is_plain or joined in (1, self.period)

    def begins_holding(self, joined: int) -> str:
        """Return whether a part is the first that is held for its box, and for those beside it."""
        return f"part % {joined} == 0" if self.is_plain else "part == 0"

    def held(self, joined: int) -> list[str]:
        """Return where the parts of a box are among those held, as expressions of its last part."""
        if self.is_plain:
            return [str(number) for number in range(joined)]
        first = f"part // {self.period}"
        return [first, *(f"{self.repeats * number} + {first}" for number in range(1, joined))]

    def box(self, joined: int) -> str:
        """Return the number of complete boxes before that of `part`, in brackets if necessary."""
        if joined > 1:
            return f"(part // {joined})"
        if self.is_plain:
            return "part"
        return f"({self.repeats} * {PLACE} + part // {self.period})"


def part_order(segment: Segment, columns: ColumnRange, moves: Moves) -> PartOrder:
    """Return the order in which operands that vary by column, except tiles, are loaded least often.

    It is the plain one where one of them does not repeat within a tile: a bias beside the tables of
    a rotary embedding is loaded for each part, and so are they. It stays plain as well where tiles
    are loaded, in the order of their parts, and where partials are added up over the parts; then
    what is the same for all parts is still loaded once.
    """
    plain = PartOrder(columns.parts, columns.parts)
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
    found = PartOrder(columns.parts, every // columns.lanes)
    if found.parts % found.period:
        return plain
    is_free = (
        not moves.loads
        and all(result.port.kind.data != ResultKind.PARTIAL_ROW for result in segment.results)
        and all(map(found.allows, moves.joined))
    )
    return found if is_free or found.is_plain else plain


def _period(segment: Segment, port: Port) -> int | None:
    """Return after how many columns (in pair mode: pairs) the elements of a port repeat, if they
    do.
    """
    if not port.kind.is_table or port.kind.is_group:
        return None
    width = shape_of(port.value)[-1]
    group = segment.group_size or 2
    if segment.pairing is None or port.kind.is_half or group // 2 % width == 0:
        return width
    # The columns after a half of a group are those of the next group.
    return group // 2 * (width // gcd(width, group))
