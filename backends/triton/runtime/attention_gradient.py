# pyright: basic, reportOptionalMemberAccess=false, reportCallIssue=false
"""Attention that is differentiated: the forward keeps the logsumexp of the scores, and the
backward computes no softmax again.

The forward and the backward kernels of PyTorch are called as its autograd calls them. What the
kernels of a device give and take is brought to one form, so that they can be exchanged: the
logsumexp in natural units, B x heads x queries, and inf for a query that sees no key.
"""

import torch

from coda_ir.backends.triton.runtime.attention import (
    attention_mask,
    capped_scores,
    hidden_scores,
    joined_heads,
    split_heads,
)
from coda_ir.backends.triton.runtime.gradients import deterministic


def attention_with_lse(
    q, k, v, head_dim, causal, window=None, scale=None, softcap=None, sinks=None, mask=None
):
    """`attention`, and the logsumexp of the scores: batch x heads x queries, with the sinks.

    That of a query that sees no key is inf, so that all its weights are 0.
    """
    heads = [split_heads(x, head_dim) for x in (q, k, v)]
    kernel, is_causal, mask = attention_kernel(*heads, causal, window, softcap, mask)
    y, lse = heads_with_lse(kernel, *heads, mask, is_causal, scale, softcap, sinks)
    return joined_heads(y, q), lse.contiguous()


def heads_with_lse(kernel, q, k, v, mask, is_causal, scale, softcap=None, sinks=None):
    """What attention of heads gives, and the logsumexp of the scores."""
    if kernel is None:
        return spelled_attention_with_lse(q, k, v, mask, scale, softcap, sinks)
    y, lse = fused_attention(kernel, q, k, v, mask, is_causal, scale)
    if mask is not None:
        hides = ~mask if mask.dtype == torch.bool else mask == float("-inf")
        lse = lse.masked_fill(hides.all(-1), float("inf"))
    if sinks is not None:
        sinks = sinks.to(lse.dtype)[:, None]
        y = (y * torch.sigmoid(lse - sinks)[..., None]).to(q.dtype)
        lse = torch.logaddexp(lse, sinks)
    return y, lse


def spelled_attention_with_lse(q, k, v, mask, scale, softcap, sinks):
    scores = hidden_scores(capped_scores(q, k, scale, softcap), mask)
    lse = torch.logsumexp(scores, -1)
    unseen = (scores == float("-inf")).all(-1)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.to(lse.dtype)[:, None])
    lse = lse.masked_fill(unseen, float("inf"))
    v = v.to(scores.dtype).repeat_interleave(q.shape[1] // v.shape[1], 1)
    return (torch.exp(scores - lse[..., None]) @ v).to(q.dtype), lse


def fused_attention(kernel, q, k, v, mask, is_causal, scale):
    """Attention of heads by a kernel of PyTorch, and the logsumexp of the scores."""
    aten, head_dim = torch.ops.aten, q.shape[-1]
    mask = added_mask(mask, q, k, kernel)
    if kernel == "cpu":
        return aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale
        )
    if kernel == "flash":
        scale = head_dim**-0.5 if scale is None else scale
        q, k, v = map(padded_columns, (q, k, v))
        y, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, scale=scale)
        return y[..., :head_dim], lse
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    y, lse, *_ = aten._scaled_dot_product_efficient_attention(
        q, k, v, mask, True, 0.0, is_causal, scale=scale
    )
    # The kernel gives some that stand for no query.
    return y, lse[..., : q.shape[2]]


