"""Products and polynomials that elementwise code computes, whatever way it is grouped."""

from __future__ import annotations

import math
from typing import TypeAlias

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.passes.support.matching import number_of

Polynomial: TypeAlias = dict[int, float]
"""Coefficients by power, without those that are 0."""

MAX_POWER = 4
MAX_DEPTH = 6
"""What is nested deeper is no activation; doubling chains would take exponential time."""


def is_close(a: float, b: float) -> bool:
    """Return whether two constants are the same in float32, up to its last digit."""
    return math.isclose(a, b, rel_tol=2**-23)


def factors_of(
    value: SSAValue, whole: SSAValue | None = None, depth: int = MAX_DEPTH
) -> tuple[float, list[SSAValue]]:
    """The number and the other factors of the product that `value` is; `whole` is not taken
    apart."""
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
    """`value` and the values that it is a product of, at any depth."""
    op = value.owner
    if not depth or not isinstance(op, coda.MulOp | coda.DivOp):
        return [value]
    operands = op.operands if isinstance(op, coda.MulOp) else op.operands[:1]
    return [value, *(inner for v in operands for inner in products_in(v, depth - 1))]


def polynomial_of(value: SSAValue, x: SSAValue, depth: int = MAX_DEPTH) -> Polynomial | None:
    """`value` as a polynomial of x; None where it is none, or of a power above MAX_POWER."""
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
