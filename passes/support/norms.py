"""Helpers for deferring RMSNorm and LayerNorm."""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.passes.support.function_pass import FunctionRewriter, OpInserter
from coda_ir.passes.support.legality import check_norm_input
from coda_ir.passes.support.matching import Norm


def scaled_input(insert: OpInserter, x: SSAValue, weight: SSAValue | None) -> SSAValue:
    """Return x ⊙ weight, which the GEMMs read instead of the norm: the weight is applied to x."""
    if weight is None:
        return x
    type, name = element_type_of(weight), f"{x.name_hint}_scaled" if x.name_hint else None
    return insert.cast(insert.mul(insert.cast(x, type), weight, name), element_type_of(x))


def float32_gemm(
    insert: OpInserter, gemm: coda.LinearOp | coda.MatmulOp | coda.LowBitLinearOp, x: SSAValue
) -> SSAValue:
    """Return the GEMM of `gemm` on `x`, without its bias, and not rounded before the row scale."""
    if isinstance(gemm, coda.LowBitLinearOp):
        operands = x, gemm.weight, gemm.scales, gemm.zeros
        product = coda.LowBitLinearOp(*operands, gemm.scheme, gemm.kn, element_type=f32)
        return insert.insert(product)
    kind = coda.LinearOp if isinstance(gemm, coda.LinearOp) else coda.MatmulOp
    return insert.insert(kind(x, gemm.weight, element_type=f32))


def bias_of(
    gemm: coda.LinearOp
    | coda.MatmulOp
    | coda.LowBitLinearOp
    | coda.GroupedLinearMap
    | coda.QuantizedLinearOp,
) -> SSAValue | None:
    has_none = isinstance(gemm, coda.MatmulOp | coda.LowBitLinearOp | coda.QuantizedLinearOp)
    return None if has_none else gemm.bias


def parameters_of(norm: Norm) -> tuple[SSAValue | None, SSAValue | None]:
    """Return the weight and the bias of a norm."""
    return norm.weight, norm.bias if isinstance(norm, coda.LayerNormOp) else None


def apply_statistics(insert: OpInserter, norm: Norm, stats: Sequence[SSAValue]) -> SSAValue:
    """Return (x − mean) · rstd ⊙ weight + bias in float32; `stats` is (rstd) or (rstd, mean)."""
    value = insert.cast(norm.x, f32)
    if len(stats) > 1:
        value = insert.sub(value, stats[1])
    value = insert.mul(value, stats[0])
    weight, bias = parameters_of(norm)
    if weight is not None:
        value = insert.mul(value, insert.cast(weight, f32))
    if bias is not None:
        value = insert.add(value, insert.cast(bias, f32))
    return insert.cast(value, element_type_of(norm.x))


def norm_stats(insert: OpInserter, norm: Norm) -> Sequence[SSAValue]:
    """Return the row statistics of a norm: (rstd), or (rstd, mean) of a LayerNorm."""
    kind = "layer" if isinstance(norm, coda.LayerNormOp) else "rms"
    op = coda.NormStatsOp(norm.x, kind, norm.eps.value.data)
    insert.insert(op)
    for name, stat in zip(("rstd", "mean"), op.stats, strict=False):
        stat.name_hint = name
    return op.stats


def split_with_statistics(norm: Norm, rewriter: FunctionRewriter) -> bool:
    """Split a norm of a tensor that no kernel of the function computes, if the function computes
    its statistics as well, such as those that the backward reads: one kernel gives both.
    """
    kind = "layer" if isinstance(norm, coda.LayerNormOp) else "rms"
    users = [use.operation for use in norm.x.uses]
    has_statistics = any(
        isinstance(op, coda.NormStatsOp) and (op.kind.data, op.eps) == (kind, norm.eps)
        for op in users
    )
    is_exact = numerics_mode(norm) == NumericsMode.EAGER_EXACT
    if check_norm_input(norm.x) is None or is_exact or not has_statistics:
        return False
    rewriter.passed(norm, "split: the kernel that computes its statistics applies them")
    insert = rewriter.before(norm)
    rewriter.replace(norm, apply_statistics(insert, norm, norm_stats(insert, norm)))
    return True
