"""Canonical forms of the block level: operators that change nothing go away.

Run by xDSL's `canonicalize`. Every pattern is exact: it keeps each bit of the result, NaN included.
"""

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from coda_ir.dialects.coda.base import CANONICALIZATIONS
from coda_ir.dialects.coda.elementwise import CastOp, ConstantOp, MulOp, NegOp
from coda_ir.dialects.coda.shape import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from coda_ir.dialects.coda.shapes import shape_of


def _is_static(value: SSAValue) -> bool:
    return DYNAMIC_INDEX not in shape_of(value)


class FoldCast(RewritePattern):
    """cast(x) to the type of x -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        if op.operand.type == op.result.type:
            rewriter.replace(op, (), (op.operand,))


class FoldReshape(RewritePattern):
    """reshape(reshape(x)) -> reshape(x), and reshape(x) to its own static shape -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if op.x.type == op.result.type and _is_static(op.x):
            rewriter.replace(op, (), (op.x,))
        elif isinstance(op.x.owner, ReshapeOp) and _is_static(op.result):
            rewriter.replace(op, ReshapeOp(op.x.owner.x, shape_of(op.result)))


class FoldTranspose(RewritePattern):
    """transpose(transpose(x)) -> one transpose, and the identity permutation -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if op.permutation == tuple(range(len(op.permutation))):
            rewriter.replace(op, (), (op.x,))
        elif isinstance(op.x.owner, TransposeOp):
            inner = op.x.owner
            combined = [inner.permutation[axis] for axis in op.permutation]
            rewriter.replace(op, TransposeOp(inner.x, combined))


class FoldSlice(RewritePattern):
    """slice(x) of all elements -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        dim, start, stop = op.range
        if start == 0 and stop == shape_of(op.x)[dim]:
            rewriter.replace(op, (), (op.x,))


class FoldConcat(RewritePattern):
    """concat of one part -> the part."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatOp, rewriter: PatternRewriter) -> None:
        if len(op.parts) == 1:
            rewriter.replace(op, (), (op.parts[0],))


class FoldNeg(RewritePattern):
    """neg(neg(x)) -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NegOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.operand.owner, NegOp):
            rewriter.replace(op, (), (op.operand.owner.operand,))


class FoldMulByOne(RewritePattern):
    """x * 1 -> x, with the constant on either side."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        for kept, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            constant = factor.owner
            is_one = isinstance(constant, ConstantOp) and constant.number == 1
            if is_one and kept.type == op.result.type:
                rewriter.replace(op, (), (kept,))
                return


CANONICALIZATIONS.extend(
    (
        FoldCast(),
        FoldReshape(),
        FoldTranspose(),
        FoldSlice(),
        FoldConcat(),
        FoldNeg(),
        FoldMulByOne(),
    )
)
