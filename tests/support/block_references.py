"""References in PyTorch for blocks of the standard library of .coda.

They are written from the papers, in the type of the tensors that they get.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from coda_ir.backends.reference.scan import scanned_states

Values: TypeAlias = dict[str, Tensor]
D, HEAD, HIDDEN = 64, 16, 96


def in_heads(x: Tensor, size: int) -> Tensor:
    return x.reshape(*x.shape[:-1], -1, size)


def heads_of(x: Tensor, head: int = HEAD) -> Tensor:
    return in_heads(x, head).transpose(1, 2)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    head: int = HEAD,
    causal: bool = True,
    scale: float | None = None,
    cap: float | None = None,
    window: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Attention as a product, a softmax and a product."""
    qh, kh, vh = (heads_of(x, head) for x in (q, k, v))
    kh, vh = (x.repeat_interleave(qh.shape[1] // x.shape[1], 1) for x in (kh, vh))
    scores = qh @ kh.transpose(-1, -2) * (head**-0.5 if scale is None else scale)
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    if mask is not None:
        scores = scores + mask
    distance = torch.arange(q.shape[1])[:, None] - torch.arange(k.shape[1])
    if causal:
        scores = scores.masked_fill(distance < 0, -torch.inf)
    if window is not None:
        scores = scores.masked_fill(distance >= window, -torch.inf)
    return (scores.softmax(-1) @ vh).transpose(1, 2).flatten(2)


def rotate(x: Tensor, v: Values, *, interleaved: bool = False, head: int = HEAD) -> Tensor:
    cos, sin = v["cos"].to(x.dtype), v["sin"].to(x.dtype)
    y = in_heads(x, head).transpose(1, 2)
    if interleaved:
        a, b = y[..., ::2], y[..., 1::2]
        rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = y.chunk(2, -1)
        rotated = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return rotated.transpose(1, 2).flatten(2)


def rms(x: Tensor, w: Tensor, eps: float = 1e-6) -> Tensor:
    wide = x.double() if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * w


def head_rms(x: Tensor, w: Tensor) -> Tensor:
    return rms(in_heads(x, HEAD), w).flatten(-2)


def ln(x: Tensor, w: Tensor | None = None, b: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b, eps)


def gated(h: Tensor, v: Values, activation: Callable[[Tensor], Tensor] = F.silu) -> Tensor:
    a = activation(F.linear(h, v["w_gate"])) * F.linear(h, v["w_up"])
    return F.linear(a, v["w_down"])


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def rope_attention(h: Tensor, v: Values, *, interleaved: bool = False) -> Tensor:
    q = rotate(F.linear(h, v["wq"]), v, interleaved=interleaved)
    k = rotate(F.linear(h, v["wk"]), v, interleaved=interleaved)
    return attend(q, k, F.linear(h, v["wv"]))


def window_attention(v: Values) -> Tensor:
    q, k = (rotate(F.linear(v["x"], v[name]), v) for name in ("wq", "wk"))
    return attend(q, k, F.linear(v["x"], v["wv"]), window=5)


def qk_norm_attention(v: Values) -> Tensor:
    q = rotate(head_rms(F.linear(v["x"], v["wq"]), v["w_q_norm"]), v)
    k = rotate(head_rms(F.linear(v["x"], v["wk"]), v["w_k_norm"]), v)
    return attend(q, k, F.linear(v["x"], v["wv"]))


def llama_block(v: Values) -> Tensor:
    x = v["x"] + F.linear(rope_attention(rms(v["x"], v["w_n1"], 1e-5), v), v["wo"])
    return x + gated(rms(x, v["w_n2"], 1e-5), v)


def olmo2_block(v: Values) -> Tensor:
    x = v["x"] + rms(F.linear(rope_attention(v["x"], v), v["wo"]), v["w_n1"])
    return x + rms(gated(x, v), v["w_n2"])


def gated_attention(v: Values) -> Tensor:
    h = rms(v["x"], v["w_n1"])
    return v["x"] + F.linear(rope_attention(h, v) * F.linear(h, v["w_gate"]).sigmoid(), v["wo"])


def differential_attention(v: Values) -> Tensor:
    q1, k1, q2, k2 = (rotate(F.linear(v["x"], v[n]), v) for n in ("wq1", "wk1", "wq2", "wk2"))
    first, second = in_heads(F.linear(v["x"], v["wv"]), 2 * HEAD).chunk(2, -1)
    halves = [half.flatten(-2) for half in (first, second)]
    y1, y2 = (
        torch.cat([in_heads(attend(q, k, half), HEAD) for half in halves], -1)
        for q, k in ((q1, k1), (q2, k2))
    )
    return 0.2 * F.linear(rms(y1 - v["w_share"] * y2, v["w_n1"], 1e-5).flatten(-2), v["wo"])


def dora(v: Values) -> Tensor:
    """The adapted weight, as it is merged for inference."""
    w = v["w_0"] + 0.5 * v["w_b"] @ v["w_a"]
    return F.linear(v["x"], v["w_magnitude"][:, None] * F.normalize(w, dim=-1))


def hyper_connection(v: Values) -> Tensor:
    y = F.linear(torch.einsum("btnd,n->btd", v["streams"], v["w_share"]), v["w"])
    mixed = torch.einsum("btnd,nm->btmd", v["streams"], v["w_mix"])
    return mixed + v["w_spread"][:, None] * y[:, :, None]


def film_block(v: Values) -> Tensor:
    gamma, beta = F.linear(v["condition"], v["w_film"], v["w_b_film"])[:, None].chunk(2, -1)
    h = F.relu((1 + gamma) * F.linear(v["x"], v["w1"], v["w_bias1"]) + beta)
    return v["x"] + F.linear(h, v["w2"])


def convnext_block(v: Values) -> Tensor:
    x = F.conv1d(v["x"].mT, v["w_taps"][:, None], v["w_b_taps"], padding=3, groups=D).mT
    h = ln(x, v["w_n1"], v["w_b1"], 1e-6)
    a = F.gelu(F.linear(h, v["w_in"], v["w_bin"]))
    length = a.square().sum(1, keepdim=True).sqrt()
    scaled = v["w_gamma"] * (a * (length / (length.mean(-1, keepdim=True) + 1e-6)))
    return v["x"] + F.linear(scaled + v["w_beta"] + a, v["w_out"], v["w_bout"])


def multi_token_head(v: Values) -> Tensor:
    token = rms(F.embedding(v["ids"].long(), v["w_table"]), v["w_n2"])
    h = F.linear(torch.cat([rms(v["hidden"], v["w_n1"]), token], -1), v["w"])
    return F.linear(rms(h, v["w_n3"]), v["w_table"])


def channel_mix(v: Values) -> Tensor:
    x = v["x"]
    before = F.pad(x, (0, 0, 1, -1))
    k = F.relu(F.linear(x + (before - x) * v["w_mu_k"], v["w_k"])).square()
    r = F.linear(x + (before - x) * v["w_mu_r"], v["w_r"]).sigmoid()
    return r * F.linear(k, v["w_v"])


def gpt2_block(v: Values) -> Tensor:
    q, k, w = (ln(v["x"], v["w_n1"], v["w_b1"]) @ v["w_qkv"] + v["w_bqkv"]).chunk(3, -1)
    x = v["x"] + (attend(q, k, w) @ v["wo"] + v["w_bo"])
    h = ln(x, v["w_n2"], v["w_b2"])
    return x + (gelu_tanh(h @ v["w_in"] + v["w_bin"]) @ v["w_out"] + v["w_bout"])


def gptj_block(v: Values) -> Tensor:
    h = ln(v["x"], v["w_n1"], v["w_b1"])
    y = F.linear(rope_attention(h, v, interleaved=True), v["wo"])
    a = gelu_tanh(F.linear(h, v["w_in"], v["w_bin"]))
    return v["x"] + y + F.linear(a, v["w_out"], v["w_bout"])


def neox_block(v: Values) -> Tensor:
    h = ln(v["x"], v["w_n1"], v["w_b1"])

    def partly_rotated(name: str) -> Tensor:
        first, rest = in_heads(F.linear(h, v[name]), HEAD).chunk(2, -1)
        rotated = in_heads(rotate(first.flatten(-2), v, head=HEAD // 2), HEAD // 2)
        return torch.cat([rotated, rest], -1).flatten(-2)

    y = F.linear(attend(partly_rotated("wq"), partly_rotated("wk"), F.linear(h, v["wv"])), v["wo"])
    a = F.gelu(F.linear(ln(v["x"], v["w_n2"], v["w_b2"]), v["w_in"], v["w_bin"]))
    return v["x"] + y + F.linear(a, v["w_out"], v["w_bout"])


def cohere_block(v: Values) -> Tensor:
    h = ln(v["x"], v["w_n1"])
    return v["x"] + F.linear(rope_attention(h, v, interleaved=True), v["wo"]) + gated(h, v)


def post_norm_block(alpha: float) -> Callable[[Values], Tensor]:
    def reference(v: Values) -> Tensor:
        q, k, w = (F.linear(v["x"], v[f"w{n}"], v[f"w_b{n}"]) for n in "qkv")
        y = F.linear(attend(q, k, w, causal=False), v["wo"], v["w_bo"])
        x = ln(v["x"] * alpha + y, v["w_n1"], v["w_b1"], 1e-12)
        a = F.gelu(F.linear(x, v["w_in"], v["w_bin"]))
        return ln(x * alpha + F.linear(a, v["w_out"], v["w_bout"]), v["w_n2"], v["w_b2"], 1e-12)

    return reference


def cross_attention(v: Values) -> Tensor:
    q = F.linear(ln(v["x"], v["w_n1"], v["w_b1"]), v["wq"])
    k, w = (F.linear(v["memory"], v[name]) for name in ("wk", "wv"))
    return v["x"] + F.linear(attend(q, k, w, causal=False), v["wo"])


def alibi_attention(v: Values) -> Tensor:
    q, k, w = (F.linear(v["x"], v[name]) for name in ("wq", "wk", "wv"))
    return attend(q, k, w, mask=v["slopes"])


def gemma2_block(v: Values) -> Tensor:
    h = rms(v["x"], 1 + v["w_n1"])
    q, k = (rotate(F.linear(h, v[name]), v) for name in ("wq", "wk"))
    y = attend(q, k, F.linear(h, v["wv"]), cap=50.0)
    x = v["x"] + rms(F.linear(y, v["wo"]), 1 + v["w_n2"])
    return x + rms(gated(rms(x, 1 + v["w_n3"]), v, gelu_tanh), 1 + v["w_n4"])


def dit_block(v: Values) -> Tensor:
    m = F.linear(F.silu(v["condition"]), v["w_condition"], v["w_bias"])[:, None]
    shift1, scale1, gate1, shift2, scale2, gate2 = m.chunk(6, -1)
    h = ln(v["x"], eps=1e-6) * (1 + scale1) + shift1
    q, k, w = (F.linear(h, v[name]) for name in ("wq", "wk", "wv"))
    x = v["x"] + gate1 * F.linear(attend(q, k, w, causal=False), v["wo"], v["w_bo"])
    h = ln(x, eps=1e-6) * (1 + scale2) + shift2
    a = gelu_tanh(F.linear(h, v["w_in"], v["w_bin"]))
    return x + gate2 * F.linear(a, v["w_out"], v["w_bout"])


def t5_block(v: Values) -> Tensor:
    h = rms(v["x"], v["w_n1"])
    q, k, w = (F.linear(h, v[name]) for name in ("wq", "wk", "wv"))
    y = attend(q, k, w, causal=False, scale=1.0, mask=v["position_bias"])
    x = v["x"] + F.linear(y, v["wo"])
    return x + gated(rms(x, v["w_n2"]), v, gelu_tanh)


def mixture(v: Values) -> Tensor:
    """Each expert by itself, summed with its gate."""
    total = torch.zeros_like(v["x"])
    for expert in range(4):
        rows = slice(expert * 32, (expert + 1) * 32)
        part = {"w_gate": v["w_gate"][rows], "w_up": v["w_up"][rows]}
        y = gated(v["x"], {**part, "w_down": v["w_down"][:, rows]})
        total = total + v["gates"][..., expert : expert + 1] * y
    return total


def top_k(v: Values) -> Tensor:
    scores = F.linear(v["x"], v["w_router"])
    top, ids = scores.topk(2, -1)
    return torch.zeros_like(scores).scatter(-1, ids, top.softmax(-1))


def routed(v: Values) -> Tensor:
    """Every expert for all tokens, with gates that are 0 where it was not chosen."""
    gates, total = top_k(v), torch.zeros_like(v["x"])
    for expert in range(4):
        part = {name: v[name][expert] for name in ("w_gate", "w_up", "w_down")}
        total = total + gates[..., expert : expert + 1] * gated(v["x"], part)
    return total


def softmax_top_k(v: Values) -> Tensor:
    shares = F.linear(v["x"], v["w_router"]).softmax(-1)
    top, ids = shares.topk(2, -1)
    return torch.zeros_like(shares).scatter(-1, ids, top)


def sigmoid_top_k(v: Values) -> Tensor:
    scores = F.linear(v["x"], v["w_router"]).sigmoid()
    ids = (scores + v["balance"]).topk(3, -1).indices
    top = scores.gather(-1, ids)
    shares = 2.5 * top / top.sum(-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, ids, shares)


def gpt_oss_expert(v: Values) -> Tensor:
    h = F.linear(v["x"], v["w_in"], v["w_bin"])
    gate, up = h[..., ::2].clamp(max=7.0), h[..., 1::2].clamp(-7.0, 7.0)
    return F.linear(gate * torch.sigmoid(1.702 * gate) * (up + 1), v["w_out"], v["w_bout"])


def mla_attention(v: Values) -> Tensor:
    x, heads, size, rotary = v["x"], 4, 16, 8

    def joined(a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([in_heads(a, size), in_heads(b, rotary)], -1)

    latent = rms(F.linear(x, v["w_latent"]), v["w_norm"])
    q = joined(F.linear(x, v["wq"]), rotate(F.linear(x, v["wq_rotary"]), v, head=rotary))
    shared = rotate(F.linear(x, v["wk_rotary"]), v, head=rotary)
    k = joined(F.linear(latent, v["wk"]), shared.repeat(1, 1, heads))
    w = in_heads(F.linear(latent, v["wv"]), size)
    scores = torch.einsum("bthd,bshd->bhts", q, k) * (size + rotary) ** -0.5
    hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    return torch.einsum(
        "bhts,bshd->bthd", scores.masked_fill(hidden, -torch.inf).softmax(-1), w
    ).flatten(2)


def convolution(v: Values) -> Tensor:
    x = F.pad(v["x"].transpose(1, 2), (3, 0))
    y = F.conv1d(x, v["w_taps"][:, None], v["w_bias"], groups=D)
    return F.silu(y.transpose(1, 2))


def scanned(u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """A selective scan, one position after the other."""
    state, rows = torch.zeros_like(a), list[Tensor]()
    for t in range(u.shape[1]):
        decay = torch.exp(dt[:, t, :, None] * a)
        state = decay * state + dt[:, t, :, None] * b[:, t, None] * u[:, t, :, None]
        rows.append((state @ c[:, t, :, None].to(state)).squeeze(-1))
    return torch.stack(rows, 1).to(u.dtype)


def selective_block(v: Values) -> Tensor:
    x = F.pad(F.linear(v["x"], v["w_u"]).transpose(1, 2), (3, 0))
    y = F.conv1d(x, v["w_taps"][:, None], v["w_b_taps"], groups=96)
    u = F.silu(y.transpose(1, 2))
    projected = F.linear(u, v["w_x"])
    low, b, c = projected[..., :4], projected[..., 4:12], projected[..., 12:]
    dt, a = F.softplus(F.linear(low, v["w_dt"], v["w_b_dt"])), -torch.exp(v["w_a_log"].float())
    y = scanned(u, dt, a.to(torch.promote_types(u.dtype, torch.float32)), b, c) + u * v["w_skip"]
    return F.linear(y * F.silu(F.linear(v["x"], v["w_z"])), v["w_out"])


def state_space_block(v: Values) -> Tensor:
    x = F.pad(F.linear(v["x"], v["w_xbc"]).transpose(1, 2), (3, 0))
    y = F.conv1d(x, v["w_taps"][:, None], v["w_b_taps"], groups=128)
    columns = F.silu(y.transpose(1, 2))
    u, b, c = columns[..., :96], columns[..., 96:112], columns[..., 112:]
    dt, a = F.softplus(F.linear(v["x"], v["w_dt"]) + v["w_b_dt"]), -torch.exp(v["w_a_log"].float())
    scan = (u, dt, a.to(torch.promote_types(u.dtype, torch.float32)), b, c)
    y = scanned_states(scan, 8)[0].to(u.dtype) + u * v["w_skip"]
    return gated_norm_output({**v, "y": y})


def gated_output(v: Values) -> Tensor:
    return v["x"] + F.linear(v["y"] * F.silu(F.linear(v["x"], v["w_z"])), v["w_out"])


def gated_norm_output(v: Values) -> Tensor:
    a = v["y"] * F.silu(F.linear(v["x"], v["w_z"]))
    return v["x"] + F.linear(rms(a, v["w_n1"], 1e-5), v["w_out"])


def group_norm_attention(v: Values) -> Tensor:
    h = F.group_norm(v["x"].transpose(1, 2), 8, v["w_n1"], v["w_b1"], 1e-6).transpose(1, 2)
    q, k, w = (F.linear(h, v[f"w{n}"], v[f"w_b{n}"]) for n in "qkv")
    return v["x"] + F.linear(attend(q, k, w, causal=False), v["wo"], v["w_bo"])


def pointwise_resnet_block(v: Values) -> Tensor:
    h = F.silu(F.group_norm(v["x"].mT, 8, v["w_n1"], v["w_b1"])).mT
    time = F.linear(F.silu(v["time"]), v["w_time"], v["w_time_b"])
    h = F.linear(h, v["w1"], v["w_bias1"]) + time[:, None]
    h = F.silu(F.group_norm(h.mT, 8, v["w_n2"], v["w_b2"])).mT
    return v["x"] + F.linear(h, v["w2"], v["w_bias2"])


def retention_output(v: Values) -> Tensor:
    normed = ln(in_heads(v["y"], 16)).flatten(-2)
    return v["x"] + F.linear(F.silu(F.linear(v["x"], v["w_gate"])) * normed, v["wo"])


def in_int8(x: Tensor) -> Tensor:
    """Return what 8 bits leave of `x`, with a scale for each row."""
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8) * scale


def in_float8(x: Tensor) -> Tensor:
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale


def scaled(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor) -> Tensor:
    """The product of float8, which PyTorch multiplies in bfloat16 here."""
    if x.dtype != torch.float64:
        x, w = x.bfloat16(), w.bfloat16()
    return F.linear(x, w) * x_scale * w_scale


def in_range_of_float8(x: Tensor) -> Tensor:
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)


def float8_hidden(v: Values) -> Tensor:
    gate, up = (
        scaled(v["x8"], v[f"w_{name}8"], v["x_scale"], v[f"w_{name}_scale"])
        for name in ("gate", "up")
    )
    return F.silu(gate) * up


def float8_mlp(v: Values) -> Tensor:
    q = in_range_of_float8(float8_hidden(v) / v["w_hidden_scale"])
    return scaled(q, v["w_down8"], v["w_hidden_scale"], v["w_down_scale"])


def of_blocks(x: Tensor, scale: Tensor, rows: int) -> Tensor:
    """The elements of x times the scales of their blocks of `rows` x 128."""
    wide = scale.repeat_interleave(rows, -2).repeat_interleave(128, -1)
    return x.to(scale.dtype) * wide[..., : x.shape[-2], : x.shape[-1]]


def float8_block_mlp(v: Values) -> Tensor:
    gate, up, down = (
        of_blocks(v[f"w_{name}8"], v[f"w_{name}_scale"], 128) for name in ("gate", "up", "down")
    )
    x = of_blocks(v["x8"], v["x_scale"], 1)
    hidden = in_heads(F.silu(F.linear(x, gate)) * F.linear(x, up), 128)
    y = F.linear(in_float8(hidden).flatten(-2), down)
    return y if y.dtype == torch.float64 else y.bfloat16()


def float8_row_mlp(v: Values) -> Tensor:
    hidden = float8_hidden(v)
    if hidden.dtype != torch.float64:
        hidden = hidden.bfloat16().float()
    scale = hidden.abs().amax(-1, keepdim=True) / 448
    return scaled(in_range_of_float8(hidden / scale), v["w_down8"], scale, v["w_down_scale"])
