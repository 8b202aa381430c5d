"""Pass `raise-activations`: turn activations that are written out into named operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import ErfOp
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import defined_by, number_of, offset_of

_TANH_GELU = {1: math.sqrt(2 / math.pi), 3: math.sqrt(2 / math.pi) * 0.044715}
_ERF_GELU = {1: math.sqrt(0.5)}


class RaiseActivationsPass(FunctionPass):
    """Finds activations written with tanh, erf, exp and products.

        x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))     ->  coda.gelu_tanh %x
        x / 2 · (1 + erf(x / √2))                          ->  coda.gelu %x
        1 / (1 + exp(−x))                                  ->  coda.sigmoid %x
        x · sigmoid(x)                                     ->  coda.silu %x
        relu(x)²                                           ->  coda.relu2 %x
        c · tanh(x / c)                                    ->  coda.softcap %x {cap = c}

    Factors and terms may have any order and grouping. Legal iff the constants equal those of the
    activation in float32. Activations in float64, where the constants have more digits, are not
    raised. The named operators round once, at the end.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not isinstance(op, coda.MulOp | coda.DivOp):
                continue
            is_narrow = computes_in_float32(element_type_of(op.result))
            raised = _match(op) if is_narrow else None
            if raised is not None and raised.results[0].type == op.result.type:
                _replace(op, raised, rewriter)


def _match(op: coda.MulOp | coda.DivOp) -> Operation | None:
    matchers: tuple[Callable[[coda.MulOp | coda.DivOp], Operation | None], ...] = (
        _sigmoid,
        _silu,
        _relu2,
        _gelu,
        _softcap,
    )
    return next((raised for match in matchers if (raised := match(op)) is not None), None)


def _replace(op: coda.MulOp | coda.DivOp, raised: Operation, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, f"raised to {raised.name}")
    rewriter.order.substitute(op, raised)


def _sigmoid(op: coda.MulOp | coda.DivOp) -> Operation | None:
    x = _logistic_denominator(op.rhs) if isinstance(op, coda.DivOp) else None
    return None if x is None or number_of(op.lhs) != 1 else coda.SigmoidOp(x)


def _logistic_denominator(value: SSAValue) -> SSAValue | None:
    """Return x if `value` is 1 + exp(−x)."""
    exponential, one = offset_of(value) or (value, 0.0)
    exp = defined_by(exponential, coda.ExpOp)
    neg = defined_by(exp.operand, coda.NegOp) if exp else None
    return neg.operand if neg is not None and one == 1 else None


def _silu(op: coda.MulOp | coda.DivOp) -> Operation | None:
    if isinstance(op, coda.DivOp):
        x = _logistic_denominator(op.rhs)
        return coda.SiluOp(x) if x is not None and x is op.lhs else None
    for x, factor in op.pairs:
        sigmoid = defined_by(factor, coda.SigmoidOp)
        if sigmoid is not None and sigmoid.operand is x:
            return coda.SiluOp(x)
    return None


def _relu2(op: coda.MulOp | coda.DivOp) -> Operation | None:
    relu = defined_by(op.lhs, coda.ReluOp)
    is_square = isinstance(op, coda.MulOp) and op.lhs is op.rhs
    return coda.Relu2Op(relu.operand) if is_square and relu is not None else None


def _gelu(op: coda.MulOp | coda.DivOp) -> Operation | None:
    products = products_in(op.result)
    gates = [value for value in products if _curve(value) is not None]
    for x in products if len(gates) == 1 else ():
        scale, leaves = factors_of(op.result, x)
        form = _gelu_form(_curve(gates[0]), x)
        is_gated = len(leaves) == 2 and set(leaves) == {x, gates[0]}
        if form is not None and is_close(scale, 0.5) and is_gated:
            return form(x)
    return None


def _curve(gate: SSAValue) -> Operation | None:
    """Return tanh or erf of something if `gate` is that plus 1."""
    curve, one = offset_of(gate) or (gate, 0.0)
    match curve.owner:
        case coda.TanhOp() | ErfOp() as op if one == 1:
            return op
        case _:
            return None


