"""ATen's overrideable attention operators and their gradients, computed from materialized scores.

In float32 at least, rounded once to the types of the operands.
"""

from collections.abc import Sequence
from math import prod, sqrt

import torch

from coda_ir.backends.reference.attention import (
    attended,
    gradients_of_scores,
    key_gradients,
    moment_of,
    query_gradient,
    weights_of,
)
from coda_ir.backends.reference.gemm_ops import (
    DEFAULT_BLOCK,
    Cut,
    Frame,
    Tiling,
    epilogue,
    pair_columns,
)
from coda_ir.backends.reference.numerics import Handlers, Numerics, product_of
from coda_ir.dialects.gemm import AttentionDkvOp, AttentionDqOp, AttentionSumOp, FusedAttentionOp


def fused_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> list[torch.Tensor]:
    """Return the result of attention and the logsumexp of the scores, which is inf if a query sees
    no key.
    """
    assert dropout == 0.0
    scores = _scores(q, k, mask, scale, is_causal=is_causal)
    unseen = (scores == -torch.inf).all(-1)
    lse = torch.logsumexp(scores, -1).masked_fill(unseen, torch.inf)
    y = product_of(weights_of(scores, lse[..., None]), _shared(v, q))
    return [y.to(q.dtype), lse]


def fused_attention_grad(
    d_y: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    wanted: Sequence[bool],
    y: torch.Tensor,
    lse: torch.Tensor,
    *rest: object,
    scale: float | None = None,
) -> list[torch.Tensor]:
    """Return the gradients of q, k and v, and of the mask if it is `wanted`."""
    is_causal = bool(rest[5])
    scores = _scores(q, k, mask, scale, is_causal=is_causal)
    weights = weights_of(scores, lse[..., None])
    d_y = d_y.to(scores.dtype)
    moment = (d_y * y).sum(-1, keepdim=True)
    d_scores = weights * (product_of(d_y, _shared(v, q).transpose(-1, -2)) - moment)
    d_inside = d_scores * _scale(q, scale)
    results = [
        product_of(d_inside, _shared(k, q)),
        _summed(product_of(d_inside.transpose(-1, -2), q.to(scores.dtype)), k),
        _summed(product_of(weights.transpose(-1, -2), d_y), v),
    ]
    results = [x.to(like.dtype) for x, like in zip(results, (q, k, v), strict=True)]
    if mask is not None and wanted[3]:
        results.append(d_scores.sum_to_size(mask.shape).to(mask.dtype))
    return results


def _scores(
    q: torch.Tensor,
    k: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
    *,
    is_causal: bool,
) -> torch.Tensor:
    """Return the scores of all keys, -inf for hidden ones."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = product_of(q.to(wide), _shared(k, q).transpose(-1, -2)) * _scale(q, scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if mask is None:
        return scores
    is_bool = mask.dtype == torch.bool
    return scores.masked_fill(~mask, -torch.inf) if is_bool else scores + mask


def _scale(q: torch.Tensor, scale: float | None) -> float:
    return 1 / sqrt(q.shape[-1]) if scale is None else scale


def _shared(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return the heads of keys or values in the type of the scores, one for each query head."""
    wide = torch.promote_types(q.dtype, torch.float32)
    return x.to(wide).repeat_interleave(q.shape[1] // x.shape[1], 1)


def _summed(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Sum over the query heads that share a head of `like`."""
    shared = x.shape[1] // like.shape[1]
    return x.reshape(x.shape[0], like.shape[1], shared, *x.shape[2:]).sum(2)


Tensors = Sequence[torch.Tensor]


def _fused_attention(op: FusedAttentionOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (q, k, v, *hiding), ports = _split(op, operands)
    sinks = None if op.sinks is None else hiding.pop(0)
    out, lse = attended(op, q, k, v, sinks, *hiding)
    return [lse, *_stored(op, [out], ports, numerics)]


def attention_dq(op: AttentionDqOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (d_out, out, lse, q, k, v, *mask), ports = _split(op, operands)
    moment = moment_of(op, d_out, out)
    found = gradients_of_scores(op, d_out, moment, lse, q, k, v, *mask)
    if op.adds_mask:
        # The weights of the reference have the sum 1 already.
        moment = torch.stack([moment, torch.ones_like(moment)], -1)
    return [moment, *_stored(op, [query_gradient(op, found, q, k)], ports, numerics)]


def attention_dkv(op: AttentionDkvOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (d_out, moment, lse, q, k, v, *mask), ports = _split(op, operands)
    if op.adds_mask:
        moment = moment[..., 0]
    found = gradients_of_scores(op, d_out, moment, lse, q, k, v, *mask)
    return _stored(op, key_gradients(op, found, d_out, q, k, v), ports, numerics)


def _split(op: AttentionSumOp, operands: Tensors) -> tuple[Tensors, Tensors]:
    """Split operands into the tensors of attention and those of the ports."""
    start = len(op.BEFORE)
    end = start + len(op.ports)
    return [*operands[:start], *operands[end:]], operands[start:end]


def _stored(op: AttentionSumOp, sums: Tensors, ports: Tensors, numerics: Numerics) -> Tensors:
    """Return the tensors that the epilogue of `sums` stores."""
    stored: list[torch.Tensor] = []
    for numbers, segment in op.epilogues():
        taken = [sums[number] for number in numbers]
        *rows, columns = taken[0].shape
        frame = Frame(tuple(rows), columns, pair_columns(segment.pairing, columns))
        flat = [total.reshape(prod(rows), columns) for total in taken]
        accumulators = [x for total in flat for x in frame.gather(total)]
        domain = frame.domain
        head = columns // op.tile_heads // domain.columns_per_element
        block = DEFAULT_BLOCK if op.schedule is None else op.schedule.block_m.data
        tiling = Tiling(block, [Cut(0, domain.columns, head)])
        inputs = ports if segment.ports else ()
        stored += epilogue(segment, accumulators, inputs, frame, tiling, numerics)
    return stored


ATTENTION_HANDLERS: Handlers = {
    FusedAttentionOp: _fused_attention,
    AttentionDqOp: attention_dq,
    AttentionDkvOp: attention_dkv,
}
