"""When and how a GEMM runs warp-specialized on Hopper, and what it keeps in shared memory.

One warp loads the stages of the main loop. Eight warps compute every tile together, or each of two
groups of four every other tile (`ping_pong`). A group has slots through which the tiles of the
epilogue come and go by TMA; a slot holds one part of the columns, as many as the epilogue works on
at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm.attrs import (
    Layout,
    PortKind,
    ResultKind,
    ResultPortAttr,
    ScheduleAttr,
)
from coda_ir.dialects.gemm.ops import FusedOp
from coda_ir.dialects.gemm.segment import Segment
from coda_ir.dialects.gemm.tiling import ColumnRange, column_ranges, tiles_moved
from coda_ir.dialects.gemm.tma import ALIGNMENT_BYTES, tma_obstacle

WARPS = 8
"""Warps that compute."""
MOST_ACCUMULATORS = 128
"""Per thread: beside them, an epilogue has as many registers."""
SHARED_MEMORY = 227 * 1024
"""Bytes that a program can have on sm_90."""
BARRIERS = 256
"""Bytes for barriers, at most."""
SCRATCH = 1024
"""Bytes in which vectors of rows change their layout."""
MOST_SLOTS = 4
MOST_MOVED = 6
"""Tiles that an epilogue loads and stores together: with more, each has few slots and registers."""

TILES = (ResultKind.TILE, ResultKind.TILE_T, ResultKind.HALF, ResultKind.ACCUMULATE)
"""Results that are stored as boxes."""
_RESULTS = (*TILES, ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL, ResultKind.SELECT)
TILE_PORTS = (PortKind.TILE, PortKind.HALF_TILE, PortKind.TILE_T)
"""Ports that are loaded as boxes."""

_ROWS = {"warp_specialized": (128,), "ping_pong": (64, 128)}
"""Rows that a tile can have."""

SlotShape = tuple[int, int, Attribute]
"""Rows, columns and element type of a slot."""


@dataclass(frozen=True)
class Moves:
    """The boxes that move for each part of a column range, one slot each."""

    loads: tuple[SlotShape, ...]
    stores: tuple[SlotShape, ...]
    parts: int
    joined: tuple[int, ...]
    """How many parts go into a box, for each of the stores."""

    def every(self, shape: SlotShape) -> int:
        """How many parts go into a box of that shape."""
        return self.joined[self.stores.index(shape)]

    def in_place(self) -> dict[int, int]:
        """Stores that can go where a tile was loaded: the numbers of the load by that of the store.

        The last stores do, so that those which take turns in slots are as far apart as they can be.
        """
        free = list(enumerate(self.loads))
        found: dict[int, int] = {}
        for store, shape in reversed(list(enumerate(self.stores))):
            slot = next((slot for slot in free if slot[1] == shape), None)
            if slot is not None:
                free.remove(slot)
                found[store] = slot[0]
        return found


@dataclass(frozen=True)
class Staging:
    """The slots of a group of warps."""

    depth: int
    """How many parts ahead the tiles of ports are loaded."""
    loads: tuple[SlotShape, ...]
    """The slots of one part's ports: there are `depth` of each."""
    stores: Mapping[SlotShape, int]
    """How many slots of a shape results take turns in."""
    loads_all: bool = False
    """Whether the tiles of all parts are loaded under the main loop, each into a slot of its own,
    where results are stored in their place."""

    def in_place(self, moves: Moves) -> dict[int, int]:
        """The stores of a part that go where a tile was loaded (see `Moves.in_place`)."""
        return moves.in_place() if self.loads_all else {}

    def turns(self, moves: Moves) -> list[SlotShape]:
        """The stores of a part that take turns in slots."""
        in_place = self.in_place(moves)
        return [shape for store, shape in enumerate(moves.stores) if store not in in_place]

    def pending(self, moves: Moves, shape: SlotShape) -> int:
        """How many stores may be under way when a slot of that shape is written again.

        Between two uses of a slot are the stores through all others of its shape, and in as many
        parts as these take those in place.
        """
        count, per_part = self.stores[shape], self.turns(moves).count(shape)
        parts = count // per_part * moves.every(shape)
        return count - 1 + parts * len(self.in_place(moves))

    @property
    def bytes(self) -> int:
        ahead = self.depth * sum(map(slot_bytes, self.loads))
        return ahead + sum(count * slot_bytes(shape) for shape, count in self.stores.items())