def _gelu_form(curve: Operation | None, x: SSAValue) -> type[coda.RealFunction] | None:
    """Return the GELU of x that contains `curve`, an error function or a hyperbolic tangent."""
    if curve is None:
        return None
    is_tanh = isinstance(curve, coda.TanhOp)
    form, expected = (coda.GeluTanhOp, _TANH_GELU) if is_tanh else (coda.GeluOp, _ERF_GELU)
    return form if _is(polynomial_of(curve.operands[0], x), expected) else None


def _is(polynomial: Polynomial | None, expected: Polynomial) -> bool:
    return (
        polynomial is not None
        and polynomial.keys() == expected.keys()
        and all(is_close(polynomial[power], number) for power, number in expected.items())
    )


def _softcap(op: coda.MulOp | coda.DivOp) -> Operation | None:
    if not isinstance(op, coda.MulOp):
        return None
    for curve, factor in op.pairs:
        tanh, cap = defined_by(curve, coda.TanhOp), number_of(factor)
        if tanh is None or cap is None or cap <= 0:
            continue
        for x in products_in(tanh.operand):
            scale, leaves = factors_of(tanh.operand, x)
            if leaves == [x] and is_close(scale * cap, 1):
                return coda.SoftcapOp(x, cap)
    return None


# Products and polynomials that elementwise code computes, whatever way it is grouped


Polynomial: TypeAlias = dict[int, float]
"""Coefficients by power, without those that are 0."""

MAX_POWER = 4
MAX_DEPTH = 6
"""The deepest nesting of an activation; chains that double take exponential time."""


def is_close(a: float, b: float) -> bool:
    """Return whether two constants are the same in float32, up to its last digit."""
    return math.isclose(a, b, rel_tol=2**-23)


def factors_of(
    value: SSAValue, whole: SSAValue | None = None, depth: int = MAX_DEPTH
) -> tuple[float, list[SSAValue]]:
    """Return the number and the other factors of the product `value`; `whole` stays whole."""
    op, number = value.owner, number_of(value)
    if number is not None:
        return number, []
    if value is not whole and depth and isinstance(op, coda.MulOp):
        (a, left), (b, right) = (factors_of(v, whole, depth - 1) for v in op.operands)
        return a * b, [*left, *right]
    divisor = number_of(op.rhs) if isinstance(op, coda.DivOp) else None
    if value is not whole and depth and isinstance(op, coda.DivOp) and divisor:
        scale, leaves = factors_of(op.lhs, whole, depth - 1)
        return scale / divisor, leaves
    return 1.0, [value]


def products_in(value: SSAValue, depth: int = MAX_DEPTH) -> list[SSAValue]:
    """Return `value` and the values that it is a product of, at any depth."""
    op = value.owner
    if not depth or not isinstance(op, coda.MulOp | coda.DivOp):
        return [value]
    operands = op.operands if isinstance(op, coda.MulOp) else op.operands[:1]
    return [value, *(inner for v in operands for inner in products_in(v, depth - 1))]


def polynomial_of(value: SSAValue, x: SSAValue, depth: int = MAX_DEPTH) -> Polynomial | None:
    """Return `value` as a polynomial of x; None if it is none, or has a power above MAX_POWER."""
    op, number = value.owner, number_of(value)
    if value is x:
        return {1: 1.0}
    if number is not None:
        return {0: number} if number else {}
    if not depth or not isinstance(op, coda.AddOp | coda.SubOp | coda.MulOp | coda.DivOp):
        return None
    left = polynomial_of(op.lhs, x, depth - 1)
    right = polynomial_of(op.rhs, x, depth - 1) if left is not None else None
    if left is None or right is None:
        return None
    match op:
        case coda.AddOp():
            return _sum(left, right, 1)
        case coda.SubOp():
            return _sum(left, right, -1)
        case coda.MulOp():
            return _product(left, right)
        case coda.DivOp():
            divisor = right.get(0, 0.0) if right.keys() == {0} else 0.0
            return {p: c / divisor for p, c in left.items()} if divisor else None


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    total = {power: a.get(power, 0.0) + sign * b.get(power, 0.0) for power in {*a, *b}}
    return {power: number for power, number in total.items() if number}


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    total: Polynomial = {}
    for p, c in a.items():
        for q, d in b.items():
            total[p + q] = total.get(p + q, 0.0) + c * d
    return total if max(total, default=0) <= MAX_POWER else None
