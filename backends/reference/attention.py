"""The operator `coda.attention` and its gradient, computed from materialized scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch

from coda_ir.backends.reference.numerics import Numerics, product_of, split_columns
from coda_ir.dialects import coda

Tensors = Sequence[torch.Tensor]


def attention(op: coda.AttentionOp, operands: Tensors, numerics: Numerics) -> Tensors:
    out, lse = attended(op, operands[:3], *added(op, operands[3:]))
    return [out] if op.lse is None else [out, lse]


def attended(
    op: coda.AttentionLike,
    inputs: Tensors,
    sinks: torch.Tensor | None,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result for q, k and v, with heads side by side, and the logsumexp of scores."""
    mixed, lse = _heads_of(op, inputs, sinks, mask).attend()
    out = mixed.transpose(1, 2).flatten(-2)
    return out.reshape(*inputs[0].shape[:-1], out.shape[-1]), lse


def attention_grad(op: coda.AttentionGradOp, operands: Tensors, numerics: Numerics) -> Tensors:
    """Compute the gradients of attention."""
    d_out, out, lse, *inputs = operands[:6]
    sinks, mask = added(op, operands[6:])
    moment = None if op.has_exact_moment else moment_of(op, d_out, out)
    found = score_gradients(op, d_out, moment, lse, inputs, mask)
    gradients = (found.d_q(), found.d_k(), found.d_v())
    results = list(map(joined, gradients, inputs))
    if op.d_sinks is not None and sinks is not None:
        weights = torch.exp(sinks[:, None] - lse)
        results.append(-(weights * found.moment).sum((0, 2)))
    if op.d_mask is not None and mask is not None:
        results.append(found.d_scores.sum_to_size(mask.shape))
    return results


