"""The operator `coda.attention`, with every score spelled out."""

from collections.abc import Sequence
from math import sqrt

import torch

from coda_ir.backends.reference.numerics import Numerics, product_of, split_columns
from coda_ir.dialects import coda

Tensors = Sequence[torch.Tensor]


def attention(op: coda.AttentionOp, operands: Tensors, numerics: Numerics) -> Tensors:
    return [_attend(op, operands)]


def attention_grad(op: coda.AttentionGradOp, operands: Tensors, numerics: Numerics) -> Tensors:
    d_out, *inputs = operands
    leaves = [x.detach() for x in inputs]
    added = ((op.sinks, op.d_sinks), (op.mask, op.d_mask))
    is_wanted = [True] * 3 + [result is not None for x, result in added if x is not None]
    wanted = [x.requires_grad_() for x, wants in zip(leaves, is_wanted, strict=True) if wants]
    with torch.enable_grad():
        y = _attend(op, leaves)
    return torch.autograd.grad(y, wanted, d_out)


def _attend(op: coda.AttentionLike, operands: Tensors) -> torch.Tensor:
    """Attention of q, k, v, and the sinks and the mask where `op` has them."""
    x, key, value, *rest = operands
    sinks = rest.pop(0) if op.sinks is not None else None
    mask = rest.pop(0) if op.mask is not None else None
    head_dim = op.head_dim.value.data
    # (B, heads, T, head_dim)
    q, k, v = (_heads(x, head_dim) for x in (x, key, value))
    sharing = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1)
    scale = 1 / sqrt(head_dim) if op.scale is None else op.scale.value.data
    scores = product_of(q, k.transpose(-1, -2)) * scale
    if op.softcap is not None:
        cap = op.softcap.value.data
        scores = torch.tanh(scores / cap) * cap
    if mask is not None:
        scores = _masked(scores, mask)
    scores = scores.masked_fill(~_seen(op, *scores.shape[-2:]), -torch.inf)
    weights = _softmax(scores, sinks)
    mixed = product_of(weights, v)
    return mixed.transpose(1, 2).reshape(x.shape)


def _heads(x: torch.Tensor, head_dim: int) -> torch.Tensor:
    return split_columns(x if x.dim() == 3 else x[None], head_dim).transpose(1, 2)


def _masked(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)
    return scores + mask


def _seen(op: coda.AttentionLike, queries: int, keys: int) -> torch.Tensor:
    """Which keys a query sees by its position, aligned at the lower right: the last query has the
    position of the last key.
    """
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if op.causal.value.data:
        seen &= distance >= 0
    if op.window is not None:
        seen &= distance.abs() < op.window.value.data
    return seen


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Softmax in which a row without any key is 0, as in PyTorch's attention; of `sinks`, the
    scores of heads (H), only the share of the denominator is left.
    """
    unseen = (scores == -torch.inf).all(-1, keepdim=True)
    # A softmax of no key is NaN, and so would be its derivative.
    scores = scores.masked_fill(unseen, 0.0)
    if sinks is None:
        return torch.softmax(scores, -1).masked_fill(unseen, 0.0)
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.softmax(torch.cat([scores, column], -1), -1)
    return weights[..., :-1].masked_fill(unseen, 0.0)
