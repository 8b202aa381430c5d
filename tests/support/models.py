"""The blocks of examples/*.coda written as a PyTorch user writes them.

A model takes the tensors by name and returns the results; in float64 it is what is right, in a
narrow type it is PyTorch eager, whose error is the measure. Nothing here looks at the IR.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
import torch.nn.functional as F

Tensors: TypeAlias = Mapping[str, torch.Tensor]
Sizes: TypeAlias = Mapping[str, int]
Model: TypeAlias = Callable[[Tensors, Sizes], tuple[torch.Tensor, ...]]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, 1e-5)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """`F.gelu`, but for infinities: it makes +inf NaN on CPUs and leaves it +inf on GPUs."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide / 2 * (1 + torch.erf(wide * 0.5**0.5))).to(x.dtype)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def split_heads(x: torch.Tensor, head: int) -> torch.Tensor:
    """(B, T, heads * head) to (B, heads, T, head)."""
    return x.reshape(*x.shape[:2], x.shape[-1] // head, head).transpose(1, 2)


def join_heads(x: torch.Tensor) -> torch.Tensor:
    """The inverse of `split_heads`."""
    joined = x.transpose(1, 2)
    return joined.reshape(*joined.shape[:2], joined.shape[2] * joined.shape[3])


def rope(x: torch.Tensor, t: Tensors, head: int) -> torch.Tensor:
    """Rotation of (B, T, columns) by `t["cos"]` and `t["sin"]`, computed in their type."""
    cos, sin = (torch.cat([t[name], t[name]], -1) for name in ("cos", "sin"))
    heads = split_heads(x, head)
    first, second = heads.chunk(2, -1)
    rotated = heads * cos + torch.cat([-second, first], -1) * sin
    return join_heads(rotated.to(x.dtype))


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, head: int) -> torch.Tensor:
    """Causal attention of (B, T, columns); k and v may have fewer heads."""
    q, k, v = (split_heads(x, head) for x in (q, k, v))
    return join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


