"""Attention of heads that keeps the logsumexp of its scores, as calls of PyTorch.

ATen has operators for it that leave the choice of a kernel to the device. ATen defines them only
for devices with such a kernel; the backends run them by any kernel of PyTorch that is available.

    %y, %lse =
      torch.call "aten._scaled_dot_product_fused_attention_overrideable.default"(%q, %k, %v)
        {arguments = "{0}, {1}, {2}, None, 0.0, True", positions = [0, 1]} : ...

q, k and v are batch x heads x rows x columns; k and v may have fewer heads, and v other columns.
The logsumexp is batch x heads x queries in float32, and inf for a query that sees no key.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch.ops import CallOp

ATTENTION = "aten.scaled_dot_product_attention.default"
ATTENTION_PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
"""The parameters of `ATTENTION` that a call may give by position."""

_PARAMETERS = {*ATTENTION_PARAMETERS, "scale", "enable_gqa"}

FUSED_ATTENTION = "aten._scaled_dot_product_fused_attention_overrideable.default"
FUSED_ATTENTION_GRAD = "aten._scaled_dot_product_fused_attention_overrideable_backward.default"


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of a call of `ATTENTION` that drops no scores.

    A tensor may be several of the operands, as a latent that is key and value.
    """

    q: SSAValue
    k: SSAValue
    v: SSAValue
    mask: SSAValue | None
    is_causal: bool
    scale: float | None
    shares_keys: bool
    """True if several heads of q may have the same head of k and v."""

    @staticmethod
    def of(op: CallOp) -> AttentionCall | None:
        """Return the arguments of `op`; None for other calls, with dropout or without literals."""
        if op.callee.data != ATTENTION or op.picks is not None or not op.template.is_literal:
            return None
        positional, named = op.template.evaluate(list(op.inputs), {}, {})
        given = {**dict(zip(ATTENTION_PARAMETERS, positional, strict=False)), **named}
        if given.get("dropout_p") or not given.keys() <= _PARAMETERS:
            return None
        q, k, v = (given[name] for name in ATTENTION_PARAMETERS[:3])
        scale = given.get("scale")
        return AttentionCall(
            q,
            k,
            v,
            given.get("attn_mask"),
            bool(given.get("is_causal")),
            None if scale is None else float(scale),
            bool(given.get("enable_gqa")),
        )


def masked_operands(op: CallOp) -> tuple[SSAValue, ...] | None:
    """Return q, k, v and the mask of masked attention, or of its gradient; else None."""
    names = (ATTENTION, FUSED_ATTENTION, FUSED_ATTENTION_GRAD)
    if op.callee.data not in names or not op.template.is_literal:
        return None
    positional, named = op.template.evaluate(list(op.inputs), {}, {})
    if op.callee.data == FUSED_ATTENTION_GRAD:
        del positional[0]
    mask = positional[3] if len(positional) > 3 else named.get("attn_mask")
    return None if mask is None else (*positional[:3], mask)


def fused_attention_call(call: AttentionCall) -> CallOp:
    """Return the same attention with the results of `call`, and the logsumexp."""
    masks = [] if call.mask is None else [call.mask]
    shape = shape_of(call.q)[:-1]
    return CallOp(
        FUSED_ATTENTION,
        [call.q, call.k, call.v, *masks],
        f"{{0}}, {{1}}, {{2}}, {_mask(call.mask)}, 0.0, {call.is_causal}{_scale(call.scale)}",
        [
            TensorType(element_type_of(call.q), (*shape, shape_of(call.v)[-1])),
            TensorType(f32, shape),
        ],
        positions=(0, 1),
    )


def fused_attention_grad_call(op: CallOp, d_y: SSAValue, *, wants_mask: bool) -> CallOp:
    """Return the gradients for q, k, v, and a requested mask, of the call `op`, given `d_y`."""
    positional, named = op.template.evaluate([None] * len(op.inputs), {}, {})
    mask = op.inputs[3] if len(op.inputs) > 3 else None
    y, lse = op.outputs
    saved = len(op.inputs) + 1
    text = f"{{0}}, {{1}}, {{2}}, {{3}}, {_mask(mask, 4)}, [True, True, True, {wants_mask}], "
    text += f"{{{saved}}}, {{{saved + 1}}}, None, None, 0, 0, 0.0, {positional[5]}, None, None"
    results = [*op.inputs[:3], *([mask] if mask is not None and wants_mask else [])]
    return CallOp(
        FUSED_ATTENTION_GRAD,
        [d_y, *op.inputs, y, lse],
        text + _scale(named.get("scale")),
        [value.type for value in results],
        positions=range(len(results)),
    )


def _mask(mask: SSAValue | None, number: int = 3) -> str:
    return "None" if mask is None else f"{{{number}}}"


def _scale(scale: float | None) -> str:
    return "" if scale is None else f", scale={scale!r}"
