"""Shared memory of warp-specialized kernels for epilogue tiles, in addition to the stages.

A group of warps has buffers through which a separate warp moves tiles by TMA, beside the stages of
the main loop. A buffer holds one subtile: the columns that the epilogue processes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.gemm.attrs import PortKind, ResultKind, ResultPortAttr
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import Segment

if TYPE_CHECKING:
    from coda_ir.dialects.gemm.tiling import ColumnRange

ALIGNMENT_BYTES = 16
"""TMA moves boxes of tensors whose rows start at multiples of this."""
SHARED_MEMORY = 227 * 1024
"""Bytes that a program can have on sm_90."""
BARRIERS = 512
"""Bytes for barriers, at most."""
SCRATCH = 1024
"""Bytes in which vectors of rows change their layout."""
MAX_BUFFERS = 4
STEP_BYTES = 128
"""The bytes that one step loads of a row of an operand: 64 elements of 16 bits, or 128 of 8."""

TILES = (ResultKind.TILE, ResultKind.TILE_T, ResultKind.HALF, ResultKind.ACCUMULATE)
"""Results that are stored as boxes."""
TILE_PORTS = (PortKind.TILE, PortKind.HALF_TILE, PortKind.TILE_T)
"""Ports that are loaded as boxes."""

BufferShape = tuple[int, int, Attribute]
"""Rows, columns and element type of a buffer."""


@dataclass(frozen=True)
class Moves:
    """The boxes that each subtile of a column range moves, one buffer for each."""

    loads: tuple[BufferShape, ...]
    stores: tuple[BufferShape, ...]
    order: tuple[int, ...]
    """The subtiles in the order in which the epilogue goes over them."""
    joined: tuple[int, ...]
    """The number of subtiles in a box, for each of the stores."""
    exchanged: tuple[BufferShape, ...] = ()
    """The buffers of results that no box holds, because their rows are not aligned, for example:
    the warps that compute store them, from registers in which neighbouring threads have
    neighbouring columns."""

    @property
    def subtiles(self) -> int:
        return len(self.order)

    def complete_with(self, subtile: int) -> list[int]:
        """Return the stores whose boxes are complete after a subtile."""
        return [store for store, count in enumerate(self.joined) if subtile % count == count - 1]

    def in_place(self) -> dict[int, int]:
        """Return stores that can reuse the memory of a loaded tile: the load number by store
        number.

        The last stores do, so that those that rotate through buffers are as far apart as possible.
        """
        free = list(enumerate(self.loads))
        found: dict[int, int] = {}
        for store, shape in reversed(list(enumerate(self.stores))):
            buffer = next((buffer for buffer in free if buffer[1] == shape), None)
            if buffer is not None:
                free.remove(buffer)
                found[store] = buffer[0]
        return found


@dataclass(frozen=True)
class Staging:
    """The buffers of a group of warps."""

    depth: int
    """The number of subtiles by which the tiles of ports are loaded ahead."""
    loads: tuple[BufferShape, ...]
    """The buffers of one subtile's ports: there are `depth` of each."""
    stores: Mapping[BufferShape, int]
    """The number of buffers of each shape, through which results rotate in every tile."""
    stores_in_place: bool = False
    """True if results are stored from the buffers of ports, where they have the same shape."""
    exchanged: tuple[BufferShape, ...] = ()
    """The buffers in which results that are not moved change their threads, one of each shape."""

    def in_place(self, moves: Moves) -> dict[int, int]:
        """Return the stores of a subtile that reuse a loaded tile's memory (`Moves.in_place`)."""
        return moves.in_place() if self.stores_in_place else {}

    def turns(self, moves: Moves) -> list[int]:
        """Return the stores of a subtile that alternate between buffers."""
        in_place = self.in_place(moves)
        return [store for store in range(len(moves.stores)) if store not in in_place]

    def shapes_by_turns(self, moves: Moves) -> list[BufferShape]:
        """Return the shapes of the stores of a subtile that alternate between buffers."""
        return [moves.stores[store] for store in self.turns(moves)]

    def under_way(self, moves: Moves) -> int | None:
        """Return the number of stores that may be in flight when the buffers of the next subtile
        are free.

        None where no buffer is used twice in a tile.
        """
        turning, fewest = self.turns(moves), None
        number = begun = 0
        after: dict[tuple[BufferShape, int], int] = {}
        turns: dict[BufferShape, int] = {}
        for subtile in moves.order:
            stores = moves.complete_with(subtile)
            for store in stores:
                number += 1
                if store not in turning:
                    continue
                shape = moves.stores[store]
                buffer = shape, turns.get(shape, 0) % self.stores[shape]
                turns[shape] = turns.get(shape, 0) + 1
                if buffer in after:
                    since = begun - after[buffer]
                    fewest = since if fewest is None else min(fewest, since)
                after[buffer] = number
            if any(store in turning for store in stores):
                begun = number
        return fewest

    @property
    def bytes(self) -> int:
        ahead = self.depth * sum(map(buffer_bytes, self.loads))
        exchanged = sum(map(buffer_bytes, self.exchanged))
        moved = sum(count * buffer_bytes(shape) for shape, count in self.stores.items())
        return ahead + moved + exchanged


