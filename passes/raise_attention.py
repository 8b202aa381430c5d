"""Pass `raise-attention`: PyTorch's attention of heads becomes `coda.attention`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.heads import HEADS_FIRST, Heads, heads_of
from coda_ir.passes.support.index_values import Affine, IndexValues, Mask, literal
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.norms import OpInserter

SDPA = "aten.scaled_dot_product_attention.default"

PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")

CAUSAL = Mask(frozenset((Affine(0, (0, 0, 1, -1)),)))
"""Query i sees the keys up to i."""


@dataclass(frozen=True)
class RaiseAttentionPass(FunctionPass):
    """Finds attention of heads that were split off columns, and what is done for it.

        %h = coda.transpose(coda.reshape %q), and so of %k and %v, with heads repeated or not
        %a = torch.call "aten.scaled_dot_product_attention.default"(%hq, %hk, %hv, %mask)
        %y = coda.reshape(coda.transpose %a)
    ->
        %y = coda.attention %q, %k, %v {causal}

    Legal where there is no dropout and the mask is known to be none, or the causal one of as many
    queries as keys: the mask must be made of positions only. A mask that depends on an argument,
    or on a window that the number of positions may exceed, stays.
    """

    name: ClassVar[str] = "raise-attention"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        known = IndexValues(rewriter.shapes)
        for op in rewriter.ops:
            if isinstance(op, CallOp) and op.callee.data == SDPA:
                _raise(op, known, rewriter)


def _raise(op: CallOp, known: IndexValues, rewriter: FunctionRewriter) -> None:
    arguments = _arguments_of(op)
    q, k, v = (heads_of(_unrepeated(x, rewriter), rewriter.shapes) for x in op.inputs[:3])
    if arguments is None or q is None or k is None or v is None or not _agree(q, k, v):
        return
    causal = _is_causal(op, arguments, known)
    if isinstance(causal, Refusal):
        rewriter.missed(op, causal)
        return
    rows = [heads.rows for heads in (q, k, v)]
    same_batch = rows[0][:-1] == rows[1][:-1] and rows[1] == rows[2]
    if not same_batch or (causal and rows[0] != rows[1]):
        return
    rewriter.passed(op, "raised to coda.attention")
    scale = arguments.get("scale")
    insert = OpInserter(rewriter, op, op.location)
    attention = coda.AttentionOp(
        *(heads.columns(insert) for heads in (q, k, v)),
        head_dim=q.width,
        causal=causal,
        scale=None if scale is None else float(scale),
    )
    value = insert.insert(attention, op.outputs[0].name_hint)
    op.outputs[0].replace_all_uses_with(q.of(value, insert))
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
    moved = all(heads.is_before_rows and heads.is_whole for heads in (q, k, v))
    same = q.width == k.width == v.width and k.count == v.count
    return moved and same and q.count % k.count == 0


def _is_causal(op: CallOp, arguments: dict[str, float], known: IndexValues) -> bool | Refusal:
    if len(op.inputs) == 3:
        return bool(arguments.get("is_causal"))
    mask = known.spread(op.inputs[3], len(HEADS_FIRST))
    if mask == Mask(frozenset()):
        return False
    if mask == CAUSAL:
        return True
    found = (
        "its mask depends on more than positions"
        if mask is None
        else "its mask is not causal alone: it also hides keys by their distance"
    )
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
