"""Models of speech and audio, in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from blocks.common import Blocks, size
from blocks.layers import randn

MEMBERS = Blocks("audio")


class Conformer(nn.Module):
    """Macaron halves, relative attention with a shift, GLU, depthwise convolution with batch norm."""

    def __init__(self, d, h, k):
        super().__init__()
        self.h, self.dk = h, d // h
        self.f1, self.f2 = (
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            for _ in range(2)
        )
        self.n, self.q, self.k, self.v, self.o, self.p = (
            nn.LayerNorm(d),
            nn.Linear(d, d),
            nn.Linear(d, d),
            nn.Linear(d, d),
            nn.Linear(d, d),
            nn.Linear(d, d, bias=False),
        )
        self.u, self.w = (
            nn.Parameter(torch.randn(h, self.dk) * 0.1),
            nn.Parameter(torch.randn(h, self.dk) * 0.1),
        )
        self.cn, self.pw1, self.dw, self.bn, self.pw2 = (
            nn.LayerNorm(d),
            nn.Conv1d(d, 2 * d, 1),
            nn.Conv1d(d, d, k, padding=k // 2, groups=d),
            nn.BatchNorm1d(d),
            nn.Conv1d(d, d, 1),
        )
        self.final = nn.LayerNorm(d)

    def shift(self, x):
        b, h, t, n = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], -1).view(b, h, n + 1, t)
        return x[:, :, 1:].view(b, h, t, n)[..., : n // 2 + 1]

    def attn(self, x, pos):
        b, t, _ = x.shape
        x = self.n(x)
        q = self.q(x).view(b, t, self.h, self.dk)
        k, v = (f(x).view(b, t, self.h, self.dk).transpose(1, 2) for f in (self.k, self.v))
        p = self.p(pos).view(1, -1, self.h, self.dk).transpose(1, 2)
        ac = torch.matmul((q + self.u).transpose(1, 2), k.transpose(-2, -1))
        bd = self.shift(torch.matmul((q + self.w).transpose(1, 2), p.transpose(-2, -1)))
        a = torch.softmax((ac + bd) / math.sqrt(self.dk), dim=-1)
        return self.o(torch.matmul(a, v).transpose(1, 2).contiguous().view(b, t, -1))

    def conv(self, x):
        y = F.glu(self.pw1(self.cn(x).transpose(1, 2)), dim=1)
        return self.pw2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)

    def forward(self, x, pos):
        x = x + 0.5 * self.f1(x)
        x = x + self.attn(x, pos)
        x = x + self.conv(x)
        return self.final(x + 0.5 * self.f2(x))


@MEMBERS
def conformer():
    d, t = size(512, 32), size(512, 16)
    return Conformer(d, size(8, 2), size(31, 5)), (randn(size(8, 2), t, d), randn(1, 2 * t - 1, d))


class Zipformer(nn.Module):
    """BiasNorm, SwooshR, shared attention weights, nonlinear attention, bypass."""

    def __init__(self, d, h, qd, vd, ff):
        super().__init__()
        self.h, self.qd, self.vd = h, qd, vd
        self.qk, self.v1, self.o1 = (
            nn.Linear(d, 2 * h * qd),
            nn.Linear(d, h * vd),
            nn.Linear(h * vd, d),
        )
        self.f1, self.f1o, self.f2, self.f2o = (
            nn.Linear(d, ff),
            nn.Linear(ff, d),
            nn.Linear(d, ff),
            nn.Linear(ff, d),
        )
        self.nl, self.nlo = nn.Linear(d, 3 * (d * 3 // 4)), nn.Linear(d * 3 // 4, d)
        self.bias, self.log_scale = (
            nn.Parameter(torch.randn(d) * 0.1),
            nn.Parameter(torch.zeros(())),
        )
        self.bypass = nn.Parameter(torch.full((d,), 0.5))

    @staticmethod
    def swoosh(x, off):
        zero = torch.tensor(0.0, dtype=x.dtype, device=x.device)
        return torch.logaddexp(zero, x - off) - 0.08 * x - (0.313261687 if off == 1.0 else 0.035)

    def forward(self, src):
        b, t, d = src.shape
        q, k = self.qk(src).view(b, t, 2, self.h, self.qd).permute(2, 0, 3, 1, 4)
        w = torch.matmul(q, k.transpose(2, 3)).softmax(dim=-1)
        x = src + self.f1o(self.swoosh(self.f1(src), 4.0))
        s_, y, z = self.nl(x).chunk(3, dim=2)
        y = torch.matmul(w[:, 0], torch.tanh(s_) * y)
        x = x + self.nlo(y * z)
        v = self.v1(x).view(b, t, self.h, self.vd).permute(0, 2, 1, 3)
        x = x + self.o1(torch.matmul(w, v).permute(0, 2, 1, 3).reshape(b, t, -1))
        x = src + (x - src) * self.bypass
        x = x + self.f2o(self.swoosh(self.f2(x), 1.0))
        return (
            x
            * torch.mean((x - self.bias) ** 2, dim=-1, keepdim=True) ** -0.5
            * self.log_scale.exp()
        )


@MEMBERS
def zipformer():
    d = size(512, 32)
    return Zipformer(d, size(8, 2), size(32, 8), size(12 * 2, 8), size(1536, 64)), (
        randn(size(8, 2), size(512, 16), d),
    )


class WhisperDecoder(nn.Module):
    """A decoder as users write it with a mask buffer and scales of q and k; tied logits and cross entropy."""

    def __init__(self, d, h, vocab, t):
        super().__init__()
        self.h = h
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Parameter(torch.randn(t, d) * 0.02)
        mk = lambda: nn.ModuleDict(
            dict(
                query=nn.Linear(d, d),
                key=nn.Linear(d, d, bias=False),
                value=nn.Linear(d, d),
                out=nn.Linear(d, d),
            )
        )
        self.attn, self.cross = mk(), mk()
        self.ln1, self.ln2, self.ln3, self.ln = (nn.LayerNorm(d) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.register_buffer("mask", torch.empty(t, t).fill_(-math.inf).triu_(1), persistent=False)

    def mha(self, m, x, xa, mask=None):
        q, k, v = m["query"](x), m["key"](xa), m["value"](xa)
        scale = (q.shape[-1] // self.h) ** -0.25
        q = q.view(*q.shape[:2], self.h, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.h, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.h, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[: x.shape[1], : x.shape[1]]
        return m["out"](
            (F.softmax(qk.float(), dim=-1).to(q.dtype) @ v).permute(0, 2, 1, 3).flatten(start_dim=2)
        )

    def forward(self, ids, audio, labels):
        x = self.emb(ids) + self.pos[: ids.shape[-1]]
        y = self.ln1(x)
        x = x + self.mha(self.attn, y, y, self.mask)
        x = x + self.mha(self.cross, self.ln2(x), audio)
        x = x + self.mlp(self.ln3(x))
        logits = (self.ln(x) @ torch.transpose(self.emb.weight.to(x.dtype), 0, 1)).float()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)


@MEMBERS
def whisper_decoder():
    d, v, t, b = size(1024, 32), size(51865, 67), size(448, 16), size(8, 2)
    labels = torch.randint(0, v, (b, t))
    labels[:, -3:] = -100
    return WhisperDecoder(d, size(16, 2), v, t), (
        torch.randint(0, v, (b, t)),
        randn(b, size(1500, 20), d),
        labels,
    )


class Mimi(nn.Module):
    """A codec's transformer: a causal window, layer scales, interleaved rotary embedding, weight-normed convolutions."""

    def __init__(self, d, h, window):
        super().__init__()
        self.h, self.window = h, window
        self.down = weight_norm(nn.Conv1d(d, d, 4, stride=2))
        self.up = weight_norm(nn.ConvTranspose1d(d, d, 4, stride=2, groups=d))
        self.n1, self.n2 = nn.LayerNorm(d, eps=1e-5), nn.LayerNorm(d, eps=1e-5)
        self.in_proj, self.out_proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.g1, self.g2 = (
            nn.Parameter(torch.full((d,), 0.01)),
            nn.Parameter(torch.full((d,), 0.01)),
        )
        self.l1, self.l2 = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def rope(self, q, k):
        b, h, t, d = q.shape
        ds = torch.arange(d // 2, device=q.device, dtype=torch.float32)
        ts = torch.arange(t, device=q.device, dtype=torch.float32).view(-1, 1)
        a = ts * torch.exp(ds * (-math.log(10000) * 2 / d))
        rr, ri = torch.cos(a), torch.sin(a)
        out = []
        for x in (q, k):
            x = x.view(b, h, t, d // 2, 2)
            xr, xi = x[..., 0].float(), x[..., 1].float()
            out.append(
                torch.stack(
                    [(xr * rr - xi * ri).to(q.dtype), (xr * ri + xi * rr).to(q.dtype)], dim=-1
                ).view(b, h, t, d)
            )
        return out

    def forward(self, x):
        x = F.elu(self.down(F.pad(x, (2, 0)))).transpose(1, 2)
        b, t, d = x.shape
        q, k, v = (
            self.in_proj(self.n1(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4).unbind(0)
        )
        q, k = self.rope(q.contiguous(), k.contiguous())
        p = torch.arange(t, device=x.device)
        delta = p.view(-1, 1) - p.view(1, -1)
        bias = (delta >= 0) & (delta < self.window)
        x = x + self.g1 * self.out_proj(
            F.scaled_dot_product_attention(q, k, v, bias, dropout_p=0.0)
            .transpose(1, 2)
            .reshape(b, t, d)
        )
        x = x + self.g2 * self.l2(F.gelu(self.l1(self.n2(x))))
        return self.up(x.transpose(1, 2))


@MEMBERS
def mimi():
    return Mimi(size(512, 32), size(8, 2), size(250, 6)), (
        randn(size(8, 2), size(512, 32), size(2048, 32)),
    )
