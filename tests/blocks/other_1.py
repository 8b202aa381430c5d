"""Models of science and recommendation, heads and losses (1 of 2), in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.language_1 import Layer
from blocks.layers import RMS, SwiGLU, randn, rope_cos_sin

MEMBERS = Blocks("other")


class PairFormer(nn.Module):
    """AlphaFold 3: triangle update, triangle attention with a pair bias, transition."""

    def __init__(self, c, h, hid):
        super().__init__()
        self.h, self.dh = h, hid // h
        self.ln, self.lo = nn.LayerNorm(c), nn.LayerNorm(hid)
        self.ap, self.ag, self.bp, self.bg, self.g, self.z = (
            (nn.Linear(c, hid, bias=False) for _ in range(4)),
            None,
            None,
            None,
            None,
            None,
        )
        self.ap, self.ag, self.bp, self.bg = (nn.Linear(c, hid, bias=False) for _ in range(4))
        self.g, self.z = nn.Linear(c, c, bias=False), nn.Linear(hid, c, bias=False)
        self.la, self.q, self.k, self.v, self.b, self.ga, self.o = (
            nn.LayerNorm(c),
            *(nn.Linear(c, hid, bias=False) for _ in range(3)),
            nn.Linear(c, h, bias=False),
            nn.Linear(c, hid, bias=False),
            nn.Linear(hid, c, bias=False),
        )
        self.lt, self.t1, self.t2, self.t3 = (
            nn.LayerNorm(c),
            nn.Linear(c, 4 * c, bias=False),
            nn.Linear(c, 4 * c, bias=False),
            nn.Linear(4 * c, c, bias=False),
        )

    def forward(self, z, mask):
        y = self.ln(z)
        a = torch.sigmoid(self.ag(y)) * self.ap(y) * mask[..., None]
        b = torch.sigmoid(self.bg(y)) * self.bp(y) * mask[..., None]
        x = torch.einsum("bikc,bjkc->bijc", a, b)
        z = z + self.z(self.lo(x)) * torch.sigmoid(self.g(y))
        y = self.la(z)
        B_, I, J, _ = y.shape
        q, k, v = (
            f(y).view(B_, I, J, self.h, self.dh).permute(0, 1, 3, 2, 4)
            for f in (self.q, self.k, self.v)
        )
        bias = self.b(y).permute(0, 3, 1, 2).unsqueeze(1)
        mb = (1e4 * (mask - 1))[:, :, None, None, :]
        att = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.dh) + mb + bias, dim=-1)
        o = (att @ v).permute(0, 1, 3, 2, 4).flatten(-2)
        z = z + self.o(o * torch.sigmoid(self.ga(y)))
        y = self.lt(z)
        return z + self.t3(F.silu(self.t1(y)) * self.t2(y))


@MEMBERS
def pairformer():
    n, c = size(256, 8), size(128, 16)
    m = torch.ones(1, n, n)
    m[:, :, -2:] = 0
    return PairFormer(c, size(4, 2), size(128, 16)), (randn(1, n, n, c), m)


class GraphTransformer(nn.Module):
    """Dense graph attention with biases of edges and distances; edges are updated as well (EGT)."""

    def __init__(self, d, de, h):
        super().__init__()
        self.h = h
        self.nh, self.ne, self.qkv, self.e, self.g = (
            nn.LayerNorm(d),
            nn.LayerNorm(de),
            nn.Linear(d, 3 * d),
            nn.Linear(de, h),
            nn.Linear(de, h),
        )
        self.spatial = nn.Embedding(32, h)
        self.oh, self.oe = nn.Linear(d, d), nn.Linear(h, de)
        self.ffh = nn.Sequential(
            nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ELU(), nn.Linear(2 * d, d)
        )
        self.ffe = nn.Sequential(
            nn.LayerNorm(de), nn.Linear(de, 2 * de), nn.ELU(), nn.Linear(2 * de, de)
        )

    def forward(self, x, e, dist, mask):
        b, n, d = x.shape
        y = self.ne(e)
        E, G = self.e(y), self.g(y)
        Q, K, V = self.qkv(self.nh(x)).view(b, n, 3, -1, self.h).unbind(2)
        A = torch.einsum("bldh,bmdh->blmh", Q, K) * (d // self.h) ** -0.5
        H = A.clamp(-5, 5) + E + self.spatial(dist)
        gates = torch.sigmoid(G + mask)
        At = F.softmax(H + mask, dim=2) * gates
        V = torch.einsum("blmh,bmkh->blkh", At, V) * torch.log(1 + gates.sum(2, keepdim=True))
        x = x + self.oh(V.reshape(b, n, -1))
        e = e + self.oe(H)
        x, e = x + self.ffh(x), e + self.ffe(e)
        return torch.cat([x.flatten(1), e.flatten(1)], 1)


@MEMBERS
def graph_transformer():
    b, n, d, de = size(16, 2), size(128, 8), size(256, 32), size(64, 16)
    mask = torch.zeros(b, 1, n, 1)
    mask[:, :, -3:] = -1e4
    return GraphTransformer(d, de, size(8, 2)), (
        randn(b, n, d),
        randn(b, n, n, de),
        torch.randint(0, 32, (b, n, n)),
        mask,
    )


class DLRM(nn.Module):
    """Embedding bags, a low-rank cross network (DCN v2), pairwise products, and a loss."""

    def __init__(self, rows, d, fields, dense, rank):
        super().__init__()
        self.tables = nn.Embedding(rows * fields, d)
        self.register_buffer("offsets", torch.arange(fields) * rows)
        self.bottom = nn.Sequential(
            nn.Linear(dense, 4 * d), nn.ReLU(), nn.Linear(4 * d, d), nn.ReLU()
        )
        w = (fields + 1) * d
        self.U, self.V, self.bias = (
            nn.ParameterList(torch.randn(w, rank) * w**-0.5 for _ in range(2)),
            nn.ParameterList(torch.randn(rank, w) * rank**-0.5 for _ in range(2)),
            nn.ParameterList(torch.zeros(w) for _ in range(2)),
        )
        i, j = torch.tril_indices(fields + 1, fields + 1, -1)
        self.register_buffer("i", i)
        self.register_buffer("j", j)
        self.top = nn.Sequential(
            nn.Linear(w + len(i), size(1024, 32)), nn.ReLU(), nn.Linear(size(1024, 32), 1)
        )

    def forward(self, dense, ids, y):
        x = self.bottom(dense)
        e = torch.cat([x[:, None], self.tables(ids + self.offsets)], 1)
        x0 = xl = e.flatten(1)
        for u, v, b in zip(self.U, self.V, self.bias):
            xl = x0 * (xl @ u @ v + b) + xl
        pair = torch.bmm(e, e.transpose(1, 2))[:, self.i, self.j]
        return F.binary_cross_entropy_with_logits(
            self.top(torch.cat([xl, pair], 1)).squeeze(1).float(), y.float()
        )


@MEMBERS
def dlrm_dcn():
    f, n = size(26, 3), size(8192, 40)
    return DLRM(size(10000, 50), size(64, 16), f, 13, size(256, 8)), (
        randn(n, 13),
        torch.randint(0, size(10000, 50), (n, f)),
        (torch.rand(n) > 0.5).float(),
    )


class HSTU(nn.Module):
    """Pointwise attention of recommenders: silu(qk + bias) v, gated and normed."""

    def __init__(self, d, h, dq, t):
        super().__init__()
        self.h, self.dq, self.norm, self.on = (
            h,
            dq,
            nn.LayerNorm(d, eps=1e-6),
            nn.LayerNorm(h * dq, eps=1e-6),
        )
        self.uvqk, self.o = nn.Parameter(torch.randn(d, 4 * h * dq) * 0.02), nn.Linear(h * dq, d)
        self.rel = nn.Parameter(torch.randn(2 * t - 1) * 0.02)
        self.register_buffer("mask", torch.tril(torch.ones(t, t)))

    def forward(self, x):
        b, t, _ = x.shape
        u, v, q, k = torch.split(
            F.silu(torch.matmul(self.norm(x), self.uvqk)), [self.h * self.dq] * 4, dim=-1
        )
        q, k, v = (z.view(b, t, self.h, -1) for z in (q, k, v))
        pos = torch.arange(t, device=x.device)
        bias = self.rel[pos[:, None] - pos[None] + t - 1]
        a = torch.einsum("bnhd,bmhd->bhnm", q, k) + bias
        a = F.silu(a) / t * self.mask[None, None]
        o = torch.einsum("bhnm,bmhd->bnhd", a, v).reshape(b, t, -1)
        return x + self.o(u * self.on(o))


@MEMBERS
def hstu():
    t, d = size(1024, 16), size(512, 32)
    return HSTU(d, size(8, 2), size(64, 16), t), (randn(size(8, 2), t, d),)


class DecisionTransformer(nn.Module):
    """Returns, states and actions interleaved, two GPT layers, tanh actions, a masked squared loss."""

    def __init__(self, d, h, sd, ad, steps):
        super().__init__()
        self.h = h
        self.et, self.er, self.es, self.ea, self.ln = (
            nn.Embedding(steps, d),
            nn.Linear(1, d),
            nn.Linear(sd, d),
            nn.Linear(ad, d),
            nn.LayerNorm(d),
        )
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                d, h, 4 * d, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(2)
        )
        self.head = nn.Sequential(nn.Linear(d, ad), nn.Tanh())

    def forward(self, r, st, a, ts, mask):
        b, n, _ = st.shape
        t = self.et(ts)
        x = (
            torch.stack((self.er(r) + t, self.es(st) + t, self.ea(a) + t), dim=1)
            .permute(0, 2, 1, 3)
            .reshape(b, 3 * n, -1)
        )
        x = self.ln(x)
        causal = nn.Transformer.generate_square_subsequent_mask(
            3 * n, device=x.device, dtype=x.dtype
        )
        for l in self.blocks:
            x = l(x, src_mask=causal, is_causal=True)
        p = self.head(x.reshape(b, n, 3, -1).permute(0, 2, 1, 3)[:, 1])
        return (((p - a).float() ** 2).mean(-1) * mask).sum() / mask.sum()


@MEMBERS
def decision_transformer():
    b, n, d = size(32, 2), size(40, 6), size(768, 32)
    mask = torch.ones(b, n)
    mask[:, :2] = 0
    return DecisionTransformer(d, size(12, 2), 17, 6, 1000), (
        randn(b, n, 1),
        randn(b, n, 17),
        randn(b, n, 6),
        torch.randint(0, 1000, (b, n)),
        mask,
    )


class PointTransformer(nn.Module):
    """Vector attention over neighbours that are gathered."""

    def __init__(self, d, k):
        super().__init__()
        self.k = k
        self.fc1, self.fc2 = nn.Linear(d, d), nn.Linear(d, d)
        self.delta = nn.Sequential(nn.Linear(3, d), nn.ReLU(), nn.Linear(d, d))
        self.gamma = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.q, self.kk, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))

    def forward(self, xyz, x):
        dist = torch.sum((xyz[:, :, None] - xyz[:, None]).float() ** 2, dim=-1)
        idx = dist.argsort()[:, :, : self.k]
        gather = lambda p: torch.gather(
            p, 1, idx.reshape(idx.shape[0], -1)[..., None].expand(-1, -1, p.size(-1))
        ).reshape(*idx.shape, -1)
        y = self.fc1(x)
        q, k, v = self.q(y), gather(self.kk(y)), gather(self.v(y))
        pos = self.delta(xyz[:, :, None] - gather(xyz))
        a = F.softmax(self.gamma(q[:, :, None] - k + pos) / math.sqrt(k.size(-1)), dim=-2)
        return self.fc2(torch.einsum("bmnf,bmnf->bmf", a, v + pos)) + x


@MEMBERS
def point_transformer():
    b, n, d = size(8, 2), size(1024, 16), size(256, 32)
    return PointTransformer(d, size(16, 4)), (
        torch.randn(b, n, 3).bfloat16().float(),
        randn(b, n, d),
    )


class PatchTST(nn.Module):
    """Reversible instance norm, patches by unfold, residual scores of attention, batch norms, a flat head."""

    def __init__(self, d, h, patch, stride, n, horizon):
        super().__init__()
        self.h, self.patch, self.stride = h, patch, stride
        self.aw, self.ab = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
        self.wp, self.pos = nn.Linear(patch, d), nn.Parameter(torch.randn(n, d) * 0.02)
        self.qkv, self.o = (
            nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(2)),
            nn.ModuleList(nn.Linear(d, d) for _ in range(2)),
        )
        self.b1, self.b2 = (
            nn.ModuleList(nn.BatchNorm1d(d) for _ in range(2)),
            nn.ModuleList(nn.BatchNorm1d(d) for _ in range(2)),
        )
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(2)
        )
        self.head = nn.Linear(n * d, horizon)

    def forward(self, x):
        b, t, c = x.shape
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = ((x - mean) / std * self.aw + self.ab).permute(0, 2, 1)
        x = F.pad(x, (0, self.stride), mode="replicate").unfold(-1, self.patch, self.stride)
        x = self.wp(x).flatten(0, 1) + self.pos
        prev = 0
        for qkv, o, n1, n2, ff in zip(self.qkv, self.o, self.b1, self.b2, self.ff):
            q, k, v = (
                y.view(*x.shape[:2], self.h, -1).transpose(1, 2)
                for y in qkv(x).split(x.shape[-1], -1)
            )
            prev = q @ k.mT * q.shape[-1] ** -0.5 + prev
            y = (prev.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
            x = n1((x + o(y)).transpose(1, 2)).transpose(1, 2)
            x = n2((x + ff(x)).transpose(1, 2)).transpose(1, 2)
        y = self.head(x.reshape(b, c, -1)).permute(0, 2, 1)
        return (y - self.ab) / (self.aw + 1e-10) * std + mean


@MEMBERS
def patchtst():
    t, c, p, st = size(512, 32), size(32, 3), size(16, 8), size(8, 4)
    n = (t + st - p) // st + 1
    return PatchTST(size(256, 32), size(16, 2), p, st, n, size(96, 8)), (randn(size(32, 2), t, c),)


class ITransformer(nn.Module):
    """Variates as tokens through nn.TransformerEncoder after norms, and a mean absolute error."""

    def __init__(self, t, d, h, horizon):
        super().__init__()
        self.emb = nn.Linear(t, d)
        layer = nn.TransformerEncoderLayer(
            d, h, 4 * d, dropout=0.0, activation=F.gelu, batch_first=True
        )
        self.enc, self.head = (
            nn.TransformerEncoder(layer, 2, nn.LayerNorm(d), enable_nested_tensor=False),
            nn.Linear(d, horizon),
        )

    def forward(self, x, y):
        m = x.mean(1, keepdim=True).detach()
        z = x - m
        sd = torch.sqrt(torch.var(z, dim=1, keepdim=True, unbiased=False) + 1e-5)
        z = z / sd
        out = self.head(self.enc(self.emb(z.permute(0, 2, 1)))).permute(0, 2, 1)
        return F.l1_loss((out * sd + m).float(), y.float())


@MEMBERS
def itransformer():
    t, v, hz = size(96, 16), size(321, 10), size(96, 8)
    return ITransformer(t, size(512, 32), size(8, 2), hz), (
        randn(size(32, 2), t, v),
        randn(size(32, 2), hz, v),
    )


class RewardHead(nn.Module):
    """A layer, then a value at the last token that is not padding, and the Bradley-Terry loss."""

    def __init__(self, d, h, dh, ff):
        super().__init__()
        self.layer, self.norm, self.v = (
            Layer(d, h, h, dh, ff),
            RMS(d),
            nn.Sequential(nn.Dropout(0.0), nn.Linear(d, 1)),
        )

    def forward(self, x, mask, cos, sin):
        x = self.v(self.norm(self.layer(x, cos, sin))).squeeze(-1).float()
        last = mask.sum(1) - 1
        r = x.gather(1, last[:, None]).squeeze(1)
        chosen, rejected = r.chunk(2)
        return (
            -F.logsigmoid(chosen - rejected - 0.1).mean()
            + 0.01 * (chosen + rejected).square().mean()
        )


@MEMBERS
def reward_head():
    d, dh, b, t = size(2048, 32), size(128, 16), size(4, 4), size(1024, 16)
    cos, sin = rope_cos_sin(t, dh)
    mask = (torch.arange(t) < torch.randint(t // 2, t, (b, 1))).long()
    return RewardHead(d, size(16, 2), dh, size(5632, 64)), (randn(b, t, d), mask, cos, sin)


class DPO(nn.Module):
    """Log-probabilities of labels by log_softmax and gather, for policy and reference, and the DPO loss."""

    def __init__(self, d, vocab):
        super().__init__()
        self.norm, self.mlp, self.head = RMS(d), SwiGLU(d, 2 * d), nn.Linear(d, vocab, bias=False)

    def logps(self, h, labels):
        logits = self.head(h + self.mlp(self.norm(h)))[:, :-1]
        labels = labels[:, 1:].clone()
        m = labels != -100
        labels[labels == -100] = 0
        lp = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
        return (lp * m).sum(-1)

    def forward(self, h, ref, labels):
        pi = self.logps(h, labels)
        pc, pr = pi[: len(pi) // 2], pi[len(pi) // 2 :]
        rc, rr = ref.chunk(2)
        logits = (pc - pr) - (rc - rr)
        return (-F.logsigmoid(0.1 * logits) * 0.9 - F.logsigmoid(-0.1 * logits) * 0.1).mean()


@MEMBERS
def dpo_loss():
    d, v, t = size(2048, 32), size(32000, 67), size(1024, 16)
    labels = torch.randint(0, v, (4, t))
    labels[:, : t // 4] = -100
    return DPO(d, v), (randn(4, t, d), randn(4), labels)
