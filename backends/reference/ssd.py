"""The state space model of Mamba 2, step by step."""

from collections.abc import Sequence

import torch

from coda_ir.backends.reference.numerics import Handlers, Numerics
from coda_ir.dialects import coda

Tensors = Sequence[torch.Tensor]


def scanned_heads(operands: Tensors, states: int) -> torch.Tensor:
    """y of x, dt, a, b, c, and of states to begin with; see `coda.SSDOp`."""
    return scanned_states(operands, states)[0]


def scanned_states(operands: Tensors, states: int) -> tuple[torch.Tensor, torch.Tensor]:
    """y and the states behind the last position."""
    x, dt, a, b, c, *initial = operands
    heads = len(a)
    x_heads = x.unflatten(-1, (heads, -1))
    b_heads, c_heads = (_by_head(part, heads, states) for part in (b, c))
    first = x.new_zeros(*x_heads.shape[:1], *x_heads.shape[2:], states)
    state = initial[0] if initial else first
    rows: list[torch.Tensor] = []
    for position in range(x.shape[1]):
        times = dt[:, position, :, None, None]
        written = times * x_heads[:, position, :, :, None] * b_heads[:, position, :, None]
        state = torch.exp(times * a[:, None, None]) * state + written
        rows.append((state * c_heads[:, position, :, None]).sum(-1).flatten(1))
    return (torch.stack(rows, 1) if rows else x.clone()), state


def _by_head(part: torch.Tensor, heads: int, states: int) -> torch.Tensor:
    """The columns of b or c for each head."""
    groups = part.shape[-1] // states
    return part.unflatten(-1, (groups, states)).repeat_interleave(heads // groups, 2)


def ssd(op: coda.SSDOp, operands: Tensors, _: Numerics) -> Tensors:
    y, state = scanned_states(operands, op.state_count)
    return [y] if op.final is None else [y, state.clone()]


def ssd_grad(op: coda.SSDGradOp, operands: Tensors, _: Numerics) -> Tensors:
    d_y, *given = operands
    adjoints = [d_y] if op.d_final is None else [d_y, given.pop()]
    with torch.enable_grad():
        leaves = [operand.detach().requires_grad_() for operand in given]
        results = scanned_states([leaf.clone() for leaf in leaves], op.state_count)
    return torch.autograd.grad(
        results[: len(adjoints)], leaves, adjoints, allow_unused=True, materialize_grads=True
    )


SSD_HANDLERS: Handlers = {coda.SSDOp: ssd, coda.SSDGradOp: ssd_grad}
