"""Derivatives of the elementwise operators.

y = f(x): dx = f'(x) · dy, in terms of x or of y, whichever needs fewer operators.
"""

from __future__ import annotations

from math import log, pi, sqrt

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule


def _add(op: coda.AddOp, adjoint: Adjoint) -> None:
    adjoint.give(op.lhs, adjoint.dy)
    adjoint.give(op.rhs, adjoint.dy)


def _sub(op: coda.SubOp, adjoint: Adjoint) -> None:
    adjoint.give(op.lhs, adjoint.dy)
    if adjoint.wants(op.rhs):
        adjoint.give(op.rhs, adjoint.neg(adjoint.dy))


def _mul(op: coda.MulOp, adjoint: Adjoint) -> None:
    if op.lhs is op.rhs:
        adjoint.give(op.lhs, adjoint.scale(adjoint.mul(adjoint.dy, op.lhs), 2.0))
        return
    for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if adjoint.wants(operand):
            adjoint.give(operand, adjoint.mul(adjoint.dy, other))


def _div(op: coda.DivOp, adjoint: Adjoint) -> None:
    """da = dy / b and db = −dy · a/b / b."""
    share = adjoint.div(adjoint.dy, op.rhs)
    adjoint.give(op.lhs, share)
    if adjoint.wants(op.rhs):
        adjoint.give(op.rhs, adjoint.neg(adjoint.mul(share, op.result)))


def _extremum(op: coda.MaximumOp | coda.MinimumOp, adjoint: Adjoint) -> None:
    for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if adjoint.wants(operand):
            larger, smaller = (
                (operand, other) if isinstance(op, coda.MaximumOp) else (other, operand)
            )
            share = coda.MaximumGradOp(larger, smaller, adjoint.dy, bound=_is_bound(other, op))
            adjoint.give(operand, adjoint.insert(share))


def _remainder(op: elementwise.RemainderOp, adjoint: Adjoint) -> None:
    """da = dy and db = −dy · floor(a / b)."""
    adjoint.give(op.lhs, adjoint.dy)
    if adjoint.wants(op.rhs):
        quotient = adjoint.insert(elementwise.FloorOp(adjoint.div(op.lhs, op.rhs)))
        adjoint.give(op.rhs, adjoint.neg(adjoint.mul(adjoint.dy, quotient)))


def _atan2(op: elementwise.Atan2Op, adjoint: Adjoint) -> None:
    """da = dy · b / (a² + b²) and db = −dy · a / (a² + b²)."""
    squares = [adjoint.mul(operand, operand) for operand in (op.lhs, op.rhs)]
    share = adjoint.div(adjoint.dy, adjoint.add(*squares))
    adjoint.give(op.lhs, adjoint.mul(share, op.rhs))
    if adjoint.wants(op.rhs):
        adjoint.give(op.rhs, adjoint.neg(adjoint.mul(share, op.lhs)))


def _power(op: elementwise.PowerOp, adjoint: Adjoint) -> None:
    """da = dy · b · a to the power b − 1, and db = dy · y · log a; 0 where y does not change."""
    a, b, zero = op.lhs, op.rhs, adjoint.constant(0.0, op.lhs)
    if adjoint.wants(a):
        below = adjoint.insert(elementwise.PowerOp(a, adjoint.sub(b, adjoint.constant(1.0, b))))
        share = adjoint.mul(adjoint.dy, adjoint.mul(b, below))
        is_fixed = adjoint.insert(coda.CompareOp(b, zero, "eq"))
        adjoint.give(a, adjoint.insert(coda.WhereOp(is_fixed, zero, share)))
    if adjoint.wants(b):
        share = adjoint.mul(adjoint.dy, adjoint.mul(op.result, adjoint.insert(coda.LogOp(a))))
        is_zero = adjoint.insert(coda.CompareOp(a, zero, "eq"))
        is_fixed = adjoint.insert(coda.CompareOp(b, zero, "ge"))
        is_fixed = adjoint.insert(elementwise.LogicalAndOp(is_zero, is_fixed))
        adjoint.give(b, adjoint.insert(coda.WhereOp(is_fixed, zero, share)))


def _is_bound(value: SSAValue, op: coda.MaximumOp | coda.MinimumOp) -> bool:
    return isinstance(value.owner, coda.ConstantOp) and elementwise.SHARED_TIES not in op.attributes


def _neg(op: coda.NegOp, adjoint: Adjoint) -> None:
    adjoint.give(op.operand, adjoint.neg(adjoint.dy))


def _abs(op: coda.AbsOp, adjoint: Adjoint) -> None:
    sign = adjoint.insert(coda.SignOp(op.operand))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, sign))


def _exp(op: coda.ExpOp, adjoint: Adjoint) -> None:
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, op.result))


def _log(op: coda.LogOp, adjoint: Adjoint) -> None:
    adjoint.give(op.operand, adjoint.div(adjoint.dy, op.operand))


def _sqrt(op: coda.SqrtOp, adjoint: Adjoint) -> None:
    """dy / (2 y)."""
    adjoint.give(op.operand, adjoint.div(adjoint.dy, adjoint.scale(op.result, 2.0)))


