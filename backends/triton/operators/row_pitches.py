"""Parts of other tensors that kernels read in place: ranges of columns, single rows, shifted rows,
and single columns as rows.
"""

from collections.abc import Collection, Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.backends.triton.argument_list import Moved
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.dialects.coda import LayerNormOp, ReshapeOp, RMSNormOp, ShiftOp, SliceOp, TransposeOp
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm import FusedOp, PortKind, Segment
from coda_ir.storage import ALIGNMENT, is_shifted_where_read, is_turned, overwritten


def row_pitches(
    host: HostProgram, segment: Segment, expanded: Collection[SSAValue] = ()
) -> dict[SSAValue, int]:
    """The tiles and tables of a segment that are such ranges, and the elements between the starts
    of their rows.

    Operands in `expanded` are none: the host broadcasts them to the domain, into a dense tensor.
    """
    tiles = {
        value
        for kind, value in segment.ports
        if kind == PortKind.TILE and shape_of(value)[-1:] == (segment.columns,)
    }
    return _pitches(host, [segment], tiles, expanded)


def port_pitches(host: HostProgram, op: FusedOp) -> dict[SSAValue, int]:
    """The tiles and tables that a GEMM loads and that are such ranges, with the elements between
    the starts of their rows.
    """
    segments = op.segments()
    kinds = (PortKind.TILE, PortKind.HALF_TILE)
    tiles = {x for segment in segments for kind, x in segment.ports if kind in kinds}
    return _pitches(host, segments, tiles, [*op.inputs, *op.weights])


def moved_operands(segment: Segment, expanded: Collection[SSAValue] = ()) -> dict[SSAValue, Moved]:
    """The tiles of a segment that are shifted rows or the columns of another tensor, and the rows
    that are columns of a weight.
    """
    found: dict[SSAValue, Moved] = {}
    for kind, value in segment.ports:
        if value in expanded:
            continue
        op = value.owner
        if kind == PortKind.TILE and isinstance(op, ShiftOp) and is_shifted_where_read(op):
            found[value] = Moved(op.x, shift=op.distance)
        if kind == PortKind.TILE and is_turned(value):
            assert isinstance(op, TransposeOp)
            found[value] = Moved(op.x, is_turned=True)
        column = _column(value) if kind == PortKind.ROW else None
        if column is not None:
            found[value] = column
    others = {value for kind, value in segment.ports if kind not in (PortKind.TILE, PortKind.ROW)}
    return {value: moved for value, moved in found.items() if value not in others}


def _column(value: SSAValue) -> Moved | None:
    """Return where the elements of `value` are, if it is one of several columns: that of a tap."""
    reshape = value.owner
    part = reshape.x.owner if isinstance(reshape, ReshapeOp) else None
    if not isinstance(part, SliceOp) or len(shape_of(value)) != 1:
        return None
    (dim, start, stop), (rows, *inner) = part.range, shape_of(part.x)
    is_column = dim == len(inner) and stop - start == 1 and set(inner[:-1]) <= {1}
    if not is_column or not inner or DYNAMIC_INDEX in inner or shape_of(value) != (rows,):
        return None
    return Moved(part.x, stride=inner[-1], offset=start)


def parameter_pitches(host: HostProgram, op: RMSNormOp | LayerNormOp) -> dict[SSAValue, int]:
    """The parameters of a norm, one row for each sample, that are such ranges, with the elements
    between the starts of their rows."""
    tables = [value for value in op.operands[1:] if value is not op.x and len(shape_of(value)) > 1]
    pitches = {value: row_pitch(host, value) for value in tables}
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


def row_pitch(host: HostProgram, value: SSAValue) -> int | None:
    """The elements between the starts of the rows of `value`, a range of a dense tensor; None where
    they are not aligned, and where it is no range.
    """
    op = value.owner
    while isinstance(op, ReshapeOp) and shape_of(op.x)[-1:] == shape_of(value)[-1:]:
        op = op.x.owner
    if not isinstance(op, SliceOp):
        return None
    dim, start, stop = op.range
    inner, bytes = shape_of(op.x)[dim:], element_bytes(value.type)
    are_columns, is_row = len(inner) == 1, len(inner) == 2 and stop - start == 1
    if DYNAMIC_INDEX in inner or not (are_columns or is_row):
        return None
    pitch, offset = prod(inner), start * prod(inner[1:])
    if offset * bytes % ALIGNMENT or pitch * bytes % ALIGNMENT:
        return None
    if isinstance(op.x, BlockArgument):
        host.operand(op.x)
    return pitch if isinstance(op.x, BlockArgument) or host.is_dense(op.x) else None


def _pitches(
    host: HostProgram,
    segments: Sequence[Segment],
    tiles: Collection[SSAValue],
    dense: Collection[SSAValue],
) -> dict[SSAValue, int]:
    """The pitches of the values in `tiles` and of tables, but for those that are in `dense` or that
    another port takes, too.
    """
    ports = [port for segment in segments for port in segment.ports]
    not_ranges = {*dense, *(overwritten(out) for segment in segments for out in segment.outputs)}
    not_ranges |= {x for kind, x in ports if not kind.is_table and x not in tiles}
    found = {x: row_pitch(host, x) for _, x in ports if x not in not_ranges}
    return {x: pitch for x, pitch in found.items() if pitch is not None}
