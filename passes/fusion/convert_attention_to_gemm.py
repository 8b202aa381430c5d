"""Pass `convert-attention-to-gemm`: turn attention and its backward into chains of GEMMs."""

from xdsl.dialects.builtin import DYNAMIC_INDEX, BFloat16Type, Float16Type, UnitAttr, f32, i1
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.attention import AttentionLike
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.dialects.gemm.attention import OPTIONS
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal

WIDEST_HEAD, NARROWEST_HEAD = 256, 16
"""Columns of a head: the sums of a tile stay in registers."""

HEAD_MULTIPLE = 8
"""Columns of 16 bytes, in which rows are loaded."""

FEW_QUERIES = 16
"""Fewer queries than this leave most rows of a tile empty."""


OF_ATTENTION = "one kernel computes it without storing the scores"
OF_GRADIENT = "two kernels compute it from the logsumexp of the forward: dQ, then dK and dV"
OF_MASK = "; a third one computes that of the mask"
OF_MOMENT = "; the gradients of a row's scores add up to 0, as in its softmax"


class ConvertAttentionToGemmPass(FunctionPass):
    """Turns attention for which PyTorch has no fast kernel, and its backward, into chains of GEMMs.

        %y = coda.attention %q, %k, %v {softcap = 50.0, ...}
        ->  %lse, %y = gemm.attention (%q, %k, %v) {softcap = 50.0, ...} { yield o }

    PyTorch has fast kernels for causal attention, and for masks that are Boolean or have the type
    of the queries. It expands a window to a Boolean mask of all scores, and sinks to an additional
    key. With a softcap, or a mask of another type, it stores the scores. With another mask, it
    stores a mask of all scores that hides what the causal mask or the window hides as well, and its
    kernels skip none of them. With a mask of keys, those that also return the logsumexp are slower,
    by up to 3 x with their backward. The gradient of the sinks follows from the logsumexp and the
    moment: -sum(exp(sink - lse) ⊙ moment) for each head. The gradient of a mask that is added has a
    third kernel, `gemm.attention_dmask`. With it, and where attention was written as products and a
    softmax, the moment is exact, as in PyTorch.

    Legal iff tensor cores multiply the type of the operands; heads have up to 256 columns, a
    multiple of 8; in the forward, keys and values have the same number of columns; in the backward
    no mask is added if there are sinks, which the logsumexp includes; and the function does not
    require the bits of eager PyTorch.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.AttentionGradOp):
                what = OF_GRADIENT + (OF_MASK if op.d_mask is not None else "")
                what += OF_MOMENT if op.has_exact_moment else ""
                if rewriter.accepts(op, _check_gradient(op), what):
                    _convert_gradient(op, rewriter)
            elif isinstance(op, coda.AttentionOp) and _is_slow_elsewhere(op):
                is_accepted = rewriter.accepts(op, _check_attention(op), OF_ATTENTION)
                if is_accepted:
                    _convert(op, rewriter)


def _is_slow_elsewhere(op: coda.AttentionOp) -> bool:
    """Return whether PyTorch would store the scores of more than a few queries, or a mask of them:
    because of sinks, a cap, a window without a mask, or the element type of the mask, or positions
    beside a mask. With a mask of keys, its kernels that return the logsumexp are slow as well.
    """
    if 0 <= shape_of(op.q)[-2] < FEW_QUERIES:
        return False
    if op.sinks is not None or op.softcap is not None:
        return True
    if op.mask is None:
        return _hides_by_window(op)
    dims, type = shape_of(op.mask), element_type_of(op.mask)
    if type not in (i1, element_type_of(op.q)):
        return True
    is_of_keys = len(dims) == 1 or dims[-2] == 1
    is_positional = bool(op.causal.value.data) or _hides_by_window(op)
    return is_positional or (is_of_keys and type == i1 and op.lse is not None)


def _hides_by_window(op: coda.AttentionOp) -> bool:
    """Return whether there is a window that may not include all positions."""
    positions = (shape_of(op.q)[-2], shape_of(op.k)[-2])
    is_known = DYNAMIC_INDEX not in positions
    return op.window is not None and not (is_known and max(positions) <= op.window.value.data)


def _check_gradient(op: coda.AttentionGradOp) -> Refusal | None:
    """Return the reason why PyTorch computes the gradients; None if kernels of this package do."""
    instead = "runs as the derivative of PyTorch's attention"
    if op.sinks is not None and op.mask is not None and element_type_of(op.mask) != i1:
        condition = "the attention weights sum to 1 if a mask is added"
        return Refusal(condition, f"{instead}, which has sinks and a mask")
    return _check(op, instead)


def _check(op: AttentionLike, instead: str) -> Refusal | None:
    type, head_dim = element_type_of(op.q), op.head_dim.value.data
    if not isinstance(type, BFloat16Type | Float16Type):
        return Refusal("tensor cores multiply 16-bit floats", f"{instead}, in {type}")
    for columns in (head_dim, op.value_columns):
        if columns % HEAD_MULTIPLE or not NARROWEST_HEAD <= columns <= WIDEST_HEAD:
            columns_in = f"{NARROWEST_HEAD} to {WIDEST_HEAD}"
            condition = f"heads have {columns_in} columns, a multiple of {HEAD_MULTIPLE}"
            return Refusal(condition, f"{instead}, with {columns} columns")
    if op.scale is not None and op.scale.value.data <= 0:
        return Refusal("the scale of the scores is positive", instead)
    if DYNAMIC_INDEX in (shape_of(op.q)[-1], shape_of(op.k)[-1]):
        return Refusal(
            "the number of heads is static", f"{instead}, with a symbolic number of heads"
        )
    if gemm.numerics_mode(op).is_strict:
        return Refusal("the function does not require the bits of eager PyTorch", instead)
    return None


def _options(op: AttentionLike) -> dict[str, Attribute | None]:
    return {name: op.properties.get(name) for name in OPTIONS}


def _check_attention(op: coda.AttentionOp) -> Refusal | None:
    instead = "runs as PyTorch's attention, which stores all scores"
    refusal = _check(op, instead)
    if refusal is None and op.value_dim is not None:
        found = f"{instead}, with {op.value_columns} columns for {op.head_dim.value.data}"
        return Refusal("values have as many columns as keys", found)
    return refusal


def _convert(op: coda.AttentionOp, rewriter: FunctionRewriter) -> None:
    inputs, epilogue = (op.q, op.k, op.v), _stored(op.result)
    fused = gemm.FusedAttentionOp.made(inputs, _options(op), epilogue, sinks=op.sinks, mask=op.mask)
    rewriter.before(op).insert(fused)
    fused.lse.name_hint = "lse"
    rewriter.order.give_way(op, (*fused.outputs, fused.lse)[: len(op.results)])


def _convert_gradient(op: coda.AttentionGradOp, rewriter: FunctionRewriter) -> None:
    properties, inputs = _options(op), (op.lse, op.q, op.k, op.v)
    exact = UnitAttr() if op.has_exact_moment else None
    of_dq = {**properties, "exact_moment": exact}
    dq = gemm.AttentionDqOp.made((op.d_out, op.out, *inputs), of_dq, _stored(op.dq), mask=op.mask)
    tensors, epilogue = (op.d_out, dq.moment, *inputs), _stored(op.dk, op.dv)
    dkv = gemm.AttentionDkvOp.made(tensors, properties, epilogue, mask=op.mask)
    insert = rewriter.before(op)
    insert.insert(dq)
    insert.insert(dkv)
    dq.moment.name_hint = "moment"
    gradients = [*dq.outputs, *dkv.outputs]
    if op.d_sinks is not None and op.sinks is not None:
        gradients.append(_gradient_of_sinks(op.sinks, op.lse, dq.moment, insert))
    if op.d_mask is not None:
        of_mask = gemm.AttentionDmaskOp.made(tensors, properties, _stored(), mask=op.mask)
        d_mask = insert.insert(of_mask, "d_mask")
        if (shape := shape_of(op.d_mask)) != shape_of(d_mask):
            d_mask = insert.insert(coda.SumToOp(d_mask, shape))
        gradients.append(d_mask)
    rewriter.order.give_way(op, gradients)


def _gradient_of_sinks(
    sinks: SSAValue, lse: SSAValue, moment: SSAValue, insert: OpInserter
) -> SSAValue:
    """Return -sum(exp(sink - lse) ⊙ moment) of each head, in the type of the sinks."""
    type, (heads,) = element_type_of(sinks), shape_of(sinks)
    column = insert.insert(coda.ReshapeOp(insert.cast(sinks, f32), (heads, 1)))
    weights = insert.insert(coda.ExpOp(insert.sub(column, lse)), "sink_weights")
    total = insert.insert(coda.SumToOp(insert.mul(weights, moment), (heads, 1)))
    return insert.cast(
        insert.insert(coda.NegOp(insert.insert(coda.ReshapeOp(total, (heads,))))), type
    )


def _stored(*sums: SSAValue) -> gemm.Segment:
    """Return an epilogue that stores sums unchanged."""
    body = gemm.unchanged_region(len(sums))
    for argument, value in zip(body.block.args, sums, strict=True):
        argument.name_hint = value.name_hint
    results = [gemm.Result(gemm.ResultPortAttr.tile(), tensor_type(value)) for value in sums]
    return gemm.Segment(weights=[], ports=[], results=results, body=body)
