"""Attention that is spelled out: products, a mask and a softmax over the scores."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.index_values import literal
from coda_ir.passes.support.matching import defined_by, number_of, unwidened

MATMUL, WHERE, EXPAND = "aten.matmul.default", "aten.where.self", "aten.expand.default"

HIDDEN = -65504.0
"""What is added to a score, or this or less in its place, leaves nothing of it in the softmax."""


@dataclass
class SpelledAttention:
    """softmax(mask(softcap(scale · q kᵀ))) v, of heads."""

    q: SSAValue
    transposed_k: SSAValue
    v: SSAValue
    scale: float = 1.0
    softcap: float | None = None
    masks: list[SSAValue] = field(default_factory=list[SSAValue])
    """Tensors of truth values; a key is seen where all are true."""


def find_attention(op: Operation) -> SpelledAttention | Refusal | None:
    """The attention that `op` is the last product of; None where `op` is something else."""
    product = _product(op)
    if product is None:
        return None
    weights = _converted(product[0])
    softmax = defined_by(weights, coda.SoftmaxOp)
    if softmax is not None:
        return _from_scores(softmax.x, product[1])
    part = defined_by(weights, CallOp)
    is_part = part and part.inputs and defined_by(_converted(part.inputs[0]), coda.SoftmaxOp)
    return _refused("scores of sinks are among those of the keys") if is_part else None


def _from_scores(scores: SSAValue, v: SSAValue) -> SpelledAttention | Refusal | None:
    found = SpelledAttention(scores, scores, v)
    value = _converted(scores)
    while (product := _product(value.owner)) is None:
        step = _step(value, found)
        if not isinstance(step, SSAValue):
            return step
        value = _converted(step)
    found.q, found.transposed_k = as_narrow_as(product[0], v), as_narrow_as(product[1], v)
    return found


def _step(value: SSAValue, found: SpelledAttention) -> SSAValue | Refusal | None:
    """The scores before the operator that computes `value`, which `found` takes note of."""
    match value.owner:
        # From the softmax on inwards: a factor of the mask and one of the cap are met before them.
        case coda.MulOp() | coda.DivOp() as op:
            number = number_of(op.rhs)
            if not number:
                return None
            found.scale *= number if isinstance(op, coda.MulOp) else 1 / number
            return op.lhs
        case coda.SoftcapOp() as op if found.scale == 1 and found.softcap is None:
            found.softcap = op.cap.value.data
            return op.operand
        case coda.AddOp() as op:
            return _masked(op, found) if found.scale == 1 else None
        case CallOp() as op if found.scale == 1 and _hides(op):
            found.masks.append(op.inputs[0])
            return op.inputs[1]
        case coda.ConcatOp():
            return _refused("scores of sinks are among those of the keys")
        case _:
            return None


def _masked(op: coda.AddOp, found: SpelledAttention) -> SSAValue | Refusal:
    """Scores plus 0 where a key is seen, and plus a number that hides it elsewhere."""
    for scores, bias in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        mask = _additive_mask(bias)
        if mask is not None:
            found.masks.append(mask)
            return scores
    return _refused("it adds to its scores what is not known to be a mask")


def _additive_mask(value: SSAValue) -> SSAValue | None:
    value = _converted(value)
    while (call := defined_by(value, CallOp)) and call.callee.data == EXPAND:
        value = _converted(call.inputs[0])
    where = defined_by(value, CallOp)
    if where is None or where.callee.data != WHERE or len(where.inputs) != 3:
        return None
    mask, seen, hidden = where.inputs
    return mask if number_of(seen) == 0 and _is_hidden(hidden) else None


def _hides(op: CallOp) -> bool:
    """Whether `op` has scores where a mask is true, and what hides them elsewhere."""
    return op.callee.data == WHERE and len(op.inputs) == 3 and _is_hidden(op.inputs[2])


def _is_hidden(value: SSAValue) -> bool:
    number, call = number_of(value), defined_by(value, CallOp)
    if call is not None and call.callee.data == "aten.scalar_tensor.default":
        number = literal(call.template.call.args[0])
    return number is not None and number <= HIDDEN


def _product(op: object) -> tuple[SSAValue, SSAValue] | None:
    """The factors of a product of matrices with two batch dimensions."""
    if not isinstance(op, CallOp) or op.callee.data != MATMUL or len(op.inputs) != 2:
        return None
    arguments = op.template.call.args
    is_plain = [ast.unparse(node) for node in arguments] == ["{0}", "{1}"]
    ranks = {len(shape_of(value)) for value in op.inputs}
    return (op.inputs[0], op.inputs[1]) if is_plain and ranks == {4} else None


def _converted(value: SSAValue) -> SSAValue:
    """`value` before conversions: the scores of `coda.attention` are float32 anyway."""
    while isinstance(value.owner, coda.CastOp):
        value = value.owner.operand
    return value


def as_narrow_as(value: SSAValue, like: SSAValue) -> SSAValue:
    """`value` before it was widened, where it then has the type of `like`."""
    narrow = unwidened(value)
    return narrow if element_type_of(narrow) == element_type_of(like) else value


def _refused(found: str) -> Refusal:
    return Refusal("the scores are products, scaled, capped and masked", f"stays as it is: {found}")
