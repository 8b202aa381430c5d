"""Canonical forms of truth values that are known: comparisons of constants, and what reads them."""

import operator
from collections.abc import Callable

from xdsl.dialects.builtin import AnyFloat, FloatAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

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


def _replace(op: ElementwiseOp | CastOp, number: Number, rewriter: PatternRewriter) -> None:
    constant = ConstantOp(number, element_type_of(op.result))
    constant.location = op.location
    rewriter.replace(op, constant)


_RELATIONS: dict[str, Callable[[Number, Number], bool]] = {
    name: getattr(operator, name) for name in CompareOp.RELATIONS
}


class FoldCompare(RewritePattern):
    """compare(1, 2) {lt} -> true, if rounding to the element type changes nothing about it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CompareOp, rewriter: PatternRewriter) -> None:
        numbers = [_number(op.lhs), _number(op.rhs)]
        exact = [number for number in numbers if number is not None]
        rounded = [_rounded(number, element_type_of(op.lhs)) for number in exact]
        known = [number for number in rounded if number is not None]
        if len(known) < 2:
            return
        holds = _RELATIONS[op.relation.data]
        if holds(*exact) == holds(*known):
            _replace(op, int(holds(*exact)), rewriter)


def _rounded(number: Number, type: Attribute) -> Number | None:
    """The number as an element of `type`; None for one that is out of its range."""
    if not isinstance(type, AnyFloat):
        return number
    try:
        return FloatAttr(float(number), type).value.data
    except OverflowError:
        return None


_NEUTRAL: dict[type[ElementwiseOp], bool] = {
    LogicalAndOp: True,
    LogicalOrOp: False,
    LogicalXorOp: False,
}
"""The truth value with which an operator gives the other operand."""


class FoldLogical(RewritePattern):
    """and(true, x), or(false, x), xor(false, x) -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: LogicalAndOp | LogicalOrOp | LogicalXorOp, rewriter: PatternRewriter
    ) -> None:
        for kept, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if _truth(other) is _NEUTRAL[type(op)] and kept.type == op.result.type:
                rewriter.replace(op, (), (kept,))
                return


class FoldTruthValues(RewritePattern):
    """not(true) -> false, and(false, false) -> false, or(true, true) -> true, xor(true, true) ->
    false.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: LogicalNotOp | LogicalAndOp | LogicalOrOp | LogicalXorOp,
        rewriter: PatternRewriter,
    ) -> None:
        known = [truth for truth in map(_truth, op.operands) if truth is not None]
        if len(known) == len(op.operands):
            _replace(op, int(_LOGICAL[type(op)](*known)), rewriter)


_LOGICAL: dict[type[ElementwiseOp], Callable[..., bool]] = {
    LogicalNotOp: operator.not_,
    LogicalAndOp: operator.and_,
    LogicalOrOp: operator.or_,
    LogicalXorOp: operator.xor,
}


class FoldWhere(RewritePattern):
    """where(true, a, b) -> a, and where(false, a, b) -> b, of the shape of the result."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: WhereOp, rewriter: PatternRewriter) -> None:
        truth = _truth(op.condition)
        chosen = op.lhs if truth else op.rhs
        if truth is not None and chosen.type == op.result.type:
            rewriter.replace(op, (), (chosen,))


class FoldCastOfTruth(RewritePattern):
    """cast(true) -> 1, and cast(false) -> 0."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        truth = _truth(op.operand)
        if truth is not None:
            type = element_type_of(op.result)
            _replace(op, float(truth) if is_float(type) else int(truth), rewriter)


TRUTH_FOLDS = (FoldCompare(), FoldLogical(), FoldTruthValues(), FoldWhere(), FoldCastOfTruth())