def attention_grad(
    d_out,
    out,
    lse,
    q,
    k,
    v,
    head_dim,
    causal,
    window=None,
    scale=None,
    softcap=None,
    sinks=None,
    mask=None,
    wrt=(),
):
    """The gradients of attention for q, k, v, and for "sinks" and "mask" where `wrt` has them.

    `out` and `lse` are what `attention_with_lse` gave: no softmax is computed again.
    """
    d_y, y, *heads = (split_heads(x, head_dim) for x in (d_out.contiguous(), out, q, k, v))
    kernel, is_causal, hiding = attention_kernel(*heads, causal, window, softcap, mask)
    wants_mask = "mask" in wrt
    results = heads_grad(kernel, d_y, y, lse, *heads, hiding, is_causal, scale, wants_mask, softcap)
    *d_heads, d_mask = results
    gradients = [joined_heads(x, z) for x, z in zip(d_heads, (q, k, v))]
    if "sinks" in wrt:
        # Their value is 0, so the gradient of their scores is -weight * sum(d_y * y).
        moment = (d_y.to(lse.dtype) * y).sum(-1)
        weights = torch.exp(sinks.to(lse.dtype)[:, None] - lse)
        gradients.append(-(weights * moment).sum((0, 2)).to(sinks.dtype))
    if wants_mask:
        gradients.append(d_mask.sum_to_size(mask.shape).to(mask.dtype).contiguous())
    return gradients


def heads_grad(kernel, d_y, y, lse, q, k, v, mask, is_causal, scale, wants_mask, softcap=None):
    """The gradients of heads and of the mask."""
    if kernel is None or (kernel == "cpu" and wants_mask):
        return spelled_attention_grad(d_y, lse, q, k, v, mask, scale, softcap)
    return fused_attention_grad(kernel, d_y, y, lse, q, k, v, mask, is_causal, scale, wants_mask)


def spelled_attention_grad(d_y, lse, q, k, v, mask, scale, softcap):
    """The gradients of heads and of the mask, with every score spelled out."""
    wide, shared = lse.dtype, q.shape[1] // k.shape[1]
    d_y = d_y.to(wide)
    k_all, v_all = (x.to(wide).repeat_interleave(shared, 1) for x in (k, v))
    scores = capped_scores(q, k, scale, softcap)
    weights = torch.exp(hidden_scores(scores, mask) - lse[..., None])
    d_v = summed_heads(weights.transpose(-1, -2) @ d_y, k.shape[1])
    d_weights = d_y @ v_all.transpose(-1, -2)
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
    d_inside = d_scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        d_inside = d_inside * (1 - (scores / softcap).square())
    d_k = summed_heads(d_inside.transpose(-1, -2) @ q.to(wide), k.shape[1])
    return [x.to(q.dtype) for x in (d_inside @ k_all, d_k, d_v)] + [d_scores]


def fused_attention_grad(kernel, d_y, y, lse, q, k, v, mask, is_causal, scale, wants_mask):
    """The gradients of heads and of the mask by a kernel of PyTorch."""
    aten, head_dim, d_mask = torch.ops.aten, q.shape[-1], None
    mask = added_mask(mask, q, k, kernel)
    # The numbers that dropout starts with, which no kernel reads without dropout.
    seed = torch.empty((), dtype=torch.int64, device=q.device)
    if kernel == "flash":
        sizes = (None, None, q.shape[2], k.shape[2])
        scale = head_dim**-0.5 if scale is None else scale
        tensors = [*map(padded_columns, (d_y, q, k, v, y)), lse]
        with deterministic():
            gradients = aten._scaled_dot_product_flash_attention_backward(
                *tensors, *sizes, 0.0, is_causal, seed, seed, scale=scale
            )
        return [*(x[..., :head_dim] for x in gradients), None]
    # On CPUs shared heads would be added up in their own type.
    k_all, v_all = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    if kernel == "cpu":
        tensors = [d_y, q, k_all, v_all, y]
        if k_all.shape != k.shape:
            # The sum over the heads that share one is rounded once. Kernels of GPUs round the
            # gradient of each head before it is added, as in eager: they give no wider type.
            tensors = [x.to(lse.dtype) for x in tensors]
            mask = None if mask is None else mask.to(lse.dtype)
        d_heads = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *tensors, lse, 0.0, is_causal, attn_mask=mask, scale=scale
        )
    else:
        if torch.version.hip is None:
            lse = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("inf"))
        rest = (seed, seed, 0.0, [True, True, True, wants_mask], is_causal)
        with deterministic():
            *d_heads, d_mask = aten._scaled_dot_product_efficient_attention_backward(
                d_y, q, k_all, v_all, mask, y, lse, *rest, scale=scale
            )
    gradients = [summed_heads(x, of.shape[1]).to(q.dtype) for x, of in zip(d_heads, (q, k, v))]
    return [*gradients, d_mask.to(lse.dtype) if wants_mask else None]