def slot_bytes(shape: SlotShape) -> int:
    rows, columns, element = shape
    return rows * columns * _element_bytes(element)


def slot_of(columns: ColumnRange, rows: int, element: Attribute, *, transposed: bool) -> SlotShape:
    """The slot that a part of `rows` rows of a tile goes through, as it lies in memory."""
    if transposed:
        return columns.lanes, rows, element
    return rows, columns.lanes, element


BOX_BYTES = 128
"""Of a row of a box that fills lines of the cache."""


def joined_parts(
    segment: Segment, columns: ColumnRange, element: Attribute, *, transposed: bool
) -> int:
    """How many neighbouring parts of a result are stored as one box: as many as fill lines."""
    group, joined = segment.group_size, 1
    span = columns.extent if group in (None, segment.columns) else group // 2
    if transposed or columns.extent % (columns.lanes * columns.parts):
        return 1
    while (
        columns.lanes * joined * _element_bytes(element) < BOX_BYTES
        and columns.parts % (2 * joined) == 0
        and span % (2 * joined * columns.lanes) == 0
    ):
        joined *= 2
    return joined


def stored_slot(
    segment: Segment, columns: ColumnRange, rows: int, output: SSAValue, port: ResultPortAttr
) -> tuple[SlotShape, int]:
    """The slot that parts of a result go through, and how many of them together."""
    element, transposed = element_type_of(output), segment.is_stored_transposed(port)
    joined = joined_parts(segment, columns, element, transposed=transposed)
    wide = replace(columns, lanes=columns.lanes * joined)
    return slot_of(wide, rows, element, transposed=transposed), joined


def _element_bytes(element: Attribute) -> int:
    return 4 if isinstance(element, Float32Type) else 2


def stage_bytes(schedule: ScheduleAttr) -> int:
    """Bytes of one step of the main loop: 16-bit elements of both operands."""
    bm, bn, bk = schedule.tile
    return 2 * (bm + bn) * bk


def moves_of(segment: Segment, columns: ColumnRange, rows: int) -> Moves:
    """What a group of warps that owns `rows` rows loads and stores for each part of a range."""
    loads = [
        slot_of(columns, rows, element_type_of(port.value), transposed=port.kind == PortKind.TILE_T)
        for index, port in enumerate(segment.ports)
        if port.kind in TILE_PORTS
        for _ in segment.port_args(index)
    ]
    stores = [
        stored_slot(segment, columns, rows, output, port)
        for (port, _), output in zip(segment.results, segment.outputs, strict=True)
        if port.kind.data in TILES
        for _ in range(segment.result_arity(port))
    ]
    slots, joined = [slot for slot, _ in stores], [count for _, count in stores]
    return Moves(tuple(loads), tuple(slots), columns.parts, tuple(joined))


def staging(op: FusedOp, schedule: ScheduleAttr) -> Staging | str:
    """The slots that fit beside the stages of `schedule`, or why `op` cannot run so.

    Raises ValueError as `column_ranges` does.
    """
    obstacle = _obstacle(op, schedule)
    if obstacle is not None:
        return obstacle
    moves = [
        moves_of(segment, columns, schedule.block_m.data)
        for segment in op.segments()
        for columns in column_ranges(segment, schedule, op.order)
    ]
    loads = {each.loads for each in moves if each.loads}
    if len(loads) > 1:
        return "its column ranges load different tiles"
    reserved = BARRIERS + max(SCRATCH, _bytes_of_column_sums(op, schedule))
    free = SHARED_MEMORY - reserved - schedule.stages.data * stage_bytes(schedule)
    ahead = next(iter(loads), ())
    for depth, loads_all in _depths(moves):
        for most in range(MOST_SLOTS, 0, -1):
            found = Staging(depth, ahead, {}, loads_all)
            found = replace(found, stores=_store_slots(found, moves, most))
            if found.bytes * schedule.groups <= free:
                return found
    return f"its tiles do not fit beside {schedule.stages.data} stages in shared memory"


def _bytes_of_column_sums(op: FusedOp, schedule: ScheduleAttr) -> int:
    """What sums over the rows of a part go through from warp to warp, in float32, in each group."""
    lanes = [
        columns.lanes
        for segment in op.segments()
        if any(port.kind.data == ResultKind.PARTIAL_COL for port, _ in segment.results)
        for columns in column_ranges(segment, schedule, op.order)
    ]
    return 4 * schedule.warps.data * max(lanes, default=0)


