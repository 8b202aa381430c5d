"""Pass `raise-attention`: turn PyTorch's attention on heads into `coda.attention`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.torch import ATTENTION, AttentionCall, CallOp
from coda_ir.passes.raising.attention_masks import OTHER_ROWS, AttentionMask
from coda_ir.passes.raising.decomposed_attention import AttentionFinder, DecomposedAttention
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.heads import HEADS_FIRST, Heads, heads_of, heads_of_view, unrepeated
from coda_ir.passes.support.index_values import IndexValues
from coda_ir.passes.support.matching import as_narrow_as, defined_by
from coda_ir.passes.support.permuted import Order, permuted_values
from coda_ir.passes.support.views import View, insert_steps
from coda_ir.symbolic_shapes import Dim
from coda_ir.symbolic_size import SymbolicSize

UNKNOWN_CALL = Refusal(
    "there is no dropout, and all arguments are known",
    "remains a call of PyTorch: it has dropout, or an argument that is not a number",
)
OTHER_SINKS = Refusal(
    "each head has one score beside those of its keys",
    "is left unchanged: the scores beside those of the keys are not one for each head",
)
NOT_HEADS = Refusal(
    "the operands are heads that lie side by side in the columns of tensors",
    "remains a call of PyTorch: its operands are not heads of this form",
)


class RaiseAttentionPass(FunctionPass):
    """Raises attention on heads that are columns of tensors, with the code that splits and joins
    the heads.

        %h = coda.transpose(coda.reshape %q), and so of %k and %v, with heads repeated or not
        %a = torch.call "aten.scaled_dot_product_attention.default"(%hq, %hk, %hv, %mask)
        %y = coda.reshape(coda.transpose %a)
    ->
        %y = coda.attention %q, %k, %v mask(%mask) {causal, window}

    A factor per row that multiplies the heads of queries, as in Llama 4, multiplies the columns
    instead. Code on heads, such as a norm of each head, may come before or after the transpose of
    the heads: the transpose is moved, and `cancel-transposes` turns the code into code on columns.

    Attention may also be written out: products of heads or of batches of heads, a scale, a softcap,
    masks that are added or select scores, scores of sinks, and a softmax. Without masks and sinks,
    the heads may come before the batch. Queries that share keys may be rows of one product, as in
    `einsum("bkgtd,bksd->bkgts", q, k)`.

    Legal iff there is no dropout. Masks that depend only on positions become `causal` and `window`;
    other masks and biases, such as padding and ALiBi, become the mask operand. If a query may have
    all keys masked, the result depends on whether masked scores are a number or minus infinity, and
    this is preserved. Scores that are replaced by a number have no gradient, but scores to which
    the number is added do. If all scores of a query are replaced, the query is set to zero, so that
    its scores are the number (see `drop-hidden-queries`).
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        known, finder = IndexValues(rewriter.shapes), AttentionFinder(rewriter.shapes)
        orders = permuted_values(rewriter.ops)
        for op in rewriter.ops:
            mask = AttentionMask(known)
            if isinstance(op, CallOp) and op.callee.data == ATTENTION:
                found = _called(op, mask, orders, rewriter)
            else:
                found = _decomposed(op, mask, finder, rewriter)
            if isinstance(found, _Attention):
                found = _raise(op, found, rewriter)
            if isinstance(found, Refusal):
                rewriter.missed(op, found)


@dataclass(frozen=True)
class _Attention:
    """Attention of heads q, k and v."""

    q: Heads
    k: Heads
    v: Heads
    mask: AttentionMask
    scale: float | None
    softcap: float | None = None
    sinks: SSAValue | None = None
    decomposed: Attribute | None = None
    """The element type of the scores, where products and a softmax are written out."""
    is_batch_last: bool = False
    """True if the operands and the result are (heads x B x T x D)."""
    moved: View | None = None
    """The weights as the product with the values reads them, if their rows were moved."""