def summed_heads(x, heads):
    """The sums over the heads that share one of `heads`."""
    return x if x.shape[1] == heads else x.unflatten(1, (heads, -1)).sum(2)


def attention_of_heads(
    q, k, v, mask=None, dropout=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    """ATen's overrideable attention of heads that are no columns: what it gives, and the
    logsumexp of the scores.
    """
    kernel, is_causal, mask = kernel_of_heads(q, k, v, mask, is_causal)
    y, lse = heads_with_lse(kernel, q, k, v, mask, is_causal, scale)
    return y, lse.contiguous()


def kernel_of_heads(q, k, v, mask, is_causal):
    """`attention_kernel`, where a query sees the keys up to its own number."""
    if is_causal and q.shape[2] != k.shape[2]:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        is_causal = False
    return attention_kernel(q, k, v, is_causal, None, None, mask)


def attention_of_heads_grad(d_y, q, k, v, mask, wanted, y, lse, *rest, scale=None):
    """The gradients for q, k, v, and for the mask where that is wanted."""
    kernel, is_causal, hiding = kernel_of_heads(q, k, v, mask, rest[5])
    wants_mask = mask is not None and wanted[3]
    *gradients, d_mask = heads_grad(
        kernel, d_y.contiguous(), y, lse, q, k, v, hiding, is_causal, scale, wants_mask
    )
    if wants_mask:
        gradients.append(d_mask.sum_to_size(mask.shape).to(mask.dtype))
    return [x.contiguous() for x in gradients]


def attention_kernel(q, k, v, causal, window, softcap, mask):
    """The kernel of PyTorch that computes attention of heads and its derivative, whether that
    hides the keys behind a query, and the mask of what else is hidden. The kernel is "cpu",
    "flash" or "efficient"; where it is None, there is none and the mask is complete.
    """
    queries, keys = q.shape[2], k.shape[2]
    is_square = queries == keys and (window is None or window >= keys)
    if causal and is_square and mask is None:
        kernel = available_kernel(q, k, v, softcap, None, True)
        if kernel is not None:
            return kernel, True, None
    mask = attention_mask(mask, queries, keys, causal, window, q.device)
    return available_kernel(q, k, v, softcap, mask, False), False, mask


def available_kernel(q, k, v, softcap, mask, is_causal):
    is_other_type = mask is not None and mask.dtype not in (torch.bool, q.dtype)
    if softcap is not None or is_other_type or not q.numel() or not k.numel():
        return None
    cuda = torch.backends.cuda
    if q.device.type == "cpu":
        has_kernel = cuda.flash_sdp_enabled() and q.shape[-1] == v.shape[-1]
        return "cpu" if has_kernel else None
    if not q.is_cuda:
        return None
    with torch.enable_grad():
        # Some kernels have no derivative on some GPUs.
        q = q.detach().requires_grad_()
        params = cuda.SDPAParams(q, k, v, mask, 0.0, is_causal, q.shape[1] != k.shape[1])
        if cuda.can_use_flash_attention(params):
            return "flash"
        k, v = (x[:, :1].expand(-1, q.shape[1], -1, -1) for x in (k, v))
        params = cuda.SDPAParams(q, k, v, mask, 0.0, is_causal, False)
        return "efficient" if cuda.can_use_efficient_attention(params) else None


def added_mask(mask, q, k, kernel):
    """`mask` as numbers that are added to the scores, in rows that the kernel can read."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = q.new_zeros(()).masked_fill(~mask, float("-inf"))
    keys = k.shape[2]
    mask = mask.expand(*mask.shape[:-1], keys).contiguous()
    if kernel == "efficient" and keys % 16:
        mask = torch.nn.functional.pad(mask, (0, -keys % 16))[..., :keys]
    return mask.expand(*q.shape[:3], keys)


def padded_columns(x):
    """x with zeros up to a multiple of 8 columns."""
    extra = -x.shape[-1] % 8
    return torch.nn.functional.pad(x, (0, extra)) if extra else x
