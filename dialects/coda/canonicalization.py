"""Canonical forms of the block level: what changes nothing, or is not used, goes away.

Run by xDSL's `canonicalize`. Every pattern is exact: it keeps each bit of the result, NaN included.
"""

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, BFloat16Type, Float16Type, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from coda_ir.dialects.coda.attention import AttentionOp
from coda_ir.dialects.coda.base import CANONICALIZATIONS
from coda_ir.dialects.coda.casts import CastOp, ConstantOp
from coda_ir.dialects.coda.elementwise import AddOp, DivOp, MulOp, NegOp
from coda_ir.dialects.coda.elementwise_op import ElementwiseOp
from coda_ir.dialects.coda.extension import BroadcastOp, PadOp
from coda_ir.dialects.coda.gradients import SumToOp
from coda_ir.dialects.coda.library import IndexOp
from coda_ir.dialects.coda.positions import ExtentOp, positions_in
from coda_ir.dialects.coda.reductions import ReduceOp, SoftmaxOp
from coda_ir.dialects.coda.shape import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from coda_ir.dialects.coda.shapes import broadcast_shapes, element_type_of, is_float, shape_of
from coda_ir.dialects.coda.truth_folding import TRUTH_FOLDS


def _at(op: Operation, new: Operation) -> Operation:
    """`new` at the place of `op`, which it replaces."""
    new.location = op.location
    return new


def _is_static(value: SSAValue) -> bool:
    return DYNAMIC_INDEX not in shape_of(value)


class FoldCast(RewritePattern):
    """cast(x) to the type of x -> x, and cast(cast(x) to float32) to the 16 bits of x -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        wide = op.operand.owner
        if op.operand.type == op.result.type:
            rewriter.replace(op, (), (op.operand,))
            return
        if not isinstance(wide, CastOp) or wide.operand.type != op.result.type:
            return
        if _is_widened_to(wide, f32):
            rewriter.replace(op, (), (wide.operand,))


class WidenBehindIndex(RewritePattern):
    """index(cast(x) to float32) of 16 bits -> cast(index(x)), also behind a reshape: fewer bytes
    are copied, and a GEMM that narrows them again can gather rows of x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IndexOp, rewriter: PatternRewriter) -> None:
        view = op.x.owner if isinstance(op.x.owner, ReshapeOp) else None
        wide = (op.x if view is None else view.x).owner
        if not isinstance(wide, CastOp) or not _is_widened_to(wide, f32):
            return
        rows, made = wide.operand, list[Operation]()
        if view is not None:
            shown = ReshapeOp(rows, shape_of(view.result))
            shown.location = view.location
            shown.attributes |= view.attributes
            rows = shown.result
            made.append(shown)
        index = _at(op, IndexOp(rows, op.ids, **op.given))
        cast = _at(op, CastOp(index.results[0], f32))
        rewriter.replace(op, (*made, index, cast), (cast.results[0],))


class NarrowBeforeReshape(RewritePattern):
    """cast(reshape(x)) -> reshape(cast(x)) where the cast narrows: the code that makes x rounds it.

    Only for a reshape that nothing else uses.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        view = op.operand.owner
        if not isinstance(view, ReshapeOp) or not view.result.has_one_use():
            return
        before, after = element_type_of(op.operand), element_type_of(op.result)
        if not isinstance(before, AnyFloat) or not isinstance(after, AnyFloat):
            return
        if after.bitwidth >= before.bitwidth:
            return
        narrow = CastOp(view.x, after)
        moved = ReshapeOp(narrow, shape_of(op.result))
        narrow.location, moved.location = op.location, view.location
        moved.attributes |= view.attributes
        rewriter.replace(op, (narrow, moved), (moved.result,))


class SoftmaxBeforeReshape(RewritePattern):
    """softmax(reshape(x)) -> reshape(softmax(x)) where a reshape flattens rows for a softmax alone:
    the scores of a router, whose GEMM has whole rows on chip.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SoftmaxOp, rewriter: PatternRewriter) -> None:
        view = op.x.owner
        if not isinstance(view, ReshapeOp) or not view.result.has_one_use():
            return
        before, after = shape_of(view.x), shape_of(op.x)
        if len(after) != 2 or before[-1:] != after[-1:] or after[-1] == DYNAMIC_INDEX:
            return
        softmax = _at(op, SoftmaxOp(view.x))
        moved = _at(view, ReshapeOp(softmax.results[0], after))
        moved.attributes |= view.attributes
        rewriter.replace(op, (softmax, moved), (moved.results[0],))