def _called(
    op: CallOp, mask: AttentionMask, orders: dict[SSAValue, Order], rewriter: FunctionRewriter
) -> _Attention | Refusal | None:
    call = AttentionCall.of(op)
    if call is None:
        return UNKNOWN_CALL
    mask.is_causal = call.is_causal
    if call.mask is not None and element_type_of(call.mask) == i1:
        mask.see(call.mask)
    elif call.mask is not None:
        mask.add(call.mask)
    q, k, v = (
        _converted_heads(value, rewriter, are_shared=number > 0)
        or _scaled_heads(value, op, rewriter)
        or (
            _laid_out(value, HEADS_FIRST, op, rewriter)
            if orders.get(value) == HEADS_FIRST
            else None
        )
        for number, value in enumerate(
            (call.q, *(unrepeated(x, rewriter) for x in (call.k, call.v)))
        )
    )
    if not q or not k or not v:
        return NOT_HEADS
    return _Attention(q, k, v, mask, call.scale)


def _converted_heads(
    value: SSAValue, rewriter: FunctionRewriter, *, are_shared: bool
) -> Heads | None:
    """Return heads of columns. What converts all of them, as under autocast, converts the columns
    before they are split into heads, and heads that queries share before they are repeated.
    """
    cast = defined_by(value, coda.CastOp)
    if cast is None:
        return heads_of(value, rewriter.shapes, in_any_order=True)
    source = unrepeated(cast.operand, rewriter) if are_shared else cast.operand
    heads = heads_of(source, rewriter.shapes, in_any_order=True)
    if heads is None or heads.count * heads.width != shape_of(heads.x)[-1]:
        return None
    columns = rewriter.before(cast).cast(heads.x, element_type_of(value))
    return replace(heads, x=columns)


def _decomposed(
    op: Operation, mask: AttentionMask, finder: AttentionFinder, rewriter: FunctionRewriter
) -> _Attention | Refusal | None:
    found = finder.find(op, mask)
    if not isinstance(found, DecomposedAttention):
        return found
    operands = _operands(found, finder, rewriter.before(op))
    if operands is None:
        return NOT_HEADS
    q, k, v = operands
    v = unrepeated(v, rewriter)
    decomposed = f32 if found.has_wide_scores else element_type_of(v)
    options = found.scale, found.softcap, found.sinks, decomposed
    moved = found.weights if found.has_moved_weights else None
    if not mask.steps and found.sinks is None:
        # A mask or sinks would need their dimensions moved, too.
        heads = (
            _batch_last(View.of_columns(q, rewriter.shapes)),
            _transposed_heads(k, v, finder, rewriter, _batch_last),
            _batch_last(View.of_columns(v, rewriter.shapes)),
        )
        q_heads, k_heads, v_heads = heads
        if q_heads and k_heads and v_heads:
            return _Attention(
                q_heads, k_heads, v_heads, mask, *options, is_batch_last=True, moved=moved
            )
    laid_out = partial(_laid_out_for_scores, op=op, rewriter=rewriter)
    heads = (
        heads_of(q, rewriter.shapes, in_any_order=True)
        or _merged_heads(View.of(q, rewriter.shapes))
        or _scaled_heads(q, op, rewriter)
        or laid_out(q, HEADS_FIRST),
        _transposed_heads(k, v, finder, rewriter, partial(heads_of_view, in_any_order=True))
        or _merged_heads(View.of(k, rewriter.shapes), is_transposed=True)
        or laid_out(k, (0, 3, 1, 2)),
        heads_of(v, rewriter.shapes, in_any_order=True)
        or _merged_heads(View.of(v, rewriter.shapes))
        or laid_out(v, HEADS_FIRST),
    )
    q_heads, k_heads, v_heads = heads
    if q_heads is None or k_heads is None or v_heads is None:
        return NOT_HEADS
    return _Attention(q_heads, k_heads, v_heads, mask, *options, moved=moved)


