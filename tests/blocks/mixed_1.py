"""Mixers, attention and speculative decoding, in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size

MEMBERS = Blocks("mixed")


class Mlp(nn.Module):
    def __init__(self, d, hidden=None, out=None):
        super().__init__()
        self.fc1 = nn.Linear(d, hidden or 4 * d)
        self.fc2 = nn.Linear(hidden or 4 * d, out or d)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class WeightedPermute(nn.Module):
    """Vision permutator: mixes H, W and C by Linears over permuted tensors."""

    def __init__(self, d, side, segments):
        super().__init__()
        self.s = segments
        self.mlp_c, self.mlp_h, self.mlp_w = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.reweight = Mlp(d, d // 4, d * 3)
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        b, h, w, c = x.shape
        s = self.s
        hs = x.reshape(b, h, w, s, c // s).permute(0, 3, 2, 1, 4).reshape(b, s, w, h * c // s)
        hs = self.mlp_h(hs).reshape(b, s, w, h, c // s).permute(0, 3, 2, 1, 4).reshape(b, h, w, c)
        ws = x.reshape(b, h, w, s, c // s).permute(0, 1, 3, 2, 4).reshape(b, h, s, w * c // s)
        ws = self.mlp_w(ws).reshape(b, h, s, w, c // s).permute(0, 1, 3, 2, 4).reshape(b, h, w, c)
        cs = self.mlp_c(x)
        a = (hs + ws + cs).permute(0, 3, 1, 2).flatten(2).mean(2)
        a = (
            self.reweight(a)
            .reshape(b, c, 3)
            .permute(2, 0, 1)
            .softmax(dim=0)
            .unsqueeze(2)
            .unsqueeze(2)
        )
        return self.proj(hs * a[0] + ws * a[1] + cs * a[2])


class Permutator(nn.Module):
    def __init__(self, d, side):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix = WeightedPermute(d, side, side)
        self.mlp = Mlp(d, 3 * d)

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + self.mlp(self.n2(x))


@MEMBERS
def vision_permutator():
    n, side, d = size((16, 32, 512), (2, 4, 16))
    return Permutator(d, side), (torch.randn(n, side, side, d),)


class LogLinear(nn.Module):
    """Log-linear attention: linear attention with a gate and a weight for each level of a Fenwick tree."""

    def __init__(self, d, heads, t):
        super().__init__()
        self.h = heads
        self.levels = int(math.log2(t)) + 1
        self.norm = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.gate = nn.Linear(d, heads)
        self.lam = nn.Linear(d, heads * self.levels)
        self.o = nn.Linear(d, d, bias=False)
        i, j = torch.arange(t)[:, None], torch.arange(t)[None]
        level = torch.where(i == j, 0, ((i ^ j).float().clamp_min(1).log2().floor() + 1).long())
        self.register_buffer("level", level.clamp_max(self.levels - 1), persistent=False)
        self.register_buffer("causal", j <= i, persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        n = self.norm(x)
        q, k, v = self.qkv(n).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        g = F.logsigmoid(self.gate(n)).transpose(1, 2).cumsum(-1)
        lam = F.softplus(self.lam(n)).reshape(b, t, self.h, self.levels).transpose(1, 2)
        decay = torch.where(self.causal, g[..., :, None] - g[..., None, :], float("-inf")).exp()
        weight = lam.gather(-1, self.level.expand(b, self.h, t, t))
        a = (q @ k.transpose(-1, -2)) * (d // self.h) ** -0.5 * decay * weight
        return x + self.o((a @ v).transpose(1, 2).reshape(b, t, d))


@MEMBERS
def log_linear_attention():
    b, t, d, h = size((2, 1024, 1024, 8), (2, 16, 32, 4))
    return LogLinear(d, h, t), (torch.randn(b, t, d),)


class DyT(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.weight = nn.Parameter(torch.ones(d))
        self.bias = nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha * x) + self.bias


class Attention(nn.Module):
    def __init__(self, d, heads, causal=True):
        super().__init__()
        self.h, self.causal = heads, causal
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class DyTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = DyT(d), DyT(d)
        self.attn, self.mlp = Attention(d, heads), Mlp(d)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


@MEMBERS
def dynamic_tanh():
    return DyTBlock(size(1024, 32), size(16, 4)), (
        torch.randn(size(2, 2), size(2048, 16), size(1024, 32)),
    )


class XCA(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.h, c // self.h).permute(2, 0, 3, 4, 1)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        a = (q @ k.transpose(-2, -1) * self.temperature).softmax(-1)
        return self.proj((a @ v).permute(0, 3, 1, 2).reshape(b, n, c))


class SDTA(nn.Module):
    """EdgeNeXt: splits the channels, convolves growing groups, and attends over channels."""

    def __init__(self, d, heads, scales):
        super().__init__()
        self.width = math.ceil(d / scales)
        self.convs = nn.ModuleList(
            nn.Conv2d(self.width, self.width, 3, padding=1, groups=self.width)
            for _ in range(scales - 1)
        )
        self.n1, self.n2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
        self.g1, self.g2 = nn.Parameter(torch.full((d,), 0.1)), nn.Parameter(torch.full((d,), 0.1))
        self.xca, self.mlp = XCA(d, heads), Mlp(d)

    def forward(self, x):
        parts = torch.split(x, self.width, 1)
        outs, y = [], None
        for conv, part in zip(self.convs, parts):
            y = conv(part if y is None else y + part)
            outs.append(y)
        x0, b, c, h, w = x, *x.shape
        x = torch.cat([*outs, parts[len(self.convs)]], 1)
        x = x.reshape(b, c, h * w).permute(0, 2, 1)
        x = x + self.g1 * self.xca(self.n1(x))
        x = self.g2 * self.mlp(self.n2(x))
        return x0 + x.reshape(b, h, w, c).permute(0, 3, 1, 2)


@MEMBERS
def edgenext():
    n, side, d, h, s = size((16, 56, 160, 8, 4), (2, 6, 16, 4, 4))
    return SDTA(d, h, s), (torch.randn(n, d, side, side),)


class StickBreaking(nn.Module):
    def __init__(self, d, heads, t):
        super().__init__()
        self.h = heads
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.register_buffer("mask", torch.ones(t, t).tril(-1).bool(), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            self.qkv(self.norm(x)).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        )
        z = (q @ k.transpose(-1, -2)) * (d // self.h) ** -0.5
        log_beta = F.logsigmoid(z)
        log_rest = torch.where(self.mask, F.logsigmoid(-z), 0.0)
        after = log_rest.flip(-1).cumsum(-1).flip(-1)
        after = torch.cat([after[..., 1:], torch.zeros_like(after[..., :1])], -1)
        a = torch.where(self.mask, (log_beta + after).exp(), 0.0)
        rest = 1 - a.sum(-1, keepdim=True)
        y = a @ v + rest * v
        return x + self.o(y.transpose(1, 2).reshape(b, t, d))


@MEMBERS
def stick_breaking():
    b, t, d, h = size((2, 1024, 1024, 8), (2, 16, 32, 4))
    return StickBreaking(d, h, t), (torch.randn(b, t, d),)


class LocalAttention(nn.Module):
    """Windows that attend to themselves and to the window before, by a concatenation."""

    def __init__(self, d, heads, window):
        super().__init__()
        self.h, self.w = heads, window
        self.norm = nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        i, j = torch.arange(window)[:, None], torch.arange(2 * window)[None]
        self.register_buffer("mask", (j <= i + window) & (j > i), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        w, h = self.w, self.h
        q, k, v = (
            self.qkv(self.norm(x)).reshape(b, t // w, w, 3, h, d // h).permute(3, 0, 4, 1, 2, 5)
        )
        before = lambda y: torch.cat([F.pad(y, (0, 0, 0, 0, 1, 0))[:, :, :-1], y], 3)
        y = F.scaled_dot_product_attention(q, before(k), before(v), attn_mask=self.mask)
        return x + self.o(y.permute(0, 2, 3, 1, 4).reshape(b, t, d))


@MEMBERS
def local_attention():
    return LocalAttention(size(1024, 32), size(16, 4), size(256, 4)), (
        torch.randn(size(2, 2), size(2048, 16), size(1024, 32)),
    )


class Eagle(nn.Module):
    """EAGLE's draft layer (embedding and hidden state joined by one Linear) with QK-clip."""

    def __init__(self, d, heads, vocab):
        super().__init__()
        self.h = heads
        self.embed = nn.Embedding(vocab, d)
        self.fc = nn.Linear(2 * d, d)
        self.n2 = nn.RMSNorm(d, eps=1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False)
        self.down = nn.Linear(3 * d, d, bias=False)
        self.tau = 100.0

    def forward(self, hidden, ids):
        x = self.fc(torch.cat([self.embed(ids), hidden], -1))
        b, t, d = x.shape
        heads = lambda y: y.reshape(b, t, self.h, d // self.h).transpose(1, 2)
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        scale = (d // self.h) ** -0.5
        bound = q.norm(dim=-1).amax(-1) * k.norm(dim=-1).amax(-1) * scale
        gamma = (
            (self.tau / bound.clamp_min(1e-6)).clamp_max(1.0).amin(0).sqrt()[None, :, None, None]
        )
        y = F.scaled_dot_product_attention(q * gamma, k * gamma, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        n = self.n2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


@MEMBERS
def eagle():
    v = size(32000, 64)
    return Eagle(size(1024, 32), size(16, 4), v), (
        torch.randn(size(2, 2), size(2048, 16), size(1024, 32)),
        torch.randint(0, v, (size(2, 2), size(2048, 16))),
    )