class FoldReshape(RewritePattern):
    """reshape(reshape(x)) -> reshape(x), and reshape(x) to its own static shape -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if op.x.type == op.result.type and _is_static(op.x):
            rewriter.replace(op, (), (op.x,))
        elif isinstance(op.x.owner, ReshapeOp) and _is_static(op.result):
            rewriter.replace(op, _at(op, ReshapeOp(op.x.owner.x, shape_of(op.result))))


class ReshapePositions(RewritePattern):
    """reshape(f(x)) -> f(reshape(x)) where x is made of positions: kernels compute x under any
    shape.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        inner = op.x.owner
        if isinstance(inner, ReshapeOp) or not _is_of_positions(op.x):
            return
        assert isinstance(inner, Operation)
        operands: list[SSAValue] = []
        views: list[Operation] = []
        for operand in inner.operands:
            if shape_of(operand):
                views.append(_at(op, ReshapeOp(operand, shape_of(op.result))))
                views[-1].attributes |= op.attributes
                operand = views[-1].results[0]
            operands.append(operand)
        moved = type(inner).create(
            operands=operands, properties=inner.properties, result_types=[op.result.type]
        )
        rewriter.replace(op, (*views, _at(inner, moved)), (moved.results[0],))


MAX_STEPS = 8
"""Operators between positions and a reshape, at most."""


def _is_of_positions(value: SSAValue) -> bool:
    """Return whether a few operators on one tensor and numbers compute `value` from positions."""
    for step in range(MAX_STEPS):
        if positions_in(value) is not None:
            return step > 0
        op = value.owner
        if not isinstance(op, ElementwiseOp | CastOp):
            return False
        tensors = [operand for operand in op.operands if shape_of(operand)]
        numbers = [operand for operand in op.operands if not shape_of(operand)]
        is_like_one = all(shape_of(tensor) == shape_of(value) for tensor in tensors)
        if len(set(tensors)) != 1 or not is_like_one or not all(map(_is_number, numbers)):
            return False
        value = tensors[0]
    return False


def _is_number(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


class FoldTranspose(RewritePattern):
    """transpose(transpose(x)) -> one transpose, and the identity permutation -> x. A slice in
    between is one of x where two transposes have no effect together.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        identity = list(range(len(op.permutation)))
        part = op.x.owner if isinstance(op.x.owner, SliceOp) else None
        inner = op.x.owner if part is None else part.x.owner
        if list(op.permutation) == identity:
            rewriter.replace(op, (), (op.x,))
            return
        if not isinstance(inner, TransposeOp):
            return
        combined = [inner.permutation[axis] for axis in op.permutation]
        if part is None:
            rewriter.replace(op, _at(op, TransposeOp(inner.x, combined)))
        elif combined == identity:
            dim, start, stop = part.range
            rewriter.replace(op, _at(part, SliceOp(inner.x, inner.permutation[dim], start, stop)))


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


class ConcatBeforeViews(RewritePattern):
    """concat of transposes -> transpose of a concat, and concat of reshapes that split columns
    alike -> reshape of a concat: heads of several tensors are heads of one.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatOp, rewriter: PatternRewriter) -> None:
        views, dim = [part.owner for part in op.parts], op.dim.value.data
        transposes = [view for view in views if isinstance(view, TransposeOp)]
        reshapes = [view for view in views if isinstance(view, ReshapeOp)]
        if len(transposes) == len(views) and len({view.permutation for view in transposes}) == 1:
            order = transposes[0].permutation
            joined = ConcatOp([view.x for view in transposes], order[dim])
            view = TransposeOp(joined, order)
        elif len(reshapes) == len(views) and all(_splits_columns(v, dim) for v in reshapes):
            joined = ConcatOp([view.x for view in reshapes], dim)
            view = ReshapeOp(joined, shape_of(op.result))
        else:
            return
        rewriter.replace(op, (_at(op, joined), _at(op, view)), (view.result,))


def _splits_columns(view: ReshapeOp, dim: int) -> bool:
    """Return whether a reshape of a static shape keeps the dimensions up to `dim`, and splits the
    last one.
    """
    before, after = shape_of(view.x), shape_of(view.result)
    is_static = _is_static(view.x) and _is_static(view.result)
    rows = len(before) - 1
    return is_static and dim < rows and len(after) > len(before) and after[:rows] == before[:rows]


class FoldNeg(RewritePattern):
    """neg(neg(x)) -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NegOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.operand.owner, NegOp):
            rewriter.replace(op, (), (op.operand.owner.operand,))


class FoldAddOfZero(RewritePattern):
    """x + 0 -> x of integers; of floats, -0.0 + 0 is 0."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        for kept, added in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            is_zero = isinstance(added.owner, ConstantOp) and added.owner.number == 0
            if is_zero and kept.type == op.result.type and not is_float(element_type_of(kept)):
                rewriter.replace(op, (), (kept,))
                return


class FoldMulByOne(RewritePattern):
    """x * 1 -> x, with the constant on either side."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        for kept, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if _is_one(factor) and kept.type == op.result.type:
                rewriter.replace(op, (), (kept,))
                return


class FoldDivByOne(RewritePattern):
    """x / 1 -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        if _is_one(op.rhs) and op.lhs.type == op.result.type:
            rewriter.replace(op, (), (op.lhs,))