def _operands(
    found: DecomposedAttention, finder: AttentionFinder, insert: OpInserter
) -> tuple[SSAValue, SSAValue, SSAValue] | None:
    """Return queries, transposed keys and values (B x heads x ..) before batch and heads, or groups
    of queries and their rows, were merged; None if their leading dimensions are not known.
    """
    if not found.groups:
        return tuple(map(finder.unmerged, (found.q, found.transposed_k, found.v)))
    dims, rows = finder.shapes.dims, found.groups
    batch, *heads = rows[:-1]
    numbers = [extent for extent in heads if isinstance(extent, int)]
    *batches, width, keys = dims(found.transposed_k)
    *value_batches, _, value_width = dims(found.v)
    counts = [_heads_in_batches(of, batch, numbers) for of in (batches, value_batches)]
    is_whole = SymbolicSize.product(dims(found.q)[:-1]) == SymbolicSize.product(rows)
    if not is_whole or not heads or len(numbers) < len(heads) or None in counts:
        return None
    count, value_count = (number or 1 for number in counts)
    return (
        insert.reshape(found.q, (batch, prod(numbers), rows[-1], width)),
        insert.reshape(found.transposed_k, (batch, count, width, keys)),
        insert.reshape(found.v, (batch, value_count, keys, value_width)),
    )


def _heads_in_batches(batches: Sequence[Dim], batch: Dim, groups: Sequence[int]) -> int | None:
    """Return the number of heads in the leading dimensions of a factor, if they are the scores'."""
    own = list(batches)
    while len(own) > 1 and own[-1] == 1:
        own.pop()
    if len(own) > 1:
        known = [batch, *groups][: len(own)]
        return prod(groups[: len(own) - 1]) if own == known else None
    counts = (prod(groups[:number]) for number in range(len(groups) + 1))
    (size,) = map(SymbolicSize.of, own)
    return next((n for n in counts if SymbolicSize.product((batch, n)) == size), None)


def _batch_last(view: View) -> Heads | None:
    """Return the heads that a view is with the dimensions (heads x B x T x D)."""
    if len(view.dims) != 4:
        return None
    heads, batch, *others = view.dims
    return heads_of_view(replace(view, dims=(batch, heads, *others)), in_any_order=True)


def _merged_heads(view: View, *, is_transposed: bool = False) -> Heads | None:
    """Return the heads that a view is with the dimensions (B x heads x T x D), or (B·heads x T x D)
    which were never apart before, as in PyTorch's own modules; of keys, the last two may be
    swapped.
    """
    *heads, rows, columns = view.dims
    if len(heads) == 1 and len(heads[0]) == 2:
        heads = [(factor,) for factor in heads[0]]
    if len(heads) != 2:
        return None
    dims = (*heads, columns, rows) if is_transposed else (*heads, rows, columns)
    return heads_of_view(replace(view, dims=dims), in_any_order=True)


def _scaled_heads(value: SSAValue, op: Operation, rewriter: FunctionRewriter) -> Heads | None:
    """Multiply columns instead of their heads by a factor of each row, such as that of queries far
    from the start.

    The heads are B x heads x T x D and the factor B x 1 x T x 1, or the heads are moved after the
    product of B x T x heads x D and B x T x 1 x 1.
    """
    transpose = defined_by(value, coda.TransposeOp)
    if transpose is not None and transpose.permutation != HEADS_FIRST:
        transpose = None
    product = defined_by(value if transpose is None else transpose.x, coda.MulOp)
    if product is None:
        return None
    own_axis, row_axis = (1, 2) if transpose is None else (2, 1)
    for scaled, factor in (product.operands, reversed(product.operands)):
        heads, dims = heads_of(scaled, rewriter.shapes), rewriter.shapes.dims(factor)
        if heads is None or heads.is_before_rows != (own_axis < row_axis) or len(heads.rows) != 2:
            continue
        if len(dims) != 4 or dims[own_axis] != 1 or dims[3] != 1:
            continue
        axes = (0, row_axis)
        sizes = [dims[axis] for axis in axes]
        if any(size not in (1, extent) for size, extent in zip(sizes, heads.rows, strict=True)):
            continue
        insert = rewriter.before(op)
        rows = insert.reshape(factor, (*sizes, 1))
        columns = insert.insert(coda.MulOp(heads.own_columns(insert), rows), value.name_hint)
        return replace(heads.together(heads.width), x=columns, is_before_rows=True)
    return None


