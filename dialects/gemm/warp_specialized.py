"""Conditions and shared memory for warp-specialized GEMMs on Hopper.

One warp loads the stages of the main loop, and another one moves the tiles of the epilogue. Eight
warps compute every tile together, or each of two groups of four half of its rows (`split_rows`) or
every other tile (`ping_pong`), with a warp that moves for each. See `buffers` for what is in shared
memory.
"""

from itertools import chain

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute

from coda_ir.dialects.coda.scaled_linear import BlocksAttr
from coda_ir.dialects.coda.shapes import (
    element_bytes,
    element_type_of,
    is_eight_bits,
    is_float8,
    shape_of,
)
from coda_ir.dialects.gemm.attrs import Layout, PortKind, ResultKind
from coda_ir.dialects.gemm.buffers import (
    ALIGNMENT_BYTES,
    STEP_BYTES,
    TILE_PORTS,
    TILES,
    Staging,
    buffers_beside_stages,
    columns_summed,
    moves_of,
)
from coda_ir.dialects.gemm.numerics import PROMOTED_COLUMNS
from coda_ir.dialects.gemm.ops import FusedOp
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import Segment
from coda_ir.dialects.gemm.tiling import ColumnCuts, ColumnRange, tiles_moved
from coda_ir.dialects.gemm.tma import operand_obstacle

WARPS = 8
"""Warps that compute."""
MAX_ACCUMULATORS = 128
"""Per thread: beside them, an epilogue has as many registers."""
MAX_MOVED = 6
"""Tiles that an epilogue loads and stores: with more, each has few buffers and registers."""

_RESULTS = (
    *TILES,
    *(ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL, ResultKind.SELECT, ResultKind.GROUP),
)

_ROWS = {"warp_specialized": (128,), "ping_pong": (64, 128), "split_rows": (128,)}
"""Rows that a tile can have."""


def staging(cuts: ColumnCuts, schedule: ScheduleAttr) -> Staging | str:
    """Return the buffers that fit beside the stages of `schedule`, or the reason why a GEMM cannot
    run warp-specialized.

    Raises ValueError as `column_ranges` does.
    """
    obstacle = _obstacle(cuts, schedule)
    if obstacle is not None:
        return obstacle
    ranges = cuts.under(schedule)
    moves = [
        moves_of(segment, columns, schedule.group_rows)
        for segment, cut in ranges
        for columns in cut
    ]
    if len({each.loads for each in moves if each.loads}) > 1:
        return "its column ranges load different tiles"
    summed = max(columns_summed(segment, cut) for segment, cut in ranges)
    found = buffers_beside_stages(moves, schedule, summed)
    if found is None:
        return f"its tiles do not fit beside {schedule.stages.data} stages in shared memory"
    return found


def tile_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return the reason why the groups of warps of `schedule` have no tiles of this shape."""
    bm, bn, bk = schedule.tile
    legal_rows = _ROWS[schedule.mainloop]
    if bm not in legal_rows or schedule.warps.data != WARPS:
        expected = f"{' or '.join(map(str, legal_rows))} with {WARPS}"
        return f"a tile of {bm} rows with {schedule.warps.data} warps, expected {expected}"
    depth = STEP_BYTES if is_float8(cuts.element) else STEP_BYTES // 2
    if not 64 <= bn <= 256 or bk != depth:
        return f"a tile of {bn} columns in steps of {bk}, expected 64 to 256 in steps of {depth}"
    if schedule.accumulators > MAX_ACCUMULATORS:
        return f"a tile of {bm} x {bn} for a group of four warps, expected at most 128 x 128"
    return None


def _obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return the reason why a GEMM cannot run warp-specialized, regardless of memory."""
    op = cuts.op
    obstacle = tile_obstacle(cuts, schedule)
    if obstacle is not None:
        return obstacle
    if op.has_ragged_depth and schedule.alternates:
        return "its tiles have different numbers of steps, and its groups of warps alternate"
    if op.groups is not None and schedule.splits_rows:
        return "its rows are in groups, and its groups of warps share a tile"
    if op.order is not None:
        return "its sums have a stated order"
    if len({segment.layout for segment in cuts.segments}) > 1:
        return "some of its weights are K x N and others N x K, and its stages have one shape"
    if schedule.splits_rows and not cuts.promotes_sums:
        return "its sums are not promoted, and eight warps compute them together"
    if schedule.split_k.data > 1:
        return f"{schedule.split_k.data} programs for the K of a tile, expected 1"
    obstacle = _eight_bits_obstacle(cuts, schedule) or _blocks_obstacle(cuts, schedule)
    if obstacle is not None:
        return obstacle
    obstacle = operand_obstacle(cuts, schedule)
    if obstacle is not None:
        return obstacle
    for segment, ranges in cuts.under(schedule):
        kinds = {port.kind.data for port, _ in segment.results}
        if schedule.splits_rows and ResultKind.PARTIAL_COL in kinds:
            return "it sums the rows of a tile, which two groups of warps share"
        for columns in ranges:
            obstacle = _range_obstacle(segment, columns) or _row_obstacle(op, segment)
            if obstacle is not None:
                return obstacle
    return None


