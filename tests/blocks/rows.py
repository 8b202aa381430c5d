"""Blocks that gather rows by number, or take windows of them, untyped as their users write them."""

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, Mlp, SwiGLU, size

MEMBERS = Blocks("rows")


class Branch(nn.Module):
    """A transformer block of timm with its softmax written out."""

    def __init__(self, d, h):
        super().__init__()
        self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.mlp = nn.Linear(d, 3 * d), nn.Linear(d, d), Mlp(d, 4 * d)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) * (c // self.h) ** -0.5).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.n2(x))


def taken(x, ids):
    """Return the rows of each sample that numbers name, as masked autoencoders do."""
    return torch.gather(x, 1, ids.unsqueeze(-1).repeat(1, 1, x.shape[-1]))


class MAE(nn.Module):
    """A decoder of unshuffled tokens, whose target is the normalized pixels of hidden patches."""

    def __init__(self, d, e, h, n, patch):
        super().__init__()
        self.embed, self.p = nn.Linear(d, e), patch
        self.mask = nn.Parameter(torch.randn(1, 1, e) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, e) * 0.02)
        self.block, self.norm, self.pred = Branch(e, h), nn.LayerNorm(e), nn.Linear(e, patch**2 * 3)

    def forward(self, x, restore, mask, imgs):
        x = self.embed(x)
        t = self.mask.repeat(x.shape[0], restore.shape[1] + 1 - x.shape[1], 1)
        y = taken(torch.cat([x[:, 1:], t], 1), restore)
        x = self.block(torch.cat([x[:, :1], y], 1) + self.pos)
        pred = self.pred(self.norm(x))[:, 1:]
        p, k = self.p, imgs.shape[2] // self.p
        t = imgs.reshape(imgs.shape[0], 3, k, p, k, p)
        t = torch.einsum("nchpwq->nhwpqc", t).reshape(imgs.shape[0], k * k, p * p * 3)
        t = (t - t.mean(-1, keepdim=True)) / (t.var(-1, keepdim=True) + 1e-6) ** 0.5
        loss = ((pred - t) ** 2).mean(-1)
        return (loss * mask).sum() / mask.sum()


@MEMBERS
def mae():
    b, k, p, d, e = size(32, 2), size(14, 4), size(16, 2), size(1024, 32), size(512, 32)
    n = k * k
    ids = torch.stack([torch.randperm(n) for _ in range(b)])
    shown, hidden = torch.randn(b, n // 4 + 1, d), (ids >= n // 4).float()
    return MAE(d, e, size(16, 4), n, p), (shown, ids, hidden, torch.randn(b, 3, k * p, k * p))


class IJEPA(nn.Module):
    """The predictor of I-JEPA: tokens of masks, a block, a smooth loss to normalized targets."""

    def __init__(self, d, p, h):
        super().__init__()
        self.embed, self.proj, self.norm = nn.Linear(d, p), nn.Linear(p, d), nn.LayerNorm(p)
        self.mask, self.block = nn.Parameter(torch.randn(1, 1, p) * 0.02), Branch(p, h)

    def forward(self, context, pos, seen, wanted, target):
        b, n, _ = context.shape
        pos = pos.expand(b, -1, -1)
        x = self.embed(context) + taken(pos, seen)
        x = torch.cat([x, self.mask.repeat(b, wanted.shape[1], 1) + taken(pos, wanted)], 1)
        x = self.proj(self.norm(self.block(x))[:, n:])
        return F.smooth_l1_loss(x, taken(F.layer_norm(target, target.shape[-1:]), wanted))


@MEMBERS
def ijepa():
    b, n, d, p = size(32, 2), size(256, 16), size(1280, 32), size(384, 32)
    ids = torch.stack([torch.randperm(n) for _ in range(b)])
    k, m = size(96, 6), size(128, 8)
    tokens, pos, target = torch.randn(b, k, d), torch.randn(1, n, p), torch.randn(b, n, d)
    return IJEPA(d, p, size(12, 4)), (tokens, pos, ids[:, :k], ids[:, k : k + m], target)


class AtomAttention(nn.Module):
    """The local attention of AlphaFold 3: windows of 32 queries and 128 keys, with a pair bias."""

    def __init__(self, d, h, queries, keys, p):
        super().__init__()
        self.h, self.nq, self.nk = h, queries, keys
        self.norm, self.qkv, self.g = (
            nn.LayerNorm(d),
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, d),
        )
        self.o, self.n2, self.mlp = nn.Linear(d, d, bias=False), nn.LayerNorm(d), SwiGLU(d, 2 * d)
        self.pn, self.pb = nn.LayerNorm(p), nn.Linear(p, h, bias=False)

    def forward(self, x, pair):
        b, n, d = x.shape
        y = self.norm(x)
        q, k, v = self.qkv(y).chunk(3, -1)
        w, side = n // self.nq, (self.nk - self.nq) // 2

        def windows(t):
            t = F.pad(t, (0, 0, side, side)).unfold(1, self.nk, self.nq)
            return t.reshape(b, w, self.h, d // self.h, self.nk).transpose(-1, -2)

        q = q.view(b, w, self.nq, self.h, -1).transpose(2, 3)
        k, v = windows(k), windows(v)
        a = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5
        a = a + self.pb(self.pn(pair)).permute(0, 1, 4, 2, 3)
        starts = torch.arange(w, device=x.device)[:, None] * self.nq - side
        i = starts + torch.arange(self.nk, device=x.device)
        a = a.masked_fill(((i < 0) | (i >= n))[None, :, None, None], float("-inf"))
        z = (a.softmax(-1) @ v).transpose(2, 3).reshape(b, n, d)
        x = x + self.o(z * torch.sigmoid(self.g(y)))
        return x + self.mlp(self.n2(x))


@MEMBERS
def atom_attention():
    b, n, d, p = size(4, 2), size(4096, 16), size(128, 16), size(16, 8)
    q, k = size(32, 4), size(128, 8)
    return AtomAttention(d, 4, q, k, p), (torch.randn(b, n, d), torch.randn(b, n // q, q, k, p))
