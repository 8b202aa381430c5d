"""The operator `coda.attention` and its gradient, computed from materialized scores."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import torch

from coda_ir.backends.reference.numerics import Numerics, product_of, split_columns
from coda_ir.dialects import coda

Tensors = Sequence[torch.Tensor]


def attention(op: coda.AttentionOp, operands: Tensors, numerics: Numerics) -> Tensors:
    q, k, v, *added = operands
    out, lse = attended(op, q, k, v, *_added(op, added))
    return [out] if op.lse is None else [out, lse]


def attended(
    op: coda.AttentionLike,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sinks: torch.Tensor | None,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result, with heads side by side, and the logsumexp of the scores."""
    scores = _hidden(op, _capped_scores(op, q, k), mask)
    lse = _logsumexp(scores, sinks)
    values = _split_heads(v, op.value_columns)
    mixed = product_of(_softmax(scores, sinks), _repeated(values, scores))
    return mixed.transpose(1, 2).reshape(*q.shape[:-1], -1), lse.squeeze(-1)


def attention_grad(op: coda.AttentionGradOp, operands: Tensors, numerics: Numerics) -> Tensors:
    """Compute the gradients of attention. With the weights P = exp(score - lse), dV = Pᵀ·dO, and
    the gradient of the scores is P ⊙ (dO·Vᵀ - sum(dO ⊙ O)).
    """
    d_out, out, lse, q, k, v, *added = operands
    sinks, mask = _added(op, added)
    moment = moment_of(op, d_out, out)
    found = gradients_of_scores(op, d_out, moment, lse, q, k, v, mask)
    results = [query_gradient(op, found, q, k), *key_gradients(op, found, d_out, q, k, v)]
    moment, lse = moment.unsqueeze(-1), lse.unsqueeze(-1)
    if op.d_sinks is not None and sinks is not None:
        results.append(-(torch.exp(_column(sinks) - lse) * moment).sum((0, 2, 3)))
    if op.d_mask is not None and mask is not None:
        results.append(found.d_scores.sum_to_size(mask.shape))
    return results


class ScoreGradients(NamedTuple):
    """The softmax weights, the gradient of the scores, and the gradient of Q·Kᵀ times the scale:
    each B x heads x queries x keys.
    """

    weights: torch.Tensor
    d_scores: torch.Tensor
    d_products: torch.Tensor


