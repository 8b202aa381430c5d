"""State-space models, computed step by step."""

from collections.abc import Callable, Sequence

import torch

from coda_ir.backends.reference.numerics import Handlers, Numerics
from coda_ir.dialects import coda
from coda_ir.dialects.coda.delta_rule import DeltaRuleLike
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
    """Return y of the SSD scan of x, dt, a, b, c and initial states, and its last states."""
    x, dt, a, b, c, *initial = operands
    heads = len(a)
    x_heads = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
    b_heads, c_heads = (_repeated(part, heads, states) for part in (b, c))
    first = x.new_zeros(*x_heads.shape[:1], *x_heads.shape[2:], states)
    state = initial[0] if initial else first
    rows: list[torch.Tensor] = []
    for position in range(x.shape[1]):
        times = dt[:, position, :, None, None]
        written = times * x_heads[:, position, :, :, None] * b_heads[:, position, :, None]
        state = torch.exp(times * a[:, None, None]) * state + written
        rows.append((state * c_heads[:, position, :, None]).sum(-1).flatten(1))
    return (torch.stack(rows, 1) if rows else x.clone()), state


def _repeated(part: torch.Tensor, heads: int, columns: int) -> torch.Tensor:
    """Return the columns for each head of a tensor with groups of columns, which heads share."""
    groups = part.shape[-1] // columns
    return part.reshape(*part.shape[:-1], groups, columns).repeat_interleave(heads // groups, 2)


def delta_rule(operands: Tensors, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y of the gated delta rule, given q, k, v, beta, decay and initial states, and the
    states after the last position; see `coda.DeltaRuleOp`.
    """
    q, k, v, beta, decay, *initial = operands
    heads = beta.shape[-1]
    q_heads, k_heads = (_repeated(part, heads, head_dim) for part in (q, k))
    v_heads = v.reshape(*v.shape[:-1], heads, v.shape[-1] // heads)
    first = v.new_zeros(len(v), heads, head_dim, v_heads.shape[-1])
    state = initial[0] if initial else first
    rows: list[torch.Tensor] = []
    for position in range(v.shape[1]):
        key = k_heads[:, position, :, :, None]
        state = torch.exp(decay[:, position, :, None, None]) * state
        rest = v_heads[:, position] - (state * key).sum(-2)
        state = state + key * (beta[:, position, :, None] * rest)[:, :, None]
        rows.append((state * q_heads[:, position, :, :, None]).sum(-2).flatten(1))
    return (torch.stack(rows, 1) if rows else v.clone()), state


def _scan_of(op: StateSpaceLike) -> Scan:
    if isinstance(op, ScanLike):
        return scanned_channels
    run = delta_rule if isinstance(op, DeltaRuleLike) else scanned_states
    return lambda operands: run(operands, op.state_count)


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
    coda.DeltaRuleOp: _model,
    coda.DeltaRuleGradOp: _gradients,
}
