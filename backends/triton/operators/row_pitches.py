"""Parts of other tensors that kernels read in place: ranges of columns, positions of dimensions,
permuted rows, shifted rows, and single columns as rows and tiles.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.backends.triton.argument_list import Moved, Pitch, RowRuns
from coda_ir.backends.triton.host.element_places import ONE, ElementPlaces
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.storage import (
    ALIGNMENT,
    is_looked_up_where_read,
    is_shifted_where_read,
    is_transposed_matrix,
    overwritten,
)

MIN_ROW_BYTES = 32
"""Bytes of the rows that kernels read in another order, at least: GPUs move as many at a time."""


def row_pitches(host: HostProgram, segment: gemm.Segment) -> dict[SSAValue, Pitch]:
    """The tiles and tables of a segment that are such ranges, and the elements between the starts
    of their rows; for tiles whose rows are permuted, where they start.
    """
    tiles = {
        value
        for kind, value in segment.ports
        if kind == gemm.PortKind.TILE and shape_of(value)[-1:] == (segment.columns,)
    }
    others = {value for kind, value in segment.ports if kind != gemm.PortKind.TILE}
    found = {
        x: pitch_of(host, x) if x in tiles and x not in others else row_pitch(host, x)
        for x in _ranges([segment], tiles)
    }
    return {x: pitch for x, pitch in found.items() if pitch is not None}


def gemm_pitches(host: HostProgram, op: gemm.FusedOp) -> dict[SSAValue, int]:
    """The operands of a GEMM that are such ranges, with the elements between row starts."""
    segments, operands = op.segments(), [*op.inputs, *op.weights]
    kinds = (gemm.PortKind.TILE, gemm.PortKind.HALF_TILE)
    tiles = {x for segment in segments for kind, x in segment.ports if kind in kinds}
    has_own_rows = op.groups is op.gather is op.gather_weights is op.quantized is None
    ranges = _ranges(segments, tiles, operands, are_read=has_own_rows)
    found = {x: pitch for x in ranges if (pitch := row_pitch(host, x)) is not None}
    return {x: pitch for x, pitch in found.items() if x not in _apart(op, found)}


def moved_rows(op: gemm.FusedOp) -> dict[SSAValue, Moved]:
    """The rows of a GEMM's epilogue, such as biases, of which each element is one of several in a
    dimension that ends another tensor.
    """
    kinds = (gemm.PortKind.ROW, gemm.PortKind.HALF_ROW)
    ports = [port for segment in op.segments() for port in segment.ports]
    others = {*op.inputs, *op.weights, *(x for kind, x in ports if kind not in kinds)}
    found = {x: _column(x) for kind, x in ports if kind in kinds and x not in others}
    return {x: moved for x, moved in found.items() if moved is not None}


def _apart(op: gemm.FusedOp, pitches: Mapping[SSAValue, int]) -> set[SSAValue]:
    """Return weights in pairs whose rows are not equally far apart, which one loop multiplies."""
    weights = [term for segment in op.segments() for term in segment.terms]
    return {
        weight
        for term in weights
        if len(term) > 1
        for weight in term
        if len({pitches.get(other) for other in term}) > 1 or [*op.weights].count(weight) > 1
    }


def moved_operands(segment: gemm.Segment) -> dict[SSAValue, Moved]:
    """The tiles of a segment that are shifted rows or the columns of another tensor, the tiles and
    tables that are looked up, and the tiles and rows of which each element is one of several in a
    dimension that ends another tensor.
    """
    found: dict[SSAValue, Moved] = {}
    for kind, value in segment.ports:
        op = value.owner
        if (
            kind == gemm.PortKind.TILE
            and isinstance(op, coda.ShiftOp)
            and is_shifted_where_read(op)
        ):
            found[value] = Moved(op.x, shift=op.distance)
        if isinstance(op, coda.EmbeddingOp) and is_looked_up_where_read(op):
            found[value] = Moved(op.table, ids=op.ids)
        if kind == gemm.PortKind.TILE and is_transposed_matrix(value):
            assert isinstance(op, coda.TransposeOp)
            found[value] = Moved(op.x, is_transposed=True)
        is_tile = kind == gemm.PortKind.TILE and shape_of(value)[-1:] == (segment.columns,)
        column = _column(value) if is_tile or kind == gemm.PortKind.ROW else None
        if column is not None:
            found[value] = column
    others = {
        value
        for kind, value in segment.ports
        if kind not in (gemm.PortKind.TILE, gemm.PortKind.ROW)
    }
    return {
        value: moved
        for value, moved in found.items()
        if value not in others or moved.ids is not None
    }


def _column(value: SSAValue) -> Moved | None:
    """Return where the elements of `value` are, if it is one of several columns side by side."""
    reshape = value.owner
    part = reshape.x.owner if isinstance(reshape, coda.ReshapeOp) else None
    if not isinstance(part, coda.SliceOp):
        return None
    (dim, start, stop), (*outer, last) = part.range, shape_of(part.x)
    if dim != len(outer) or stop - start != 1 or last == DYNAMIC_INDEX:
        return None
    is_same = [n for n in outer if n != 1] == [n for n in shape_of(value) if n != 1]
    return Moved(part.x, stride=last, offset=start) if is_same else None


RowOp: TypeAlias = (
    coda.RMSNormOp | coda.LayerNormOp | coda.NormStatsOp | coda.SoftmaxOp | coda.ReduceOp
)
"""An operator whose programs own whole rows of x."""


def operand_pitches(host: HostProgram, op: RowOp) -> dict[SSAValue, Pitch]:
    """The operands of an operator on rows that are parts of other tensors, with the elements
    between the starts of their rows: x, and parameters of one row for each sample.
    """
    is_whole = not isinstance(op, coda.RMSNormOp) or op.group is None
    others = [value for value in op.operands[1:] if value is not op.x]
    tables = [value for value in others if len(shape_of(value)) > 1]
    read = [op.x, *tables] if is_whole and op.x not in op.operands[1:] else tables
    pitches = {
        value: pitch_of(host, value) if value is op.x and is_whole else row_pitch(host, value)
        for value in read
    }
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


def head_pitches(
    host: HostProgram, op: gemm.AttentionSumOp, others: Collection[SSAValue]
) -> dict[SSAValue, Pitch]:
    """The operands with heads that are parts of other tensors, or have the rows of a batch in
    another order, which descriptors of boxes address; epilogues read `others`.
    """
    assert op.schedule is not None
    is_tma = op.schedule.loads_boxes_of_heads
    gradients = () if isinstance(op, gemm.FusedAttentionOp) else (op.d_out,)
    outputs = (op.stored,) if isinstance(op, gemm.AttentionDqOp) else ()
    pitches: dict[SSAValue, Pitch] = {}
    for value in (op.q, op.k, op.v, *gradients, *outputs):
        pitch = pitch_of(host, value)
        is_transposed = isinstance(pitch, RowRuns)
        is_read = pitch is not None and (value in (op.q, op.k, op.v) or is_transposed)
        if is_read and not (is_transposed and (not is_tma or value in others)):
            pitches[value] = pitch
    return pitches


def row_pitch(host: HostProgram, value: SSAValue) -> int | None:
    """The elements between the starts of the rows of `value`, a part of a dense tensor; None where
    they are not aligned or not one number apart, and where it is no part.
    """
    pitch = pitch_of(host, value)
    return pitch if isinstance(pitch, int) else None


def pitch_of(host: HostProgram, value: SSAValue) -> Pitch | None:
    """The elements between the starts of the rows of `value`, a part of a dense tensor or one with
    permuted rows, or where they start; None where they are not aligned, and where it is neither.
    """
    view = ElementPlaces.of(value, host.dims)
    if view is None:
        return None
    base, places = view
    pitch, bytes = _pitch(places), element_bytes(value.type)
    if pitch is None or not _are_aligned(pitch, bytes) or not places.starts_at_multiple_of(bytes):
        return None
    if isinstance(pitch, RowRuns) and shape_of(value)[-1] * bytes < MIN_ROW_BYTES:
        return None
    if isinstance(base, BlockArgument):
        host.operand(base)
    return pitch if isinstance(base, BlockArgument) or host.is_dense(base) else None


def _pitch(places: ElementPlaces) -> Pitch | None:
    """Return the elements between the starts of rows, whose elements are side by side, or where the
    rows start; None where that is not known, and for repeated rows, which TMA cannot load.
    """
    if not places.dims or places.strides[-1] != ONE:
        return None
    runs = places.row_runs(-1)
    if runs is None or not runs.strides or 0 in runs.strides:
        return None
    return runs if runs.extents else runs.strides[0]


def _are_aligned(pitch: Pitch, bytes: int) -> bool:
    strides = pitch.strides if isinstance(pitch, RowRuns) else (pitch,)
    return all(stride * bytes % ALIGNMENT == 0 for stride in strides)


def _ranges(
    segments: Sequence[gemm.Segment],
    tiles: Collection[SSAValue],
    operands: Sequence[SSAValue] = (),
    *,
    are_read: bool = False,
) -> list[SSAValue]:
    """Return the values in `tiles`, tables and, if they `are_read` so, `operands` of products that
    may be ranges: those that are not overwritten by a result, and not loaded by a port of another
    kind, too.
    """
    ports = [port for segment in segments for port in segment.ports]
    not_ranges = {overwritten(out) for segment in segments for out in segment.outputs}
    not_ranges |= {x for kind, x in ports if not kind.is_table and x not in tiles}
    not_ranges |= set() if are_read else {*operands}
    return [x for x in (*operands, *(x for _, x in ports)) if x not in not_ranges]
