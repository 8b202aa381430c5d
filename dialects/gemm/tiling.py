"""Tiling of the columns of a segment under a schedule.

The number of tiles is the extent of a `partial_row`; kernels, the host program and buffer planning
must agree on it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from xdsl.dialects.builtin import DYNAMIC_INDEX, f64
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects.coda.shape import TransposeOp
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.gemm.attrs import Layout, PortKind, ResultKind
from coda_ir.dialects.gemm.buffers import fitting_subtiles
from coda_ir.dialects.gemm.numerics import OrderAttr, promotes_sums
from coda_ir.dialects.gemm.ops import FusedOp, MapOp
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.region_ops import GroupReduceOp
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import Segment
from coda_ir.dialects.gemm.verify_groups import ALL_COLUMNS, columns_alike

MIN_LANES, MIN_AHEAD = 16, 32
"""Columns of the narrowest subtiles that move through shared memory, and of the narrowest that are
taken so that tiles can be loaded ahead."""

COLUMNS_OF_A_MAP, COLUMNS_OF_SAMPLES = 512, 64
"""Columns of a tile of a `gemm.map`, at most, unless a group is wider; and where the rows of each
sample are added up: few, so that the tile has many rows."""


@dataclass(frozen=True)
class ColumnRange:
    """A range of columns of a segment (in pair mode: pairs of columns), cut into epilogue tiles.

    A tile has `lanes` accumulator columns; a program computes `subtiles` tiles in one main loop and
    applies the epilogue to one after the other. Where the region reduces over groups of columns,
    every group lies inside a tile: a group of `group` columns takes the first of `padded_group`
    lanes, a power of two.
    """

    weights: tuple[int, ...]
    """Indices of the weights: two where a pair takes one column from each."""
    offset: int
    """Columns of the segment before the range (0 in pair mode)."""
    extent: int
    """Number of columns, or of pairs in pair mode."""
    lanes: int
    group: int
    """Columns (pairs) of a group; 1 where the region does not reduce over groups."""
    subtiles: int = 1
    keeps_subtiles: bool = False
    """True if every subtile has a separate partial over the columns, for a stated order of sums and
    where registers are scarce; otherwise a program has one."""

    @property
    def padded_group(self) -> int:
        return 1 << (self.group - 1).bit_length()

    @property
    def is_padded(self) -> bool:
        """True if some lanes of a tile have no column."""
        return self.padded_group != self.group

    @property
    def per_tile(self) -> int:
        """Columns (pairs) that a tile covers; 0 where a group does not fit."""
        return self.lanes // self.padded_group * self.group

    @property
    def tiles(self) -> int:
        return -(-self.extent // self.per_tile)

    @property
    def programs(self) -> int:
        """Programs in one row of tiles."""
        return -(-self.tiles // self.subtiles)

    @property
    def partials(self) -> int:
        """Partials over the columns: the T of a `partial_row`."""
        return self.tiles if self.keeps_subtiles else self.programs

    @property
    def per_partial(self) -> int:
        """Columns (pairs) that a partial covers."""
        return self.per_tile if self.keeps_subtiles else self.per_tile * self.subtiles


def column_ranges(
    segment: Segment, schedule: ScheduleAttr, order: OrderAttr | None = None
) -> list[ColumnRange]:
    """Return the ranges of a segment under a schedule, whose BN is the number of accumulator
    columns of a program.

    Pair mode splits BN between the first and second columns. A plain segment of several
    weights has one range per weight, so that no tile straddles two weights.
    A stated `order` fixes the columns of a tile, whatever BN is. Subtiles that move through shared
    memory are as wide as it allows. Raises ValueError where N is
    dynamic, a group does not fit a tile or does not divide N, or the schedule breaks the order.
    """
    if segment.columns == DYNAMIC_INDEX:
        raise ValueError("the number of columns is dynamic, expected a static N")
    paired = 1 if segment.pairing is None else 2
    sizes = group_sizes(segment)
    lanes, group = schedule.block_n.data // paired, max(1, max(sizes, default=1) // paired)
    subtiles = (
        _subtiles(segment, schedule, group, lanes)
        if order is None
        else order_subtiles(segment, schedule, order)
    )
    keeps_subtiles = order is not None or not _combines_subtiles(segment, schedule)
    ranges: list[ColumnRange] = []
    offset = 0
    for weights, extent in _weight_extents(segment):
        columns = ColumnRange(
            weights,
            offset,
            extent,
            lanes // subtiles,
            group,
            subtiles,
            keeps_subtiles=keeps_subtiles,
        )
        _check_groups(columns, segment, sizes)
        if schedule.is_warp_specialized:
            _check_boxes(columns, segment)
        ranges.append(columns)
        offset += extent
    is_free = schedule.is_warp_specialized and order is None
    return _with_room(segment, schedule, ranges) if is_free else ranges


@dataclass(frozen=True)
class ColumnCuts:
    """The ranges of a GEMM under many schedules, and what they ask of its operator, once."""

    op: FusedOp
    _found: dict[Hashable, list[tuple[Segment, list[ColumnRange]]]] = field(
        default_factory=dict[Hashable, list[tuple[Segment, list[ColumnRange]]]]
    )

    @cached_property
    def segments(self) -> list[Segment]:
        return self.op.segments()

    @cached_property
    def element(self) -> Attribute:
        """The type of the elements of the inputs."""
        return element_type_of(self.op.x)

    @cached_property
    def promotes_sums(self) -> bool:
        """See `promotes_sums`."""
        return promotes_sums(self.op)

    @cached_property
    def groups(self) -> Sequence[int]:
        """The distinct group sizes of all segments."""
        return list(dict.fromkeys(chain(*map(group_sizes, self.segments))))

    @cached_property
    def row_bytes(self) -> Sequence[int]:
        """The distinct row sizes in bytes along K, of the inputs and of weights that are N x K."""
        by_column = [each.terms for each in self.segments if each.layout == Layout.NK]
        values = (*self.op.inputs, *chain(*chain(*by_column)))
        return list(dict.fromkeys(element_bytes(v.type) * shape_of(v)[-1] for v in values))

    def under(self, schedule: ScheduleAttr) -> list[tuple[Segment, list[ColumnRange]]]:
        """Return each segment with its ranges. Raises ValueError like `column_ranges`."""
        check_depths(self.op, schedule)
        if self.op.order is not None:
            key = schedule
        elif schedule.is_warp_specialized:
            key = (schedule.mainloop, schedule.tile, schedule.warps.data, schedule.stages.data)
        else:
            # Subtiles are as wide as registers allow; no box of theirs is in shared memory.
            key = (schedule.accumulators, schedule.block_n.data)
        if key not in self._found:
            self._found[key] = [
                (segment, column_ranges(segment, schedule, self.op.order))
                for segment in self.segments
            ]
        return self._found[key]


def _with_room(
    segment: Segment, schedule: ScheduleAttr, ranges: list[ColumnRange]
) -> list[ColumnRange]:
    """Return `ranges` cut into the widest subtiles whose tiles fit in shared memory; unchanged if
    none do.

    Two tiles in float32, such as a residual gradient and what it is the gradient of, take subtiles
    of 32 columns beside three stages of 128 x 256 x 64. Where the tiles of one subtile alone fit,
    narrower subtiles are better: those of the next one are loaded meanwhile.
    """
    found, narrow, most = ranges, ranges, 0
    while True:
        fitting = fitting_subtiles(segment, narrow, schedule)
        if fitting > most:
            found, most = narrow, fitting
        fewest = MIN_LANES if most == 0 else MIN_AHEAD
        fewest = max(fewest, *(columns.padded_group for columns in narrow))
        if most == 2 or any(columns.lanes // 2 < fewest for columns in narrow):
            return found
        narrow = [
            replace(each, lanes=each.lanes // 2, subtiles=2 * each.subtiles) for each in narrow
        ]


def _weight_extents(segment: Segment) -> list[tuple[tuple[int, ...], int]]:
    """Return the weights of each range, and its number of columns (or pairs)."""
    every = range(len(segment.weights))
    if segment.pairing is not None:
        return [(tuple(every), segment.columns // 2)]
    return [((index,), segment.weight_columns(index)) for index in every]


def _subtiles(segment: Segment, schedule: ScheduleAttr, group: int, lanes: int) -> int:
    subtiles = epilogue_subtiles(segment, schedule)
    if len(schedule.pieces) > 1:
        if segment.pairing is not None:
            raise ValueError(f"BN is {schedule.block_n.data}, expected a power of two for pairs")
        return 3 * max(1, subtiles // 3)
    while subtiles > 1 and group > lanes // subtiles:
        subtiles //= 2
    size = segment.group_size
    if schedule.is_warp_specialized and size not in (None, segment.columns):
        # A subtile is stored as one box: it does not cross from one group's half to the next.
        while lanes > subtiles * MIN_LANES and size // 2 % (lanes // subtiles):
            subtiles *= 2
    if schedule.is_warp_specialized:
        for width in _placed_widths(segment):
            while lanes > subtiles * MIN_LANES and width % (lanes // subtiles):
                subtiles *= 2
    return subtiles


def _placed_widths(segment: Segment) -> list[int]:
    """Return the contiguous columns in the places of results, whose boxes have rows of the tile."""
    return [
        port.place.width.data
        for port, type in segment.results
        if isinstance(port.place, PlaceAttr)
        and port.kind.data != ResultKind.TILE_T
        and port.place.rows(type.get_shape()[-1]) is None
    ]


def _check_boxes(columns: ColumnRange, segment: Segment) -> None:
    """Raise ValueError if a subtile, which is stored as one box, has two places."""
    for width in _placed_widths(segment):
        if width % columns.lanes or columns.offset % columns.lanes:
            raise ValueError(f"a box has {columns.lanes} columns, expected a divisor of {width}")


def check_depths(op: FusedOp, schedule: ScheduleAttr) -> None:
    """Raise ValueError if K differs between a program's tiles, or a step has several blocks."""
    if schedule.split_k.data > 1 and op.has_ragged_depth:
        raise ValueError(
            f"split_k is {schedule.split_k.data}, expected 1: each group of rows has its own K"
        )
    if not schedule.has_one_row and op.is_numbered:
        raise ValueError(f"the main loop is {schedule.mainloop}, expected one_row by number")
    if schedule.split_k.data > 1 and op.summed_rows > 1:
        raise ValueError(f"split_k is {schedule.split_k.data}, expected 1: rows are added up")
    bk, blocks = schedule.block_k.data, op.blocks
    if schedule.has_one_row and op.quantized is not None:
        return
    if blocks is not None and (bk > blocks.depth.data or blocks.depth.data % bk):
        raise ValueError(f"BK is {bk}, expected a divisor of {blocks.depth.data}, K of a block")


