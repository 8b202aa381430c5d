# pyright: basic
"""The gradients of the gated delta rule, which PyTorch computes."""

import torch

from coda_ir.backends.triton.runtime.gradients import vjp


def delta_rule_grad(d_y, operands, head_dim, d_final=None):
    """Return the gradients of the gated delta rule for `operands`: q, k, v, beta, decay, and the
    states before the first position if `d_final`, the adjoint of the last states, is given.
    """
    d_results = [d_y.float()] if d_final is None else [d_y.float(), d_final]
    numbers = range(len(operands))

    def rule(*operands):
        return delta_rule_by_chunks(head_dim, *operands)

    return vjp(rule, operands, numbers, range(len(d_results)), d_results)


def delta_rule_by_chunks(head_dim, q, k, v, beta, decay, states=None):
    """Return the result of the gated delta rule, and the last states, in float32 (arXiv 2412.06464,
    section 3.3), by chunks of 64 positions.
    """
    length, heads = beta.shape[1:]
    q, k = (heads_by_chunks(x, head_dim, heads) for x in (q, k))
    v = heads_by_chunks(v, v.shape[-1] // heads, heads)
    beta, decay = (heads_by_chunks(x, 1, heads) for x in (beta, decay))
    sums = decay.cumsum(-2)
    between = (sums - sums.mT).tril().exp().tril()
    system = (beta * k @ k.mT) * between
    solve = torch.linalg.solve_triangular
    added, taken = (
        solve(system, rows, upper=False, unitriangular=True)
        for rows in (beta * v, beta * sums.exp() * k)
    )
    scores = (q @ k.mT) * between
    q, end = q * sums.exp(), sums[..., -1:, :]
    k, kept = k * (end - sums).exp(), end.exp()
    if states is None:
        states = v.new_zeros(*v.shape[:2], head_dim, v.shape[-1])
    chunks = []
    for number in range(q.shape[2]):
        new = added[:, :, number] - taken[:, :, number] @ states
        chunks.append(q[:, :, number] @ states + scores[:, :, number] @ new)
        states = states * kept[:, :, number] + k[:, :, number].mT @ new
    y = torch.cat(chunks, 2)[:, :, :length] if chunks else v.flatten(2, 3)
    return y.transpose(1, 2).flatten(2), states.clone()


def heads_by_chunks(x, columns, heads):
    """Return x in float32 as B x heads x chunks x 64 positions x columns, padded with zeros."""
    x = x.float().unflatten(-1, (-1, columns)).transpose(1, 2)
    x = torch.nn.functional.pad(x, [0, 0, 0, -x.shape[2] % 64])
    x = x.unflatten(2, (x.shape[2] // 64, 64))
    return x.repeat_interleave(heads // x.shape[1], 1)
