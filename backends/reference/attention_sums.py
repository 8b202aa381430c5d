"""The kernels of attention and of its backward: sums over keys or queries, and their epilogues."""

from collections.abc import Sequence
from math import prod

import torch

from coda_ir.backends.reference.attention import (
    attended,
    gradients_of_scores,
    key_gradients,
    moment_of,
    query_gradient,
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
from coda_ir.dialects.gemm import AttentionDkvOp, AttentionDqOp, AttentionSumOp, FusedAttentionOp

Tensors = Sequence[torch.Tensor]


def fused_attention(op: FusedAttentionOp, operands: Tensors, numerics: Numerics) -> Tensors:
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
    """The tensors of attention, and those of the ports."""
    start = len(op.BEFORE)
    end = start + len(op.ports)
    return [*operands[:start], *operands[end:]], operands[start:end]


def _stored(op: AttentionSumOp, sums: Tensors, ports: Tensors, numerics: Numerics) -> Tensors:
    """Return what the epilogue of `sums` stores."""
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
    FusedAttentionOp: fused_attention,
    AttentionDqOp: attention_dq,
    AttentionDkvOp: attention_dkv,
}