def _transposed_heads(
    value: SSAValue,
    like: SSAValue,
    finder: AttentionFinder,
    rewriter: FunctionRewriter,
    of_view: Callable[[View], Heads | None],
) -> Heads | None:
    """Return the heads whose last two dimensions are swapped in `value`, of the type of `like`."""
    transpose = defined_by(value, coda.TransposeOp)
    if transpose is not None and transpose.permutation in ((0, 2, 1), (0, 1, 3, 2), (0, 2, 3, 1)):
        heads = finder.unmerged(as_narrow_as(transpose.x, element_type_of(like)))
        if transpose.permutation == (0, 2, 3, 1):  # of heads that come after the rows
            heads = rewriter.before(transpose).insert(coda.TransposeOp(heads, HEADS_FIRST))
        return of_view(View.of_columns(unrepeated(heads, rewriter), rewriter.shapes))
    view = View.of_columns(value, rewriter.shapes)
    if len(view.dims) < 2:
        return None
    *others, columns, rows = view.dims
    return of_view(replace(view, dims=(*others, rows, columns)))


def _laid_out(
    value: SSAValue, order: tuple[int, ...], op: Operation, rewriter: FunctionRewriter
) -> Heads | None:
    """Copy heads that are not columns of a tensor into columns: by `order` (B x T x heads x D).

    Worth it where attention is written out, for the scores are no longer stored, and where what
    computes the heads stores them as columns.
    """
    if len(shape_of(value)) != 4:
        return None
    dims = rewriter.shapes.dims(value)
    batch, rows, count, width = (dims[axis] for axis in order)
    if not isinstance(count, int) or not isinstance(width, int):
        return None
    insert = rewriter.before(op)
    moved = insert.insert(coda.TransposeOp(value, order), value.name_hint)
    x = insert.reshape(moved, (batch, rows, count * width))
    return Heads(x, (batch, rows), 0, count, width, 0, width, is_before_rows=True)


def _laid_out_for_scores(
    value: SSAValue, order: tuple[int, ...], op: Operation, rewriter: FunctionRewriter
) -> Heads | None:
    """Copy heads into columns like `_laid_out`, unless they have fewer rows than columns, as where
    channels attend to one another: storing the scores takes less than the copies.
    """
    shape = shape_of(value)
    if len(shape) == 4 and 0 <= shape[order[1]] < shape[order[3]]:
        return None
    return _laid_out(value, order, op, rewriter)


