"""Pass `raise-rms-norm`: turn an RMSNorm that is written out into `coda.rms_norm`."""

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_bytes,
    element_type_of,
    shape_of,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import (
    defined_by,
    is_row,
    number_of,
    offset_of,
    only_use,
    same_type,
    unwidened,
)


@dataclass(frozen=True)
class _Norm:
    """x · rsqrt(mean(x²) + eps), computed by `op` from `x` in the type of `wide`."""

    op: coda.BinaryOp
    x: SSAValue
    wide: SSAValue
    eps: float
    weight: SSAValue | None = None
    """The scale of x before the division."""


class RaiseRMSNormPass(FunctionPass):
    """Raises x · rsqrt(mean(x²) + eps) ⊙ w in all its usual decompositions.

        %w32 = coda.cast %x : ... -> f32
        %sq = coda.mul %w32, %w32
        %ms = coda.reduce %sq {kind = "mean"}             %y = coda.rms_norm %x, %w {eps = c}
        %r = coda.rsqrt(coda.add %ms, c)           ->
        %n = coda.cast(coda.mul %w32, %r) : ... -> bf16
        %y = coda.mul %n, %w

    The reciprocal root may be a division by the root, or a power; the mean may be a sum divided by
    N; the square may be x·x; √N · x / √(sum) is the form without a mean. The weight may come before
    or after the division and the conversion back; an offset weight (1 + w) stays in float32. Legal
    iff the mean is over the whole last dimension, eps is inside the root, and the result has the
    type of x or is converted to that of the weight.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            norm = _match(op)
            if norm is not None:
                _raise(norm, rewriter)


def _match(op: Operation) -> _Norm | None:
    """Return the norm whose last step is `op`, before its weight or after."""
    if isinstance(op, coda.MulOp):
        for x, factor in op.pairs:
            norm = _norm_of(op, x, _mean_square(_squared_reciprocal(factor)))
            if norm is not None:
                return norm
    if isinstance(op, coda.DivOp):
        root = defined_by(op.rhs, coda.SqrtOp)
        if root is not None:
            return _norm_of(op, op.lhs, _mean_square(root.operand)) or _from_sum(op, root.operand)
    return None


def _norm_of(
    op: coda.BinaryOp, scaled: SSAValue, found: tuple[SSAValue, float] | None
) -> _Norm | None:
    """Return the norm of `scaled`, which is the x of `found` or x ⊙ w."""
    if found is None:
        return None
    x, eps = found
    if scaled is x:
        return _Norm(op, unwidened(x), x, eps)
    product = defined_by(scaled, coda.MulOp)
    for inner, weight in product.pairs if product else ():
        if inner is x and is_row(weight, shape_of(x)[-1]):
            return _Norm(op, unwidened(x), x, eps, weight)
    return None


def _from_sum(op: coda.DivOp, under_root: SSAValue) -> _Norm | None:
    """Match √N · x / √(sum(x²) + N · eps)."""
    total, offset = offset_of(under_root) or (under_root, 0.0)
    sum_ = defined_by(total, coda.ReduceOp)
    if sum_ is None or sum_.kind.data != "sum":
        return None
    x, columns = _squared(sum_.x), shape_of(sum_.x)[-1]
    product = defined_by(op.lhs, coda.MulOp)
    for inner, factor in product.pairs if product else ():
        number = number_of(factor) or 0.0
        if (
            x is not None
            and inner is x
            and columns > 0
            and math.isclose(number**2, columns, rel_tol=1e-12)
        ):
            return _Norm(op, unwidened(x), x, offset / columns)
    return None


def _squared_reciprocal(value: SSAValue) -> SSAValue | None:
    """Return v if `value` is 1/√v."""
    rsqrt = defined_by(value, coda.RsqrtOp)
    if rsqrt is not None:
        return rsqrt.operand
    quotient = defined_by(value, coda.DivOp)
    if quotient is None or number_of(quotient.lhs) != 1:
        return None
    root = defined_by(quotient.rhs, coda.SqrtOp)
    return root.operand if root else None


def _mean_square(value: SSAValue | None) -> tuple[SSAValue, float] | None:
    """Return (x, eps) if `value` is mean(x²) + eps over the last dimension."""
    if value is None:
        return None
    mean, eps = offset_of(value) or (value, 0.0)
    square = _mean_of(mean)
    x = None if square is None else _squared(square)
    return None if x is None or eps < 0 else (x, eps)


def _squared(value: SSAValue) -> SSAValue | None:
    """Return x if `value` is x²."""
    product = defined_by(value, coda.MulOp)
    return product.lhs if product is not None and product.lhs is product.rhs else None


def _mean_of(value: SSAValue) -> SSAValue | None:
    """Return x if `value` is the mean of x over its last dimension."""
    reduce = defined_by(value, coda.ReduceOp)
    if reduce is not None:
        return reduce.x if reduce.kind.data == "mean" else None
    scaled = value.owner
    if isinstance(scaled, coda.DivOp):
        total, count = scaled.lhs, number_of(scaled.rhs)
    elif isinstance(scaled, coda.MulOp):
        total, factor = scaled.lhs, number_of(scaled.rhs)
        count = 1 / factor if factor else None
    else:
        return None
    sum_ = defined_by(total, coda.ReduceOp)
    if sum_ is None or sum_.kind.data != "sum" or count != shape_of(sum_.x)[-1]:
        return None
    return sum_.x


def _raise(norm: _Norm, rewriter: FunctionRewriter) -> None:
    last, x, scale = _longest_form(norm)
    insert, (result,) = rewriter.before(last), last.results
    weight = None if scale is None else unwidened(scale)
    if scale is not None and weight is not None and not _is_weight_type(weight, x):
        is_kept = _is_weight_type(scale, x)
        weight = scale if is_kept else insert.insert(coda.CastOp(scale, element_type_of(x)))
    rewriter.passed(last, "raised to coda.rms_norm")
    raised = insert.insert(coda.RMSNormOp(x, weight, eps=norm.eps), result.name_hint)
    rewriter.replace(last, insert.cast(raised, element_type_of(result)))


def _longest_form(norm: _Norm) -> tuple[Operation, SSAValue, SSAValue | None]:
    """Return the last operator that belongs to the norm, the x of its type, and its scale.

    After the normalization come conversions and at most one multiplication with a vector, as long
    as nothing else reads what is in between. The operator may give a narrower type than that of x,
    to which the norm is converted.
    """
    last: Operation = norm.op
    scale = norm.weight
    best = (last, norm.wide, scale)
    while (user := only_use(last.results[0])) is not None:
        if isinstance(user, coda.MulOp) and scale is None:
            scale = user.rhs if user.lhs is last.results[0] else user.lhs
            if not is_row(scale, shape_of(norm.x)[-1]):
                break
        elif not isinstance(user, coda.CastOp):
            break
        last = user
        for x in (norm.wide, norm.x):
            if same_type(last.results[0], x) and _fits(scale, x):
                best = (last, x, scale)
        is_narrower = element_bytes(last.results[0].type) < element_bytes(norm.x.type)
        if scale is not None and best[2] is None and is_narrower:
            # No x has the type of the product: the norm is converted to it after the weight.
            best = (last, norm.wide, scale)
    return best


def _fits(scale: SSAValue | None, x: SSAValue) -> bool:
    return scale is None or _is_weight_type(scale, x) or _is_weight_type(unwidened(scale), x)


def _is_weight_type(weight: SSAValue, x: SSAValue) -> bool:
    """Return whether the weight of a norm of x may have the type of `weight`."""
    is_float32 = isinstance(element_type_of(weight), Float32Type)
    return same_type(weight, x) or (is_float32 and computes_in_float32(element_type_of(x)))
