"""Rows of chunks in order, without those that pad the last chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.raising.contraction import padding_behind
from coda_ir.passes.support.function_pass import FunctionRewriter, OpInserter
from coda_ir.passes.support.matching import only_use

AXIS = 1
"""The dimension of positions."""

Replace: TypeAlias = Callable[[SSAValue], None]


def replace_rows(value: SSAValue, length: int, rewriter: FunctionRewriter) -> Replace | None:
    """A function that uses other rows, of B x `length` x H x P, for `value` of chunks of rows.

    None where something reads them that is no pointwise code in front of a slice of the rows.
    """
    batch, chunks, inner, heads, columns = shape_of(value)
    if chunks * inner == length:
        return lambda y: value.replace_all_uses_with(_in_chunks(y, value, rewriter))
    merged = only_use(value)
    if not isinstance(merged, coda.ReshapeOp):
        return None
    rows = merged.result
    if shape_of(rows) != (batch, chunks * inner, heads, columns):
        return None
    cut = _cut(rows, length)
    if cut is None or not _has_rows(cut.x, rows, length):
        return None

    def replace(y: SSAValue) -> None:
        before = rewriter.before(cut)
        cut.result.replace_all_uses_with(_rebuilt(cut.x, rows, y, length, before))

    return replace


def _in_chunks(y: SSAValue, value: SSAValue, rewriter: FunctionRewriter) -> SSAValue:
    """Rows in the shape of `value`, from where it is computed on."""
    assert isinstance(value.owner, Operation), "a sum"
    before = rewriter.before(value.owner)
    return before.insert(coda.ReshapeOp(y, shape_of(value)), value.name_hint)


def _cut(value: SSAValue, length: int) -> coda.SliceOp | None:
    """The slice of the first rows behind pointwise code, the only reader."""
    user = only_use(value)
    while user is not None and is_pointwise(user) and len(user.results) == 1:
        user = only_use(user.results[0])
    is_cut = isinstance(user, coda.SliceOp) and user.range == (AXIS, 0, length)
    return user if is_cut and isinstance(user, coda.SliceOp) else None


def _is_free(value: SSAValue) -> bool:
    """Return whether a tensor has no dimension of positions to be broadcast along."""
    shape = shape_of(value)
    return len(shape) < 3 or shape[-3] == 1


def _has_rows(value: SSAValue, rows: SSAValue, length: int) -> bool:
    """Return whether the first rows of `value` can be computed from first rows alone."""
    op = value.owner
    if value is rows or _is_free(value) or _is_padded(op, length):
        return True
    if not isinstance(op, Operation) or not is_pointwise(op):
        return False
    return all(_has_rows(operand, rows, length) for operand in op.operands)


def _is_padded(op: object, length: int) -> bool:
    if not isinstance(op, coda.PadOp) or len(shape_of(op.result)) != 4:
        return False
    padded = padding_behind(op)
    return padded is not None and padded[0] == AXIS and shape_of(op.x)[AXIS] == length


def _rebuilt(
    value: SSAValue, rows: SSAValue, y: SSAValue, length: int, insert: OpInserter
) -> SSAValue:
    op = value.owner
    if value is rows:
        return y
    if _is_free(value):
        return value
    assert isinstance(op, Operation), "pointwise code, or a pad"
    if isinstance(op, coda.PadOp):
        return op.x
    operands = [_rebuilt(operand, rows, y, length, insert) for operand in op.operands]
    shape = list(shape_of(value))
    shape[-3] = length
    result = TensorType(element_type_of(value), shape)
    copy = type(op).create(operands=operands, result_types=[result], properties=dict(op.properties))
    return insert.insert(copy, value.name_hint)