def weights_of(scores: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """Return exp(scores - lse). If all scores of a row are so large that lse lacks the digits for
    the sum of the weights (padding adds -1e9 to every key), return the softmax.
    """
    return torch.where(lse < -1e3, torch.softmax(scores, -1), torch.exp(scores - lse))


def moment_of(op: coda.AttentionLike, d_out: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return sum(dO ⊙ O) for each row and head: B x heads x queries."""
    d_y, y = (_split_heads(x, op.value_columns) for x in (d_out, out))
    return (d_y * y).sum(-1)


def gradients_of_scores(
    op: coda.AttentionLike,
    d_out: torch.Tensor,
    moment: torch.Tensor,
    lse: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> ScoreGradients:
    """Return the gradients of the scores: P ⊙ (dO·Vᵀ - moment), with P = exp(score - lse)."""
    capped = _capped_scores(op, q, k)
    weights = weights_of(_hidden(op, capped, mask), lse.unsqueeze(-1))
    d_y, values = (_split_heads(x, op.value_columns) for x in (d_out, v))
    d_weights = product_of(d_y, _repeated(values, weights).transpose(-1, -2))
    d_scores = weights * (d_weights - moment.unsqueeze(-1))
    return ScoreGradients(weights, d_scores, _inside_cap(op, d_scores, capped) * _scale(op))


def query_gradient(
    op: coda.AttentionLike, found: ScoreGradients, q: torch.Tensor, k: torch.Tensor
) -> torch.Tensor:
    """Return dQ, with the shape of q."""
    keys = _repeated(_heads(op, k), found.d_products)
    return _joined(product_of(found.d_products, keys), q)


def key_gradients(
    op: coda.AttentionLike,
    found: ScoreGradients,
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> list[torch.Tensor]:
    """Return dK and dV, with the shapes of k and v."""
    d_y = _split_heads(d_out, op.value_columns)
    d_keys = product_of(found.d_products.transpose(-1, -2), _heads(op, q))
    d_values = product_of(found.weights.transpose(-1, -2), d_y)
    heads = k.shape[-1] // op.head_dim.value.data
    return [_joined(_summed_heads(x, heads), of) for x, of in ((d_keys, k), (d_values, v))]


def _joined(heads: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Put heads side by side, as in `like`."""
    return heads.transpose(1, 2).reshape(like.shape)


def _added(op: coda.AttentionLike, given: Tensors) -> list[torch.Tensor | None]:
    """Return the sinks and the mask; None for one that `op` lacks."""
    tensors = iter(given)
    return [None if value is None else next(tensors) for value in (op.sinks, op.mask)]


def _heads(op: coda.AttentionLike, x: torch.Tensor) -> torch.Tensor:
    """Split queries or keys into B x heads x rows x head_dim."""
    return _split_heads(x, op.head_dim.value.data)


def _split_heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """Split columns into B x heads x rows x width."""
    return split_columns(x if x.dim() == 3 else x[None], width).transpose(1, 2)


def _repeated(heads: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Repeat the heads of keys or values, one for each head of `like`."""
    return heads.repeat_interleave(like.shape[1] // heads.shape[1], 1)


def _summed_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Sum over the query heads that share a head of `heads`."""
    return x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:]).sum(2)


def _column(sinks: torch.Tensor) -> torch.Tensor:
    return sinks[:, None, None]


def _scale(op: coda.AttentionLike) -> float:
    return 1 / sqrt(op.head_dim.value.data) if op.scale is None else op.scale.value.data


def _capped_scores(op: coda.AttentionLike, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    queries = _heads(op, q)
    scores = product_of(queries, _repeated(_heads(op, k), queries).transpose(-1, -2)) * _scale(op)
    if op.softcap is None:
        return scores
    cap = op.softcap.value.data
    return torch.tanh(scores / cap) * cap


def _inside_cap(
    op: coda.AttentionLike, d_capped: torch.Tensor, capped: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of scores, given that of capped scores: tanh' = 1 - tanh²."""
    if op.softcap is None:
        return d_capped
    return d_capped * (1 - (capped / op.softcap.value.data).square())


def _hidden(
    op: coda.AttentionLike, scores: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Return the masked scores, with -inf for hidden keys."""
    if mask is not None:
        is_bool = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if is_bool else scores + mask
    return scores.masked_fill(~_seen(op, *scores.shape[-2:]), -torch.inf)


def _seen(op: coda.AttentionLike, queries: int, keys: int) -> torch.Tensor:
    """Return which keys each query sees by position. Positions are aligned at the end: the last
    query is at the position of the last key.
    """
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if op.causal.value.data:
        seen &= distance >= 0
    if op.window is not None:
        seen &= distance.abs() < op.window.value.data
    return seen


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Return the weights of the keys, 0 if a query sees none. With exp(score - lse), every weight
    of a row would have the rounding error of lse.
    """
    unseen = (scores == -torch.inf).all(-1, keepdim=True)
    columns = [scores]
    if sinks is not None:
        columns.append(_column(sinks).to(scores.dtype).expand(*scores.shape[:-1], 1))
    weights = torch.softmax(torch.cat(columns, -1), -1)[..., : scores.shape[-1]]
    return weights.masked_fill(unseen, 0.0)


def _logsumexp(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Return the logsumexp of each row, including its sink; inf if a query sees no key, so that its
    weights are 0.
    """
    unseen = (scores == -torch.inf).all(-1, keepdim=True)
    lse = torch.logsumexp(scores, -1, keepdim=True)
    if sinks is not None:
        lse = torch.logaddexp(lse, _column(sinks))
    return lse.masked_fill(unseen, torch.inf)
