"""`finalize(partial)`: the complete reduction from the partials of the tiles."""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region

from coda_ir.dialects.gemm import FinalizeOp, YieldOp
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    PartialValue,
    TensorType,
    TensorValue,
    describe,
    ir_type,
)


def finalize(call: Invocation) -> TensorValue:
    """A column [..., 1] of a partial_row, a row [N] of a partial_col, in float32."""
    partial = call.value("partial")
    if not isinstance(partial, PartialValue):
        what = "missing" if partial is None else describe(partial)
        raise call.wrong(
            "partial",
            "expected a partial_row or partial_col of an epilogue",
            "a tensor needs no finalize; sum(x), mean(x), max(x) and logsumexp(x) reduce it",
            given=what,
        )
    dims = (*partial.kept, 1) if partial.axis == "row" else partial.kept
    body = Block(arg_types=[f32])
    body.add_op(YieldOp(body.args[0]))
    type = TensorType("f32", dims)
    op = FinalizeOp(
        [(partial.combiner, partial.ssa)], [], [ir_type(type)], Region(body), axis=partial.axis
    )
    call.insert(op)
    return TensorValue(type, op.outputs[0])
