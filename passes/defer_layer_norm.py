"""Pass `defer-layer-norm`: move LayerNorm past the GEMMs that consume it."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import Layout, PackWeightOp
from coda_ir.passes.legality import (
    NormDeferral,
    check_cancellation,
    check_norm_consumers,
    check_norm_input,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.norms import (
    OpInserter,
    bias_of,
    defer_or_split,
    float32_gemm,
    norm_stats,
    replace_value,
    scaled_input,
)

NO_WEIGHT = Refusal(
    "the norm has a weight",
    "the norm is not deferred: it has no weight to fold into the column sums of the GEMMs",
)

NOT_KEPT = Refusal(
    "vectors may be computed from weights ahead of time",
    "the norm is not deferred: the column sums of its GEMMs would be kept between calls",
    "allow pack-weights where weights change only in ways that PyTorch counts",
)


@dataclass(frozen=True)
class DeferLayerNormPass(FunctionPass):
    """LN(x)·W + b = r·((x ⊙ w)·W) − (r·mu)·u + c0 with u = wᵀW and c0 = betaᵀW + b.

        %h = coda.layer_norm %x, %w, %beta       %s = coda.mul %x, %w
        %z = coda.linear %h, %W, %b       ->     %r, %mu = coda.norm_stats %x {kind = "layer"}
                                                 %u = gemm.pack_weight %W, %w
                                                 %c = gemm.pack_weight %W, %beta
                                                 %z = r·linear(%s, %W) − (r·mu)·u + c + b

    u and c are computed once per weight. Legal iff x is computed in this function, every consumer
    of the norm is a GEMM or code in the epilogue of another GEMM, which normalizes x again, the
    norm has a weight, and the type is not float16, whose range x ⊙ w may leave. Where only the
    first holds, the norm is split into its statistics and a pointwise operator. The subtraction
    cancels where abs(mean) >> std: a norm of float32 stays whole, and so does one in the mode
    eager-exact.
    """

    name: ClassVar[str] = "defer-layer-norm"

    pack_weights: bool = True

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.LayerNormOp):
                refusal = check_norm_input(op, op.x) or check_cancellation(op)
                if refusal is not None:
                    rewriter.missed(op, refusal)
                    continue
                defer_or_split(
                    op, self._verdict(op, rewriter), partial(_defer, op, rewriter), rewriter
                )

    def _verdict(self, op: coda.LayerNormOp, rewriter: FunctionRewriter) -> NormDeferral | Refusal:
        if op.weight is None:
            return NO_WEIGHT
        return check_norm_consumers(op, rewriter.order) if self.pack_weights else NOT_KEPT


def _defer(norm: coda.LayerNormOp, rewriter: FunctionRewriter, deferral: NormDeferral) -> None:
    rewriter.analysis(norm, "loses accuracy where abs(mean) of a row is far above its std")
    before = OpInserter(rewriter, norm, norm.location)
    x = scaled_input(before, norm.x, norm.weight)
    rstd, mean = norm_stats(before, norm)
    shift = before.mul(rstd, mean, "shift")
    for gemm in deferral.consumers:
        assert not isinstance(gemm, coda.RopeOp)
        insert = OpInserter(rewriter, gemm, gemm.location)
        value = insert.mul(float32_gemm(insert, gemm, x), rstd)
        value = insert.sub(value, insert.mul(shift, _pack(insert, norm.weight, gemm)))
        if norm.bias is not None:
            value = insert.add(value, _pack(insert, norm.bias, gemm))
        bias = bias_of(gemm)
        if bias is not None:
            value = insert.add(value, insert.cast(bias, f32))
        replace_value(gemm, insert.cast(value, element_type_of(gemm.result)))
        rewriter.order.erase(gemm)


def _pack(
    insert: OpInserter, vector: SSAValue | None, gemm: coda.LinearOp | coda.MatmulOp
) -> SSAValue:
    assert vector is not None
    layout = Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN
    return insert.insert(PackWeightOp(gemm.weight, vector, layout), vector.name_hint)
