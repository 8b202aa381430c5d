"""Derivatives of gates, rotary embedding, attention, the loss and the embedding."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, BFloat16Type, Float16Type, TensorType
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from coda_ir.diagnostics import GradientError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.scan import StateSpaceGradLike, StateSpaceModel
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import operands_of, reached
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule
from coda_ir.passes.support.jumps import read_as_stored
from coda_ir.passes.support.matching import unconverted


def _glu(op: coda.GluOp, adjoint: Adjoint) -> None:
    """y = act(g) ⊙ u: dg = act'(g) ⊙ u ⊙ dy and du = act(g) ⊙ dy, side by side as g and u are."""
    dim, name, dy = len(shape_of(op.x)) - 1, op.activation.data, adjoint.dy
    gate, up = (_glu_part(op, adjoint, index) for index in (0, 1))
    activated = adjoint.mul(dy, up)
    result = _activation(adjoint, gate, name)
    if name != "identity":
        source = result if name in coda.DERIVED_FROM_RESULT else gate
        activated = adjoint.insert(coda.ActivationGradOp(source, activated, name))
    d_up = adjoint.mul(dy, result)
    if op.is_adjacent:
        adjoint.give(op.x, _interleaved(op, adjoint, [activated, d_up]))
    else:
        adjoint.give(op.x, coda.ConcatOp([activated, d_up], dim))


def _glu_part(op: coda.GluOp, adjoint: Adjoint, index: int) -> SSAValue:
    """Return the gate (0) or the up projection (1)."""
    dim, columns = len(shape_of(op.x)) - 1, shape_of(op.result)[-1]
    name = ("gate", "up")[index]
    if not op.is_adjacent:
        return adjoint.insert(coda.SliceOp(op.x, dim, index * columns, (index + 1) * columns), name)
    arguments = f"{{0}}, {dim}, {index}, {2 * columns}, 2"
    return adjoint.insert(
        CallOp("aten.slice.Tensor", [op.x], arguments, [op.result.type], view=True), name
    )


def _interleaved(op: coda.GluOp, adjoint: Adjoint, parts: Sequence[SSAValue]) -> SSAValue:
    """Interleave the columns of two tensors."""
    type = TensorType(element_type_of(op.result), (*shape_of(op.result), 2))
    stacked = adjoint.insert(CallOp("aten.stack.default", parts, "[{0}, {1}], -1", [type]))
    return adjoint.reshaped(stacked, op.x)


def _activation(adjoint: Adjoint, x: SSAValue, name: str) -> SSAValue:
    """Apply the activation `name` to `x`."""
    return x if name == "identity" else adjoint.insert(coda.GATES[name](x))


def _rope(op: coda.RopeOp, adjoint: Adjoint) -> None:
    """A linear map of pairs: the gradient goes back by its adjoint, which rotates the other way.
    Cosines multiply x, and sines x rotated by 90 degrees, or dy in the adjoint.
    """
    dy = adjoint.dy
    adjoint.give(op.x, op.with_operand(dy, transposed=op.transposed is None))
    if adjoint.wants(op.cos):
        _give_table(op, adjoint, op.cos, op.x, dy)
    if adjoint.wants(op.sin):
        rotated, other = (op.x, dy) if op.transposed is None else (dy, op.x)
        zeros, ones = (adjoint.broadcast(adjoint.constant(n, op.sin), op.sin) for n in (0, 1))
        turn = op.with_operand(rotated, transposed=False, tables=(zeros, ones))
        _give_table(op, adjoint, op.sin, adjoint.insert(turn), other)


