# pyright: basic, reportOptionalMemberAccess=false, reportOptionalOperand=false
"""Attention: PyTorch's kernels where they can."""

import torch


def attention(
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
    dense=True,
):
    """Attention of heads that lie side by side in the columns of q, k and v.

    Queries and keys are aligned at the lower right: the last query has the position of the last
    key. A query that sees no key gives 0.
    """
    q_heads, k_heads, v_heads = split_qkv(q, k, v, head_dim)
    queries, keys = q.shape[-2], k.shape[-2]
    has_wide_mask = mask is not None and mask.dtype not in (torch.bool, q.dtype)
    has_wide_sinks = sinks is not None and sinks.dtype != q.dtype
    is_spelled = softcap is not None or has_wide_mask or has_wide_sinks
    is_plain = mask is None and sinks is None and not is_spelled
    is_causal = causal and is_plain and queries == keys and (window is None or window >= keys)
    seen = None if is_causal else attention_mask(mask, queries, keys, causal, window, q.device)
    if is_spelled:
        scores = hidden_scores(capped_scores(q_heads, k_heads, scale, softcap), seen)
        y = spelled_attention(scores, v_heads, sinks).to(q.dtype)
    elif sinks is not None:
        y = attention_with_sinks(q_heads, k_heads, v_heads, seen, scale, sinks)
    else:
        y = torch.nn.functional.scaled_dot_product_attention(
            q_heads,
            k_heads,
            v_heads,
            attn_mask=seen,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=q.shape[-1] != k.shape[-1],
        )
    return joined_heads(y, q, dense)


def split_qkv(q, k, v, head_dim):
    """The heads of q, k and v. Those of v, as many as those of k, may have other columns."""
    value_dim = v.shape[-1] // (k.shape[-1] // head_dim)
    return split_heads(q, head_dim), split_heads(k, head_dim), split_heads(v, value_dim)


def split_heads(x, head_dim):
    """Batch x heads x rows x head_dim, of heads that lie side by side: one view takes less time of
    the host than a reshape and a transpose.
    """
    *batch, rows, columns = x.shape
    *steps, row, column = x.stride()
    shape = (*(batch or (1,)), columns // head_dim, rows, head_dim)
    return x.as_strided(shape, (*(steps or (0,)), head_dim * column, row, column))


def joined_heads(x, like, dense=True):
    """x with its heads side by side, of rows as those of `like`; contiguous, also where its columns
    are some of those that a kernel gave, or if not `dense`, with the rows in any order.
    """
    y = x.transpose(1, 2).reshape(*like.shape[:-1], x.shape[1] * x.shape[3])
    return y if y.is_contiguous() or not dense else y.contiguous()


def dense_columns(x):
    """x with the columns of a row side by side, where PyTorch's kernels read them."""
    return x if x.stride(-1) == 1 else x.contiguous()


def attention_mask(mask, queries, keys, causal, window, device):
    """`mask` and what positions hide; None where every key is seen."""
    seen = seen_keys(queries, keys, causal, window, device)
    if mask is None:
        return seen
    elif seen is None:
        return dense_columns(mask)
    elif mask.dtype == torch.bool:
        return dense_columns(mask & seen)
    else:
        return dense_columns(torch.where(seen, mask, float("-inf")))


def seen_keys(queries, keys, causal, window, device):
    """Which keys each query sees because of its position; None where it sees all of them."""
    is_causal = causal and queries > 1
    has_window = window is not None and window < max(queries, keys)
    if not is_causal and not has_window:
        return None
    positions = torch.arange(keys - queries, keys, device=device)
    distance = positions[:, None] - torch.arange(keys, device=device)
    if not has_window:
        return distance >= 0
    else:
        return (distance >= 0 if is_causal else distance > -window) & (distance < window)


def attention_with_sinks(q, k, v, mask, scale, sinks):
    """PyTorch's attention with one more key and value of zeros, whose score is in the mask."""
    keys = k.shape[2]
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (k, v))
    if mask is None:
        mask = q.new_zeros(1, 1, 1, 1)
    elif mask.dtype == torch.bool:
        mask = q.new_zeros(()).masked_fill(~mask, float("-inf"))
    batch = mask.shape[0] if mask.dim() == 4 else 1
    shape = (batch, q.shape[1], q.shape[2])
    column = sinks[:, None, None].expand(*shape, 1)
    mask = torch.cat([mask.expand(*shape, keys), column], -1)
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def spelled_attention(scores, v, sinks):
    """Return attention for given scores, in their type, where PyTorch has no kernel for it."""
    v = v.to(scores.dtype).repeat_interleave(scores.shape[1] // v.shape[1], 1)
    return softmax_of_keys(scores, sinks) @ v


def softmax_of_keys(scores, sinks):
    """The softmax of scores and sinks, without the sinks; 0 for a query that sees no key.

    exp(scores - lse) would have the rounding error of lse as a factor of a whole row, which sums
    over rows that cancel, such as the gradient of ALiBi's slopes, keep.
    """
    keys, unseen = scores.shape[-1], (scores == float("-inf")).all(-1, keepdim=True)
    # A softmax of no key is NaN.
    scores = scores.masked_fill(unseen, 0.0)
    if sinks is not None:
        column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    return torch.softmax(scores, -1)[..., :keys].masked_fill(unseen, 0.0)


def capped_scores(q, k, scale, softcap):
    """The scores of all keys in float32, in float64 of float64."""
    wide = torch.promote_types(q.dtype, torch.float32)
    k = k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], 1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q.to(wide) @ k.transpose(-1, -2) * scale
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def hidden_scores(scores, mask):
    """The scores with `mask`: -inf where it is false, else with what it adds."""
    if mask is None:
        return scores
    is_bool = mask.dtype == torch.bool
    return scores.masked_fill(~mask, float("-inf")) if is_bool else scores + mask