def _eight_bits_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return the reason why operands of 8 bits cannot be multiplied from shared memory."""
    op = cuts.op
    if op.quantized is not None:
        return "its weights are dequantized: products take them from registers"
    types = [{element_type_of(value) for value in values} for values in (op.inputs, op.weights)]
    if not any(map(is_eight_bits, chain(*types))):
        return None
    if not all(map(is_float8, chain(*types))):
        return "its weights have 8 bits and its input more: products take them from registers"
    if any(len(found) > 1 for found in types):
        return "its sums are of products of different float8 types, expected one of each operand"
    if op.gather is not None:
        return "its rows of 8 bits are gathered"
    if op.is_transposed:
        return "float8 is multiplied along rows, and its input is K x M: store it as M x K"
    if any(segment.layout == Layout.KN for segment in cuts.segments):
        return "float8 is multiplied along rows, and its weights are K x N: store them as N x K"
    if cuts.promotes_sums and schedule.alternates:
        return "its promoted sums need the registers of eight warps for a tile"
    if cuts.promotes_sums and len(schedule.pieces) > 1:
        return (
            f"a tile of {schedule.block_n.data} columns for promoted sums, expected 64, 128 or 256"
        )
    return None


def _row_obstacle(op: FusedOp, segment: Segment) -> str | None:
    """Return why a tile of grouped or scattered rows cannot have such operands or results."""
    if op.has_ragged_depth:
        kinds = {port.kind for port in segment.ports}
        if any(kind.is_table or kind.combiner or kind == PortKind.TILE_T for kind in kinds):
            return "a port has other rows than those of a group one below the other"
    for port, _ in segment.results:
        is_transposed = segment.is_stored_transposed(port)
        if is_transposed and (op.has_rows_after or segment.is_stored_by_row):
            return "a result of rows in groups, or scattered, is transposed"
        is_repeated = isinstance(port.place, PlaceAttr) and port.place.copies.data > 1
        if is_repeated and segment.is_stored_by_row:
            return "a result of scattered rows is stored several times"
    return None


def _blocks_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return why pieces of the products of a step lack a common scale for each row."""
    blocks, (_, bn, bk) = cuts.op.blocks, schedule.tile
    if not isinstance(blocks, BlocksAttr):
        return None
    if cuts.op.groups is not None:
        return "its scales are those of rows that are in no groups"
    if blocks.depth.data != bk:
        return f"its scales are for {blocks.depth.data} of K, expected {bk}, those of a step"
    for segment, ranges in cuts.under(schedule):
        if segment.pairing is not None and segment.group_size is None:
            return "columns of two blocks are paired with their neighbours"
        for columns in ranges:
            together = columns_scaled_together(blocks, segment, columns, bn)
            if together < LEAST_SCALED:
                return f"its scales are for {together} columns, expected {LEAST_SCALED} or more"
    return None


LEAST_SCALED = 32
"""Neighbouring columns with one scale: each of these needs its scale in registers at each step."""


def columns_scaled_together(
    blocks: BlocksAttr, segment: Segment, columns: ColumnRange, block_n: int
) -> int:
    """The columns, as they lie in a tile of `block_n`, that have one scale for each row: those of
    a piece that is promoted at a time, or fewer where it has columns of two blocks. Pairs have
    their first columns in one half of a tile, and their second ones in the other.
    """
    found = min(block_n, PROMOTED_COLUMNS, blocks.columns.data)
    if segment.pairing is None:
        return found
    found = min(found, columns.lanes * columns.subtiles)
    group = segment.group_size
    if len(segment.weights) == 1 and group is not None:
        half = group // 2
        found = min(found, half & -half)
    return found


def _range_obstacle(segment: Segment, columns: ColumnRange) -> str | None:
    is_even = columns.extent % (columns.lanes * columns.subtiles) == 0
    group = segment.group_size
    moved = tiles_moved(segment)
    if moved > MAX_MOVED:
        return f"its epilogue moves {moved} tiles, expected at most {MAX_MOVED}"
    if segment.layout == Layout.KN and segment.pairing is not None:
        count = columns.lanes * columns.subtiles
        if not segment.has_neighbours:
            return "its weights are K x N and its columns are paired"
        if count & (count - 1):
            return f"its weights are K x N, and {count} pairs of neighbours are not a power of 2"
    if group not in (None, segment.columns) and group // 2 % columns.lanes:
        return (
            f"halves of {group // 2} columns do not hold whole subtiles of {columns.lanes} columns"
        )
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
        if port.is_moved:
            return "a result is stored in a row that is known when the kernel runs"
        if kind != ResultKind.HALF and segment.pairing and segment.pairing.is_adjacent:
            return "neighbouring columns are paired and both stored"
        is_followed = len(segment.weights) > 1 or group == segment.columns
        if kind != ResultKind.HALF and not is_even and is_followed:
            return f"tiles do not divide {columns.extent} columns, which others follow"
        obstacle = _type_obstacle(element_type_of(output))
        if segment.is_stored_transposed(port):
            obstacle = _box_obstacle(element_type_of(output), shape_of(output)[-1])
        if obstacle is not None:
            return f"a result cannot be stored: {obstacle}"
    return None


def _box_obstacle(element: Attribute, columns: int) -> str | None:
    """Return the reason why TMA cannot move boxes of a tensor."""
    row = columns * element_bytes(element)
    if row % ALIGNMENT_BYTES:
        return f"rows of {row} bytes are not multiples of {ALIGNMENT_BYTES}"
    return _type_obstacle(element)


def _type_obstacle(element: Attribute) -> str | None:
    is_stored = isinstance(element, BFloat16Type | Float16Type | Float32Type)
    return None if is_stored or is_float8(element) else f"tiles of {element}"
