"""Language models (3 of 3), in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.layers import RMS, B, randn, tokens

MEMBERS = Blocks("language")


class TTTLinear(nn.Module):
    """TTT-Linear in dual form: mini-batches of the inner loop with a norm of its output."""

    def __init__(self, d, h, c):
        super().__init__()
        self.h, self.dh, self.c = h, d // h, c
        self.qkv, self.lr, self.o = (
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, h),
            nn.Linear(d, d, bias=False),
        )
        self.W1, self.b1 = (
            nn.Parameter(torch.randn(h, self.dh, self.dh) * 0.02),
            nn.Parameter(torch.zeros(h, 1, self.dh)),
        )
        self.gamma, self.beta = (
            nn.Parameter(torch.ones(h, 1, self.dh)),
            nn.Parameter(torch.zeros(h, 1, self.dh)),
        )
        self.norm, self.post, self.g = RMS(d), nn.LayerNorm(d), nn.Linear(d, d, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        y = self.norm(x)
        q, k, v = (
            z.view(b, t, self.h, self.dh).transpose(1, 2)
            for z in self.qkv(y).tensor_split(3, dim=-1)
        )
        eta = torch.sigmoid(self.lr(y)).transpose(1, 2).unsqueeze(-1) / self.dh
        W, bias = self.W1.expand(b, -1, -1, -1), self.b1.expand(b, -1, -1, -1)
        mask = torch.tril(torch.ones(self.c, self.c, device=x.device, dtype=x.dtype))
        outs = []
        for qi, ki, vi, ei in zip(*(z.split(self.c, 2) for z in (q, k, v, eta))):
            z = ki @ W + bias
            mu, var = z.mean(-1, keepdim=True), z.var(-1, keepdim=True, unbiased=False)
            zh = (z - mu) / torch.sqrt(var + 1e-6)
            gz = (self.gamma * zh + self.beta - (vi - ki)) * self.gamma
            grad = (
                self.dh * gz - gz.sum(-1, keepdim=True) - zh * (gz * zh).sum(-1, keepdim=True)
            ) / (self.dh * torch.sqrt(var + 1e-6))
            grad = ei * grad
            attn = (qi @ ki.mT) * mask
            out = qi @ W - attn @ grad + bias - mask @ grad
            W, bias = W - ki.mT @ grad, bias - grad.sum(2, keepdim=True)
            outs.append(qi + self.gamma * F.layer_norm(out, (self.dh,)) + self.beta)
        o = torch.cat(outs, 2).transpose(1, 2).reshape(b, t, d)
        return x + self.o(self.post(o) * F.gelu(self.g(y), approximate="tanh"))


@MEMBERS
def ttt_linear():
    d = size(1024, 32)
    return TTTLinear(d, size(16, 2), size(256, 16)), (tokens(d),)


class TitansMemory(nn.Module):
    """Titans (MAG): persistent tokens, a windowed attention and an MLP memory updated once in a segment."""

    def __init__(self, d, h, seg, persist):
        super().__init__()
        self.h, self.seg = h, seg
        self.persist = nn.Parameter(torch.randn(persist, d) * 0.02)
        self.k, self.v, self.q = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.M1 = nn.Parameter(torch.randn(d, d) * d**-0.5)
        self.theta, self.alpha = nn.Linear(d, 1), nn.Linear(d, 1)
        self.qkv, self.proj, self.norm = (
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, d, bias=False),
            nn.RMSNorm(d),
        )

    def forward(self, x):
        b, t, d = x.shape
        n, seg = t // self.seg, self.seg
        y = self.norm(x)
        k, v, q = (
            F.normalize(F.silu(self.k(y)), dim=-1),
            F.silu(self.v(y)),
            F.normalize(F.silu(self.q(y)), dim=-1),
        )
        lr, forget = torch.sigmoid(self.theta(y)), torch.sigmoid(self.alpha(y))
        M, outs = self.M1.expand(b, d, d), []
        for j in range(n):
            r = slice(j * seg, (j + 1) * seg)
            outs.append(torch.bmm(q[:, r], M))
            err = torch.bmm(k[:, r], M) - v[:, r]
            M = (1 - forget[:, r].mean(1, keepdim=True)) * M - torch.baddbmm(
                torch.zeros_like(M), k[:, r].transpose(1, 2), lr[:, r] * err, alpha=2.0 / seg
            )
        mem = torch.cat(outs, 1)
        z = y.reshape(b * n, seg, d)
        z = torch.cat([self.persist.unsqueeze(0).expand(b * n, -1, -1), z], 1)
        qq, kk, vv = (
            u.unflatten(-1, (self.h, -1)).transpose(1, 2) for u in self.qkv(z).chunk(3, -1)
        )
        a = F.scaled_dot_product_attention(qq, kk, vv, is_causal=True).transpose(1, 2).flatten(2)
        a = self.proj(a[:, self.persist.shape[0] :]).reshape(b, t, d)
        return x + a * torch.sigmoid(mem)


@MEMBERS
def titans_memory():
    d = size(1024, 32)
    return TitansMemory(d, size(16, 2), size(512, 16), size(16, 4)), (tokens(d),)


class RWKV7(nn.Module):
    """Token shifts, low-rank decays and gates of RWKV-7 (the state with decays of heads, in chunks), and its channel mix."""

    def __init__(self, d, h, r, c):
        super().__init__()
        self.h, self.dh, self.c = h, d // h, c
        self.mix = nn.Parameter(torch.rand(6, d))
        self.R, self.K, self.V, self.O = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.w0, self.w1, self.w2 = (
            nn.Parameter(torch.randn(h)),
            nn.Parameter(torch.randn(d, r) * 0.02),
            nn.Parameter(torch.randn(r, h) * 0.1),
        )
        self.g1, self.g2 = (
            nn.Parameter(torch.randn(d, r) * 0.02),
            nn.Parameter(torch.randn(r, d) * 0.1),
        )
        self.a0, self.a1, self.a2 = (
            nn.Parameter(torch.randn(d)),
            nn.Parameter(torch.randn(d, r) * 0.02),
            nn.Parameter(torch.randn(r, d) * 0.1),
        )
        self.rk = nn.Parameter(torch.randn(h, self.dh) * 0.1)
        self.gn = nn.GroupNorm(h, d, eps=64e-5)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.xk, self.key, self.value = (
            nn.Parameter(torch.rand(d)),
            nn.Linear(d, 4 * d, bias=False),
            nn.Linear(4 * d, d, bias=False),
        )

    def forward(self, inp):
        b, t, d = inp.shape
        x = self.ln1(inp)
        xx = F.pad(x, (0, 0, 1, -1)) - x
        xr, xw, xk, xv, xa, xg = (x + xx * m for m in self.mix)
        r, k, v = self.R(xr), self.K(xk), self.V(xv)
        w = -F.softplus(-(self.w0 + torch.tanh(xw @ self.w1) @ self.w2).float()) - 0.5
        a = torch.sigmoid(self.a0 + (xa @ self.a1) @ self.a2)
        g = torch.sigmoid(xg @ self.g1) @ self.g2
        k = k * (1 + (a - 1) * 0.5)
        H = lambda z: z.view(b, t // self.c, self.c, self.h, -1).permute(0, 3, 1, 2, 4)
        rh, kh, vh, dec = H(r), H(k), H(v), H(-torch.exp(w).unsqueeze(-1)).squeeze(-1).cumsum(-1)
        diff = dec.unsqueeze(-1) - dec.unsqueeze(-2)
        mask = torch.ones(self.c, self.c, dtype=torch.bool, device=x.device).tril()
        att = (rh @ kh.transpose(-1, -2)) * torch.where(mask, diff, float("-inf")).exp().to(x.dtype)
        out = att @ vh
        kv = (kh * (dec[..., -1:] - dec).exp().unsqueeze(-1).to(x.dtype)).mT @ vh
        S, states = torch.zeros_like(kv[:, :, 0]), []
        for j in range(t // self.c):
            states.append(S)
            S = S * dec[:, :, j, -1, None, None].exp().to(x.dtype) + kv[:, :, j]
        out = out + (rh * dec.exp().unsqueeze(-1).to(x.dtype)) @ torch.stack(states, 2)
        out = out.permute(0, 2, 3, 1, 4).reshape(b * t, d)
        out = self.gn(out).view(b, t, d)
        bonus = (r.view(b, t, self.h, -1) * k.view(b, t, self.h, -1) * self.rk).sum(
            -1, keepdim=True
        ) * v.view(b, t, self.h, -1)
        x = inp + self.O((out + bonus.view(b, t, d)) * g)
        y = self.ln2(x)
        sh = torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], 1)
        return x + self.value(torch.relu(self.key(y + (sh - y) * self.xk)).square())


@MEMBERS
def rwkv7():
    d = size(1024, 32)
    return RWKV7(d, size(16, 2), size(64, 8), size(128, 16)), (tokens(d),)


class MLSTM(nn.Module):
    """The parallel form of xLSTM's mLSTM with exponential gates."""

    def __init__(self, d, h):
        super().__init__()
        di = 2 * d
        self.h, self.di = h, di
        self.norm, self.up, self.down = (
            nn.LayerNorm(d, bias=False),
            nn.Linear(d, 2 * di, bias=False),
            nn.Linear(di, d, bias=False),
        )
        self.conv = nn.Conv1d(di, di, 4, groups=di, padding=3)
        self.q, self.k, self.v = (nn.Linear(di, di, bias=False) for _ in range(3))
        self.ig, self.fg = nn.Linear(3 * di, h), nn.Linear(3 * di, h)
        self.outnorm, self.skip = nn.GroupNorm(h, di), nn.Parameter(torch.ones(di))

    def forward(self, x):
        b, t, _ = x.shape
        xi, z = self.up(self.norm(x)).chunk(2, -1)
        xc = F.silu(self.conv(xi.transpose(1, 2))[:, :, :t].transpose(1, 2))
        q, k, v = self.q(xc), self.k(xc), self.v(xi)
        gi = torch.cat([q, k, v], -1)
        i, f = self.ig(gi).transpose(1, 2).float(), self.fg(gi).transpose(1, 2).float()
        q, k, v = (u.view(b, t, self.h, -1).transpose(1, 2) for u in (q, k, v))
        lf = F.pad(F.logsigmoid(f).cumsum(-1), (1, 0))
        D = lf[..., 1:, None] - lf[..., None, 1:] + i[..., None, :]
        D = D.masked_fill(
            ~torch.tril(torch.ones(t, t, dtype=torch.bool, device=x.device)), -float("inf")
        )
        m = D.max(-1, keepdim=True)[0]
        w = (q @ (k / math.sqrt(k.shape[-1])).transpose(-2, -1)) * torch.exp(D - m).to(x.dtype)
        n = torch.maximum(w.sum(-1, keepdim=True).abs(), torch.exp(-m).to(x.dtype))
        o = (w / (n + 1e-6)) @ v
        o = self.outnorm(o.transpose(1, 2).reshape(b * t, -1)).view(b, t, -1)
        return x + self.down((o + self.skip * xc) * F.silu(z))


@MEMBERS
def xlstm_mlstm():
    d = size(768, 32)
    return MLSTM(d, size(4, 2)), (randn(B, size(1024, 32), d),)
