"""Attention whose rows the forward transposes, as in PyTorch's own modules."""

from collections.abc import Collection

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import FunctionRewriter
from coda_ir.storage import ROWS_TRANSPOSED


def transposed_attention(value: SSAValue, forward: Collection[Operation]) -> SSAValue | None:
    """Return attention `value` with transposed rows, if the forward reads nothing else of it."""
    if not isinstance(value.owner, coda.AttentionOp):
        return None
    users = [use.operation for use in value.uses]
    readers = [op for op in users if op in forward or isinstance(op, ReturnOp)]
    if len(readers) != 1 or not isinstance(readers[0], coda.TransposeOp):
        return None
    return readers[0].result if readers[0].permutation == ROWS_TRANSPOSED else None


def read_transposed_attention(rewriter: FunctionRewriter, forward: Collection[Operation]) -> None:
    """Let the backward transpose what the forward reads: attention is stored in that order."""
    for op in rewriter.ops_of(coda.AttentionOp):
        transposed = transposed_attention(op.result, forward)
        others = [use for use in op.result.uses if use.operation not in forward]
        for use in others if transposed is not None else ():
            insert = rewriter.before(use.operation).insert
            back = insert(coda.TransposeOp(transposed, ROWS_TRANSPOSED), op.result.name_hint)
            use.operation.operands[use.index] = back
