"""ATen's overrideable attention operators and their gradients, computed from materialized scores.

In float32 at least, rounded once to the types of the operands.
"""

from collections.abc import Sequence
from math import prod

import torch

from coda_ir.backends.reference.attention import (
    Heads,
    added,
    attended,
    joined,
    moment_of,
    score_gradients,
)
from coda_ir.backends.reference.gemm_ops import (
    DEFAULT_BLOCK,
    Cut,
    Frame,
    Tiling,
    epilogue,
    pair_columns,
)
from coda_ir.backends.reference.numerics import Handlers, Numerics
from coda_ir.dialects.gemm import (
    AttentionDkvOp,
    AttentionDmaskOp,
    AttentionDqOp,
    AttentionSumOp,
    FusedAttentionOp,
)


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
    """Return the result, and the logsumexp of the scores: inf if a query sees no key."""
    assert dropout == 0.0
    y, lse = _heads(q, k, v, mask, scale, is_causal=is_causal).attend()
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
    heads = _heads(q, k, v, mask, scale, is_causal=bool(rest[5]))
    d_y = d_y.to(heads.q.dtype)
    found = heads.gradients(d_y, (d_y * y).sum(-1), lse)
    pairs = ((found.d_q(), q), (found.d_k(), k), (found.d_v(), v))
    results = [gradient.to(x.dtype) for gradient, x in pairs]
    if mask is not None and wanted[3]:
        results.append(found.d_scores.sum_to_size(mask.shape).to(mask.dtype))
    return results


def _heads(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
    *,
    is_causal: bool,
) -> Heads:
    wide = torch.promote_types(q.dtype, torch.float32)
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    return Heads(
        *(x.to(wide) for x in (q, k, v)), scale, seen.tril() if is_causal else seen, mask=mask
    )


Tensors = Sequence[torch.Tensor]


def _fused_attention(op: FusedAttentionOp, operands: Tensors, numerics: Numerics) -> Tensors:
    inputs, hiding, ports = _split(op, operands)
    out, lse = attended(op, inputs, *added(op, hiding))
    return [lse, *_stored(op, [out], ports, numerics)]


def attention_dq(op: AttentionDqOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (d_out, out, lse, *inputs), mask, ports = _split(op, operands)
    given = None if op.exact_moment is not None else moment_of(op, d_out, out)
    found = score_gradients(op, d_out, given, lse, inputs, *mask)
    moment = found.moment
    if op.adds_mask:
        # The weights of the reference have the sum 1 already.
        moment = torch.stack([moment, torch.ones_like(moment)], -1)
    return [moment, *_stored(op, [joined(found.d_q(), inputs[0])], ports, numerics)]


def attention_dkv(op: AttentionDkvOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (d_out, moment, lse, *inputs), mask, ports = _split(op, operands)
    if op.adds_mask:
        moment = moment[..., 0]
    found = score_gradients(op, d_out, moment, lse, inputs, *mask)
    sums = list(map(joined, (found.d_k(), found.d_v()), inputs[1:]))
    return _stored(op, sums, ports, numerics)


def attention_dmask(op: AttentionDmaskOp, operands: Tensors, numerics: Numerics) -> Tensors:
    (d_out, moment, lse, *inputs), (mask,), _ = _split(op, operands)
    found = score_gradients(op, d_out, moment[..., 0], lse, inputs, mask).d_scores
    queries, keys = found.shape[-2:]
    return [found.sum_to_size(*mask.shape[:-2], queries, keys)]


def _split(op: AttentionSumOp, operands: Tensors) -> tuple[Tensors, Tensors, Tensors]:
    """Split operands into the tensors of attention, its sinks and mask, and those of the ports."""
    start = len(op.BEFORE)
    end = start + len(op.ports)
    tensors = [*operands[:start], *operands[end : end + 3]]
    return tensors, operands[end + 3 :], operands[start:end]


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
    AttentionDmaskOp: attention_dmask,
}