def order_subtiles(segment: Segment, schedule: ScheduleAttr, order: OrderAttr) -> int:
    """Return the number of tiles of the stated columns. Raises ValueError if it is not kept."""
    bm, bn, bk = schedule.tile
    if schedule.split_k.data > 1:
        raise ValueError(f"split_k is {schedule.split_k.data}, expected 1: K is summed in order")
    if bk != order["depth"]:
        raise ValueError(f"BK is {bk}, expected the depth {order['depth']} of the order")
    if bn % order["columns"]:
        raise ValueError(f"BN is {bn}, expected a multiple of the {order['columns']} columns")
    kinds = {result.port.kind.data for result in segment.results}
    if ResultKind.PARTIAL_COL in kinds and bm != order["rows"]:
        raise ValueError(f"BM is {bm}, expected the {order['rows']} rows of the order")
    return bn // order["columns"]


MAX_TILES = 4
"""Tiles that an epilogue of 64 (32) elements at a time loads and stores without spills."""

_STORED_TILES = (ResultKind.TILE, ResultKind.TILE_T, ResultKind.ACCUMULATE)


def epilogue_subtiles(segment: Segment, schedule: ScheduleAttr) -> int:
    """Return the number of tiles into which the epilogue cuts a program's accumulators to stay in
    registers.

    A thread works on 64 elements at a time, on 32 where its accumulators take half of its
    registers, and on fewer where several reductions hold the elements for long, or where several
    tiles are loaded and stored.
    """
    accumulators = schedule.accumulators
    reductions = _reductions(segment)
    is_light = (
        schedule.is_warp_specialized
        and segment.pairing is not None
        and not any(kind.has_columns for kind, _ in segment.ports)
    )
    elements = 64 if accumulators < 128 or is_light else 32
    if reductions > 1:
        elements = 32 if reductions == 2 else 16
    if tiles_moved(segment) > MAX_TILES:
        elements //= 2
    return max(1, accumulators // elements)


def _reductions(segment: Segment) -> int:
    """Return the number of sums over columns that an epilogue holds at a time."""
    kinds = [result.port.kind.data for result in segment.results]
    return kinds.count(ResultKind.PARTIAL_ROW) + kinds.count(ResultKind.SELECT)


def is_heavy(segment: Segment) -> bool:
    """Return whether an epilogue needs all registers that accumulators leave it."""
    return _reductions(segment) > 1 or tiles_moved(segment) > MAX_TILES


def _combines_subtiles(segment: Segment, schedule: ScheduleAttr) -> bool:
    """Return whether registers are left for column sums that wait for other subtiles."""
    # If a separate warp moves tiles, these take none.
    are_moved = schedule.is_warp_specialized and not schedule.alternates
    is_small = schedule.accumulators < 128
    if not is_heavy(segment) or (are_moved and (is_small or _reductions(segment) == 1)):
        return True
    # What waits of a float64 takes no more than what stores one for each subtile.
    return any(type.element_type == f64 for _, type in segment.results)


def tiles_moved(segment: Segment) -> int:
    """Return the number of elements that an epilogue loads and stores for each accumulator."""
    ports = sum(kind in (PortKind.TILE, PortKind.TILE_T) for kind, _ in segment.ports)
    results = [result.port.kind.data for result in segment.results]
    return ports + sum(kind in _STORED_TILES for kind in results)


def group_sizes(segment: Segment) -> Sequence[int]:
    """Return the distinct group sizes, in columns, of the region's reductions and group stores."""
    sizes = {op.group.value.data for op in segment.block.ops if isinstance(op, GroupReduceOp)}
    for index, (port, _) in enumerate(segment.results):
        if port.kind.data == ResultKind.GROUP and not stores_rows(segment, index):
            sizes.add(port.group_columns)
    return sorted(sizes)


def stores_rows(segment: Segment, index: int) -> bool:
    """Return whether a group result has one element per row, so that any tile can store it."""
    columns = segment.columns if segment.weights else (segment.domain or (1,))[-1]
    if segment.results[index].port.group_columns != columns:
        return False
    (value,) = segment.yielded(index)
    return columns_alike(segment, columns)[value] == ALL_COLUMNS


def _check_groups(columns: ColumnRange, segment: Segment, sizes: Sequence[int]) -> None:
    if columns.group > columns.lanes or columns.per_tile == 0:
        raise ValueError(
            f"a tile of {columns.lanes} columns cannot hold a group of {columns.group}, "
            f"which takes {columns.padded_group}"
        )
    if columns.extent % columns.group or columns.offset % columns.group:
        raise ValueError(f"groups of {columns.group} do not divide {columns.extent} columns")
    if segment.pairing is not None and any(size % 2 for size in sizes):
        raise ValueError(f"group sizes {sizes}, expected even sizes in pair mode")
    if len(sizes) > 1 and any(size & (size - 1) for size in sizes):
        raise ValueError(f"group sizes {sizes}, expected one size, or powers of two")


def row_partial_tiles(
    segment: Segment, schedule: ScheduleAttr, order: OrderAttr | None = None
) -> int:
    """Return T of the `partial_row` results (M x T) of a segment."""
    return sum(columns.partials for columns in column_ranges(segment, schedule, order))


def known_tiles(partials: SSAValue) -> int | None:
    """Return T of partials (M x T) if their type, schedule or `gemm.map` determines it."""
    shape, op = shape_of(partials), partials.owner
    if shape and shape[-1] != DYNAMIC_INDEX:
        return shape[-1]
    if shape and isinstance(op, MapOp):
        segment = op.segment()
        is_transposed = any(isinstance(value.owner, TransposeOp) for _, value in segment.ports)
        is_known = op.columns != DYNAMIC_INDEX and not is_transposed
        return map_columns(segment, op.columns, op.order).tiles if is_known else None
    if not shape or not isinstance(op, FusedOp) or op.schedule is None:
        return None
    return partial_tiles(op, list(op.outputs).index(partials))  # pyright: ignore[reportArgumentType]


def map_columns(segment: Segment, columns: int, order: OrderAttr | None = None) -> ColumnRange:
    """Return the range of a `gemm.map` over a number of columns: its tiles are wide where rows are
    long, and a group of columns fits in a tile. A stated `order` fixes the columns of a tile.
    """
    paired = 2 if segment.pairing else 1
    extent, group = columns // paired, max(group_sizes(segment), default=1) // paired
    widest = COLUMNS_OF_A_MAP
    if any(result.samples for result in segment.results):
        widest = COLUMNS_OF_SAMPLES
    lanes = min(1 << max(0, extent - 1).bit_length(), widest)
    found = ColumnRange(weights=(), offset=0, extent=extent, lanes=lanes, group=max(1, group))
    lanes = max(lanes, found.padded_group) if order is None else order["columns"]
    return replace(found, lanes=lanes)


def partial_tiles(op: FusedOp, result_index: int) -> int | None:
    """Return T of result `result_index` of a scheduled operator, if that is a `partial_row`."""
    assert op.schedule is not None, "expected a scheduled gemm.fused"
    for segment in op.segments():
        if result_index < len(segment.results):
            kind = segment.results[result_index].port.kind.data
            if kind != ResultKind.PARTIAL_ROW:
                return None
            return row_partial_tiles(segment, op.schedule, op.order)
        result_index -= len(segment.results)
    return None