def buffer_bytes(shape: BufferShape) -> int:
    rows, columns, element = shape
    return rows * columns * element_bytes(element)


def buffer_of(
    columns: ColumnRange, rows: int, element: Attribute, *, transposed: bool
) -> BufferShape:
    """Return the buffer for a subtile of `rows` rows of a tile, in its memory layout."""
    if transposed:
        return columns.lanes, rows, element
    return rows, columns.lanes, element


BOX_BYTES = 128
"""The bytes of a row of a box that fills lines of the cache."""


def joined_subtiles(
    segment: Segment, columns: ColumnRange, element: Attribute, port: ResultPortAttr
) -> int:
    """Return how many adjacent subtiles of a result are stored as one box, to fill memory lines."""
    group, joined = segment.group_size, 1
    span = columns.extent if group in (None, segment.columns) else group // 2
    if isinstance(port.place, PlaceAttr):
        span = gcd(span, port.place.width.data)
    if segment.is_stored_transposed(port) or columns.extent % (columns.lanes * columns.subtiles):
        return 1
    while (
        columns.lanes * joined * element_bytes(element) < BOX_BYTES
        and columns.subtiles % (2 * joined) == 0
        and span % (2 * joined * columns.lanes) == 0
    ):
        joined *= 2
    return joined


def stored_buffer(
    segment: Segment, columns: ColumnRange, rows: int, output: SSAValue, port: ResultPortAttr
) -> tuple[BufferShape, int]:
    """Return the buffer for subtiles of a result, and the number of subtiles that share it."""
    element, transposed = element_type_of(output), segment.is_stored_transposed(port)
    is_box = not is_exchanged(segment, output, port)
    joined = joined_subtiles(segment, columns, element, port) if is_box else 1
    wide = replace(columns, lanes=columns.lanes * joined)
    return buffer_of(wide, rows, element, transposed=transposed), joined


def aligned_bytes(element: Attribute, columns: int) -> int:
    """Return the largest power of two, up to 16, that divides every row's byte offset."""
    return gcd(ALIGNMENT_BYTES, columns * element_bytes(element))


def is_exchanged(segment: Segment, output: SSAValue, port: ResultPortAttr) -> bool:
    """Return whether threads exchange elements of a result: its rows are not those of a box."""
    if segment.is_stored_by_row:
        return True
    columns = shape_of(output)[-1]
    if isinstance(port.place, PlaceAttr):
        if port.place.rows(columns) is not None:
            return True
        columns = port.place.pitch(columns)
    aligned = aligned_bytes(element_type_of(output), columns)
    return aligned < ALIGNMENT_BYTES and not segment.is_stored_transposed(port)


def stage_bytes(schedule: ScheduleAttr) -> int:
    """Return the bytes of one step of the main loop: rows of `STEP_BYTES` of both operands."""
    bm, bn, _ = schedule.tile
    return STEP_BYTES * (bm + bn)


def moves_of(segment: Segment, columns: ColumnRange, rows: int) -> Moves:
    """Return the boxes that a group of warps with `rows` rows moves for each subtile of a range."""
    loads = [
        buffer_of(
            columns, rows, element_type_of(port.value), transposed=port.kind == PortKind.TILE_T
        )
        for index, port in enumerate(segment.ports)
        if port.kind in TILE_PORTS
        for _ in segment.port_args(index)
    ]
    stores = [
        (*stored_buffer(segment, columns, rows, output, port), is_exchanged(segment, output, port))
        for (port, _), output in zip(segment.results, segment.outputs, strict=True)
        if port.kind.data in TILES
        for _ in range(segment.result_arity(port))
    ]
    return Moves(
        loads=tuple(loads),
        stores=tuple(buffer for buffer, _, exchanged in stores if not exchanged),
        order=tuple(range(columns.subtiles)),
        joined=tuple(joined for _, joined, exchanged in stores if not exchanged),
        exchanged=tuple(buffer for buffer, _, exchanged in stores if exchanged),
    )


