"""The selective scan, step by step."""

from collections.abc import Sequence

import torch

from coda_ir.backends.reference.numerics import Handlers, Numerics
from coda_ir.dialects import coda
from coda_ir.dialects.torch import LinearScanOp

Tensors = Sequence[torch.Tensor]


def scanned(operands: Tensors) -> torch.Tensor:
    """y of u, dt, a, b, c; see `coda.SelectiveScanOp`."""
    u, dt, a, b, c = operands
    state = u.new_zeros(len(u), *a.shape)
    rows: list[torch.Tensor] = []
    for u_t, dt_t, b_t, c_t in zip(*(x.unbind(1) for x in (u, dt, b, c)), strict=True):
        decay = torch.exp(dt_t[..., None] * a)
        state = decay * state + (dt_t * u_t)[..., None] * b_t[:, None]
        rows.append((state * c_t[:, None]).sum(-1))
    return torch.stack(rows, 1) if rows else u.clone()


def selective_scan(op: coda.SelectiveScanOp, operands: Tensors, _: Numerics) -> Tensors:
    return [scanned(operands)]


def selective_scan_grad(op: coda.SelectiveScanGradOp, operands: Tensors, _: Numerics) -> Tensors:
    d_y, *given = operands
    with torch.enable_grad():
        leaves = [operand.detach().requires_grad_() for operand in given]
        y = scanned(leaves)
    return torch.autograd.grad(y, leaves, d_y, allow_unused=True, materialize_grads=True)


def linear_scan(op: LinearScanOp, operands: Tensors, _: Numerics) -> Tensors:
    state = torch.zeros_like(operands[1][:1])
    rows = [state]
    for a_t, x_t in zip(*(operand.split(1) for operand in operands), strict=True):
        state = a_t * state + x_t
        rows.append(state)
    return [torch.cat(rows)[len(rows) - len(operands[1]) :]]


SCAN_HANDLERS: Handlers = {
    coda.SelectiveScanOp: selective_scan,
    coda.SelectiveScanGradOp: selective_scan_grad,
    LinearScanOp: linear_scan,
}
