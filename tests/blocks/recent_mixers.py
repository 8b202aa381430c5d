"""Layers without attention from papers of 2020 to 2026, untyped as their users write them."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, Mlp, RMSNorm, SwiGLU, size, words

MEMBERS = Blocks("mixer")


def sequence():
    """Return batch, tokens and width."""
    return 2, size(2048, 16), size(1024, 32)


class Mamba3(nn.Module):
    """Mamba-3: a trapezoidal rule, B and C with norms, biases and rotations that depend on the
    data, and no convolution; as a masked product of chunks.
    """

    def __init__(self, d, heads, width, state):
        super().__init__()
        self.h, self.p, self.n = heads, width, state
        self.split = [heads * width, heads * width, state, state, heads, heads, heads, state // 2]
        self.norm, self.onorm = RMSNorm(d), RMSNorm(heads * width)
        self.inp = nn.Linear(d, sum(self.split), bias=False)
        self.bn, self.cn = RMSNorm(state), RMSNorm(state)
        self.b_bias, self.c_bias = (nn.Parameter(torch.ones(heads, state)) for _ in range(2))
        self.dt_bias, self.skip = nn.Parameter(torch.randn(heads)), nn.Parameter(torch.ones(heads))
        self.out = nn.Linear(heads * width, d, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        z, v, bs, cs, dt, a, lam, theta = self.inp(self.norm(x)).split(self.split, -1)
        v = v.view(b, t, self.h, self.p)
        dt = F.softplus(dt.float() + self.dt_bias)
        log_a = -dt * F.softplus(a.float())
        lam = torch.sigmoid(lam.float())
        bs = self.bn(bs)[:, :, None] + self.b_bias
        cs = self.cn(cs)[:, :, None] + self.c_bias
        angle = (dt[..., None] * math.pi * torch.tanh(theta.float())[:, :, None]).cumsum(1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)

        def turn(y):
            r, i = y[..., : self.n // 2], y[..., self.n // 2 :]
            return torch.cat([r * cos - i * sin, r * sin + i * cos], -1)

        bs, cs = turn(bs), turn(cs)
        total = log_a.cumsum(1).transpose(1, 2)
        decay = total[..., :, None] - total[..., None, :]
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        decay = decay.masked_fill(~causal, float("-inf")).exp()
        now = (lam * dt).transpose(1, 2)
        then = F.pad(((1 - lam) * dt)[:, 1:], (0, 0, 0, 1)).transpose(1, 2)
        weight = now + then * (1 - torch.eye(t, device=x.device).view(1, 1, t, t).sum(-2))
        s = torch.einsum("bthn,bshn->bhts", cs, bs).float() * decay * weight[..., None, :]
        y = torch.einsum("bhts,bshp->bthp", s.type_as(v), v) + self.skip[:, None] * v
        return x + self.out(self.onorm(y.reshape(b, t, -1) * F.silu(z)))


@MEMBERS
def mamba3():
    b, t, d = sequence()
    h, p, n = size(16, 2), size(64, 8), size(64, 8)
    return Mamba3(d, h, p, n), (torch.randn(b, t // 4, d),)


class MonarchMixer(nn.Module):
    """Monarch matrices (products of block diagonals) instead of both linear layers."""

    def __init__(self, d, blocks):
        super().__init__()
        self.k, self.norm = blocks, nn.LayerNorm(d)
        n = d // blocks
        self.l1 = nn.Parameter(torch.randn(blocks, 2 * n, n) * n**-0.5)
        self.r1 = nn.Parameter(torch.randn(2 * n, blocks, blocks) * blocks**-0.5)
        self.l2 = nn.Parameter(torch.randn(blocks, n, 2 * n) * n**-0.5)
        self.r2 = nn.Parameter(torch.randn(n, blocks, blocks) * blocks**-0.5)
        self.bias = nn.Parameter(torch.zeros(2 * d))

    @staticmethod
    def monarch(x, left, right):
        y = torch.einsum("btkn,kmn->btmk", x, left)
        return torch.einsum("btmk,mjk->btjm", y, right)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.norm(x).view(b, t, self.k, -1)
        h = self.monarch(h, self.l1, self.r1)
        h = F.gelu(h.flatten(2) + self.bias).view(b, t, self.k, -1)
        return x + self.monarch(h, self.l2, self.r2).flatten(2)


@MEMBERS
def monarch_mixer():
    b, t, d = sequence()
    return MonarchMixer(d, size(16, 4)), (torch.randn(b, t, d),)


class KAN(nn.Module):
    """An efficient KAN layer: cubic B-splines on a grid of each input, and a SiLU branch."""

    def __init__(self, i, o, grid=5, order=3):
        super().__init__()
        self.order = order
        knots = torch.arange(-order, grid + order + 1) * (2 / grid) - 1
        self.register_buffer("grid", knots.float().expand(i, -1).contiguous())
        self.base = nn.Parameter(torch.randn(o, i) * i**-0.5)
        self.spline = nn.Parameter(torch.randn(o, i, grid + order) * 0.1 * i**-0.5)
        self.scaler = nn.Parameter(torch.randn(o, i))

    def bases(self, x):
        x, g = x.unsqueeze(-1), self.grid
        y = ((x >= g[:, :-1]) & (x < g[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * y[..., :-1]
            right = (g[:, k + 1 :] - x) / (g[:, k + 1 :] - g[:, 1:-k]) * y[..., 1:]
            y = left + right
        return y

    def forward(self, x):
        y = F.linear(F.silu(x), self.base)
        spline = (self.spline * self.scaler[..., None]).flatten(1)
        return y + F.linear(self.bases(x).flatten(-2), spline)


@MEMBERS
def kan():
    d = size(512, 16)
    block = nn.Sequential(KAN(d, 2 * d), nn.LayerNorm(2 * d), KAN(2 * d, d))
    return block, (torch.randn(size(2048, 24), d).tanh(),)


class CaFormer(nn.Module):
    """MetaFormer baselines: a separable convolution with StarReLU, and scales of the residuals."""

    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = (nn.LayerNorm(d, eps=1e-6, bias=False) for _ in range(2))
        self.pw1, self.pw2 = nn.Linear(d, 2 * d, bias=False), nn.Linear(2 * d, d, bias=False)
        self.dw = nn.Conv2d(2 * d, 2 * d, 7, padding=3, groups=2 * d, bias=False)
        self.star1, self.star2 = (nn.Parameter(torch.tensor([0.8944, -0.4472])) for _ in range(2))
        self.res1, self.res2 = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        self.fc1, self.fc2 = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    @staticmethod
    def star(x, s):
        return s[0] * F.relu(x) ** 2 + s[1]

    def forward(self, x):
        y = self.star(self.pw1(self.n1(x)), self.star1)
        y = self.pw2(self.dw(y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        x = self.res1 * x + y
        return self.res2 * x + self.fc2(self.star(self.fc1(self.n2(x)), self.star2))


@MEMBERS
def metaformer():
    side = size(28, 5)
    return CaFormer(size(384, 16)), (torch.randn(size(16, 1), side, side, size(384, 16)),)


class Canon(nn.Module):
    """Canon layers: causal convolutions over 4 tokens with residuals, before and inside of a
    gated network.
    """

    def __init__(self, d, hidden):
        super().__init__()
        self.norm = RMSNorm(d)
        self.gate_up, self.down = nn.Linear(d, 2 * hidden, bias=False), nn.Linear(hidden, d)
        self.ca, self.cd = (
            nn.Conv1d(n, n, 4, groups=n, padding=3, bias=False) for n in (d, 2 * hidden)
        )

    @staticmethod
    def canon(x, conv):
        return x + conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)

    def forward(self, x):
        h = self.canon(self.norm(x), self.ca)
        g, u = self.canon(self.gate_up(h), self.cd).chunk(2, -1)
        return x + self.down(F.silu(g) * u)


@MEMBERS
def canon():
    b, t, d = sequence()
    return Canon(d, 3 * d), (torch.randn(b, t, d),)


class TokenFormer(nn.Module):
    """TokenFormer: layers are attention to parameters, with a GELU of scores of norm sqrt(n)."""

    def __init__(self, d, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.keys = nn.Parameter(torch.randn(hidden, d) * d**-0.5)
        self.values = nn.Parameter(torch.randn(hidden, d) * hidden**-0.5)
        self.k2 = nn.Parameter(torch.randn(hidden, d) * d**-0.5)
        self.v2 = nn.Parameter(torch.randn(hidden, d) * hidden**-0.5)

    @staticmethod
    def pattention(x, k, v):
        s = x @ k.t()
        s = s / s.norm(p=2, dim=-1, keepdim=True).clamp_min(1e-6) * math.sqrt(k.shape[0])
        return F.gelu(s) @ v

    def forward(self, x):
        h = self.pattention(self.norm(x), self.keys, self.values)
        return x + self.pattention(h, self.k2, self.v2)


@MEMBERS
def tokenformer():
    b, t, d = sequence()
    return TokenFormer(d, 4 * d), (torch.randn(b, t, d),)


class Derf(nn.Module):
    """A norm-free block: gamma erf(alpha x + s) + beta in the place of norms."""

    def __init__(self, d):
        super().__init__()
        self.alpha, self.s = nn.Parameter(torch.full((2,), 0.5)), nn.Parameter(torch.zeros(2))
        self.gamma, self.beta = nn.Parameter(torch.ones(2, d)), nn.Parameter(torch.zeros(2, d))
        self.mix, self.mlp = Mlp(d, 2 * d), Mlp(d, 4 * d)

    def derf(self, x, i):
        return self.gamma[i] * torch.erf(self.alpha[i] * x + self.s[i]) + self.beta[i]

    def forward(self, x):
        x = x + self.mix(self.derf(x, 0))
        return x + self.mlp(self.derf(x, 1))


@MEMBERS
def derf():
    b, t, d = sequence()
    return Derf(d), (torch.randn(b, t, d),)


class ManifoldHyperConnections(nn.Module):
    """Hyper-connections whose residual mixing is doubly stochastic, by Sinkhorn's iterations."""

    def __init__(self, d, streams, rounds=10):
        super().__init__()
        self.n, self.rounds = streams, rounds
        self.norm = RMSNorm(streams * d)
        self.phi = nn.Linear(streams * d, 2 * streams + streams**2, bias=False)
        self.alpha = nn.Parameter(torch.full((3,), 0.1))
        self.bias = nn.Parameter(torch.randn(2 * streams + streams**2))
        self.inner, self.inorm = SwiGLU(d, 3 * d), RMSNorm(d)

    def forward(self, x):
        b, t, n, _ = x.shape
        pre, post, res = self.phi(self.norm(x.flatten(2))).float().split([n, n, n * n], -1)
        b1, b2, b3 = self.bias.float().split([n, n, n * n])
        pre = torch.sigmoid(self.alpha[0] * pre + b1)
        post = 2 * torch.sigmoid(self.alpha[1] * post + b2)
        m = (self.alpha[2] * res + b3).view(b, t, n, n)
        m = torch.exp(m - m.amax((-2, -1), keepdim=True))
        for _ in range(self.rounds):
            m = m / m.sum(-1, keepdim=True)
            m = m / m.sum(-2, keepdim=True)
        h = torch.einsum("btn,btnd->btd", pre.type_as(x), x)
        y = self.inner(self.inorm(h))
        mixed = torch.einsum("btmn,btnd->btmd", m.type_as(x), x)
        return mixed + post.type_as(x)[..., None] * y[:, :, None]


