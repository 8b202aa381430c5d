"""Derivatives of the elementwise operators: dx = f'(x) · dy, in terms of x or of y."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt
from typing import TypeAlias

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule
from coda_ir.passes.support.legality import check_rounding_may_move


def _add(op: coda.AddOp, adjoint: Adjoint) -> None:
    adjoint.give(op.lhs, adjoint.dy)
    adjoint.give(op.rhs, adjoint.dy)


def _sub(op: coda.SubOp, adjoint: Adjoint) -> None:
    adjoint.give(op.lhs, adjoint.dy)
    adjoint.give(op.rhs, coda.NegOp(adjoint.dy))


def _mul(op: coda.MulOp, adjoint: Adjoint) -> None:
    if op.lhs is op.rhs:
        adjoint.give(op.lhs, adjoint.scale(adjoint.mul(adjoint.dy, op.lhs), 2.0))
        return
    for operand, other in op.pairs:
        adjoint.give(operand, coda.MulOp(_before_sum(adjoint.dy, operand, op), other))


def _before_sum(dy: SSAValue, operand: SSAValue, op: coda.MulOp) -> SSAValue:
    """Return the gradients of which dy is a sum, as over samples, if the gradient of `operand` is
    a sum over rows: the kernel that computes them adds up their products with the other operand.
    """
    sums_rows = shape_of(dy)[-1:] != (shape_of(operand) or (1,))[-1:]
    total = dy.owner
    if (
        not sums_rows
        or not isinstance(total, coda.SumToOp)
        or shape_of(total.x)[-1:] != shape_of(dy)[-1:]
    ):
        return dy
    if element_type_of(total.x) != element_type_of(dy) or check_rounding_may_move(op, "the sum"):
        return dy
    return total.x


def _div(op: coda.DivOp, adjoint: Adjoint) -> None:
    """da = dy / b and db = −dy · a/b / b."""
    share = adjoint.div(adjoint.dy, op.rhs)
    adjoint.give(op.lhs, share)
    if adjoint.wants(op.rhs):
        adjoint.give(op.rhs, adjoint.neg(adjoint.mul(share, op.result)))


def _extremum(op: coda.MaximumOp | coda.MinimumOp, adjoint: Adjoint) -> None:
    for operand, other in op.pairs:
        is_larger = isinstance(op, coda.MaximumOp)
        larger, smaller = (operand, other) if is_larger else (other, operand)
        share = coda.MaximumGradOp(larger, smaller, adjoint.dy, bound=_is_bound(other, op))
        adjoint.give(operand, share)


def _remainder(op: elementwise.RemainderOp, adjoint: Adjoint) -> None:
    """da = dy and db = −dy · floor(a / b)."""
    adjoint.give(op.lhs, adjoint.dy)
    if adjoint.wants(op.rhs):
        quotient = adjoint.insert(elementwise.FloorOp(adjoint.div(op.lhs, op.rhs)))
        adjoint.give(op.rhs, adjoint.neg(adjoint.mul(adjoint.dy, quotient)))


def _atan2(op: elementwise.Atan2Op, adjoint: Adjoint) -> None:
    """da = dy · b / (a² + b²) and db = −dy · a / (a² + b²), which PyTorch makes 0 at a = b = 0."""
    square = adjoint.add(*(adjoint.mul(operand, operand) for operand in (op.lhs, op.rhs)))
    zero = adjoint.constant(0.0, square)
    share = adjoint.div(adjoint.dy, square)
    is_origin = adjoint.insert(coda.CompareOp(square, zero, "eq"))
    share = adjoint.insert(coda.WhereOp(is_origin, zero, share))
    adjoint.give(op.lhs, coda.MulOp(share, op.rhs))
    if adjoint.wants(op.rhs):
        adjoint.give(op.rhs, adjoint.neg(adjoint.mul(share, op.lhs)))


def _power(op: elementwise.PowerOp, adjoint: Adjoint) -> None:
    """da = dy · b · a to the power b − 1, and db = dy · y · log a; 0 where y does not change."""
    a, b, zero = op.lhs, op.rhs, adjoint.constant(0.0, op.lhs)
    if adjoint.wants(a):
        below = adjoint.insert(elementwise.PowerOp(a, adjoint.sub(b, adjoint.constant(1.0, b))))
        share = adjoint.mul(adjoint.dy, adjoint.mul(b, below))
        is_fixed = adjoint.insert(coda.CompareOp(b, zero, "eq"))
        adjoint.give(a, coda.WhereOp(is_fixed, zero, share))
    if adjoint.wants(b):
        share = adjoint.mul(adjoint.dy, adjoint.mul(op.result, adjoint.insert(coda.LogOp(a))))
        is_zero = adjoint.insert(coda.CompareOp(a, zero, "eq"))
        is_fixed = adjoint.insert(coda.CompareOp(b, zero, "ge"))
        is_fixed = adjoint.insert(elementwise.LogicalAndOp(is_zero, is_fixed))
        adjoint.give(b, coda.WhereOp(is_fixed, zero, share))


def _is_bound(value: SSAValue, op: coda.MaximumOp | coda.MinimumOp) -> bool:
    return isinstance(value.owner, coda.ConstantOp) and elementwise.SHARED_TIES not in op.attributes


def _elu(op: coda.EluOp, adjoint: Adjoint) -> None:
    """dy, times alpha · exp(x) where x is not above 0."""
    x, dy = op.operand, adjoint.dy
    is_below = adjoint.insert(coda.CompareOp(x, adjoint.constant(0.0, x), "le"))
    power = adjoint.scale(adjoint.insert(coda.ExpOp(x)), op.alpha.value.data)
    adjoint.give(x, coda.WhereOp(is_below, adjoint.mul(dy, power), dy))


def _pow(op: coda.PowOp, adjoint: Adjoint) -> None:
    """dy · exponent · x to the power of exponent − 1."""
    exponent = op.exponent.value.data
    if exponent == 1.0:
        adjoint.give(op.operand, adjoint.dy)
        return
    below = adjoint.insert(coda.PowOp(op.operand, exponent - 1))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, adjoint.scale(below, exponent)))


def _where(op: coda.WhereOp, adjoint: Adjoint) -> None:
    """dy where the value was chosen, and 0 elsewhere, whatever dy is there."""
    zero = adjoint.constant(0.0, adjoint.dy)
    adjoint.give(op.lhs, coda.WhereOp(op.condition, adjoint.dy, zero))
    adjoint.give(op.rhs, coda.WhereOp(op.condition, zero, adjoint.dy))


def _step(op: coda.ElementwiseOp, adjoint: Adjoint) -> None:
    """0 everywhere, as in PyTorch, also where dy is infinite or NaN and a product with 0 is NaN."""
    zero = adjoint.constant(0.0, adjoint.dy)
    is_zero = adjoint.insert(coda.CompareOp(adjoint.dy, zero, "eq"))
    share = adjoint.insert(coda.WhereOp(is_zero, adjoint.dy, zero))
    for operand in op.operands:
        adjoint.give(operand, share)


def _softcap(op: coda.SoftcapOp, adjoint: Adjoint) -> None:
    """y = cap · tanh(x / cap): the derivative is that of the tanh, which is y / cap."""
    inside = adjoint.div(op.result, adjoint.constant(op.cap.value.data, op.result))
    adjoint.give(op.operand, coda.ActivationGradOp(inside, adjoint.dy, "tanh"))


def _activation(name: str) -> Rule:
    def rule(op: coda.UnaryOp, adjoint: Adjoint) -> None:
        source = op.result if name in coda.DERIVED_FROM_RESULT else op.operand
        adjoint.give(op.operand, coda.ActivationGradOp(source, adjoint.dy, name))

    return rule


def _of_formula(formula: Formula) -> Rule:
    def rule(op: coda.UnaryOp, adjoint: Adjoint) -> None:
        terms = map(adjoint.term, (adjoint.dy, op.operand, op.result))
        adjoint.give(op.operand, formula(*terms).value)

    return rule


Term: TypeAlias = coda.Term[SSAValue]
Formula: TypeAlias = Callable[[Term, Term, Term], Term]
"""The gradient of x, from dy, x and y."""

_FORMULAS: dict[type[coda.UnaryOp], Formula] = {
    coda.NegOp: lambda dy, x, y: -dy,
    coda.AbsOp: lambda dy, x, y: dy * x.of(coda.SignOp),
    coda.ExpOp: lambda dy, x, y: dy * y,
    coda.LogOp: lambda dy, x, y: dy / x,
    elementwise.Log2Op: lambda dy, x, y: dy / (x * log(2)),
    coda.SqrtOp: lambda dy, x, y: dy / (y * 2.0),
    coda.RsqrtOp: lambda dy, x, y: dy * -0.5 * (y * y * y),
    elementwise.SinOp: lambda dy, x, y: dy * x.of(elementwise.CosOp),
    elementwise.CosOp: lambda dy, x, y: dy * -x.of(elementwise.SinOp),
    elementwise.ErfOp: lambda dy, x, y: dy * ((-(x * x)).of(coda.ExpOp) * (2 / sqrt(pi))),
    elementwise.Exp2Op: lambda dy, x, y: dy * (y * log(2)),
    elementwise.Log1pOp: lambda dy, x, y: dy / (x + 1.0),
    elementwise.Expm1Op: lambda dy, x, y: dy * x.of(coda.ExpOp),
    elementwise.SoftplusOp: lambda dy, x, y: dy * x.of(coda.SigmoidOp),
}


def _cast(op: coda.CastOp, adjoint: Adjoint) -> None:
    # `give` converts to the type of the operand.
    adjoint.give(op.operand, adjoint.dy)


ELEMENTWISE_RULES: dict[type, Rule] = {
    coda.AddOp: _add,
    coda.SubOp: _sub,
    coda.MulOp: _mul,
    coda.DivOp: _div,
    coda.MaximumOp: _extremum,
    coda.MinimumOp: _extremum,
    elementwise.RemainderOp: _remainder,
    elementwise.Atan2Op: _atan2,
    elementwise.PowerOp: _power,
    **{operator: _of_formula(formula) for operator, formula in _FORMULAS.items()},
    coda.EluOp: _elu,
    coda.PowOp: _pow,
    coda.WhereOp: _where,
    **dict.fromkeys(
        (
            *(coda.SignOp, elementwise.FloorOp, elementwise.CeilOp, elementwise.RoundOp),
            *(elementwise.TruncOp, elementwise.FloorDivideOp),
        ),
        _step,
    ),
    **{op: _activation(name) for name, op in coda.GATES.items()},
    coda.SoftcapOp: _softcap,
    **dict.fromkeys((coda.CastOp, coda.StoredOp), _cast),
}
