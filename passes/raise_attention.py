"""Pass `raise-attention`: PyTorch's attention of heads becomes `coda.attention`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.column_views import ColumnView
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.heads import HEADS_FIRST, Heads, heads_of, heads_of_view
from coda_ir.passes.support.index_values import Affine, IndexValues, Mask, literal
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.norms import OpInserter
from coda_ir.passes.support.spelled_attention import (
    SpelledAttention,
    as_narrow_as,
    find_attention,
)

SDPA = "aten.scaled_dot_product_attention.default"

PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")

CAUSAL = Mask(frozenset((Affine(0, (0, 0, 1, -1)),)))
"""Query i sees the keys up to i."""

NOT_HEADS = Refusal(
    "the operands are heads side by side in the columns of tensors",
    "stays with PyTorch: its operands are no such heads",
)
OTHER_ROWS = Refusal(
    "queries and keys are of the same batch, and as many where the mask is causal",
    "stays with PyTorch: the rows of its operands differ",
)


@dataclass(frozen=True)
class RaiseAttentionPass(FunctionPass):
    """Finds attention of heads that were split off columns, and what is done for it.

        %h = coda.transpose(coda.reshape %q), and so of %k and %v, with heads repeated or not
        %a = torch.call "aten.scaled_dot_product_attention.default"(%hq, %hk, %hv, %mask)
        %y = coda.reshape(coda.transpose %a)
    ->
        %y = coda.attention %q, %k, %v {causal}

    Attention may also be written out: products, a scale, a softcap, a mask that is added or chosen
    by, and a softmax.

    Legal where there is no dropout and the mask is known to be none, or the causal one of as many
    queries as keys: the mask must be made of positions only. A mask that depends on an argument,
    or on a window that the number of positions may exceed, stays.
    """

    name: ClassVar[str] = "raise-attention"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        known = IndexValues(rewriter.shapes)
        for op in rewriter.ops:
            if isinstance(op, CallOp) and op.callee.data == SDPA:
                found = _called(op, known, rewriter)
            else:
                found = _spelled(op, known, rewriter)
            if isinstance(found, Refusal):
                rewriter.missed(op, found)
            elif found is not None:
                _raise(op, found, rewriter)


@dataclass(frozen=True)
class _Attention:
    """Attention of heads q, k and v."""

    q: Heads
    k: Heads
    v: Heads
    causal: bool
    scale: float | None
    softcap: float | None = None


def _called(
    op: CallOp, known: IndexValues, rewriter: FunctionRewriter
) -> _Attention | Refusal | None:
    arguments = _arguments_of(op)
    if arguments is None:
        return None
    masks = op.inputs[3:]
    causal = _causality(masks, known) if masks else bool(arguments.get("is_causal"))
    if isinstance(causal, Refusal):
        return causal
    q, k, v = (_heads(value, rewriter) for value in op.inputs[:3])
    if q is None or k is None or v is None:
        return NOT_HEADS
    scale = arguments.get("scale")
    return _Attention(q, k, v, causal, None if scale is None else float(scale))


def _spelled(
    op: Operation, known: IndexValues, rewriter: FunctionRewriter
) -> _Attention | Refusal | None:
    found = find_attention(op)
    if not isinstance(found, SpelledAttention):
        return found
    causal = _causality(found.masks, known)
    if isinstance(causal, Refusal):
        return causal
    q, v = _heads(found.q, rewriter), _heads(found.v, rewriter)
    k = _transposed_heads(found.transposed_k, found.v, rewriter)
    if q is None or k is None or v is None:
        return NOT_HEADS
    return _Attention(q, k, v, causal, found.scale, found.softcap)


def _heads(value: SSAValue, rewriter: FunctionRewriter) -> Heads | None:
    return heads_of(_unrepeated(value, rewriter), rewriter.shapes)


def _transposed_heads(value: SSAValue, like: SSAValue, rewriter: FunctionRewriter) -> Heads | None:
    """The heads, of the type of `like`, whose last two dimensions are swapped in `value`."""
    transpose = defined_by(value, coda.TransposeOp)
    if transpose is not None and transpose.permutation == (0, 1, 3, 2):
        return _heads(as_narrow_as(transpose.x, like), rewriter)
    view = ColumnView.of(value, rewriter.shapes)
    *others, columns, rows = view.axes
    return heads_of_view(replace(view, axes=(*others, rows, columns)), rewriter.shapes)


def _raise(op: Operation, found: _Attention, rewriter: FunctionRewriter) -> None:
    q, k, v = found.q, found.k, found.v
    if not _agree(q, k, v):
        rewriter.missed(op, NOT_HEADS)
        return
    same_batch = q.rows[:-1] == k.rows[:-1] and k.rows == v.rows
    if not same_batch or (found.causal and q.rows != k.rows):
        rewriter.missed(op, OTHER_ROWS)
        return
    rewriter.passed(op, "raised to coda.attention")
    insert = OpInserter(rewriter, op, op.location)
    attention = coda.AttentionOp(
        *(heads.columns(insert) for heads in (q, k, v)),
        head_dim=q.width,
        causal=found.causal,
        scale=found.scale,
        softcap=found.softcap,
    )
    value = insert.insert(attention, op.results[0].name_hint)
    op.results[0].replace_all_uses_with(q.of(value, insert))
    rewriter.order.erase(op)


def _arguments_of(op: CallOp) -> dict[str, float] | None:
    """The numbers among the arguments, by name; None for a use that is not understood."""
    call = op.template.call
    named: dict[str, ast.expr] = dict(zip(PARAMETERS, call.args, strict=False))
    named.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    tensors = [_operand(named.pop(name)) for name in PARAMETERS[:3]]
    mask = named.pop("attn_mask", None)
    is_plain = tensors == [0, 1, 2] and _operand(mask) in (None, 3)
    numbers: dict[str, float] = {}
    for name, node in named.items():
        number = literal(node)
        if number is not None:
            numbers[name] = number
        elif not isinstance(node, ast.Constant) or node.value is not None:
            return None
    known = {"dropout_p", "is_causal", "scale", "enable_gqa"}
    return numbers if is_plain and set(numbers) <= known and not numbers.get("dropout_p") else None


def _operand(node: ast.expr | None) -> int | None:
    if not isinstance(node, ast.Set):
        return None
    number = literal(node.elts[0])
    return number if isinstance(number, int) else None


def _agree(q: Heads, k: Heads, v: Heads) -> bool:
    """Whether the operands are moved alike, and k and v have the shape that q goes with."""
    moved = all(h.is_before_rows and h.is_whole and len(h.rows) <= 2 for h in (q, k, v))
    same = q.width == k.width == v.width and k.count == v.count
    return moved and same and q.count % k.count == 0


def _causality(masks: Sequence[SSAValue], known: IndexValues) -> bool | Refusal:
    """Whether the masks together are the causal one (True) or none (False)."""
    mask = Mask(frozenset())
    for value in masks:
        other = known.spread(value, len(HEADS_FIRST))
        if not isinstance(other, Mask):
            return _unknown_mask("its mask depends on more than positions")
        mask = Mask(mask.conditions | other.conditions, mask.never or other.never)
    if mask == Mask(frozenset()):
        return False
    if mask == CAUSAL:
        return True
    return _unknown_mask("its mask is not causal alone: it also hides keys by their distance")


def _unknown_mask(found: str) -> Refusal:
    return Refusal(
        "the mask is none, or causal",
        f"stays with PyTorch: {found}",
        "leave the mask out where nothing is padded",
    )


def _unrepeated(value: SSAValue, rewriter: FunctionRewriter) -> SSAValue:
    """The heads before each was repeated for the queries that share it."""
    joined = defined_by(value, coda.ReshapeOp)
    expanded = defined_by(joined.x, CallOp) if joined else None
    if joined is None or expanded is None or expanded.callee.data != "aten.expand.default":
        return value
    single = defined_by(expanded.inputs[0], coda.ReshapeOp)
    if single is None:
        return value
    dims = rewriter.shapes.dims
    before, after = dims(single.x), dims(joined.result)
    if len(before) != 4 or len(after) != 4:
        return value
    batch, heads, rows, columns = before
    one, many = dims(single.result), dims(expanded.outputs[0])
    if one != (batch, heads, 1, rows, columns) or len(many) != 5:
        return value
    times = many[2]
    is_repeat = many == (batch, heads, times, rows, columns)
    if not is_repeat or not isinstance(times, int) or not isinstance(heads, int):
        return value
    return single.x if after == (batch, heads * times, rows, columns) else value
