"""The two slices of a tile that hold the first and the second columns of its pairs."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import FusedOp, PairingAttr
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.column_views import ColumnAxis, ColumnView
from coda_ir.symbolic_shapes import SymbolicShapes


@dataclass(frozen=True)
class Sides:
    """The columns of a GEMM, and slices of them that pointwise code combines."""

    x: SSAValue
    pairing: PairingAttr
    first: Operation
    second: Operation


def sides_of_pairs(op: Operation, shapes: SymbolicShapes) -> Sides | None:
    """Every other column of a GEMM, or its left half, and the rest of them, where pointwise code
    alone reads both, and combines them; `op` is the first of the two slices.
    """
    if not op.operands or not _is_slice(op) or not isinstance(op.operands[0].owner, FusedOp):
        return None
    x = op.operands[0]
    slices = [use.operation for use in x.uses if _is_slice(use.operation)]
    for pairing, strides in ((PairingAttr.adjacent_columns(), 2), (PairingAttr.halves(), 1)):
        further = 1 if strides == 2 else shape_of(x)[-1] // 2
        first, second = (_side(slices, start, strides, shapes) for start in (0, further))
        if first is None or second is None or op not in (first, second):
            continue
        if _computed(first) & _computed(second):
            return Sides(x, pairing, first, second)
    return None


def _is_slice(op: Operation) -> bool:
    is_call = isinstance(op, CallOp) and op.callee.data == "aten.slice.Tensor"
    return isinstance(op, coda.SliceOp) or is_call


def _side(
    slices: list[Operation], offset: int, stride: int, shapes: SymbolicShapes
) -> Operation | None:
    """The slice with half of all columns, which are `stride` apart, from the one at `offset`."""
    for op in slices:
        columns = shape_of(op.operands[0])[-1]
        view = ColumnView.of(op.results[0], shapes)
        if columns == DYNAMIC_INDEX or columns % 2 or view.base is not op.operands[0]:
            continue
        if view.offset == offset and view.axes[-1] == ColumnAxis(stride, columns // 2):
            return op
    return None


def _computed(op: Operation) -> set[Operation]:
    """The pointwise operators that are computed from a slice; none where others read it."""
    readers = {use.operation for use in op.results[0].uses}
    if not all(map(is_pointwise, readers)):
        return set()
    found, pending = set[Operation](), list(readers)
    while pending:
        reader = pending.pop()
        if reader not in found and is_pointwise(reader):
            found.add(reader)
            pending += [use.operation for result in reader.results for use in result.uses]
    return found
