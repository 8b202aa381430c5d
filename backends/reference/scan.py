"""State-space models, computed step by step."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from coda_ir.backends.reference.numerics import Handlers, Numerics
from coda_ir.dialects import coda
from coda_ir.dialects.coda.scan import ScanLike, StateSpaceGradLike, StateSpaceLike, StateSpaceModel

Tensors = Sequence[torch.Tensor]
Scan = Callable[[Tensors], tuple[torch.Tensor, torch.Tensor]]
"""Gives y and the states after the last position."""


def scanned_channels(operands: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y of the selective scan, given u, dt, a, b, c and initial states, and the states after
    the last position; see `coda.SelectiveScanOp`.
    """
    u, dt, a, b, c, *initial = operands
    state = initial[0] if initial else u.new_zeros(len(u), *a.shape)
    rows: list[torch.Tensor] = []
    for u_t, dt_t, b_t, c_t in zip(*(x.unbind(1) for x in (u, dt, b, c)), strict=True):
        decay = torch.exp(dt_t[..., None] * a)
        state = decay * state + (dt_t * u_t)[..., None] * b_t[:, None]
        rows.append((state * c_t[:, None]).sum(-1))
    return (torch.stack(rows, 1) if rows else u.clone()), state


def scanned_states(operands: Tensors, states: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y of the SSD scan, given x, dt, a, b, c and initial states, and the states after the
    last position; see `coda.SSDOp`.
    """
    x, dt, a, b, c, *initial = operands
    heads = len(a)
    x_heads = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
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
    """Return the columns of b or c for each head."""
    groups = part.shape[-1] // states
    return part.reshape(*part.shape[:-1], groups, states).repeat_interleave(heads // groups, 2)


def _scan_of(op: StateSpaceLike) -> Scan:
    if isinstance(op, ScanLike):
        return scanned_channels
    return partial(scanned_states, states=op.state_count)


def _model(op: StateSpaceModel, operands: Tensors, _: Numerics) -> Tensors:
    y, last = _scan_of(op)(operands)
    return [y] if op.final is None else [y, last.clone()]


def _gradients(op: StateSpaceGradLike, operands: Tensors, _: Numerics) -> Tensors:
    """Return the gradients of the scan for its operands, given those of its results."""
    d_y, *given = operands
    adjoints = [d_y] if op.d_final is None else [d_y, given.pop()]
    with torch.enable_grad():
        leaves = [operand.detach().requires_grad_() for operand in given]
        results = _scan_of(op)([leaf.clone() for leaf in leaves])[: len(adjoints)]
    return torch.autograd.grad(results, leaves, adjoints, allow_unused=True, materialize_grads=True)


SCAN_HANDLERS: Handlers = {
    coda.SelectiveScanOp: _model,
    coda.SelectiveScanGradOp: _gradients,
    coda.SSDOp: _model,
    coda.SSDGradOp: _gradients,
}
