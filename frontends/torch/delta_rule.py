"""The gated delta rule as one operator of PyTorch, so that its loop over chunks is not traced.

The states of a head, S of key columns x value columns, are S[t] = exp(g[t]) · (I − beta[t] · k[t]
k[t]ᵀ) · S[t − 1] + beta[t] · k[t] v[t]ᵀ, and the result is q[t]ᵀ · S[t] (arXiv 2412.06464). PyTorch
runs it, chunk by chunk, in float32.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from coda_ir.frontends.torch.rerun_operators import rerun_operator

CHUNK = 64
"""Positions of a chunk, within which a triangular system is solved."""


def gated_delta_rule(operands: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute the result of q, k, v, g and beta, and the states after the last position.

    q and k are B x T x heads x K, v is B x T x heads x V, g and beta are B x T x heads; a sixth
    operand has the states before the first position, B x heads x K x V, by default 0. The result
    has the shape and type of v, and states are float32.
    """
    return _OPERATOR(list(operands))


def _run(operands: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute chunk by chunk, as in section 3.3 of the paper."""
    length, dtype = operands[2].shape[1], operands[2].dtype
    q, k, v, g, beta = map(_by_chunks, operands[:5])
    sums = g.cumsum(-1)
    between = (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()
    written, added = k * beta[..., None], v * beta[..., None]
    system = (written @ k.mT) * between
    written = written * sums.exp()[..., None]
    added, taken = (_solved(system, rows) for rows in (added, written))
    scores = (q @ k.mT) * between
    q, end = q * sums.exp()[..., None], sums[..., -1:]
    k, decay = k * (end - sums).exp()[..., None], end.exp()[..., None]
    state = operands[5].float() if len(operands) > 5 else _no_states(operands)
    chunks: list[Tensor] = []
    for number in range(q.shape[2]):
        new = added[:, :, number] - taken[:, :, number] @ state
        chunks.append(q[:, :, number] @ state + scores[:, :, number] @ new)
        state = state * decay[:, :, number] + k[:, :, number].mT @ new
    y = torch.cat(chunks, 2)[:, :, :length] if chunks else v.flatten(2, 3)
    return y.transpose(1, 2).to(dtype).contiguous(), state.clone()


def _solved(system: Tensor, rows: Tensor) -> Tensor:
    """Solve (I + the part of `system` below its diagonal) · x = rows."""
    linalg: Any = torch.linalg  # without types
    return linalg.solve_triangular(system, rows, upper=False, unitriangular=True)


def _by_chunks(x: Tensor) -> Tensor:
    """Reshape B x T x heads x ... to B x heads x chunks x positions x ... in float32, padded with
    zeros.
    """
    padding = [0, 0] * (x.dim() - 3) + [0, -x.shape[1] % CHUNK]
    rows: Tensor = F.pad(x.transpose(1, 2).float(), padding)
    return rows.reshape(*rows.shape[:2], rows.shape[2] // CHUNK, CHUNK, *rows.shape[3:])


def _no_states(operands: Sequence[Tensor]) -> Tensor:
    k, v = operands[1:3]
    return v.new_zeros((len(v), v.shape[2], k.shape[3], v.shape[3]), dtype=torch.float32)


def _result_types(operands: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return operands[2].new_empty(operands[2].shape), _no_states(operands)


_OPERATOR = rerun_operator("gated_delta_rule", _run, _result_types)
