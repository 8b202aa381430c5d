"""Derivatives of norms, as sums over rows, and of reductions and broadcasts.

With x̂ = (x − μ)·r, or x·r for RMSNorm, y = x̂ ⊙ w + b and g = dy ⊙ w, all per row:

    RMSNorm     dx = r · (g − x̂ · mean(x̂ ⊙ g))
    LayerNorm   dx = r · (g − mean(g) − x̂ · mean(x̂ ⊙ g))

and dw = Σ dy ⊙ x̂, db = Σ dy over all rows. Everything is computed in float32, as the norms are.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import bf16, f64
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, quotient, shape_of
from coda_ir.dialects.torch import VjpOp
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule, wide_type


def _rms_norm(op: coda.RMSNormOp, adjoint: Adjoint) -> None:
    x, dy = op.x, adjoint.dy
    if op.group is not None:
        # Heads are a separate dimension; the weight is that of a head.
        *rows, columns = shape_of(x)
        heads = (*rows, quotient(columns, op.group_size), op.group_size)
        x, dy = (adjoint.insert(coda.ReshapeOp(value, heads)) for value in (x, dy))
    _give_norm(adjoint, x, dy, op)


def _layer_norm(op: coda.LayerNormOp, adjoint: Adjoint) -> None:
    adjoint.give(op.bias, adjoint.dy)
    _give_norm(adjoint, op.x, adjoint.dy, op)


Norm = coda.RMSNormOp | coda.LayerNormOp


def _give_norm(adjoint: Adjoint, x: SSAValue, dy: SSAValue, op: Norm) -> None:
    """Give the gradients of the operand, which is `x` under another shape, and of the weight."""
    is_centered = isinstance(op, coda.LayerNormOp)
    rstd, *mean = _statistics(adjoint, x, op, "layer" if is_centered else "rms")
    x, dy = adjoint.widened(x), adjoint.widened(dy)
    # The mean may be of x before it was rounded; of one column, only x itself leaves a 0.
    is_constant = bool(mean) and shape_of(x)[-1] == 1
    centered = adjoint.sub(x, x if is_constant else mean[0]) if mean else x
    normed = adjoint.insert(coda.MulOp(centered, rstd), "normed")
    d_normed = dy
    if op.weight is not None:
        adjoint.give(op.weight, coda.MulOp(dy, normed))
        scaled = coda.MulOp(dy, adjoint.cast(op.weight, wide_type(x)))
        d_normed = adjoint.insert(scaled, "d_normed")
    if not adjoint.wants(op.x):
        return
    if is_constant:
        dx = adjoint.sub(d_normed, d_normed)
    else:
        along = adjoint.mean_of(adjoint.mul(normed, d_normed), "along")
        inner = adjoint.sub(d_normed, adjoint.mean_of(d_normed, "shift")) if mean else d_normed
        dx = adjoint.mul(adjoint.sub(inner, adjoint.mul(normed, along)), rstd)
    if len(shape_of(dx)) != len(shape_of(op.x)):
        dx = adjoint.reshaped(dx, op.x)
    adjoint.give(op.x, dx)


def _statistics(adjoint: Adjoint, x: SSAValue, op: Norm, kind: str) -> Sequence[SSAValue]:
    """Return rstd, and the mean for a LayerNorm, as columns."""
    eps = op.eps.value.data
    if wide_type(x) != f64:
        stats = coda.NormStatsOp(x, kind, eps)
        adjoint.insert(stats, "rstd", "mean")
        return stats.stats
    mean = [adjoint.mean_of(x, "mean")] if kind == "layer" else []
    centered = adjoint.sub(x, mean[0]) if mean else x
    variance = adjoint.mean_of(adjoint.mul(centered, centered), "variance")
    shifted = adjoint.add(variance, adjoint.constant(eps, variance))
    return [adjoint.insert(coda.RsqrtOp(shifted), "rstd"), *mean]


def _norm_stats(op: coda.NormStatsOp, adjoint: Adjoint) -> None:
    """dr gives −r³ · (x − μ) · dr / N, and dμ gives dμ / N, to each element of the row."""
    x = adjoint.widened(op.x)
    d_rstd, *d_mean = adjoint.d_results
    rstd, *mean = (adjoint.cast(stat, element_type_of(x)) for stat in op.stats)
    if d_rstd is not None:
        cube = adjoint.mul(adjoint.mul(rstd, rstd), rstd)
        d_rstd = adjoint.cast(d_rstd, element_type_of(x))
        share = adjoint.over_columns(adjoint.neg(adjoint.mul(d_rstd, cube)), op.x)
        centered = adjoint.sub(x, mean[0]) if mean else x
        adjoint.give(op.x, adjoint.mul(centered, share))
    if d_mean and d_mean[0] is not None:
        share = adjoint.over_columns(d_mean[0], op.x)
        adjoint.give(op.x, adjoint.broadcast(share, op.x))


def _softmax(op: coda.SoftmaxOp, adjoint: Adjoint) -> None:
    """dx = y ⊙ (dy − Σ y ⊙ dy), in float32 as PyTorch has it.

    If only y rounded to bfloat16 is used, the backward reads that instead, which is half as large
    to save. The rounded weights do not add up to 1, so Σ y ⊙ (…) is subtracted once more: each row
    of dx adds up to 0, and the two terms of a weight near 1 cancel as they do in float32.
    """
    rounded = _only_rounded(op.result, adjoint.dy)
    y, inner = adjoint.widened(rounded or op.result), adjoint.widened(adjoint.dy)
    for _ in range(1 if rounded is None else 2):
        inner = adjoint.sub(inner, adjoint.sum_of(adjoint.mul(y, inner)))
    adjoint.give(op.x, adjoint.mul(y, inner))


def _only_rounded(y: SSAValue, dy: SSAValue) -> SSAValue | None:
    """Return y in bfloat16 if only that is used and has the gradient; not in float16."""
    readers = [use.operation for use in y.uses]
    if len(readers) != 1 or not isinstance(cast := readers[0], coda.CastOp):
        return None
    is_only = isinstance(dy.owner, coda.CastOp) and dy.owner.operand.type == cast.result.type
    return cast.result if is_only and element_type_of(cast.result) == bf16 else None


NORM_RULES: dict[type, Rule] = {
    coda.RMSNormOp: _rms_norm,
    coda.LayerNormOp: _layer_norm,
    coda.NormStatsOp: _norm_stats,
    coda.SoftmaxOp: _softmax,
}


# Reductions


def _reduce(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """Differentiate a reduction: a sum gives each element dy, a mean an equal share of it."""
    match op.kind.data:
        case "sum":
            adjoint.give(op.x, adjoint.broadcast(adjoint.dy, op.x))
        case "mean":
            share = adjoint.over_columns(adjoint.dy, op.x)
            adjoint.give(op.x, adjoint.broadcast(share, op.x))
        case "max":
            _give_maximum(op, adjoint)
        case kind:
            assert kind == "lse", f"no derivative of the reduction {kind}"
            _give_lse(op, adjoint)


def _give_maximum(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """Give dy to the largest element; in equal shares if there are several, as in `torch.amax`.

    Left to PyTorch, which finds the elements again: where rounding points move, x is not bit by
    bit what the maximum was taken of, and no element might be equal to it.
    """
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    vjp = VjpOp("aten.amax.default", [op.x], [dy], "{0}, [-1], True", of=[0], wrt=[0])
    adjoint.give(op.x, vjp)


def _give_lse(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """exp(x − y) · dy: the softmax."""
    type = wide_type(op.x)
    shifted = adjoint.sub(adjoint.cast(op.x, type), adjoint.cast(op.result, type))
    share = adjoint.insert(coda.ExpOp(shifted))
    adjoint.give(op.x, adjoint.mul(share, adjoint.cast(adjoint.dy, type)))


def _sum_to(op: coda.SumToOp, adjoint: Adjoint) -> None:
    adjoint.give(op.x, adjoint.broadcast(adjoint.dy, op.x))


def _broadcast(op: coda.BroadcastOp, adjoint: Adjoint) -> None:
    # `give` sums over what was repeated.
    adjoint.give(op.x, adjoint.dy)


REDUCTION_RULES: dict[type, Rule] = {
    coda.ReduceOp: _reduce,
    coda.SumToOp: _sum_to,
    coda.BroadcastOp: _broadcast,
}