def _rsqrt(op: coda.RsqrtOp, adjoint: Adjoint) -> None:
    """−½ dy · y³."""
    square = adjoint.mul(op.result, op.result)
    cube = adjoint.mul(square, op.result)
    adjoint.give(op.operand, adjoint.mul(adjoint.scale(adjoint.dy, -0.5), cube))


def _exp2(op: elementwise.Exp2Op, adjoint: Adjoint) -> None:
    """dy · ln 2 · y."""
    slope = adjoint.scale(op.result, log(2))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, slope))


def _log1p(op: elementwise.Log1pOp, adjoint: Adjoint) -> None:
    """dy / (1 + x)."""
    total = adjoint.add(op.operand, adjoint.constant(1.0, op.operand))
    adjoint.give(op.operand, adjoint.div(adjoint.dy, total))


def _expm1(op: elementwise.Expm1Op, adjoint: Adjoint) -> None:
    """dy · exp(x)."""
    power = adjoint.insert(coda.ExpOp(op.operand))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, power))


def _sin(op: elementwise.SinOp, adjoint: Adjoint) -> None:
    slope = adjoint.insert(elementwise.CosOp(op.operand))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, slope))


def _cos(op: elementwise.CosOp, adjoint: Adjoint) -> None:
    slope = adjoint.neg(adjoint.insert(elementwise.SinOp(op.operand)))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, slope))


def _erf(op: elementwise.ErfOp, adjoint: Adjoint) -> None:
    """dy · 2/√π · exp(−x²)."""
    square = adjoint.neg(adjoint.mul(op.operand, op.operand))
    bell = adjoint.scale(adjoint.insert(coda.ExpOp(square)), 2 / sqrt(pi))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, bell))


def _softplus(op: elementwise.SoftplusOp, adjoint: Adjoint) -> None:
    """dy · sigmoid(x)."""
    slope = adjoint.insert(coda.SigmoidOp(op.operand))
    adjoint.give(op.operand, adjoint.mul(adjoint.dy, slope))


def _elu(op: coda.EluOp, adjoint: Adjoint) -> None:
    """dy, times alpha · exp(x) where x is not above 0."""
    x, dy = op.operand, adjoint.dy
    is_below = adjoint.insert(coda.CompareOp(x, adjoint.constant(0.0, x), "le"))
    power = adjoint.scale(adjoint.insert(coda.ExpOp(x)), op.alpha.value.data)
    adjoint.give(x, adjoint.insert(coda.WhereOp(is_below, adjoint.mul(dy, power), dy)))


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
    if adjoint.wants(op.lhs):
        chosen = coda.WhereOp(op.condition, adjoint.dy, zero)
        adjoint.give(op.lhs, adjoint.insert(chosen))
    if adjoint.wants(op.rhs):
        rest = coda.WhereOp(op.condition, zero, adjoint.dy)
        adjoint.give(op.rhs, adjoint.insert(rest))


def _step(op: coda.ElementwiseOp, adjoint: Adjoint) -> None:
    """0 everywhere, as in PyTorch."""
    for operand in op.operands:
        adjoint.give(operand, adjoint.scale(adjoint.dy, 0.0))


def _softcap(op: coda.SoftcapOp, adjoint: Adjoint) -> None:
    """cap · tanh(x / cap) has the derivative tanh'(x / cap)."""
    inside = adjoint.div(op.operand, adjoint.constant(op.cap.value.data, op.operand))
    share = coda.ActivationGradOp(inside, adjoint.dy, "tanh")
    adjoint.give(op.operand, adjoint.insert(share))


def _gelu(op: coda.GeluOp, adjoint: Adjoint) -> None:
    name = "gelu" if op.approximate.data == "none" else "gelu_tanh"
    share = coda.ActivationGradOp(op.operand, adjoint.dy, name)
    adjoint.give(op.operand, adjoint.insert(share))


def _activation(name: str) -> Rule:
    def rule(op: coda.UnaryOp, adjoint: Adjoint) -> None:
        share = coda.ActivationGradOp(op.operand, adjoint.dy, name)
        adjoint.give(op.operand, adjoint.insert(share))

    return rule


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
    coda.NegOp: _neg,
    coda.AbsOp: _abs,
    coda.ExpOp: _exp,
    coda.LogOp: _log,
    coda.SqrtOp: _sqrt,
    coda.RsqrtOp: _rsqrt,
    elementwise.SinOp: _sin,
    elementwise.CosOp: _cos,
    elementwise.ErfOp: _erf,
    elementwise.Exp2Op: _exp2,
    elementwise.Log1pOp: _log1p,
    elementwise.Expm1Op: _expm1,
    elementwise.SoftplusOp: _softplus,
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
    coda.TanhOp: _activation("tanh"),
    coda.SigmoidOp: _activation("sigmoid"),
    coda.SiluOp: _activation("silu"),
    coda.ReluOp: _activation("relu"),
    coda.Relu2Op: _activation("relu2"),
    coda.GeluOp: _gelu,
    coda.SoftcapOp: _softcap,
    coda.CastOp: _cast,
}