def _give_table(
    op: coda.RopeOp, adjoint: Adjoint, table: SSAValue, a: SSAValue, b: SSAValue
) -> None:
    """Give a table the sums of a · b over the heads that share its columns, and over the columns
    that share an entry.

    The rows and heads, whose columns are contiguous, are added up first: PyTorch takes 65 us on an
    H200 for 2048 rows of 32 heads if one sum is also over pairs of columns.
    """
    product = adjoint.mul(adjoint.widened(a), adjoint.widened(b))
    (*rows, columns), heads, width = shape_of(product), op.heads_of_tables, op.head_dim.value.data
    if op.is_per_column:
        split, summed = (heads * width,), (heads * width,)
    elif op.layout.data == "interleaved":
        split, summed = (heads * width // 2, 2), (heads * width // 2, 1)
    else:
        split, summed = (heads, 2, width // 2), (heads, 1, width // 2)
    samples = len(rows) + 1 - len(shape_of(table))
    kept = (*[1] * samples, *rows[samples:])
    parts = adjoint.insert(coda.ReshapeOp(product, (*rows, columns // (heads * width), *split)))
    total = adjoint.insert(coda.SumToOp(parts, (*kept, 1, *split)))
    if split != summed:
        total = adjoint.insert(coda.SumToOp(total, (*kept, 1, *summed)))
    adjoint.give(table, adjoint.reshaped(total, table))


def expose_lse(block: Block) -> None:
    """Make every attention also return the logsumexp of its scores, for its derivative, and every
    loss of logits that a GEMM computes that of its rows.

    %y = attention(q, k, v)     ->  %y, %y_lse = attention(q, k, v)
    %l = cross_entropy(%z, %t)  ->  %l, %lse, %lse_rest = cross_entropy(stored(%z), %t)
    """
    for op in list(block.ops):
        if isinstance(op, coda.CrossEntropyOp) and not op.row_lse:
            _expose_row_lse(op)
        elif isinstance(op, coda.AttentionOp) and op.lse is None:
            both = op.copied(has_lse=True)
            assert both.lse is not None
            both.lse.name_hint = f"{op.result.name_hint}_lse" if op.result.name_hint else "lse"
            Rewriter.replace_op(op, both, (both.result,))


def _attention(op: coda.AttentionOp, adjoint: Adjoint) -> None:
    d_out = adjoint.d_results[0]
    assert d_out is not None
    gradient = coda.AttentionGradOp(
        op, d_out, has_sinks=adjoint.wants(op.sinks), has_mask=adjoint.wants(op.mask)
    )
    named = (("q", op.q), ("k", op.k), ("v", op.v))
    adjoint.insert(gradient, *(f"d_{value.name_hint or name}" for name, value in named))
    operands = (op.q, op.k, op.v, op.sinks, op.mask)
    results = (gradient.dq, gradient.dk, gradient.dv, gradient.d_sinks, gradient.d_mask)
    for operand, result in zip(operands, results, strict=True):
        if result is not None:
            adjoint.give(operand, result)


_STATE_SPACE_GRADIENTS: Mapping[type[StateSpaceModel], type[StateSpaceGradLike]] = {
    coda.SelectiveScanOp: coda.SelectiveScanGradOp,
    coda.SSDOp: coda.SSDGradOp,
    coda.DeltaRuleOp: coda.DeltaRuleGradOp,
}


def _state_space(op: StateSpaceModel, adjoint: Adjoint) -> None:
    d_y, d_final = (*adjoint.d_results, None)[:2]
    if d_y is None:
        d_y = adjoint.broadcast(adjoint.constant(0, op.result), op.written)
    gradient = _STATE_SPACE_GRADIENTS[type(op)](op, d_y, _carried(op.carried, d_final, adjoint))
    names = [name for name, _ in op.get_irdl_definition().operands]
    hints = zip((*names[:-1], "initial"), op.operands, strict=False)
    adjoint.insert(gradient, *(f"d_{value.name_hint or name}" for name, value in hints))
    for operand, result in zip(op.operands, gradient.results, strict=False):
        adjoint.give(operand, result)


def _carried(
    initial: Sequence[SSAValue], d_final: SSAValue | None, adjoint: Adjoint
) -> tuple[SSAValue, SSAValue] | tuple[()]:
    """Return initial states and the adjoint of the final ones; zeros for a missing one."""
    given = [*initial, *([] if d_final is None else [d_final])]
    if len(given) == 2:
        return given[0], given[1]
    if not given:
        return ()
    zeros = adjoint.broadcast(adjoint.constant(0, given[0]), given[0])
    return (given[0], zeros) if initial else (zeros, given[0])


def _expose_row_lse(op: coda.CrossEntropyOp) -> None:
    """Make a loss return the logsumexp of each row where a GEMM can compute it: a kernel that reads
    whole rows of other logits in the backward does not need it.

    Where the backward reads narrow logits, the loss is that of the rounded ones: else a softmax
    near 1 minus 1 is the rounding error of its logit, not near 0.
    """
    if not (computes_in_float32(element_type_of(op.logits)) and _is_of_gemm(op.logits)):
        return
    narrow = unconverted(op.logits)
    is_narrow = isinstance(element_type_of(narrow), BFloat16Type | Float16Type)
    if is_narrow and not isinstance(narrow.owner, Block | coda.StoredOp):
        read_as_stored(narrow)
    loss = coda.CrossEntropyOp(op.logits, op.target, results=3, **op.given)
    loss.location, loss.result.name_hint = op.location, op.result.name_hint
    for result, name in zip(loss.row_lse, ("lse", "lse_rest"), strict=True):
        result.name_hint = name
    Rewriter.replace_op(op, loss, (loss.result,))


def _cross_entropy(op: coda.CrossEntropyOp, adjoint: Adjoint) -> None:
    """(softmax − onehot) · dloss, with the logsumexp of the forward where it returns that.

    exp(logit − lse) has the rounding error of the logsumexp, which grows with the logits: what the
    float32 lacks is given, too.
    """
    dloss = adjoint.d_results[0]
    assert dloss is not None
    adjoint.give(
        op.logits, coda.CrossEntropyGradOp(op.logits, op.target, dloss, op.row_lse, **op.given)
    )


def _is_of_gemm(value: SSAValue) -> bool:
    """Return whether `value` is a linear layer, or pointwise code on one."""

    def pointwise_operands(value: SSAValue) -> Sequence[SSAValue]:
        is_pointwise = isinstance(value.owner, coda.ElementwiseOp | coda.CastOp | coda.ReshapeOp)
        return operands_of(value) if is_pointwise else ()

    gemms = (coda.LinearOp, coda.MatmulOp, coda.QuantizedLinearOp)
    return any(isinstance(each.owner, gemms) for each in reached([value], pointwise_operands))


def _embedding(op: coda.EmbeddingOp, adjoint: Adjoint) -> None:
    rows = shape_of(op.table)[0]
    like = op.table if rows == DYNAMIC_INDEX else None
    gradient = coda.EmbeddingGradOp(op.ids, adjoint.dy, rows, like, padding_idx=op.padding)
    adjoint.give(op.table, gradient)


def _embedding_grad(op: coda.EmbeddingGradOp, adjoint: Adjoint) -> None:
    if op.padding is not None:
        raise GradientError(
            "coda.embedding_grad with the property padding_idx has no derivative",
            "leave padding_idx out where second derivatives are needed",
        )
    adjoint.give(op.dy, coda.EmbeddingOp(op.ids, adjoint.dy))


BLOCK_RULES: dict[type, Rule] = {
    coda.GluOp: _glu,
    coda.RopeOp: _rope,
    coda.AttentionOp: _attention,
    **dict.fromkeys(_STATE_SPACE_GRADIENTS, _state_space),
    coda.CrossEntropyOp: _cross_entropy,
    coda.EmbeddingOp: _embedding,
    coda.EmbeddingGradOp: _embedding_grad,
}
