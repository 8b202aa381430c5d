"""Language models (1 of 3), in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.layers import RMS, B, SwiGLU, randn, rope_cos_sin, rotate_half, tokens

MEMBERS = Blocks("language")


class GatedDeltaNet(nn.Module):
    """Gated delta rule with chunks, solved by a triangular solve (Qwen3-Next without its kernels)."""

    def __init__(self, d, h, dk, dv, chunk):
        super().__init__()
        self.h, self.dk, self.dv, self.c = h, dk, dv, chunk
        self.qkvz = nn.Linear(d, h * (2 * dk + 2 * dv), bias=False)
        self.ba = nn.Linear(d, 2 * h, bias=False)
        self.conv = nn.Conv1d(
            h * (2 * dk + dv), h * (2 * dk + dv), 4, groups=h * (2 * dk + dv), padding=3, bias=False
        )
        self.A_log, self.dt_bias = nn.Parameter(torch.zeros(h)), nn.Parameter(torch.ones(h))
        self.norm_w = nn.Parameter(torch.ones(dv))
        self.out = nn.Linear(h * dv, d, bias=False)
        self.ln, self.ln2, self.mlp = RMS(d), RMS(d), SwiGLU(d, 2 * d)

    def mixer(self, x):
        b, t, _ = x.shape
        h, dk, dv, c = self.h, self.dk, self.dv, self.c
        qkvz = self.qkvz(x)
        qkv, z = qkvz.split([h * (2 * dk + dv), h * dv], dim=-1)
        qkv = F.silu(self.conv(qkv.transpose(1, 2))[..., :t]).transpose(1, 2)
        q, k, v = qkv.split([h * dk, h * dk, h * dv], dim=-1)
        beta, a = self.ba(x).chunk(2, -1)
        beta = beta.sigmoid().float()
        g = -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias.float())
        q = F.normalize(q.view(b, t, h, dk).float(), dim=-1) * dk**-0.5
        k = F.normalize(k.view(b, t, h, dk).float(), dim=-1)
        v = v.view(b, t, h, dv).float()
        q, k, v = (y.transpose(1, 2).reshape(b, h, t // c, c, -1) for y in (q, k, v))
        beta, g = (y.transpose(1, 2).reshape(b, h, t // c, c) for y in (beta, g))
        g = g.cumsum(-1)
        decay = (g.unsqueeze(-1) - g.unsqueeze(-2)).tril().exp().tril()
        kb = k * beta[..., None]
        L = (kb @ k.transpose(-1, -2) * decay).tril(-1)
        eye = torch.eye(c, device=x.device, dtype=L.dtype)
        u = torch.linalg.solve_triangular(
            L + eye,
            torch.cat([v * beta[..., None], kb * g.exp()[..., None]], -1),
            upper=False,
            unitriangular=True,
        )
        v_new, k_cum = u.split([dv, dk], -1)
        S = x.new_zeros(b, h, dk, dv, dtype=torch.float32)
        outs = []
        for i in range(t // c):
            attn = q[:, :, i] @ k[:, :, i].mT * decay[:, :, i]
            vi = v_new[:, :, i] - k_cum[:, :, i] @ S
            outs.append((q[:, :, i] * g[:, :, i, :, None].exp()) @ S + attn @ vi)
            last = g[:, :, i, -1, None]
            S = (
                S * last[..., None].exp()
                + (k[:, :, i] * (last - g[:, :, i]).exp()[..., None]).mT @ vi
            )
        o = torch.stack(outs, 2).reshape(b, h, t, dv).transpose(1, 2)
        o = (
            o
            * torch.rsqrt(o.square().mean(-1, keepdim=True) + 1e-6)
            * self.norm_w
            * F.silu(z.reshape(b, t, h, dv).float())
        )
        return self.out(o.reshape(b, t, h * dv).to(x.dtype))

    def forward(self, x):
        x = x + self.mixer(self.ln(x))
        return x + self.mlp(self.ln2(x))


@MEMBERS
def gated_deltanet():
    d = size(2048, 32)
    return GatedDeltaNet(d, size(16, 2), size(128, 16), size(128, 16), size(128, 16)), (tokens(d),)


class KimiDeltaGates(nn.Module):
    """Gated linear attention with decays of channels, in chunks (GLA, the products of KDA without the delta)."""

    def __init__(self, d, h, dk, c):
        super().__init__()
        self.h, self.dk, self.c = h, dk, c
        self.q, self.k, self.v = (nn.Linear(d, h * dk, bias=False) for _ in range(3))
        self.f_a, self.f_b = nn.Linear(d, dk, bias=False), nn.Linear(dk, h * dk, bias=True)
        self.g_a, self.g_b = nn.Linear(d, dk, bias=False), nn.Linear(dk, h * dk, bias=True)
        self.norm, self.o_norm, self.o = RMS(d), RMS(dk), nn.Linear(h * dk, d, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        h, dk, c = self.h, self.dk, self.c
        y = self.norm(x)
        split = lambda z: z.unflatten(-1, (h, dk)).permute(0, 2, 1, 3).unflatten(2, (t // c, c))
        q, k, v = split(F.silu(self.q(y))), split(F.silu(self.k(y))), split(F.silu(self.v(y)))
        q, k = F.normalize(q.float(), dim=-1), F.normalize(k.float(), dim=-1)
        g = split(F.logsigmoid(self.f_b(self.f_a(y)).float()) / 16)
        G = g.cumsum(3)
        total = G[:, :, :, -1:]
        qd, kd, ke = q * G.exp(), k * (-G).exp(), k * (total - G).exp()
        mask = torch.ones(c, c, device=x.device, dtype=torch.bool).tril()
        intra = torch.einsum("bhnid,bhnjd->bhnij", qd, kd).masked_fill(~mask, 0.0) @ v.float()
        kv = torch.einsum("bhncd,bhnce->bhnde", ke, v.float())
        states = [torch.zeros_like(kv[:, :, 0])]
        for n in range(t // c - 1):
            states.append(states[-1] * total[:, :, n].exp().mT + kv[:, :, n])
        o = intra + torch.einsum("bhncd,bhnde->bhnce", qd, torch.stack(states, 2))
        o = o.flatten(2, 3).permute(0, 2, 1, 3).to(x.dtype)
        gate = torch.sigmoid(self.g_b(self.g_a(y))).view(b, t, h, dk)
        return x + self.o((self.o_norm(o) * gate).flatten(2))


@MEMBERS
def kimi_gla():
    d = size(2048, 32)
    return KimiDeltaGates(d, size(16, 2), size(128, 16), size(64, 16)), (tokens(d),)


class Lightning(nn.Module):
    """Lightning attention of MiniMax-01: blocks with a decay for each head."""

    def __init__(self, d, h, block):
        super().__init__()
        self.h, self.dh, self.block = h, d // h, block
        self.qkv_proj, self.output_gate = (
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, d, bias=False),
        )
        self.norm, self.input_norm, self.out_proj = RMS(d), RMS(d), nn.Linear(d, d, bias=False)
        slope = 2.0 ** (-8.0 * (torch.arange(h) + 1) / h)
        i = torch.arange(block) + 1
        self.register_buffer("q_decay", torch.exp(-slope[:, None, None] * i[:, None]))
        self.register_buffer("k_decay", torch.exp(-slope[:, None, None] * (block - i[:, None])))
        diff = (i[:, None] - i[None, :]).float()
        self.register_buffer(
            "diag",
            torch.where(
                diff >= 0, torch.exp(-slope[:, None, None] * diff.clamp_min(0)), torch.zeros(())
            ),
        )
        self.register_buffer("slope", slope)

    def forward(self, hidden):
        b, t, d = hidden.shape
        x = self.input_norm(hidden)
        qkv = F.silu(self.qkv_proj(x)).reshape(b, t, self.h, 3 * self.dh)
        q, k, v = torch.split(qkv, self.dh, dim=3)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        state = torch.zeros(b, self.h, self.dh, self.dh, device=x.device, dtype=x.dtype)
        outs = []
        for i in range(t // self.block):
            sl = slice(i * self.block, (i + 1) * self.block)
            qi, ki, vi = q[:, :, sl], k[:, :, sl], v[:, :, sl]
            intra = torch.matmul(torch.matmul(qi, ki.transpose(-1, -2)) * self.diag, vi)
            inter = torch.matmul(qi * self.q_decay, state)
            outs.append(intra + inter)
            state = state * torch.exp(-self.slope * self.block)[None, :, None, None] + torch.matmul(
                (ki * self.k_decay).transpose(-1, -2), vi
            )
        out = torch.cat(outs, dim=-2).transpose(1, 2).reshape(b, t, d)
        out = torch.sigmoid(self.output_gate(x)) * self.norm(out)
        return hidden * 0.5 + self.out_proj(out)


@MEMBERS
def minimax_lightning():
    d = size(2048, 32)
    return Lightning(d, size(16, 2), size(256, 16)), (tokens(d),)


class GQA(nn.Module):
    def __init__(self, d, h, kv, dh, rope=True, qk_norm=False, window=None, bias=False):
        super().__init__()
        self.h, self.kv, self.dh, self.rope, self.window = h, kv, dh, rope, window
        self.wq, self.wk, self.wv = (
            nn.Linear(d, h * dh, bias),
            nn.Linear(d, kv * dh, bias),
            nn.Linear(d, kv * dh, bias),
        )
        self.wo = nn.Linear(h * dh, d, bias)
        self.q_norm, self.k_norm = (RMS(dh), RMS(dh)) if qk_norm else (nn.Identity(), nn.Identity())

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = self.q_norm(self.wq(x).view(b, t, self.h, self.dh)).transpose(1, 2)
        k = self.k_norm(self.wk(x).view(b, t, self.kv, self.dh)).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv, self.dh).transpose(1, 2)
        if self.rope:
            q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (y.repeat_interleave(self.h // self.kv, dim=1) for y in (k, v))
        if self.window is None:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            i = torch.arange(t, device=x.device)
            m = (i[:, None] >= i) & (i[:, None] - i < self.window)
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        return self.wo(o.transpose(1, 2).reshape(b, t, -1))


class Gemma3n(nn.Module):
    """AltUp (predict, activate, correct) with LAuReL beside attention."""

    def __init__(self, d, h, kv, dh, ff, n=4, rank=64):
        super().__init__()
        self.n = n
        self.router_norm, self.router = RMS(d), nn.Linear(d, n, bias=False)
        self.pred, self.corr = nn.Linear(n, n * n, bias=False), nn.Linear(n, n, bias=False)
        self.scale = nn.Parameter(torch.ones(d))
        self.l_left, self.l_right, self.l_norm = (
            nn.Linear(d, rank, bias=False),
            nn.Linear(rank, d, bias=False),
            RMS(d),
        )
        self.attn = GQA(d, h, kv, dh, qk_norm=True)
        self.n1, self.n2, self.n3, self.n4 = RMS(d), RMS(d), RMS(d), RMS(d)
        self.gate, self.up, self.down = (
            nn.Linear(d, ff, bias=False),
            nn.Linear(d, ff, bias=False),
            nn.Linear(ff, d, bias=False),
        )

    def modalities(self, x):
        return torch.tanh(self.router(self.router_norm(x) * x.shape[-1] ** -1.0).float()).type_as(x)

    def forward(self, hs, cos, sin):
        mod = self.modalities(hs[0])
        coefs = self.pred(mod).reshape(*mod.shape[:-1], self.n, self.n).permute(0, 1, 3, 2)
        pred = torch.matmul(hs.permute(1, 2, 3, 0), coefs).permute(3, 0, 1, 2) + hs
        active = pred[0]
        normed = self.n1(active)
        laurel = normed + self.l_norm(self.l_right(self.l_left(normed)))
        a = self.n2(self.attn(normed, cos, sin))
        mixed = (active + a + laurel) / math.sqrt(2)
        y = self.n3(mixed)
        g = self.gate(y)
        cutoff = g.mean(-1, keepdim=True) + g.std(-1, keepdim=True, unbiased=False) * 1.6448536
        y = self.n4(self.down(F.gelu(torch.relu(g - cutoff), approximate="tanh") * self.up(y)))
        out = mixed + y
        innovation = (out - pred[0]).repeat(self.n, 1, 1, 1)
        cc = (self.corr(self.modalities(out)) + 1.0).permute(2, 0, 1).unsqueeze(-1)
        corrected = pred + innovation * cc
        return corrected * self.scale


@MEMBERS
def gemma3n_altup():
    d, t, dh = size(2048, 32), size(2048, 32), size(256, 16)
    cos, sin = rope_cos_sin(t, dh)
    return Gemma3n(d, size(8, 4), size(2, 2), dh, size(8192, 64), rank=size(64, 8)), (
        randn(4, B, t, d),
        cos,
        sin,
    )


class Hymba(nn.Module):
    """Attention heads and a gated moving average side by side, after meta tokens."""

    def __init__(self, d, h, dh, meta):
        super().__init__()
        self.meta = nn.Parameter(torch.randn(meta, d))
        self.h, self.dh, self.m = h, dh, meta
        self.in_proj = nn.Linear(d, 5 * d, bias=False)
        self.conv_w = nn.Parameter(torch.randn(d, 1, 4) * 0.3)
        self.n_attn, self.n_ssm = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)
        self.beta = nn.Parameter(torch.ones(2, d))
        self.out, self.norm, self.norm2, self.mlp = (
            nn.Linear(d, d, bias=False),
            nn.RMSNorm(d),
            nn.RMSNorm(d),
            SwiGLU(d, 3 * d),
        )

    def forward(self, x, cos, sin):
        b = x.size(0)
        x = torch.cat([self.meta.expand(b, -1, -1), x], dim=1)
        t = x.size(1)
        q, k, v, u, z = torch.chunk(self.in_proj(self.norm(x)), 5, dim=-1)
        heads = lambda y: y.view(b, t, self.h, self.dh).permute(0, 2, 1, 3)
        q, k = heads(q), heads(k)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        a = (
            F.scaled_dot_product_attention(q, k, heads(v), is_causal=True)
            .permute(0, 2, 1, 3)
            .flatten(2)
        )
        c = F.conv1d(F.pad(u.mT, (3, 0)), self.conv_w, groups=u.shape[-1]).mT
        m = F.silu(c) * F.silu(z)
        y = (self.n_attn(a) * self.beta[0] + self.n_ssm(m) * self.beta[1]) / 2
        x = x + self.out(y)
        x = x + self.mlp(self.norm2(x))
        return x[:, self.m :]


@MEMBERS
def hymba():
    d, h, m = size(1600, 32), size(25, 2), size(128, 8)
    cos, sin = rope_cos_sin(size(2048, 32) + m, d // h)
    return Hymba(d, h, d // h, m), (tokens(d), cos, sin)


class Layer(nn.Module):
    def __init__(self, d, h, kv, dh, ff, act="swiglu", **kw):
        super().__init__()
        self.n1, self.n2, self.attn = RMS(d), RMS(d), GQA(d, h, kv, dh, **kw)
        self.mlp = (
            SwiGLU(d, ff)
            if act == "swiglu"
            else nn.Sequential(nn.Linear(d, ff, bias=False), ReLU2(), nn.Linear(ff, d, bias=False))
        )

    def forward(self, x, cos, sin):
        x = x + self.attn(self.n1(x), cos, sin)
        return x + self.mlp(self.n2(x))


class ReLU2(nn.Module):
    def forward(self, x):
        return torch.relu(x) ** 2


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, cos, sin):
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


@MEMBERS
def nemotron_h():
    d, dh = size(2048, 32), size(128, 16)
    cos, sin = rope_cos_sin(size(2048, 32), dh)
    return Stack(
        [
            Layer(d, size(16, 4), size(4, 2), dh, size(8192, 64), act="relu2", rope=False)
            for _ in range(2)
        ]
    ), (tokens(d), cos, sin)


@MEMBERS
def smollm3_nope():
    d, dh = size(2048, 32), size(128, 16)
    cos, sin = rope_cos_sin(size(2048, 32), dh, 5e6)
    layers = [
        Layer(d, size(16, 4), size(4, 2), dh, size(5632, 64), rope=i % 2 == 0) for i in range(2)
    ]
    return Stack(layers), (tokens(d), cos, sin)