def _raise(op: Operation, found: _Attention, rewriter: FunctionRewriter) -> Refusal | None:
    q, k, v = found.q, found.k, found.v
    if not _agree(q, k, v):
        return NOT_HEADS
    if q.rows[:-1] != k.rows[:-1] or k.rows != v.rows:
        return OTHER_ROWS
    if found.sinks is not None and prod(shape_of(found.sinks)) != q.count:
        return OTHER_SINKS
    mask = found.mask.resolve(q.rows[-1], k.rows[-1])
    if isinstance(mask, Refusal):
        return mask
    hiding, parts = mask
    scores = (q.rows[0] if len(q.rows) == 2 else 1, q.count, q.rows[-1], k.rows[-1])
    if misfit := parts.misfit(rewriter.shapes, scores):
        return misfit
    rewriter.passed(op, "raised to coda.attention")
    insert = rewriter.before(op)
    q_columns, k_columns, v_columns = (heads.own_columns(insert) for heads in (q, k, v))
    element = element_type_of(q_columns)
    if (has_scores := parts.has_scores(insert, scores)) is not None:
        q_columns = _zero_unless(has_scores, q_columns, q, insert)
    attention = coda.AttentionOp(
        q_columns,
        k_columns,
        v_columns,
        head_dim=q.width,
        value_dim=v.width,
        causal=hiding.causal,
        window=hiding.window,
        scale=found.scale,
        softcap=found.softcap,
        sinks=None if found.sinks is None else _sinks(found.sinks, q.count, element, insert),
        mask=parts.operand(insert, scores, element),
    )
    if found.decomposed is not None:
        attention.attributes[coda.DECOMPOSED] = found.decomposed
    value = insert.insert(attention, op.results[0].name_hint)
    heads = q.together(v.width).of(value, insert)
    if found.is_batch_last:
        heads = insert.insert(coda.TransposeOp(heads, (1, 0, 2, 3)), heads.name_hint)
    if found.moved is not None:
        heads = _moved(heads, found.moved, op, insert)
    _replace_heads(op, heads, insert)
    rewriter.order.erase(op)
    return None


def _zero_unless(truth: SSAValue, columns: SSAValue, q: Heads, insert: OpInserter) -> SSAValue:
    """Return the columns of queries, zero where `truth` (B x T x heads x 1) is false."""
    shape, dims = shape_of(columns), insert.rewriter.shapes.dims(truth)
    if len(q.rows) == 1:
        truth = insert.reshape(truth, dims[1:])
    heads = insert.insert(coda.ReshapeOp(columns, (*shape[:-1], q.count, q.width)))
    zero = insert.insert(coda.ConstantOp(0.0, element_type_of(columns)))
    chosen = insert.insert(coda.WhereOp(truth, heads, zero))
    return insert.insert(coda.ReshapeOp(chosen, shape), columns.name_hint)


def _sinks(sinks: SSAValue, heads: int, element: Attribute, insert: OpInserter) -> SSAValue:
    """Return one element for each head, of the type of the queries or float32."""
    if len(shape_of(sinks)) > 1:
        sinks = insert.insert(coda.ReshapeOp(sinks, (heads,)), sinks.name_hint)
    is_wide = element_type_of(sinks) == f32 and computes_in_float32(element)
    return sinks if is_wide else insert.cast(sinks, element)


def _moved(heads: SSAValue, weights: View, op: Operation, insert: OpInserter) -> SSAValue:
    """Move the rows of a result as those of the weights, which a product has read, were moved."""
    (result,) = op.results
    dims = insert.rewriter.shapes.dims(result)
    rows, columns = weights.extents[:-1], int(dims[-1])
    view = replace(weights.with_columns(columns), extents=(*rows, columns))
    return insert_steps(view.steps(dims), insert.reshape(heads, (*rows, columns)), insert)


def _replace_heads(op: Operation, heads: SSAValue, insert: OpInserter) -> None:
    """Replace the result of `op`, which may have heads merged with the batch, by heads."""
    (result,) = op.results
    shapes = insert.rewriter.shapes
    dims = shapes.dims(result)
    if len(dims) == 3 and len(shapes.dims(heads)) == 4:
        for use in list(result.uses):
            split = use.operation
            if isinstance(split, coda.ReshapeOp) and shapes.dims(split.result) == shapes.dims(
                heads
            ):
                split.result.replace_all_uses_with(heads)
    result.replace_all_uses_with(insert.reshape(heads, dims))


def _agree(q: Heads, k: Heads, v: Heads) -> bool:
    """Return whether the operands are moved alike and have columns, and k and v fit q."""
    moved = all(h.is_before_rows and len(h.rows) <= 2 for h in (q, k, v))
    same = q.width == k.width and k.count == v.count
    same = same and len({element_type_of(h.x) for h in (q, k, v)}) == 1
    has_columns = q.width != 0 and v.width != 0
    return moved and same and has_columns and q.count % k.count == 0
