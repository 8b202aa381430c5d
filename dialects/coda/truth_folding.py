"""Canonicalization of known truth values: comparisons of constants, and their uses."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import AnyFloat, FloatAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda.casts import CastOp, ConstantOp
from coda_ir.dialects.coda.elementwise import (
    CompareOp,
    LogicalAndOp,
    LogicalNotOp,
    LogicalOrOp,
    LogicalXorOp,
    WhereOp,
)
from coda_ir.dialects.coda.elementwise_op import ElementwiseOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float

Number = float | int


def _number(value: SSAValue) -> Number | None:
    return value.owner.number if isinstance(value.owner, ConstantOp) else None


def _truth(value: SSAValue) -> bool | None:
    number = _number(value)
    return None if number is None or element_type_of(value) != i1 else bool(number)


_RELATIONS: dict[str, Callable[[Number, Number], bool]] = {
    name: getattr(operator, name) for name in CompareOp.RELATIONS
}


def _compare(op: CompareOp) -> Operation | None:
    """compare(1, 2) {lt} -> true, if rounding to the element type changes nothing about it."""
    exact = [number for number in map(_number, op.operands) if number is not None]
    rounded = [rounded_number(number, element_type_of(op.lhs)) for number in exact]
    known = [number for number in rounded if number is not None]
    holds = _RELATIONS[op.relation.data]
    if len(known) < 2 or holds(*exact) != holds(*known):
        return None
    return ConstantOp(int(holds(*exact)), i1)


def rounded_number(number: Number, type: Attribute) -> Number | None:
    """Return the number as an element of `type`; None if it is out of range."""
    if not isinstance(type, AnyFloat):
        return number
    try:
        return FloatAttr(float(number), type).value.data
    except OverflowError:
        return None


class Logical(NamedTuple):
    """A logical operator, its identity, and the value that absorbs the other operand, if any."""

    compute: Callable[..., bool]
    neutral: bool | None = None


_LOGICAL: dict[type[ElementwiseOp], Logical] = {
    LogicalNotOp: Logical(operator.not_),
    LogicalAndOp: Logical(bool.__and__, True),
    LogicalOrOp: Logical(bool.__or__, False),
    LogicalXorOp: Logical(bool.__xor__, False),
}


def _logical(op: ElementwiseOp) -> SSAValue | Operation | None:
    """and(true, x), or(false, x), xor(false, x) -> x; and of truth values, the one they give."""
    compute, neutral = _LOGICAL[type(op)]
    truths = [_truth(operand) for operand in op.operands]
    for kept, truth in zip(op.operands, reversed(truths), strict=True):
        if neutral is not None and truth is neutral and kept.type == op.result.type:
            return kept
    known = [truth for truth in truths if truth is not None]
    return ConstantOp(int(compute(*known)), i1) if len(known) == len(truths) else None


def _where(op: WhereOp) -> SSAValue | None:
    """where(true, a, b) -> a, and where(false, a, b) -> b, of the shape of the result."""
    truth = _truth(op.condition)
    chosen = op.lhs if truth else op.rhs
    return chosen if truth is not None and chosen.type == op.result.type else None


def _cast(op: CastOp) -> Operation | None:
    """cast(true) -> 1, and cast(false) -> 0."""
    truth, type = _truth(op.operand), element_type_of(op.result)
    if truth is None:
        return None
    return ConstantOp(float(truth) if is_float(type) else int(truth), type)


TRUTH_FOLDS: Mapping[type[Operation], Sequence[Callable[[Any], SSAValue | Operation | None]]] = {
    CompareOp: (_compare,),
    **dict.fromkeys(_LOGICAL, (_logical,)),
    WhereOp: (_where,),
    CastOp: (_cast,),
}
"""Functions that give a value, or another operator, for an operator; None where it stays."""