def buffers_beside_stages(
    moves: Sequence[Moves], schedule: ScheduleAttr, columns_summed: int
) -> Staging | None:
    """Return the buffers that fit beside the stages of `schedule`, the best first; None if none do.

    Sums over the rows of `columns_summed` columns go from warp to warp in float32, in each group.
    """
    reserved = BARRIERS + max(SCRATCH, 4 * schedule.warps.data * columns_summed)
    free = SHARED_MEMORY - reserved - schedule.stages.data * stage_bytes(schedule)
    ahead = next((each.loads for each in moves if each.loads), ())
    exchanged = tuple(dict.fromkeys(shape for each in moves for shape in each.exchanged))
    for depth, in_place in _depths(moves):
        for most in range(MAX_BUFFERS, 0, -1):
            found = Staging(depth, ahead, {}, in_place, exchanged)
            found = replace(found, stores=_store_buffers(found, moves, most))
            if found.bytes * schedule.groups <= free:
                return _with_more_buffers(found, moves, free // schedule.groups)
    return None


def columns_summed(segment: Segment, ranges: Sequence[ColumnRange]) -> int:
    """Return the columns of a subtile that are summed over its rows; 0 if there are none."""
    is_summed = any(port.kind.data == ResultKind.PARTIAL_COL for port, _ in segment.results)
    return max((columns.lanes for columns in ranges), default=0) if is_summed else 0


def fitting_subtiles(
    segment: Segment, ranges: Sequence[ColumnRange], schedule: ScheduleAttr
) -> int:
    """Return the number of subtiles whose tiles fit beside the stages, for a segment cut into
    `ranges`.

    0 if those of one subtile do not fit, 1 if they are loaded when the subtile before is done,
    and 2 if they are loaded earlier, or if there is no subtile before.
    """
    moves = [moves_of(segment, columns, schedule.group_rows) for columns in ranges]
    found = buffers_beside_stages(moves, schedule, columns_summed(segment, ranges))
    if found is None:
        return 0
    is_ahead = not found.loads or found.depth > 1 or all(each.subtiles == 1 for each in moves)
    return 2 if is_ahead else 1


def _depths(moves: Sequence[Moves]) -> list[tuple[int, bool]]:
    """Return the numbers of subtiles by which tiles can be loaded ahead, the best first, and
    whether results reuse the memory of these tiles.
    """
    subtiles = {each.subtiles for each in moves if each.loads}
    if not subtiles:
        return [(1, False)]
    every = [(count, True) for count in subtiles if len(subtiles) == 1]
    depths = [2, 1] if all(count % 2 == 0 for count in subtiles) else [1]
    return [*every, *((depth, in_place) for depth in depths for in_place in (False, True))]


def _with_more_buffers(found: Staging, moves: Sequence[Moves], room: int) -> Staging:
    """Add buffers in the remaining memory, first of the shapes that most results use."""
    results = _most_of_a_subtile(found, moves)
    for shape in sorted(found.stores, key=lambda shape: results[shape], reverse=True):
        for most in range(MAX_BUFFERS, found.stores[shape], -1):
            count = _store_buffers(found, moves, most)[shape]
            more = replace(found, stores={**found.stores, shape: count})
            if more.bytes <= room:
                found = more
                break
    return found


def _store_buffers(staged: Staging, moves: Sequence[Moves], most: int) -> dict[BufferShape, int]:
    """Return up to `most` buffers of each shape, but no fewer than a subtile has results of it."""
    results, stored = _most_of_a_subtile(staged, moves), dict[BufferShape, int]()
    for each in moves:
        boxes = dict[BufferShape, int]()
        for store in staged.turns(each):
            shape = each.stores[store]
            boxes[shape] = boxes.get(shape, 0) + each.subtiles // each.joined[store]
        stored |= {shape: max(count, stored.get(shape, 0)) for shape, count in boxes.items()}
    return {shape: max(results[shape], min(most, count)) for shape, count in stored.items()}


def _most_of_a_subtile(staged: Staging, moves: Sequence[Moves]) -> dict[BufferShape, int]:
    """Return the number of results of a subtile that share the buffers of each shape, in order."""
    found: dict[BufferShape, int] = {}
    for each in moves:
        shapes = staged.shapes_by_turns(each)
        found |= {shape: max(shapes.count(shape), found.get(shape, 0)) for shape in shapes}
    return found
