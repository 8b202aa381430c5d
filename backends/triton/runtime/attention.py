# pyright: basic, reportOptionalMemberAccess=false, reportOptionalOperand=false
"""Attention by PyTorch's kernels, or by its operators where no kernel supports the options."""

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
    """Return attention; the heads of q, k and v lie side by side in the columns.

    Positions are aligned at the lower right: the last query has the position of the last key. The
    result for a query that sees no key is 0.

    `window`: the number of keys that a query sees, including its own position; if not `causal`, it
    sees `window` - 1 keys on either side and its own.

    `scale`: the factor of the scores; by default head_dim ** -0.5.

    `softcap`: replaces scores by softcap * tanh(score / softcap).

    `sinks`: for each head, a score that takes part in the softmax and has no value.

    `mask`: numbers that are added to the scores, or booleans that are true for keys that count.

    `dense`: whether the result must be contiguous.
    """
    q_heads, k_heads, v_heads = split_qkv(q, k, v, head_dim)
    queries, keys = q.shape[-2], k.shape[-2]
    has_wide_mask = mask is not None and mask.dtype not in (torch.bool, q.dtype)
    has_wide_sinks = sinks is not None and sinks.dtype != q.dtype
    is_decomposed = softcap is not None or has_wide_mask or has_wide_sinks
    is_plain = mask is None and sinks is None and not is_decomposed
    is_causal = causal and is_plain and queries == keys and (window is None or window >= keys)
    seen = None if is_causal else attention_mask(mask, queries, keys, causal, window, q.device)
    if is_decomposed:
        scores = hidden_scores(capped_scores(q_heads, k_heads, scale, softcap), seen)
        y = decomposed_attention(scores, v_heads, sinks).to(q.dtype)
    elif sinks is not None:
        y = attention_with_sinks(q_heads, k_heads, v_heads, seen, scale, sinks)
    else:
        shared = q_heads.shape[1] // k_heads.shape[1]
        if shared > 1 and q.dtype == torch.float32:
            # PyTorch has no kernel for shared heads in float32, and stores the scores instead.
            k_heads, v_heads = (x.repeat_interleave(shared, 1) for x in (k_heads, v_heads))
            shared = 1
        y = torch.nn.functional.scaled_dot_product_attention(
            q_heads,
            k_heads,
            v_heads,
            attn_mask=seen,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=shared > 1,
        )
    return joined_heads(y, q, dense)


def split_qkv(q, k, v, head_dim):
    """Return the heads of q, k and v. v has as many heads as k; its head_dim may differ."""
    value_dim = v.shape[-1] // (k.shape[-1] // head_dim)
    return split_heads(q, head_dim), split_heads(k, head_dim), split_heads(v, value_dim)


def split_heads(x, head_dim):
    """Return a view of x with its heads separated: batch x heads x rows x head_dim. One call of
    `as_strided` costs less host time than a reshape and a transpose.
    """
    *batch, rows, columns = x.shape
    *steps, row, column = x.stride()
    shape = (*(batch or (1,)), columns // head_dim, rows, head_dim)
    return x.as_strided(shape, (*(steps or (0,)), head_dim * column, row, column))


def joined_heads(x, like, dense=True):
    """Return x, batch x heads x rows x head_dim, with the heads side by side in the columns and the
    leading dimensions of `like`.

    `dense`: whether the result must be contiguous. Otherwise it may be a view with any stride of
    rows.
    """
    y = x.transpose(1, 2).reshape(*like.shape[:-1], x.shape[1] * x.shape[3])
    return y if y.is_contiguous() or not dense else y.contiguous()


def dense_columns(x):
    """Return x, or a copy: PyTorch's kernels require rows with contiguous elements."""
    return x if x.stride(-1) == 1 else x.contiguous()


def attention_mask(mask, queries, keys, causal, window, device):
    """Return `mask` combined with causal mask and window; None if every query sees every key."""
    seen = seen_keys(queries, keys, causal, window, device)
    if mask is None:
        return seen
    elif seen is None:
        return dense_columns(mask)
    elif mask.dtype == torch.bool:
        return dense_columns(mask & seen)
    else:
        return dense_columns(torch.where(seen, mask, float("-inf")))


def seen_distances(queries, keys, causal, window):
    """Return the smallest and the largest number of positions from a query back to a key that it
    sees; None if every query sees every key.
    """
    is_causal = causal and queries > 1
    has_window = window is not None and window < max(queries, keys)
    if not is_causal and not has_window:
        return None
    last = window - 1 if has_window else keys
    return (0 if is_causal else -last), last


def seen_keys(queries, keys, causal, window, device):
    """Return the bool mask (queries x keys) of causality and window; None if all keys are seen."""
    distances = seen_distances(queries, keys, causal, window)
    if distances is None:
        return None
    first, last = distances
    positions = torch.arange(keys - queries, keys, device=device)
    distance = positions[:, None] - torch.arange(keys, device=device)
    seen = distance >= first
    return seen if last >= keys else seen & (distance <= last)


def attention_with_sinks(q, k, v, mask, scale, sinks):
    """Return PyTorch's attention with one more key, whose key and value are zeros. Its score, the
    sink, is in the mask.
    """
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


def decomposed_attention(scores, v, sinks):
    """Return attention for given scores, in their type, by a softmax and a matrix product."""
    v = v.to(scores.dtype).repeat_interleave(scores.shape[1] // v.shape[1], 1)
    return softmax_of_keys(scores, sinks) @ v


def softmax_of_keys(scores, sinks):
    """Return the softmax over scores and sinks, without the column of the sinks; 0 for a query that
    sees no key.

    exp(scores - lse) would multiply a row by the rounding error of lse. Sums over rows that cancel,
    as in the gradient of ALiBi's slopes, would keep that error.
    """
    keys, unseen = scores.shape[-1], (scores == float("-inf")).all(-1, keepdim=True)
    # The softmax of a row of -inf is NaN.
    scores = scores.masked_fill(unseen, 0.0)
    if sinks is not None:
        column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    return torch.softmax(scores, -1)[..., :keys].masked_fill(unseen, 0.0)


def capped_scores(q, k, scale, softcap):
    """Return scale * q @ kᵀ after the softcap, for all keys, in float32 at least."""
    wide = torch.promote_types(q.dtype, torch.float32)
    k = k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], 1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q.to(wide) @ k.transpose(-1, -2) * scale
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def hidden_scores(scores, mask):
    """Return the scores plus the mask; -inf where a boolean mask is false."""
    if mask is None:
        return scores
    is_bool = mask.dtype == torch.bool
    return scores.masked_fill(~mask, float("-inf")) if is_bool else scores + mask
