"""Pass `defer-layer-norm`: move LayerNorm past the GEMMs that consume it."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import Layout, PackWeightOp
from coda_ir.passes.legality import NormDeferral, check_norm_consumers, check_norm_input
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.norms import (
    OpInserter,
    apply_statistics,
    bias_of,
    float32_gemm,
    replace_value,
    scaled_input,
)

NO_WEIGHT = Refusal(
    "the norm has a weight",
    "the norm is not deferred: it has no weight to fold into the column sums of the GEMMs",
)


@dataclass(frozen=True)
class DeferLayerNormPass(FunctionPass):
    """LN(x)·W + b = r·((x ⊙ w)·W) − (r·mu)·u + c0 with u = wᵀW and c0 = betaᵀW + b.

        %h = coda.layer_norm %x, %w, %beta       %s = coda.mul %x, %w
        %z = coda.linear %h, %W, %b       ->     %r, %mu = coda.norm_stats %x {kind = "layer"}
                                                 %u = gemm.pack_weight %W, %w
                                                 %c = gemm.pack_weight %W, %beta
                                                 %z = r·linear(%s, %W) − (r·mu)·u + c + b

    u and c are computed once per weight. Legal iff x is computed in this function and every
    consumer of the norm is a GEMM. Where only the second fails, the norm is split into its
    statistics and a pointwise operator. The subtraction cancels where abs(mean) >> std.
    """

    name: ClassVar[str] = "defer-layer-norm"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.LayerNormOp):
                _rewrite(op, rewriter)


def _rewrite(norm: coda.LayerNormOp, rewriter: FunctionRewriter) -> None:
    refusal = check_norm_input(norm, norm.x)
    if refusal is not None:
        rewriter.missed(norm, refusal)
        return
    verdict = NO_WEIGHT if norm.weight is None else check_norm_consumers(norm, rewriter.order)
    if isinstance(verdict, Refusal):
        rewriter.missed(norm, verdict)
        _split(norm, rewriter)
    else:
        rewriter.passed(norm, f"deferred past {len(verdict.consumers)} GEMMs")
        rewriter.analysis(norm, "loses accuracy where abs(mean) of a row is far above its std")
        _defer(norm, verdict, rewriter)
    rewriter.order.erase(norm)


def _split(norm: coda.LayerNormOp, rewriter: FunctionRewriter) -> None:
    insert = OpInserter(rewriter, norm, norm.location)
    stats = coda.NormStatsOp(norm.x, "layer", norm.eps.value.data)
    insert.insert(stats, "stat")
    replace_value(norm, apply_statistics(insert, norm.x, stats.stats, norm.params))


def _defer(norm: coda.LayerNormOp, deferral: NormDeferral, rewriter: FunctionRewriter) -> None:
    before = OpInserter(rewriter, norm, norm.location)
    x = scaled_input(before, norm.x, norm.weight)
    stats = coda.NormStatsOp(norm.x, "layer", norm.eps.value.data)
    before.insert(stats)
    rstd, mean = stats.stats
    rstd.name_hint, mean.name_hint = "rstd", "mean"
    shift = before.mul(rstd, mean, "shift")
    for gemm in deferral.consumers:
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