def moment_of(op: coda.AttentionLike, d_out: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return sum(dO ⊙ O) for each row and head: B x heads x queries."""
    d_y, y = (_split_heads(x, op.value_columns) for x in (d_out, out))
    return (d_y * y).sum(-1)


def score_gradients(
    op: coda.AttentionLike,
    d_out: torch.Tensor,
    moment: torch.Tensor | None,
    lse: torch.Tensor,
    inputs: Tensors,
    mask: torch.Tensor | None = None,
) -> ScoreGradients:
    """Return the gradients of the scores of q, k and v, given those of the result of `op`."""
    d_y = _split_heads(d_out, op.value_columns)
    return _heads_of(op, inputs, None, mask).gradients(d_y, moment, lse)


def _heads_of(
    op: coda.AttentionLike, inputs: Tensors, sinks: torch.Tensor | None, mask: torch.Tensor | None
) -> Heads:
    q, k, v = inputs
    queries, keys = (_split_heads(x, op.head_dim.value.data) for x in (q, k))
    return Heads(
        *(queries, keys, _split_heads(v, op.value_columns)),
        scale=None if op.scale is None else op.scale.value.data,
        seen=_seen(op, q.shape[-2], k.shape[-2]),
        softcap=None if op.softcap is None else op.softcap.value.data,
        sinks=sinks,
        mask=mask,
    )


def _split_heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """Split columns into B x heads x rows x width."""
    return split_columns(x if x.dim() == 3 else x[None], width).transpose(1, 2)


def joined(heads: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Put heads side by side, as in `like`."""
    return heads.transpose(1, 2).reshape(like.shape)


def added(op: coda.AttentionLike, given: Tensors) -> list[torch.Tensor | None]:
    """Return the sinks and the mask; None for one that `op` lacks."""
    tensors = iter(given)
    return [None if value is None else next(tensors) for value in (op.sinks, op.mask)]


def _seen(op: coda.AttentionLike, queries: int, keys: int) -> torch.Tensor:
    """Return which keys each query sees by position; the last query is at the last key."""
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if op.causal.value.data:
        seen &= distance >= 0
    if op.window is not None:
        seen &= distance.abs() < op.window.value.data
    return seen


@dataclass(frozen=True)
class Heads:
    """Attention of q, k, v: each B x heads x rows x columns. Heads of q may share one of k, v."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float | None
    """None is one over the root of the columns of q."""
    seen: torch.Tensor
    """True for the keys that each query sees by its position: queries x keys."""
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    mask: torch.Tensor | None = None

    def attend(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the result, and the logsumexp of the scores: B x heads x queries."""
        scores = self._hidden(self._capped())
        values = _repeated(self.v, scores)
        return product_of(self._softmax(scores), values), self._logsumexp(scores)

    def gradients(
        self, d_y: torch.Tensor, moment: torch.Tensor | None, lse: torch.Tensor
    ) -> ScoreGradients:
        """Return the gradients of the scores: P ⊙ (dO·Vᵀ - moment), with P = exp(score - lse).

        `moment` is sum(dO ⊙ O), and like `lse` B x heads x queries; None for sum(P ⊙ dO·Vᵀ).
        """
        capped = self._capped()
        weights = _weights_of(self._hidden(capped), lse.unsqueeze(-1))
        d_weights = product_of(d_y, _repeated(self.v, weights).transpose(-1, -2))
        if moment is None:
            moment = (weights * d_weights).sum(-1)
        d_scores = weights * (d_weights - moment.unsqueeze(-1))
        d_inside = d_scores * self._factor()
        if self.softcap is not None:
            d_inside = d_inside * (1 - (capped / self.softcap).square())  # tanh' = 1 - tanh²
        return ScoreGradients(self, d_y, moment, weights, d_scores, d_inside)

    def _factor(self) -> float:
        return 1 / sqrt(self.q.shape[-1]) if self.scale is None else self.scale

    def _capped(self) -> torch.Tensor:
        """Return the scores of all keys."""
        keys = _repeated(self.k, self.q)
        scores = product_of(self.q, keys.transpose(-1, -2)) * self._factor()
        if self.softcap is None:
            return scores
        return torch.tanh(scores / self.softcap) * self.softcap

    def _hidden(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the masked scores, with -inf for hidden keys."""
        if self.mask is not None:
            is_bool = self.mask.dtype == torch.bool
            scores = scores.masked_fill(~self.mask, -torch.inf) if is_bool else scores + self.mask
        return scores.masked_fill(~self.seen, -torch.inf)

    def _softmax(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the weights of the keys, 0 if a query sees none. With exp(score - lse), every
        weight of a row would have the rounding error of lse.
        """
        unseen = (scores == -torch.inf).all(-1, keepdim=True)
        columns = [scores]
        if self.sinks is not None:
            sinks = self.sinks[:, None, None].to(scores.dtype)
            columns.append(sinks.expand(*scores.shape[:-1], 1))
        weights = torch.softmax(torch.cat(columns, -1), -1)[..., : scores.shape[-1]]
        return weights.masked_fill(unseen, 0.0)

    def _logsumexp(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the logsumexp of each row, with its sink; inf if a query sees no key."""
        unseen = (scores == -torch.inf).all(-1)
        lse = torch.logsumexp(scores, -1)
        if self.sinks is not None:
            lse = torch.logaddexp(lse, self.sinks[:, None])
        return lse.masked_fill(unseen, torch.inf)


@dataclass(frozen=True)
class ScoreGradients:
    """Softmax weights, and gradients of scores and of Q·Kᵀ: each B x heads x queries x keys."""

    heads: Heads
    d_y: torch.Tensor
    moment: torch.Tensor
    """The sum(dO ⊙ O) of each row, which the gradients of its scores subtract."""
    weights: torch.Tensor
    d_scores: torch.Tensor
    d_products: torch.Tensor

    def d_q(self) -> torch.Tensor:
        """Return the gradient of the queries."""
        return product_of(self.d_products, _repeated(self.heads.k, self.d_products))

    def d_k(self) -> torch.Tensor:
        """Return the gradient of the keys."""
        return self._summed(product_of(self.d_products.transpose(-1, -2), self.heads.q))

    def d_v(self) -> torch.Tensor:
        """Return the gradient of the values: Pᵀ·dO."""
        return self._summed(product_of(self.weights.transpose(-1, -2), self.d_y))

    def _summed(self, x: torch.Tensor) -> torch.Tensor:
        """Sum over the query heads that share a head of the keys."""
        heads = self.heads.k.shape[1]
        return x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:]).sum(2)


def _weights_of(scores: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """Return exp(scores - lse). If all scores of a row are so large that lse lacks the digits for
    the sum of the weights (padding adds -1e9 to every key), return the softmax.
    """
    return torch.where(lse < -1e3, torch.softmax(scores, -1), torch.exp(scores - lse))


def _repeated(heads: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Repeat the heads of keys or values, one for each head of `like`."""
    return heads.repeat_interleave(like.shape[1] // heads.shape[1], 1)
