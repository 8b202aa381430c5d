"""Pass `defer-rms-norm`: move RMSNorm past the GEMMs that consume it."""

from dataclasses import dataclass
from typing import ClassVar

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
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


@dataclass(frozen=True)
class DeferRMSNormPass(FunctionPass):
    """Row scales commute with a GEMM: ((x·r) ⊙ w)·W = r·((x ⊙ w)·W), r = rsqrt(mean x² + eps).

        %h = coda.rms_norm %x, %w            %s = coda.mul %x, %w
        %z = coda.linear %h, %W       ->     %r = coda.norm_stats %x {kind = "rms"}
                                             %a = coda.linear %s, %W : ... -> f32
                                             %z = coda.cast(coda.mul %a, %r)

    Legal iff x is computed in this function (so that its statistics cost nothing) and every
    consumer of the norm is a GEMM. Where only the second fails, the norm is split into its
    statistics and a pointwise operator.
    """

    name: ClassVar[str] = "defer-rms-norm"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.RMSNormOp) and op.group is None:
                _rewrite(op, rewriter)


def _rewrite(norm: coda.RMSNormOp, rewriter: FunctionRewriter) -> None:
    refusal = check_norm_input(norm, norm.x)
    if refusal is not None:
        rewriter.missed(norm, refusal)
        return
    verdict = check_norm_consumers(norm, rewriter.order)
    if isinstance(verdict, Refusal):
        rewriter.missed(norm, verdict)
        _split(norm, rewriter)
    else:
        rewriter.passed(norm, f"deferred past {len(verdict.consumers)} GEMMs")
        _defer(norm, verdict, rewriter)
    rewriter.order.erase(norm)


def _split(norm: coda.RMSNormOp, rewriter: FunctionRewriter) -> None:
    insert = OpInserter(rewriter, norm, norm.location)
    stats = coda.NormStatsOp(norm.x, "rms", norm.eps.value.data)
    insert.insert(stats, "rstd")
    params = [] if norm.weight is None else [norm.weight]
    replace_value(norm, apply_statistics(insert, norm.x, stats.stats, params))


def _defer(norm: coda.RMSNormOp, deferral: NormDeferral, rewriter: FunctionRewriter) -> None:
    before = OpInserter(rewriter, norm, norm.location)
    x = scaled_input(before, norm.x, norm.weight)
    rstd = before.insert(coda.NormStatsOp(norm.x, "rms", norm.eps.value.data), "rstd")
    for gemm in deferral.consumers:
        insert = OpInserter(rewriter, gemm, gemm.location)
        value = insert.mul(float32_gemm(insert, gemm, x), rstd)
        bias = bias_of(gemm)
        if bias is not None:
            value = insert.add(value, insert.cast(bias, element_type_of(value)))
        replace_value(gemm, insert.cast(value, element_type_of(gemm.result)))
        rewriter.order.erase(gemm)