def llama_layer(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    x1 = t["x0"] + F.linear(t["y"], t["wo"])
    h1 = rms_norm(x1, t["norm1"])
    a = F.silu(F.linear(h1, t["w_gate"])) * F.linear(h1, t["w_up"])
    x2 = x1 + F.linear(a, t["w_down"])
    h2 = rms_norm(x2, t["norm2"])
    q, k, v = (F.linear(h2, t[name]) for name in ("wq", "wk", "wv"))
    return x2, rope(q, t, sizes["HEAD"]), rope(k, t, sizes["HEAD"]), v


def llama_mlp(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    h = rms_norm(t["x"], t["norm"])
    a = F.silu(F.linear(h, t["w_gate"])) * F.linear(h, t["w_up"])
    return (t["x"] + F.linear(a, t["w_down"]),)


def gpt2_block(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    x = t["x"]
    h1 = layer_norm(x, t["ln1_w"], t["ln1_b"])
    q, k, v = F.linear(h1, t["w_qkv"].T, t["b_qkv"]).chunk(3, -1)
    x1 = x + F.linear(sdpa(q, k, v, sizes["HEAD"]), t["w_proj"].T, t["b_proj"])
    h2 = layer_norm(x1, t["ln2_w"], t["ln2_b"])
    a = gelu_tanh(F.linear(h2, t["w_fc"].T, t["b_fc"]))
    return (x1 + F.linear(a, t["w_out"].T, t["b_out"]),)


def dit_block(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    x, head = t["x"], sizes["HEAD"]
    modulation = F.linear(F.silu(t["c"]), t["w_mod"], t["b_mod"])[:, None]
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, -1)
    h1 = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale1) + shift1
    q, k, v = (
        split_heads(part, head) for part in F.linear(h1, t["w_qkv"], t["b_qkv"]).chunk(3, -1)
    )
    y = join_heads(F.scaled_dot_product_attention(q, k, v))
    x1 = x + gate1 * F.linear(y, t["w_proj"], t["b_proj"])
    h2 = F.layer_norm(x1, x.shape[-1:], eps=1e-6) * (1 + scale2) + shift2
    a = gelu_tanh(F.linear(h2, t["w_fc"], t["b_fc"]))
    return (x1 + gate2 * F.linear(a, t["w_out"], t["b_out"]),)


def qwen3_block(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    head = sizes["HEAD"]

    def project(name: str, norm: str) -> torch.Tensor:
        columns = F.linear(h1, t[name])
        heads = columns.reshape(*columns.shape[:2], columns.shape[-1] // head, head)
        return rope(rms_norm(heads, t[norm], 1e-6).reshape(columns.shape), t, head)

    h1 = rms_norm(t["x"], t["norm1"], 1e-6)
    q, k = project("wq", "q_norm"), project("wk", "k_norm")
    x1 = t["x"] + F.linear(sdpa(q, k, F.linear(h1, t["wv"]), head), t["wo"])
    h2 = rms_norm(x1, t["norm2"], 1e-6)
    a = F.silu(F.linear(h2, t["w_gate"])) * F.linear(h2, t["w_up"])
    return (x1 + F.linear(a, t["w_down"]),)


def offset_rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Gemma's norm, which computes in float32 (float64) up to the last cast."""
    wide = torch.promote_types(x.dtype, torch.float32)
    normed = F.rms_norm(x.to(wide), weight.shape, None, 1e-6)
    return (normed * (1 + weight.to(wide))).to(x.dtype)


def capped_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, head: int, cap: float
) -> torch.Tensor:
    """Gemma 2's eager attention: capped scores, softmax in float32 (float64)."""
    queries, keys, values = (split_heads(x, head) for x in (q, k, v))
    sharing = queries.shape[1] // keys.shape[1]
    keys, values = (x.repeat_interleave(sharing, 1) for x in (keys, values))
    scores = queries @ keys.transpose(2, 3) * head**-0.5
    scores = torch.tanh(scores / cap) * cap
    unseen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    scores = scores.masked_fill(unseen, -torch.inf)
    wide = torch.promote_types(q.dtype, torch.float32)
    return join_heads(torch.softmax(scores, -1, dtype=wide).to(q.dtype) @ values)


def gemma_block(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    head, x = sizes["HEAD"], t["x"]
    h1 = offset_rms_norm(x, t["norm_in"])
    q, k = (rope(F.linear(h1, t[name]), t, head) for name in ("wq", "wk"))
    y = capped_attention(q, k, F.linear(h1, t["wv"]), head, 50.0)
    x1 = x + offset_rms_norm(F.linear(y, t["wo"]), t["norm_attention"])
    h2 = offset_rms_norm(x1, t["norm_network"])
    a = gelu_tanh(F.linear(h2, t["w_gate"])) * F.linear(h2, t["w_up"])
    return (x1 + offset_rms_norm(F.linear(a, t["w_down"]), t["norm_out"]),)


def lm_head_cross_entropy(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    logits = F.linear(rms_norm(t["x"], t["norm"]), t["w_vocab"])
    wide = torch.promote_types(logits.dtype, torch.float32)
    rows = logits.to(wide).reshape(-1, logits.shape[-1])
    return (F.cross_entropy(rows, t["target"].reshape(-1)),)


def linear_bias_gelu(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return (gelu(F.linear(t["x"], t["w"], t["b"])),)


def quantizable_linear(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    z = F.linear(t["x"], t["w"], t["bias"])
    wide = torch.promote_types(z.dtype, torch.float32)
    return gelu(z) + t["res"], z.abs().amax(-1, keepdim=True).to(wide)


def gated_linear(t: Tensors, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    gate, up = F.linear(t["x"], t["w_gate"]), F.linear(t["x"], t["w_up"])
    return (gelu(gate).clamp(max=7.0) * up.clamp(-7.0, 7.0),)


MODELS: dict[str, Model] = {
    "llama_layer": llama_layer,
    "llama_mlp": llama_mlp,
    "gpt2_block": gpt2_block,
    "dit_block": dit_block,
    "qwen3_block": qwen3_block,
    "gemma_block": gemma_block,
    "lm_head_cross_entropy": lm_head_cross_entropy,
    "linear_bias_gelu": linear_bias_gelu,
    "custom_epilogue.quantizable_linear": quantizable_linear,
    "custom_epilogue.gated_linear": gated_linear,
}
"""Models by example, and by function if an example has several."""
