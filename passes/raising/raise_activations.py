"""Pass `raise-activations`: activations that are spelled out become named operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.polynomials import (
    Polynomial,
    factors_of,
    is_close,
    polynomial_of,
    products_in,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import defined_by, number_of, offset_of, operand_pairs

_TANH_GELU = {1: math.sqrt(2 / math.pi), 3: math.sqrt(2 / math.pi) * 0.044715}
ERF = "aten.erf.default"

_ERF_GELU = {1: math.sqrt(0.5)}


class RaiseActivationsPass(FunctionPass):
    """Finds activations written with tanh, erf, exp and products.

        x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))     ->  coda.gelu %x {approximate = "tanh"}
        x / 2 · (1 + erf(x / √2))                          ->  coda.gelu %x {approximate = "none"}
        1 / (1 + exp(−x))                                  ->  coda.sigmoid %x
        x · sigmoid(x)                                     ->  coda.silu %x
        relu(x)²                                           ->  coda.relu2 %x
        c · tanh(x / c)                                    ->  coda.softcap %x {cap = c}

    Factors and terms may come in any order and grouping. Legal where the constants are those of
    the activation in float32 (of which float64 has more digits, so that it is left alone); the
    named operators round once, at their end.
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
    raised.location, raised.results[0].name_hint = op.location, op.result.name_hint
    op.result.replace_all_uses_with(raised.results[0])
    rewriter.order.replace(op, raised)


def _sigmoid(op: coda.MulOp | coda.DivOp) -> Operation | None:
    x = _logistic_denominator(op.rhs) if isinstance(op, coda.DivOp) else None
    return None if x is None or number_of(op.lhs) != 1 else coda.SigmoidOp(x)


def _logistic_denominator(value: SSAValue) -> SSAValue | None:
    """x where `value` is 1 + exp(−x)."""
    exponential, one = offset_of(value) or (value, 0.0)
    exp = defined_by(exponential, coda.ExpOp)
    neg = defined_by(exp.operand, coda.NegOp) if exp else None
    return neg.operand if neg is not None and one == 1 else None


def _silu(op: coda.MulOp | coda.DivOp) -> Operation | None:
    if isinstance(op, coda.DivOp):
        x = _logistic_denominator(op.rhs)
        return coda.SiluOp(x) if x is not None and x is op.lhs else None
    for x, factor in operand_pairs(op):
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
        if form and is_close(scale, 0.5) and set(leaves) == {x, gates[0]} and len(leaves) == 2:
            return coda.GeluOp(x, form)
    return None


def _curve(gate: SSAValue) -> Operation | None:
    """tanh or erf of something where `gate` is that plus 1."""
    curve, one = offset_of(gate) or (gate, 0.0)
    match curve.owner:
        case coda.TanhOp() as op if one == 1:
            return op
        case CallOp() as op if one == 1 and op.callee.data == ERF:
            return op
        case _:
            return None


def _gelu_form(curve: Operation | None, x: SSAValue) -> str | None:
    """The approximation of the error function that `curve` is of x."""
    if curve is None:
        return None
    form, expected = ("tanh", _TANH_GELU) if isinstance(curve, coda.TanhOp) else ("none", _ERF_GELU)
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
    for curve, factor in operand_pairs(op):
        tanh, cap = defined_by(curve, coda.TanhOp), number_of(factor)
        if tanh is None or cap is None or cap <= 0:
            continue
        for x in products_in(tanh.operand):
            scale, leaves = factors_of(tanh.operand, x)
            if leaves == [x] and is_close(scale * cap, 1):
                return coda.SoftcapOp(x, cap)
    return None
