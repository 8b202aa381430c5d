"""Language models (2 of 3), in plain PyTorch as users write it."""

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.language_1 import Layer
from blocks.layers import RMS, B, SwiGLU, rope_cos_sin, rotate_half, tokens

MEMBERS = Blocks("language")


class GptOss(nn.Module):
    def __init__(self, d, h, kv, dh, ff, window):
        super().__init__()
        self.h, self.kv, self.dh, self.window = h, kv, dh, window
        self.qkv, self.out = nn.Linear(d, (h + 2 * kv) * dh), nn.Linear(h * dh, d)
        self.sinks = nn.Parameter(torch.randn(h))
        self.n1, self.n2 = RMS(d), RMS(d)
        self.mlp1, self.mlp2 = nn.Linear(d, 2 * ff), nn.Linear(ff, d)

    def attention(self, q, k, v):
        n, t, g, dh = q.shape[1:] if False else (self.kv, q.shape[1], self.h // self.kv, self.dh)
        q = q.view(-1, t, n, g, dh)
        qk = torch.einsum("bqnmd,bknd->bnmqk", q, k) * dh**-0.5
        mask = torch.triu(qk.new_full((t, t), -float("inf")), diagonal=1)
        mask = mask + torch.tril(mask.new_full((t, t), -float("inf")), diagonal=-self.window)
        qk = qk + mask
        sink = self.sinks.reshape(1, n, g, 1, 1).expand(qk.shape[0], -1, -1, t, -1)
        w = torch.softmax(torch.cat([qk, sink], dim=-1), dim=-1)[..., :-1]
        return torch.einsum("bnmqk,bknd->bqnmd", w, v).reshape(-1, t, n * g * dh)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        qkv = self.qkv(self.n1(x))
        q = qkv[..., : self.h * self.dh].view(b, t, self.h, self.dh)
        k = qkv[..., self.h * self.dh : (self.h + self.kv) * self.dh].view(b, t, self.kv, self.dh)
        v = qkv[..., (self.h + self.kv) * self.dh :].view(b, t, self.kv, self.dh)
        cos, sin = cos[None, :, None], sin[None, :, None]

        def rot(y):
            y1, y2 = torch.chunk(y, 2, dim=-1)
            return torch.cat((y1 * cos - y2 * sin, y2 * cos + y1 * sin), dim=-1)

        x = x + self.out(self.attention(rot(q), rot(k), v))
        h = self.mlp1(self.n2(x))
        glu, lin = h[..., ::2], h[..., 1::2]
        glu, lin = glu.clamp(max=7.0), lin.clamp(-7.0, 7.0)
        return x + self.mlp2(glu * torch.sigmoid(1.702 * glu) * (lin + 1))


@MEMBERS
def gptoss_sinks():
    d, dh = size(2048, 32), size(64, 16)
    cos, sin = rope_cos_sin(size(2048, 32), dh)
    n = dh // 2
    return GptOss(d, size(32, 4), size(4, 2), dh, size(4096, 64), size(128, 8)), (
        tokens(d),
        cos[:, :n],
        sin[:, :n],
    )


class SparseIndexer(nn.Module):
    """DeepSeek V3.2: the lightning indexer picks keys, MLA attends to those."""

    def __init__(self, d, h, dn, dr, rank, hi, di, topk):
        super().__init__()
        self.h, self.dn, self.dr, self.hi, self.di, self.topk = h, dn, dr, hi, di, topk
        self.q, self.kv_a, self.kv_b = (
            nn.Linear(d, h * (dn + dr), bias=False),
            nn.Linear(d, rank + dr, bias=False),
            nn.Linear(rank, h * 2 * dn, bias=False),
        )
        self.kv_norm, self.norm = RMS(rank), RMS(d)
        self.iq, self.ik, self.iw, self.ik_norm = (
            nn.Linear(d, hi * di, bias=False),
            nn.Linear(d, di, bias=False),
            nn.Linear(d, hi, bias=False),
            nn.LayerNorm(di),
        )
        self.o = nn.Linear(h * dn, d, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        y = self.norm(x)
        q_nope, q_pe = self.q(y).view(b, t, self.h, -1).split([self.dn, self.dr], -1)
        c, k_pe = self.kv_a(y).split([self.kv_norm.weight.shape[0], self.dr], -1)
        k_nope, v = self.kv_b(self.kv_norm(c)).view(b, t, self.h, -1).chunk(2, -1)
        cos, sin = cos[:, None], sin[:, None]
        q_pe = q_pe * cos + rotate_half(q_pe) * sin
        k_pe = (k_pe[:, :, None] * cos + rotate_half(k_pe[:, :, None]) * sin).expand(
            -1, -1, self.h, -1
        )
        causal = torch.full((t, t), float("-inf"), device=x.device, dtype=torch.float32).triu_(1)
        with torch.no_grad():
            iq = self.iq(y).view(b, t, self.hi, self.di)
            ik = self.ik_norm(self.ik(y))
            w = self.iw(y).float() * self.hi**-0.5
            score = torch.einsum("bshd,btd->bsht", iq, ik).relu().float()
            score = (score * w.unsqueeze(-1)).sum(2) * self.di**-0.5 + causal
            idx = score.topk(self.topk, dim=-1)[1]
            mask = torch.full_like(score, float("-inf")).scatter_(-1, idx, 0.0) + causal
        q, k = torch.cat([q_nope, q_pe], -1), torch.cat([k_nope, k_pe], -1)
        scores = torch.einsum("bshd,bthd->bsht", q, k) * (self.dn + self.dr) ** -0.5
        scores = (scores.float() + mask.unsqueeze(2)).softmax(-1).type_as(x)
        return x + self.o(torch.einsum("bsht,bthd->bshd", scores, v).flatten(2))


@MEMBERS
def dsv32_indexer():
    d, dr = size(1024, 32), size(64, 8)
    cos, sin = rope_cos_sin(size(2048, 32), dr)
    # With few heads, many scores are 0 after relu, and any of these keys may be chosen.
    return SparseIndexer(
        d, size(8, 2), size(128, 16), dr, size(512, 16), size(8, 16), size(64, 16), size(512, 16)
    ), (tokens(d), cos, sin)


class Recursions(nn.Module):
    """Mixture-of-Recursions: tokens that a router chooses pass the same layer again."""

    def __init__(self, d, h, dh, ff):
        super().__init__()
        self.layer, self.router = Layer(d, h, h, dh, ff, rope=False), nn.Linear(d, 1, bias=False)

    def forward(self, x, cos, sin):
        k = x.shape[1]
        for _ in range(2):
            scores = torch.sigmoid(self.router(x).squeeze(-1).float())
            k = k // 2
            w, idx = torch.topk(scores, k, dim=1, sorted=False)
            idx, order = torch.sort(idx, dim=1)
            w = torch.gather(w, 1, order)
            index = idx.unsqueeze(-1).expand(-1, -1, x.shape[-1])
            chosen = torch.gather(x, 1, index)
            y = self.layer(chosen, cos, sin) * w.unsqueeze(-1).to(x.dtype)
            x = torch.scatter_add(x, 1, index, y)
        return x


@MEMBERS
def mixture_of_recursions():
    d, dh = size(2048, 32), size(128, 16)
    cos, sin = rope_cos_sin(size(2048, 32), dh)
    return Recursions(d, size(16, 2), dh, size(4096, 64)), (tokens(d), cos, sin)


class ByteLatent(nn.Module):
    """Bytes with hash n-gram embeddings; patches pool them by cross attention."""

    def __init__(self, vocab, d, h, k):
        super().__init__()
        self.emb = nn.Embedding(260, d)
        self.hashes = nn.ModuleList(nn.Embedding(vocab, d) for _ in range(3))
        self.h, self.k, self.vocab = h, k, vocab
        self.q, self.kv, self.o = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(d, d, bias=False),
        )
        self.nq, self.nk = nn.RMSNorm(d), nn.RMSNorm(d)
        self.mlp, self.nm = SwiGLU(d, 4 * d), nn.RMSNorm(d)

    def forward(self, ids):
        b, t = ids.shape
        x = self.emb(ids)
        for n, table in zip((3, 4, 5), self.hashes):
            p = F.pad(ids, (n - 1, 0)).unfold(1, n, 1)
            primes = torch.tensor([31**i % 65521 for i in range(n)], device=ids.device)
            x = x + table((p * primes).sum(-1) % self.vocab)
        x = x / 4
        d = x.shape[-1]
        p = x.view(b, t // self.k, self.k, d).amax(2)
        q = self.q(self.nq(p)).view(b, -1, 1, self.h, d // self.h)
        k, v = self.kv(self.nk(x)).view(b, t // self.k, self.k, 2, self.h, -1).unbind(3)
        a = ((q * k).sum(-1, keepdim=True) * (d // self.h) ** -0.5).softmax(2)
        p = p + self.o((a * v).sum(2).flatten(2))
        return p + self.mlp(self.nm(p))


@MEMBERS
def byte_latent():
    return ByteLatent(size(50000, 97), size(1024, 32), size(16, 2), size(4, 4)), (
        torch.randint(0, 256, (B, size(4096, 32))),
    )


class HyperConnections(nn.Module):
    """Dynamic hyper-connections with 4 streams around attention and an MLP."""

    def __init__(self, d, h, ff, n=4):
        super().__init__()
        self.n, self.h = n, h
        mk = lambda: nn.ParameterDict(
            dict(
                norm=torch.ones(d),
                beta=torch.ones(n),
                alpha=torch.cat([torch.eye(n)[:, :1], torch.eye(n)], 1),
                dyn_a=torch.randn(d, n + 1) * 0.02,
                dyn_b=torch.randn(d) * 0.02,
                sa=torch.ones(1) * 0.1,
                sb=torch.ones(1) * 0.1,
            )
        )
        self.hc1, self.hc2 = mk(), mk()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, ff), nn.Linear(ff, d)

    def width(self, hc, hs):
        nh = F.layer_norm(hs, (hs.shape[-1],), hc["norm"])
        alpha = torch.tanh(nh @ hc["dyn_a"]) * hc["sa"] + hc["alpha"]
        beta = torch.tanh(nh @ hc["dyn_b"]) * hc["sb"] + hc["beta"]
        mix = alpha.transpose(-1, -2) @ hs
        return mix[..., 0, :], mix[..., 1:, :], beta

    def attn(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        return self.proj(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        )

    def forward(self, x):
        hs = x.unsqueeze(2).repeat(1, 1, self.n, 1)
        i, rest, beta = self.width(self.hc1, hs)
        hs = beta.unsqueeze(-1) * self.attn(self.n1(i)).unsqueeze(2) + rest
        i, rest, beta = self.width(self.hc2, hs)
        hs = torch.einsum("btn,btd->btnd", beta, self.fc2(F.gelu(self.fc1(self.n2(i))))) + rest
        return hs.sum(2)


@MEMBERS
def hyper_connections():
    d = size(1024, 32)
    return HyperConnections(d, size(16, 2), 4 * d), (tokens(d),)


class NGPT(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.h, self.d = h, d
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.uv, self.down = nn.Linear(d, 2 * ff, bias=False), nn.Linear(ff, d, bias=False)
        self.sqk, self.suv = nn.Parameter(torch.ones(h, d // h)), nn.Parameter(torch.ones(2 * ff))
        self.aa, self.am = (
            nn.Parameter(torch.full((d,), 0.05)),
            nn.Parameter(torch.full((d,), 0.05)),
        )

    @staticmethod
    def norm(x):
        return x / x.norm(p=2, dim=-1, keepdim=True)

    def forward(self, h, cos, sin):
        b, t, d = h.shape
        q, k, v = (f(h).view(b, t, self.h, -1) for f in (self.q, self.k, self.v))
        c, s_ = cos[:, None], sin[:, None]
        q, k = q * c + rotate_half(q) * s_, k * c + rotate_half(k) * s_
        q, k = self.sqk * self.norm(q), self.sqk * self.norm(k)
        a = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=True,
            scale=(d // self.h) ** 0.5,
        )
        a = self.norm(self.o(a.transpose(1, 2).flatten(-2)))
        h = self.norm(self.norm(h) + self.aa.abs() * (a - self.norm(h)))
        u, w = (self.suv * d**0.5 * self.uv(h)).chunk(2, dim=-1)
        m = self.norm(self.down(u * F.silu(w)))
        return self.norm(h + torch.abs(self.am) * (m - h))


@MEMBERS
def ngpt():
    d, h = size(2048, 32), size(16, 2)
    cos, sin = rope_cos_sin(size(2048, 32), d // h)
    return NGPT(d, h, size(4096, 64)), (tokens(d), cos, sin)


class DiffAttention(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.h, self.dh = h, d // h // 2
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(d, d, bias=False) for _ in range(4)
        )
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(0.1 * torch.randn(self.dh)) for _ in range(4)
        )
        self.subln = RMS(2 * self.dh, 1e-5)
        self.n1, self.n2, self.mlp, self.lambda_init = RMS(d), RMS(d), SwiGLU(d, ff), 0.5

    def forward(self, x):
        b, t, d = x.size()
        y = self.n1(x)
        q = self.q_proj(y).view(b, t, 2 * self.h, self.dh).transpose(1, 2) * self.dh**-0.5
        k = self.k_proj(y).view(b, t, 2 * self.h, self.dh).transpose(1, 2)
        v = self.v_proj(y).view(b, t, self.h, 2 * self.dh).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2))
        mask = torch.triu(
            torch.zeros([t, t], device=x.device).float().fill_(float("-inf")).type_as(w), 1
        )
        w = F.softmax(torch.nan_to_num(w) + mask, dim=-1, dtype=torch.float32).type_as(w)
        l1 = torch.exp(torch.sum(self.lq1 * self.lk1, dim=-1).float()).type_as(q)
        l2 = torch.exp(torch.sum(self.lq2 * self.lk2, dim=-1).float()).type_as(q)
        w = w.view(b, self.h, 2, t, t)
        w = w[:, :, 0] - (l1 - l2 + self.lambda_init) * w[:, :, 1]
        a = self.subln(torch.matmul(w, v)) * (1 - self.lambda_init)
        x = x + self.out_proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


@MEMBERS
def diff_attention():
    d = size(1024, 32)
    return DiffAttention(d, size(8, 2), size(2816, 64)), (tokens(d),)


class NativeSparse(nn.Module):
    """NSA: compressed, selected (by block, as a mask) and windowed keys, joined by gates."""

    def __init__(self, d, h, dh, blk, top, window):
        super().__init__()
        self.h, self.dh, self.blk, self.top, self.window = h, dh, blk, top, window
        self.qkv = nn.Linear(d, 3 * h * dh, bias=False)
        self.pos = nn.Parameter(torch.randn(2, blk, dh) * 0.02)
        self.ck, self.cv = (
            nn.Sequential(nn.Linear(blk * dh, dh), nn.GELU(), nn.Linear(dh, dh)),
            nn.Linear(blk * dh, dh),
        )
        self.gates, self.o, self.norm = (
            nn.Linear(d, 3 * h),
            nn.Linear(h * dh, d, bias=False),
            nn.RMSNorm(d),
        )

    def forward(self, x):
        b, t, _ = x.shape
        y = self.norm(x)
        q, k, v = self.qkv(y).reshape(b, t, 3, self.h, self.dh).permute(2, 0, 3, 1, 4).unbind(0)
        nb = t // self.blk
        kb = (k.reshape(b, self.h, nb, self.blk, self.dh) + self.pos[0]).flatten(3)
        vb = (v.reshape(b, self.h, nb, self.blk, self.dh) + self.pos[1]).flatten(3)
        ck, cv = self.ck(kb), self.cv(vb)
        i = torch.arange(t, device=x.device)
        ends = torch.arange(nb, device=x.device) * self.blk + self.blk - 1
        seen = i[:, None] >= ends
        sim = (q @ ck.mT) * self.dh**-0.5
        p = sim.masked_fill(~seen, -1e4).softmax(-1) * seen
        o1 = p @ cv
        imp = p.sum(1).detach().float()
        own = (i // self.blk)[:, None] == torch.arange(nb, device=x.device)
        sel = torch.zeros_like(imp).scatter(-1, (imp + own).topk(self.top, -1).indices, 1.0).bool()
        causal = i[:, None] >= i
        m = sel.repeat_interleave(self.blk, -1)[:, None] & causal
        o2 = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        o3 = F.scaled_dot_product_attention(
            q, k, v, attn_mask=causal & (i[:, None] - i < self.window)
        )
        g = self.gates(y).sigmoid().view(b, t, self.h, 3).permute(3, 0, 2, 1)[..., None]
        o = g[0] * o1 + g[1] * o2 + g[2] * o3
        return x + self.o(o.transpose(1, 2).flatten(2))


@MEMBERS
def native_sparse():
    d = size(1024, 32)
    return NativeSparse(d, size(16, 2), size(64, 16), size(32, 8), size(8, 2), size(256, 8)), (
        tokens(d),
    )
