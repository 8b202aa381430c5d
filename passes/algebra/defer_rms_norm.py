"""Pass `defer-rms-norm`: move RMSNorm past the GEMMs that consume it."""

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, PortKind, ScalarBuilder, Segment
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter
from coda_ir.passes.support.matching import taken_norm
from coda_ir.passes.support.norm_deferral import (
    NormDeferral,
    check_norm_consumers,
    correct_accumulators,
)
from coda_ir.passes.support.norms import (
    bias_of,
    defer_or_split,
    float32_gemm,
    norm_stats,
    scaled_input,
    split_with_statistics,
)


class DeferRMSNormPass(FunctionPass):
    """Defers an RMSNorm past the GEMMs that read it, because row scales commute with a GEMM:
    ((x·r) ⊙ w)·W = r·((x ⊙ w)·W), with r = rsqrt(mean x² + eps).

        %h = coda.rms_norm %x, %w            %s = coda.mul %x, %w
        %z = coda.linear %h, %W       ->     %r = coda.norm_stats %x {kind = "rms"}
                                             %a = coda.linear %s, %W : ... -> f32
                                             %z = coda.cast(coda.mul %a, %r)

    Row scales also commute with a rotation of columns: the epilogue of the projection then rotates
    x ⊙ w, and only the row scale is applied later. If the GEMM already has an epilogue, r scales
    its accumulators before the code of the epilogue.

    Legal iff this function computes x, so that its statistics cost nothing; every consumer of the
    norm is a GEMM, but not a grouped one, a rotation, or code in the epilogue of another GEMM,
    which recomputes x·r ⊙ w; and the type is not float16, whose range x ⊙ w may leave. If GEMMs
    read a float32 norm in bfloat16, as under autocast, x ⊙ w is stored in bfloat16. If only the
    first condition holds, the norm is split into its statistics and a pointwise operator. So is a
    norm of an argument whose statistics the function computes as well.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.RMSNormOp) and op.group is None:
                if split_with_statistics(op, rewriter):
                    continue
                verdict = check_norm_consumers(op, rewriter.order)
                defer_or_split(op, verdict, partial(_defer, op, rewriter), rewriter)


def _defer(norm: coda.RMSNormOp, rewriter: FunctionRewriter, deferral: NormDeferral) -> None:
    before, taken = rewriter.before(norm), taken_norm(norm)
    x = before.cast(scaled_input(before, norm.x, norm.weight), element_type_of(taken))
    (rstd,) = norm_stats(before, norm)
    for gemm in deferral.consumers:
        insert = rewriter.before(gemm)
        if isinstance(gemm, FusedOp):
            correct_accumulators(gemm, x, partial(_scaled, rstd), rewriter.order)
            continue
        if isinstance(gemm, coda.RopeOp):
            rewriter.replace(gemm, _scaled_after(gemm, x, rstd, norm.location, insert))
            continue
        value = insert.mul(float32_gemm(insert, gemm, x), rstd)
        bias = bias_of(gemm)
        if bias is not None:
            value = insert.add(value, insert.cast(bias, element_type_of(value)))
        rewriter.replace(gemm, insert.cast(value, element_type_of(gemm.result)))
    if isinstance(taken.owner, coda.CastOp):
        rewriter.order.erase(taken.owner)


def _scaled(rstd: SSAValue, segment: Segment, builder: ScalarBuilder) -> Sequence[SSAValue]:
    (scale,) = segment.add_port(PortKind.COL, rstd)
    return [builder.mul(accumulator, scale) for accumulator in segment.accumulators]


def _scaled_after(
    rope: coda.RopeOp, x: SSAValue, rstd: SSAValue, location: LocationAttr, insert: OpInserter
) -> SSAValue:
    rotated = rope.with_operand(x, transposed=rope.transposed is not None)
    value = insert.insert(rotated, rope.result.name_hint)
    insert.location = location
    value = insert.mul(insert.cast(value, element_type_of(rstd)), rstd)
    return insert.cast(value, element_type_of(rope.result))
