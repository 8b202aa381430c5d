"""The state space model of Mamba 2, step by step."""

from collections.abc import Sequence

import torch

from coda_ir.backends.reference.numerics import Handlers, Numerics
from coda_ir.dialects import coda

Tensors = Sequence[torch.Tensor]


def scanned_heads(operands: Tensors, states: int) -> torch.Tensor:
    """y of x, dt, a, b, c; see `coda.SSDOp`."""
    x, dt, a, b, c = operands
    heads = len(a)
    x_heads = x.unflatten(-1, (heads, -1))
    b_heads, c_heads = (_by_head(part, heads, states) for part in (b, c))
    state = x.new_zeros(*x_heads.shape[:1], *x_heads.shape[2:], states)
    rows: list[torch.Tensor] = []
    for position in range(x.shape[1]):
        times = dt[:, position, :, None, None]
        written = times * x_heads[:, position, :, :, None] * b_heads[:, position, :, None]
        state = torch.exp(times * a[:, None, None]) * state + written
        rows.append((state * c_heads[:, position, :, None]).sum(-1).flatten(1))
    return torch.stack(rows, 1) if rows else x.clone()


def _by_head(part: torch.Tensor, heads: int, states: int) -> torch.Tensor:
    """The columns of b or c for each head."""
    groups = part.shape[-1] // states
    return part.unflatten(-1, (groups, states)).repeat_interleave(heads // groups, 2)


def ssd(op: coda.SSDOp, operands: Tensors, _: Numerics) -> Tensors:
    return [scanned_heads(operands, op.state_count)]


def ssd_grad(op: coda.SSDGradOp, operands: Tensors, _: Numerics) -> Tensors:
    d_y, *given = operands
    with torch.enable_grad():
        leaves = [operand.detach().requires_grad_() for operand in given]
        y = scanned_heads(leaves, op.state_count)
    return torch.autograd.grad(y, leaves, d_y, allow_unused=True, materialize_grads=True)


SSD_HANDLERS: Handlers = {coda.SSDOp: ssd, coda.SSDGradOp: ssd_grad}
