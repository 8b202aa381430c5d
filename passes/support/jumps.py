"""Discontinuous functions, whose results may differ where their operands hardly do."""

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, stores_floats
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dominance import before

_VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.BroadcastOp)

MOVES = (*_VIEWS, coda.ShiftOp, coda.ConcatOp, coda.PadOp)
"""Operators that only move elements."""

_REARRANGES = (*_VIEWS, coda.CastOp, coda.StoredOp)

_REDUCES = (coda.GluOp, coda.RMSNormOp, coda.LayerNormOp, coda.SoftmaxOp, coda.ReduceOp)


def jumps(op: Operation) -> bool:
    """Return whether `op` is a discontinuous function of floats, but for roundings to a float."""
    if not isinstance(op, coda.CastOp | coda.ElementwiseOp):
        return False
    if not is_float(element_type_of(op.operands[0])):
        return False
    if isinstance(op, coda.CastOp):
        return not stores_floats(element_type_of(op.result))
    return op.JUMPS


def values_before_jumps(ops: Iterable[Operation]) -> set[SSAValue]:
    """Return the values from which `ops`, which are in order, compute the operands of discontinuous
    functions without a product, attention or a call of PyTorch.
    """
    found: set[SSAValue] = set()
    for op in reversed(list(ops)):
        if jumps(op) or (not found.isdisjoint(op.results) and _leads_on(op)):
            found.update(op.operands)
    return found


def _leads_on(op: Operation) -> bool:
    return is_pointwise(op) or isinstance(op, (*MOVES, *_REDUCES))


def computed_before_jump(op: Operation) -> list[SSAValue]:
    """Return the operands of a discontinuous `op` that are computed; none of another operator."""
    return [x for x in op.operands if not _is_given(x)] if jumps(op) else []


def _is_given(value: SSAValue) -> bool:
    source = before(value, _REARRANGES).owner
    return isinstance(source, Block | coda.ConstantOp | coda.PositionsOp)


def read_as_stored(value: SSAValue) -> None:
    """Let all that reads the result of an operator read it as it is stored."""
    op = value.owner
    assert isinstance(op, Operation), "arguments are stored"
    stored = coda.StoredOp(value)
    stored.location, stored.result.name_hint = op.location, value.name_hint
    Rewriter.insert_op(stored, InsertPoint.after(op))
    value.replace_uses_with_if(stored.result, lambda use: use.operation is not stored)