def _is_one(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp) and value.owner.number == 1


class FoldSumTo(RewritePattern):
    """sum_to(x) of nothing -> x; sum_to(x) of the last dimension -> reduce(x) {kind = "sum"};
    sum_to(cast(x)) to float32 of what is widened to it -> sum_to(x), which accumulates in float32.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SumToOp, rewriter: PatternRewriter) -> None:
        rank = len(shape_of(op.x))
        if op.x.type == op.result.type:
            rewriter.replace(op, (), (op.x,))
        elif op.summed_dims == (rank - 1,) and len(shape_of(op.result)) == rank:
            reduction = ReduceOp(op.x, "sum", element_type_of(op.result))
            rewriter.replace(op, _at(op, reduction))
        elif isinstance(op.x.owner, CastOp) and _is_widened_to(op.x.owner, f32):
            type = element_type_of(op.result)
            total = SumToOp(op.x.owner.operand, shape_of(op.result), result_element_type=type)
            rewriter.replace(op, _at(op, total))


def _is_widened_to(op: CastOp, type: Attribute) -> bool:
    before = element_type_of(op.operand)
    is_narrow = isinstance(before, BFloat16Type | Float16Type)
    return is_narrow and element_type_of(op.result) == type


class SumBeforeTranspose(RewritePattern):
    """reduce(transpose(x)) {kind = "sum"} of the last two dimensions -> sum_to(x), which copies
    nothing, and a reshape.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReduceOp, rewriter: PatternRewriter) -> None:
        turned, shape = op.x.owner, shape_of(op.result)
        if op.kind.data != "sum" or not isinstance(turned, TransposeOp):
            return
        rank = len(shape)
        if turned.permutation != (*range(rank - 2), rank - 1, rank - 2):
            return
        kept = shape[:-1] if rank == 2 else (*shape[:-2], 1, shape[-2])
        total = SumToOp(turned.x, kept, result_element_type=element_type_of(op.result))
        view = _at(op, ReshapeOp(_at(op, total), shape))
        rewriter.replace(op, (total, view), (view.results[0],))


class FoldBroadcast(RewritePattern):
    """broadcast(x) to the shape of x -> x, and operators that broadcast themselves take x:

    add(broadcast(x), y) -> add(x, y), where y alone gives the result its shape.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastOp, rewriter: PatternRewriter) -> None:
        if op.x.type == op.result.type:
            rewriter.replace(op, (), (op.x,))
            return
        for use in list(op.result.uses):
            user = use.operation
            if isinstance(user, ElementwiseOp) and _broadcasts_itself(user, use.index, op.x):
                user.operands[use.index] = op.x
                rewriter.notify_op_modified(user)


def _broadcasts_itself(op: ElementwiseOp, index: int, x: SSAValue) -> bool:
    """Return whether `op` keeps its shape with `x` as operand number `index`."""
    shape: tuple[int, ...] | None = ()
    for number, operand in enumerate(op.operands):
        shape = broadcast_shapes(shape, shape_of(x if number == index else operand))
        if shape is None:
            return False
    return shape == shape_of(op.result)


class FoldExtent(RewritePattern):
    """extent(x) where the type of x has it -> a constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ExtentOp, rewriter: PatternRewriter) -> None:
        extent = shape_of(op.like)[op.axis]
        if extent != DYNAMIC_INDEX:
            rewriter.replace(op, _at(op, ConstantOp(extent, element_type_of(op.result))))


class FoldPad(RewritePattern):
    """pad(x) by nothing -> x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter) -> None:
        if op.added == (0, 0):
            rewriter.replace(op, (), (op.x,))


class DropUnusedLse(RewritePattern):
    """%y, %lse = attention(q, k, v) -> %y = attention(q, k, v), where nothing uses %lse."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AttentionOp, rewriter: PatternRewriter) -> None:
        if op.lse is not None and not op.lse.uses:
            alone = op.copied(has_lse=False)
            rewriter.replace(op, alone, (alone.result, None))


CANONICALIZATIONS.extend(
    (
        FoldCast(),
        NarrowBeforeReshape(),
        WidenBehindIndex(),
        SoftmaxBeforeReshape(),
        FoldReshape(),
        ReshapePositions(),
        FoldTranspose(),
        FoldSlice(),
        FoldConcat(),
        ConcatBeforeViews(),
        FoldNeg(),
        FoldAddOfZero(),
        FoldMulByOne(),
        FoldDivByOne(),
        FoldSumTo(),
        SumBeforeTranspose(),
        FoldBroadcast(),
        FoldExtent(),
        FoldPad(),
        DropUnusedLse(),
        *TRUTH_FOLDS,
    )
)
