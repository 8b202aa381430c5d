"""Canonicalization of the block level: removes operators that change nothing or have no use.

xDSL's `canonicalize` runs it. Every pattern is exact: it preserves each bit of the result,
including NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    UnknownLoc,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from coda_ir.dialects.coda.attention import AttentionOp
from coda_ir.dialects.coda.base import CANONICALIZATIONS, new_operators
from coda_ir.dialects.coda.casts import CastOp, ConstantOp
from coda_ir.dialects.coda.elementwise import AbsOp, AddOp, DivOp, MulOp, NegOp, StoredOp
from coda_ir.dialects.coda.elementwise_op import BinaryOp, ElementwiseOp
from coda_ir.dialects.coda.extension import BroadcastOp, PadOp
from coda_ir.dialects.coda.gradients import SumToOp, WeightGradientOp
from coda_ir.dialects.coda.library import IndexOp
from coda_ir.dialects.coda.positions import ExtentOp, positions_in
from coda_ir.dialects.coda.reductions import LayerNormOp, ReduceOp, RMSNormOp, SoftmaxOp
from coda_ir.dialects.coda.shape import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from coda_ir.dialects.coda.shapes import broadcast_shapes, element_type_of, is_float, shape_of
from coda_ir.dialects.coda.truth_folding import TRUTH_FOLDS


def _is_static(value: SSAValue) -> bool:
    return DYNAMIC_INDEX not in shape_of(value)


# Folds: a value, or another operator, for an operator; None where that stays.


def _cast(op: CastOp) -> SSAValue | None:
    """cast(x) to the type of x -> x, and cast(cast(x) to float32) to the 16 bits of x -> x."""
    wide = op.operand.owner
    if op.operand.type == op.result.type:
        return op.operand
    if not isinstance(wide, CastOp) or wide.operand.type != op.result.type:
        return None
    return wide.operand if _is_widened_to(wide, f32) else None


def _stored(op: StoredOp) -> SSAValue | None:
    """stored(x) of an argument, or of what is rounded already -> x."""
    return op.operand if isinstance(op.operand.owner, Block | StoredOp) else None


def _reshape(op: ReshapeOp) -> SSAValue | Operation | None:
    """reshape(reshape(x)) -> reshape(x), and reshape(x) to its own static shape -> x."""
    if op.x.type == op.result.type and _is_static(op.x):
        return op.x
    if isinstance(op.x.owner, ReshapeOp) and _is_static(op.result):
        return ReshapeOp(op.x.owner.x, shape_of(op.result))
    return None


def _transpose(op: TransposeOp) -> SSAValue | Operation | None:
    """transpose(transpose(x)) -> one transpose, and the identity permutation -> x. A slice in
    between is one of x where two transposes have no effect together.
    """
    identity = list(range(len(op.permutation)))
    part = op.x.owner if isinstance(op.x.owner, SliceOp) else None
    inner = op.x.owner if part is None else part.x.owner
    if list(op.permutation) == identity:
        return op.x
    if not isinstance(inner, TransposeOp):
        return None
    combined = [inner.permutation[axis] for axis in op.permutation]
    if part is None:
        return TransposeOp(inner.x, combined)
    if combined != identity:
        return None
    dim, start, stop = part.range
    return _at(part, SliceOp(inner.x, inner.permutation[dim], start, stop))


def _slice(op: SliceOp) -> SSAValue | None:
    """slice(x) of all elements -> x."""
    dim, start, stop = op.range
    return op.x if start == 0 and stop == shape_of(op.x)[dim] else None


def _concat(op: ConcatOp) -> SSAValue | None:
    """concat of one part -> the part."""
    return op.parts[0] if len(op.parts) == 1 else None


def _pad(op: PadOp) -> SSAValue | None:
    """pad(x) by nothing -> x."""
    return op.x if op.added == (0, 0) else None


def _neg(op: NegOp) -> SSAValue | None:
    """neg(neg(x)) -> x."""
    return op.operand.owner.operand if isinstance(op.operand.owner, NegOp) else None


def _abs(op: AbsOp) -> Operation | None:
    """abs(-2.5) -> 2.5 of floats."""
    number = op.operand.owner.number if isinstance(op.operand.owner, ConstantOp) else None
    type = element_type_of(op.result)
    return None if number is None or not is_float(type) else ConstantOp(abs(number), type)


def _add(op: AddOp) -> SSAValue | Operation | None:
    """x + 0 -> x of integers; of floats, -0.0 + 0 is 0. The position of a single element is 0: what
    is added to it, as the length of a cache before one token, gets its shape.
    """
    if is_float(element_type_of(op.result)):
        return None
    for kept, other in op.pairs:
        places, shape = positions_in(other), shape_of(op.result)
        is_first = places is not None and places.first_and_step[0] == 0 and {*shape} == {1}
        if is_first and element_type_of(kept) == element_type_of(op.result):
            return ReshapeOp(kept, shape)
    return _other_than(op, 0)


def _mul(op: MulOp) -> SSAValue | None:
    """x * 1 -> x, with the constant on either side."""
    return _other_than(op, 1)


def _div(op: DivOp) -> SSAValue | None:
    """x / 1 -> x."""
    return op.lhs if _other_than(op, 1) is op.lhs else None


def _other_than(op: BinaryOp, number: int) -> SSAValue | None:
    """Return the operand beside a constant if it has the type of the result."""
    for kept, other in op.pairs:
        is_number = isinstance(other.owner, ConstantOp) and other.owner.number == number
        if is_number and kept.type == op.result.type:
            return kept
    return None


def _sum_to(op: SumToOp) -> SSAValue | Operation | None:
    """sum_to(x) of nothing -> x; sum_to(x) of the last dimension -> reduce(x) {kind = "sum"};
    sum_to(cast(x)) to float32 of what is widened to it -> sum_to(x), which accumulates in float32.
    """
    rank, type = len(shape_of(op.x)), element_type_of(op.result)
    if op.x.type == op.result.type:
        return op.x
    if op.summed_dims == (rank - 1,) and len(shape_of(op.result)) == rank:
        return ReduceOp(op.x, "sum", type)
    if isinstance(op.x.owner, CastOp) and _is_widened_to(op.x.owner, f32):
        return SumToOp(op.x.owner.operand, shape_of(op.result), element_type=type)
    return None


def _extent(op: ExtentOp) -> Operation | None:
    """extent(x) where the type of x has it -> a constant."""
    extent = shape_of(op.like)[op.axis]
    is_known = extent != DYNAMIC_INDEX
    return ConstantOp(extent, element_type_of(op.result)) if is_known else None


# Operators that change places: views after what is computed.


def _narrow_before_reshape(op: CastOp) -> Operation | None:
    """cast(reshape(x)) -> reshape(cast(x)) where the cast narrows: the code that makes x rounds it.

    Only for a reshape that nothing else uses, and not of positions, which have any shape.
    """
    view = op.operand.owner
    if not isinstance(view, ReshapeOp) or not view.result.has_one_use():
        return None
    if positions_in(view.x) is not None or _is_of_positions(view.x):
        return None
    before, after = element_type_of(op.operand), element_type_of(op.result)
    if not isinstance(before, AnyFloat) or not isinstance(after, AnyFloat):
        return None
    return _moved(view, CastOp(view.x, after)) if after.bitwidth < before.bitwidth else None


def _cast_before_broadcast(op: CastOp) -> Operation | None:
    """cast(broadcast(x)) -> broadcast(cast(x)): fewer elements."""
    repeated = op.operand.owner
    if not isinstance(repeated, BroadcastOp):
        return None
    narrow = CastOp(repeated.x, element_type_of(op.result))
    return BroadcastOp(narrow, shape_of(op.result), repeated.like)


def _convert_parts(op: CastOp) -> Operation | None:
    """cast(concat(weight gradients)) -> concat(casts of them), whose type the GEMMs store."""
    joined, type = op.operand.owner, element_type_of(op.result)
    if not isinstance(joined, ConcatOp) or not joined.result.has_one_use():
        return None
    if not all(isinstance(x.owner, WeightGradientOp) and x.has_one_use() for x in joined.parts):
        return None
    parts = [CastOp(part, type).result for part in joined.parts]
    return ConcatOp(parts, joined.dim.value.data)


def _narrow_norm(op: CastOp) -> Operation | None:
    """cast(norm(cast(x) to float32)) to the 16 bits of x -> norm(x), which computes in float32 and
    rounds once. Parameters of these 16 bits are not widened either.
    """
    norm, type = op.operand.owner, element_type_of(op.result)
    if not isinstance(norm, RMSNormOp | LayerNormOp) or not norm.result.has_one_use():
        return None
    x, *params = [_before_widening(value, type) for value in norm.operands]
    if element_type_of(x) != type or element_type_of(norm.result) != f32:
        return None
    return norm.create(operands=[x, *params], properties=norm.properties, result_types=[x.type])


def _before_widening(value: SSAValue, type: Attribute) -> SSAValue:
    """Return `value` as it was before it was widened from `type` to float32."""
    wide = value.owner
    if not isinstance(wide, CastOp) or not _is_widened_to(wide, f32):
        return value
    return wide.operand if element_type_of(wide.operand) == type else value


def _softmax_before_reshape(op: SoftmaxOp) -> Operation | None:
    """softmax(reshape(x)) -> reshape(softmax(x)) if only the softmax reads the flattened rows."""
    view = op.x.owner
    if not isinstance(view, ReshapeOp) or not view.result.has_one_use():
        return None
    before, after = shape_of(view.x), shape_of(op.x)
    if len(after) != 2 or before[-1:] != after[-1:] or after[-1] == DYNAMIC_INDEX:
        return None
    return _moved(view, SoftmaxOp(view.x))


def _widen_after_index(op: IndexOp) -> Operation | None:
    """index(cast(x) to float32) of 16 bits -> cast(index(x)), also after a reshape: fewer bytes
    are copied, and a GEMM that narrows them again can gather rows of x.
    """
    view = op.x.owner if isinstance(op.x.owner, ReshapeOp) else None
    wide = (op.x if view is None else view.x).owner
    if not isinstance(wide, CastOp) or not _is_widened_to(wide, f32):
        return None
    rows = wide.operand if view is None else _moved(view, wide.operand)
    return CastOp(IndexOp(rows, op.ids, **op.given), f32)


def _moved(view: ReshapeOp | ReduceOp, x: SSAValue | Operation) -> ReshapeOp:
    """Return a reshape to the shape of `view`, with what it states of that, of another tensor."""
    moved = ReshapeOp(x, shape_of(view.result))
    moved.location = view.location
    moved.attributes |= view.attributes
    return moved


def _reshape_positions(op: ReshapeOp) -> Operation | None:
    """reshape(f(x)) -> f(reshape(x)) where x is made of positions, computed under any shape."""
    inner = op.x.owner
    if isinstance(inner, ReshapeOp) or not _is_of_positions(op.x):
        return None
    assert isinstance(inner, Operation)
    operands: list[SSAValue] = []
    for operand in inner.operands:
        if shape_of(operand):
            view = ReshapeOp(operand, shape_of(op.result))
            view.attributes |= op.attributes
            operand = view.result
        operands.append(operand)
    moved = type(inner).create(
        operands=operands, properties=inner.properties, result_types=[op.result.type]
    )
    moved.location = inner.location
    return moved


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


def _concat_before_views(op: ConcatOp) -> Operation | None:
    """concat of transposes -> transpose of a concat, and concat of reshapes that split columns
    alike -> reshape of a concat: heads of several tensors are heads of one.
    """
    views, dim = [part.owner for part in op.parts], op.dim.value.data
    transposes = [view for view in views if isinstance(view, TransposeOp)]
    reshapes = [view for view in views if isinstance(view, ReshapeOp)]
    if len(transposes) == len(views) and len({view.permutation for view in transposes}) == 1:
        order = transposes[0].permutation
        return TransposeOp(ConcatOp([view.x for view in transposes], order[dim]), order)
    if len(reshapes) == len(views) and all(_splits_columns(v, dim) for v in reshapes):
        return ReshapeOp(ConcatOp([view.x for view in reshapes], dim), shape_of(op.result))
    return None


def _splits_columns(view: ReshapeOp, dim: int) -> bool:
    """Return whether a static reshape keeps the dimensions up to `dim`, and splits the last."""
    before, after = shape_of(view.x), shape_of(view.result)
    is_static = _is_static(view.x) and _is_static(view.result)
    rows = len(before) - 1
    return is_static and dim < rows and len(after) > len(before) and after[:rows] == before[:rows]


def _is_widened_to(op: CastOp, type: Attribute) -> bool:
    before = element_type_of(op.operand)
    is_narrow = isinstance(before, BFloat16Type | Float16Type)
    return is_narrow and element_type_of(op.result) == type


def _sum_to_row(op: SumToOp) -> Operation | None:
    """sum_to(x) of all rows with dimensions of 1 before the columns -> a reshape of a plain sum."""
    *ones, columns = shape_of(op.result) or (DYNAMIC_INDEX,)
    is_row = bool(ones) and set(ones) == {1} and shape_of(op.x)[-1:] == (columns,)
    if not is_row or columns == DYNAMIC_INDEX or len(op.summed_dims) < 1:
        return None
    total = SumToOp(op.x, (columns,), element_type=element_type_of(op.result))
    return ReshapeOp(total, shape_of(op.result))


def _sum_columns_first(op: SumToOp) -> Operation | None:
    """sum_to(x) of the last dimension and others, beside dimensions that stay -> sum_to of the sums
    of rows, which a kernel adds up where it computes x, as for a scale of each head.
    """
    extents, summed = shape_of(op.x), op.summed_dims
    last, type = len(extents) - 1, element_type_of(op.result)
    if last not in summed or len(summed) < 2 or not op.kept_dims or extents[last] == 1:
        return None
    if not shape_of(op.result) or not isinstance(type, BFloat16Type | Float16Type | Float32Type):
        return None
    return SumToOp(ReduceOp(op.x, "sum", f32), shape_of(op.result), element_type=type)


def _sum_before_transpose(op: ReduceOp) -> Operation | None:
    """reduce(transpose(x)) {kind = "sum"} -> reshape(sum_to(x)), where the other dimensions keep
    their order and the last one of x is among them; also after a reshape that joins the dimensions
    that are added up, such as the positions of an image. A mean is a multiple of the sum.
    """
    joined = op.x.owner if isinstance(op.x.owner, ReshapeOp) else None
    moved = (op.x if joined is None else joined.x).owner
    if op.kind.data not in ("sum", "mean") or not isinstance(moved, TransposeOp):
        return None
    rows, extents = len(shape_of(op.x)) - 1, list(shape_of(moved.x))
    kept, summed = list(moved.permutation[:rows]), moved.permutation[rows:]
    counts = [extents[axis] for axis in summed]
    type, is_mean = element_type_of(op.result), op.kind.data == "mean"
    if DYNAMIC_INDEX in counts and (is_mean or joined is not None):
        return None
    if joined is not None and (
        shape_of(op.x)[:-1].count(DYNAMIC_INDEX) > 1
        or shape_of(op.x) != (*shape_of(moved.result)[:rows], prod(counts))
    ):
        return None
    if kept != sorted(kept) or len(extents) - 1 not in kept:
        return None
    kept_extents = [1 if axis in summed else extents[axis] for axis in range(len(extents))]
    total = SumToOp(moved.x, kept_extents, element_type=f32 if is_mean else type)
    if is_mean:
        total = CastOp(MulOp(total, ConstantOp(1 / max(1, prod(counts)), f32)), type)
    return _moved(op, total)


FOLDS: Mapping[type[Operation], Sequence[Callable[[Any], SSAValue | Operation | None]]] = {
    CastOp: (
        *(_cast, _narrow_before_reshape, _cast_before_broadcast, _convert_parts, _narrow_norm),
        *TRUTH_FOLDS[CastOp],
    ),
    StoredOp: (_stored,),
    ReshapeOp: (_reshape, _reshape_positions),
    TransposeOp: (_transpose,),
    SliceOp: (_slice,),
    ConcatOp: (_concat, _concat_before_views),
    PadOp: (_pad,),
    NegOp: (_neg,),
    AbsOp: (_abs,),
    AddOp: (_add,),
    MulOp: (_mul,),
    DivOp: (_div,),
    SumToOp: (_sum_to, _sum_to_row, _sum_columns_first),
    ReduceOp: (_sum_before_transpose,),
    SoftmaxOp: (_softmax_before_reshape,),
    IndexOp: (_widen_after_index,),
    ExtentOp: (_extent,),
}


class Fold(RewritePattern):
    """Replaces an operator by the first result of its type that a function of `FOLDS` returns."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        folds = FOLDS.get(type(op), TRUTH_FOLDS.get(type(op), ()))
        found = next(
            (new for fold in folds if (new := _of_its_type(op, fold(op))) is not None), None
        )
        if isinstance(found, SSAValue):
            rewriter.replace(op, (), (found,))
        elif found is not None:
            rewriter.replace(op, [_at(op, new) for new in new_operators(found)])


def _of_its_type(op: Operation, new: SSAValue | Operation | None) -> SSAValue | Operation | None:
    """Return `new`, or None if it lacks the type of `op`, which may state extents no rule finds."""
    if new is None or SSAValue.get(new).type == op.results[0].type:
        return new
    if isinstance(new, Operation):
        for made in reversed(new_operators(new)):
            made.erase()
    return None


def _at(op: Operation, new: Operation) -> Operation:
    """Give `new` the location of `op`, unless it has one."""
    if isinstance(new.location, UnknownLoc):
        new.location = op.location
    return new


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


class DropUnusedLse(RewritePattern):
    """%y, %lse = attention(q, k, v) -> %y = attention(q, k, v), where nothing uses %lse."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AttentionOp, rewriter: PatternRewriter) -> None:
        if op.lse is not None and not op.lse.uses:
            alone = op.copied(has_lse=False)
            rewriter.replace(op, alone, (alone.result, None))


CANONICALIZATIONS.extend((Fold(), FoldBroadcast(), DropUnusedLse()))