@MEMBERS
def manifold_hyper_connections():
    b, t, d = sequence()
    return ManifoldHyperConnections(d, 4), (torch.randn(b, t, 4, d),)


class Engram(nn.Module):
    """Conditional memory: tables of hashed pairs and triples of words, gated by the stream, and a
    short convolution.
    """

    def __init__(self, d, rows, heads, width):
        super().__init__()
        self.rows = rows
        self.tables = nn.Embedding(2 * heads * rows, width)
        self.k, self.v = (nn.Linear(2 * heads * width, d, bias=False) for _ in range(2))
        self.nk, self.nq, self.nc = RMSNorm(d), RMSNorm(d), RMSNorm(d)
        self.conv = nn.Conv1d(d, d, 4, groups=d, padding=9, dilation=3, bias=False)
        odd = 2 * torch.arange(1, 3 * heads + 1) * 7919 + 1
        self.register_buffer("factors", odd.view(heads, 3), persistent=False)

    def forward(self, x, ids):
        past = torch.stack([F.pad(ids, (k, 0))[:, : ids.shape[1]] for k in range(3)], -1)
        mixed = past[:, :, None] * self.factors
        two = (mixed[..., 0] ^ mixed[..., 1]) % self.rows
        three = (mixed[..., 0] ^ mixed[..., 1] ^ mixed[..., 2]) % self.rows
        at = torch.cat([two, three], -1)
        at = at + self.rows * torch.arange(at.shape[-1], device=at.device)
        e = self.tables(at).flatten(-2)
        k, v = self.k(e), self.v(e)
        gate = (self.nk(k) * self.nq(x)).sum(-1, keepdim=True) * x.shape[-1] ** -0.5
        v = torch.sigmoid(gate.sign() * gate.abs().clamp_min(1e-6).sqrt()) * v
        y = self.conv(self.nc(v).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        return x + F.silu(y) + v


@MEMBERS
def engram():
    b, t, d = sequence()
    block = Engram(d, size(20011, 53), size(8, 2), size(64, 8))
    return block, (torch.randn(b, t, d), words(b, t, vocabulary=size(32000, 50)))


class MixtureOfDepths(nn.Module):
    """Mixture of depths: the best eighth of the tokens goes through a network, the rest past it."""

    def __init__(self, d, capacity):
        super().__init__()
        self.k, self.router = capacity, nn.Linear(d, 1, bias=False)
        self.norm, self.mlp = RMSNorm(d), SwiGLU(d, 3 * d)

    def forward(self, x):
        score = self.router(x).squeeze(-1)
        weight, index = torch.topk(score, self.k, dim=-1, sorted=False)
        index, order = index.sort(-1)
        weight = torch.sigmoid(weight.gather(-1, order))
        at = index[..., None].expand(-1, -1, x.shape[-1])
        chosen = x.gather(1, at)
        return x.scatter_add(1, at, self.mlp(self.norm(chosen)) * weight[..., None])


@MEMBERS
def mixture_of_depths():
    b, t, d = sequence()
    return MixtureOfDepths(d, t // 4), (torch.randn(b, t, d),)


class ProductKeys(nn.Module):
    """PEER: product keys choose single-neuron experts, whose weights are rows of tables."""

    def __init__(self, d, heads, side, chosen):
        super().__init__()
        self.h, self.side, self.k = heads, side, chosen
        self.norm, self.q = nn.LayerNorm(d), nn.Linear(d, heads * 64, bias=False)
        self.keys = nn.Parameter(torch.randn(2, heads, side, 32) * 0.2)
        self.down, self.up = nn.Embedding(side * side, d), nn.Embedding(side * side, d)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, t, self.h, 2, 32)
        s = torch.einsum("bthpc,phsc->pbths", q, self.keys)
        (s1, s2), (i1, i2) = s.topk(self.k, dim=-1)
        total = (s1[..., :, None] + s2[..., None, :]).flatten(-2)
        index = (i1[..., :, None] * self.side + i2[..., None, :]).flatten(-2)
        score, at = total.topk(self.k, dim=-1)
        index = index.gather(-1, at)
        a = torch.einsum("btd,bthkd->bthk", h, self.down(index))
        a = F.gelu(a) * score.softmax(-1)
        return x + torch.einsum("bthk,bthkd->btd", a, self.up(index))


@MEMBERS
def product_keys():
    b, t, _ = sequence()
    d = size(512, 16)
    return ProductKeys(d, size(4, 2), size(64, 8), size(8, 3)), (torch.randn(b, t // 4, d),)


class FakeQuant(nn.Module):
    """Quantization-aware training: learned steps (LSQ) of weights and activations."""

    def __init__(self, d, h):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, h), nn.Linear(h, d)
        self.w1, self.w2 = (
            nn.Parameter(torch.full((h, 1), 0.02)),
            nn.Parameter(torch.full((d, 1), 0.02)),
        )
        self.a1, self.a2 = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(0.1))

    @staticmethod
    def quantize(x, step, low, high):
        y = (x / step).clamp(low, high)
        return (y + (y.round() - y).detach()) * step

    def forward(self, x):
        y = F.linear(
            self.quantize(x, self.a1, -8, 7),
            self.quantize(self.fc1.weight, self.w1, -8, 7),
            self.fc1.bias,
        )
        y = F.gelu(y, approximate="tanh")
        y = F.linear(
            self.quantize(y, self.a2, -8, 7),
            self.quantize(self.fc2.weight, self.w2, -8, 7),
            self.fc2.bias,
        )
        return x + y


@MEMBERS
def learned_steps():
    d = size(1024, 32)
    return FakeQuant(d, 4 * d), (torch.randn(2, size(2048, 12), d),)
