"""Ranges of the columns of a wider tensor that kernels read where they are."""

from collections.abc import Collection

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.dialects.coda import SliceOp
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm import PortKind, Segment
from coda_ir.storage import ALIGNMENT, overwritten


def row_pitches(
    host: HostProgram, segment: Segment, expanded: Collection[SSAValue] = ()
) -> dict[SSAValue, int]:
    """The tile ports that are such ranges, and the elements between the starts of their rows.

    Operands in `expanded` are none: the host broadcasts them to the domain, into a dense tensor.
    """
    not_a_range = {overwritten(output) for output in segment.outputs} | {*expanded}
    pitches: dict[SSAValue, int] = {}
    for kind, value in segment.ports:
        is_whole = shape_of(value)[-1:] == (segment.columns,)
        if kind == PortKind.TILE and is_whole and value not in not_a_range:
            pitch = row_pitch(host, value)
            if pitch is not None:
                pitches[value] = pitch
    return pitches


def row_pitch(host: HostProgram, value: SSAValue) -> int | None:
    """The columns of the dense tensor that `value` is a range of; None where its rows are not
    aligned, and where it is no range.
    """
    op = value.owner
    if not isinstance(op, SliceOp) or op.range[0] != len(shape_of(op.x)) - 1:
        return None
    columns, bytes = shape_of(op.x)[-1], element_bytes(value.type)
    if columns == DYNAMIC_INDEX or op.range[1] * bytes % ALIGNMENT or columns * bytes % ALIGNMENT:
        return None
    if isinstance(op.x, BlockArgument):
        host.operand(op.x)
    return columns if isinstance(op.x, BlockArgument) or host.is_dense(op.x) else None