def _depths(moves: Sequence[Moves]) -> list[tuple[int, bool]]:
    """How many parts ahead tiles can be loaded, the best first, and whether that is all parts."""
    parts = {each.parts for each in moves if each.loads}
    if not parts:
        return [(1, False)]
    depths = [(2, False)] if all(count % 2 == 0 for count in parts) else []
    return [*((count, True) for count in parts if len(parts) == 1), *depths, (1, False)]


def _store_slots(staged: Staging, moves: Sequence[Moves], most: int) -> dict[SlotShape, int]:
    """At most `most` slots of each shape; a tile uses all of them equally often."""
    counts: dict[SlotShape, int] = {}
    for each in moves:
        turns = staged.turns(each)
        # In their order, which kernels name them by.
        for shape in dict.fromkeys(turns):
            stored = each.parts // each.every(shape) * turns.count(shape)
            counts[shape] = gcd(counts.get(shape, stored), stored)
    return {
        shape: max(n for n in range(1, most + 1) if count % n == 0)
        for shape, count in counts.items()
    }


def _obstacle(op: FusedOp, schedule: ScheduleAttr) -> str | None:
    """What keeps `op` from running warp-specialized, whatever the room is."""
    bm, bn, bk = schedule.tile
    legal_rows = _ROWS[schedule.mainloop]
    if bm not in legal_rows or schedule.warps.data != WARPS:
        expected = f"{' or '.join(map(str, legal_rows))} with {WARPS}"
        return f"a tile of {bm} rows with {schedule.warps.data} warps, expected {expected}"
    if not 64 <= bn <= 256 or bk != 64:
        return f"a tile of {bn} columns in steps of {bk}, expected 64 to 256 in steps of 64"
    if schedule.accumulators > MOST_ACCUMULATORS:
        return f"a tile of {bm} x {bn} for a group of four warps, expected at most 128 x 128"
    if op.order is not None:
        return "its sums have a stated order"
    if schedule.split_k.data > 1:
        return f"{schedule.split_k.data} programs for the K of a tile, expected 1"
    obstacle = tma_obstacle(op, schedule)
    if obstacle is not None:
        return obstacle
    for segment in op.segments():
        for columns in column_ranges(segment, schedule, op.order):
            obstacle = _range_obstacle(segment, columns)
            if obstacle is not None:
                return obstacle
    return None


def _range_obstacle(segment: Segment, columns: ColumnRange) -> str | None:
    is_even = columns.extent % (columns.lanes * columns.parts) == 0
    group = segment.group_size
    moved = tiles_moved(segment)
    if moved > MOST_MOVED:
        return f"its epilogue moves {moved} tiles, expected at most {MOST_MOVED}"
    if segment.layout == Layout.KN and segment.pairing is not None:
        return "its weights are K x N and its columns are paired"
    if group not in (None, segment.columns) and group // 2 % columns.lanes:
        return f"halves of {group // 2} columns do not hold whole parts of {columns.lanes} columns"
    for port in segment.ports:
        if port.kind in TILE_PORTS:
            obstacle = _box_obstacle(element_type_of(port.value), shape_of(port.value)[-1])
            if obstacle is not None:
                return f"a port cannot be loaded: {obstacle}"
    for (port, _), output in zip(segment.results, segment.outputs, strict=True):
        kind = port.kind.data
        if kind not in _RESULTS:
            return f"it has a result '{kind.value}'"
        if kind not in TILES:
            continue
        if kind != ResultKind.HALF and segment.pairing and segment.pairing.is_adjacent:
            return "neighbouring columns are paired and both stored"
        is_followed = len(segment.weights) > 1 or group == segment.columns
        if kind != ResultKind.HALF and not is_even and is_followed:
            return f"tiles do not divide {columns.extent} columns, which others follow"
        obstacle = _box_obstacle(element_type_of(output), shape_of(output)[-1])
        if obstacle is not None:
            return f"a result cannot be stored: {obstacle}"
    return None


def _box_obstacle(element: Attribute, columns: int) -> str | None:
    """Why TMA cannot move boxes of a tensor."""
    if not isinstance(element, BFloat16Type | Float16Type | Float32Type):
        return f"tiles of {element}"
    row = columns * _element_bytes(element)
    if row % ALIGNMENT_BYTES:
        return f"rows of {row} bytes are not multiples of {ALIGNMENT_BYTES}"
    return None
