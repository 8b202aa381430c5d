"""Conditions and boxes for loading the tiles of a GEMM by Hopper's tensor memory accelerator (TMA).

A TMA load copies a box of a tensor of rank 1 to 5; the weight's rows that a tile needs have to
form such a box of a view of the weight.
"""

from dataclasses import dataclass
from itertools import chain

from xdsl.dialects.builtin import Float32Type

from coda_ir.dialects.coda.shapes import element_bytes
from coda_ir.dialects.gemm.attrs import Layout
from coda_ir.dialects.gemm.buffers import ALIGNMENT_BYTES
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import Segment
from coda_ir.dialects.gemm.tiling import ColumnCuts, ColumnRange


@dataclass(frozen=True)
class WeightBox:
    """The columns of a weight for one accumulator of a program, as a box of a view.

    The view of an N x K weight has the dimensions `view` and then K, the box `block` and then BK;
    those of a K x N weight have K and BK in front.
    """

    view: tuple[int, ...]
    block: tuple[int, ...]


def weight_box(segment: Segment, columns: ColumnRange) -> WeightBox | str:
    """Return the box of a range's weights, or the reason why there is none.

    `halves` of groups of G that a program covers whole: a box (groups, G/2) of (N/G, G). Adjacent
    pairs: a box (pairs, 1) of (N/2, 2). Otherwise a box of consecutive columns.
    """
    rows = segment.weight_columns(columns.weights[0])
    lanes = columns.lanes * columns.subtiles
    group = segment.group_size
    if columns.is_padded:
        return f"groups of {columns.group} columns are padded"
    if segment.layout == Layout.KN:
        obstacle = _kn_obstacle(segment, rows)
        if obstacle is not None:
            return obstacle
    if segment.pairing is not None and group is None:
        return WeightBox((rows // 2, 2), (lanes, 1))
    if group is None or group == segment.columns or group // 2 % lanes == 0:
        return WeightBox((rows,), (lanes,))
    half = group // 2
    if lanes % half:
        return f"halves of {half} columns do not divide the tile's {lanes} pairs"
    return WeightBox((rows // group, group), (lanes // half, half))


def _kn_obstacle(segment: Segment, columns: int) -> str | None:
    """Return the reason why the columns of a K x N weight, which are contiguous, form no box."""
    bytes = min(element_bytes(weight.type) for weight in chain(*segment.terms))
    for extent in (columns, (segment.group_size or 0) // 2):
        if extent * bytes % ALIGNMENT_BYTES:
            return (
                f"{extent} columns of a K x N weight are not multiples of {ALIGNMENT_BYTES} bytes"
            )
    return None


def tma_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Return why TMA cannot load a GEMM's tiles; None if it can. Raises as `column_ranges` does."""
    op = cuts.op
    if op.quantized is not None:
        return "a box has the elements of a weight, and those of a quantized one are computed"
    if op.gather is not None:
        return "a box has rows that follow one another, and those of x are gathered"
    if op.gather_weights is not None:
        return "a box has rows that follow one another, and those of the weights are gathered"
    if any(segment.has_neighbours for segment in cuts.segments):
        return "columns of adjacent pairs of a K x N weight are not consecutive"
    return operand_obstacle(cuts, schedule)


def operand_obstacle(cuts: ColumnCuts, schedule: ScheduleAttr) -> str | None:
    """Like `tma_obstacle`, for operands other than gathered rows, which TMA does not load."""
    op = cuts.op
    if isinstance(cuts.element, Float32Type):
        return "tiles from TMA feed tensor cores, which do not multiply float32"
    for row_bytes in cuts.row_bytes:
        if row_bytes % ALIGNMENT_BYTES:
            return f"rows of {row_bytes} bytes are not multiples of {ALIGNMENT_BYTES}"
    has_weights = op.groups is not None and not op.is_transposed
    if has_weights and any(part.layout == Layout.KN for part in cuts.segments):
        depths = (op.depth(index) for index in range(len(op.inputs)))
        if any(depth % schedule.block_k.data for depth in depths):
            return "a step past the K of a K x N weight would load that of the next group"
    for segment, ranges in cuts.under(schedule):
        for columns in ranges:
            box = weight_box(segment, columns)
            if isinstance(box, str):
                return box
    return None
