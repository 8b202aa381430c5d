"""Decompositions of `torch.nn.MultiheadAttention` and `TransformerEncoderLayer` in inference."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BY_QUERIES, BY_KEYS, BY_SCORES = range(3)
"""Types of a mask: of queries and keys, of samples and keys, and of all scores."""


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """Decompose attention with its projections of [B, T, E]: the result, and the weights of keys,
    [B, T, T], or [B, heads, T, T] if they are not averaged, or [0] if they are not needed.

    A mask hides keys where it is true or, of numbers, not 0. A query without keys attends to
    nothing, and its weights are NaN. Without a known type of the mask, which PyTorch refuses, the
    operator is left whole.
    """
    if mask is not None and mask_type not in (BY_QUERIES, BY_KEYS, BY_SCORES):
        return NotImplemented
    if query is key and key is value:
        rows = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights = zip(qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
        rows = [F.linear(x, *w) for x, w in zip((query, key, value), weights, strict=True)]
    q, k, v = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in rows)
    hidden = None if mask is None else mask if mask.dtype == torch.bool else mask != 0
    if hidden is not None and mask_type == BY_KEYS:
        hidden = hidden[:, None, None]
    if need_weights:
        scores = q @ k.transpose(-1, -2) * (embed_dim // num_head) ** -0.5
        scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
        shares = scores.softmax(-1)
        y = shares @ v
        shares = shares.mean(1) if average_attn_weights else shares
    else:
        y = F.scaled_dot_product_attention(q, k, v, None if hidden is None else ~hidden)
        shares = query.new_zeros(0)
    return F.linear(y.transpose(1, 2).flatten(-2), proj_weight, proj_bias), shares


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """Decompose a layer of [B, T, E], with the mask of `multi_head_attention`: attention and a
    feed-forward network with residuals, each with a norm before it or, by default, after it.
    """

    def attended(x: Tensor) -> Tensor:
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        sizes = (embed_dim, num_heads)
        masking = (mask, False, False, mask_type)
        return multi_head_attention(x, x, x, *sizes, *projections, *masking)[0]

    def expanded(x: Tensor) -> Tensor:
        h = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(h) if use_gelu else F.relu(h), ffn_weight_2, ffn_bias_2)

    x = src
    norms = ((norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2))
    for block, norm in zip((attended, expanded), norms, strict=True):
        if norm_first:
            x = x + block(F.layer_norm(x, [embed_dim], *norm, eps))
        else:
            x = F.layer_norm(x + block(x), [embed_dim], *norm, eps)
    return x
