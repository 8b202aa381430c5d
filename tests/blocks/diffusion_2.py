"""Diffusion models and their losses (2 of 2), in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.diffusion_1 import UViTBlock
from blocks.layers import modulate, randn

MEMBERS = Blocks("diffusion")


class UViT(nn.Module):
    def __init__(self, d, h, hw):
        super().__init__()
        self.hw, self.patch = hw, nn.Conv2d(4, d, 2, 2)
        self.time, self.pos = (
            nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)),
            nn.Parameter(torch.randn(1, 1 + hw * hw, d) * 0.02),
        )
        self.a, self.m, self.z = (
            UViTBlock(d, h, False),
            UViTBlock(d, h, False),
            UViTBlock(d, h, True),
        )
        self.norm, self.dec, self.final = (
            nn.LayerNorm(d),
            nn.Linear(d, 16),
            nn.Conv2d(4, 4, 3, padding=1),
        )

    def forward(self, x, temb):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.time(temb).unsqueeze(1), x), 1) + self.pos
        a = self.a(x)
        x = self.dec(self.norm(self.z(self.m(a), a)))[:, 1:]
        x = x.view(-1, self.hw, self.hw, 2, 2, 4)
        x = torch.einsum("nhwpqc->nchpwq", x).reshape(-1, 4, 2 * self.hw, 2 * self.hw)
        return self.final(x)


@MEMBERS
def uvit():
    d, hw = size(1024, 32), size(16, 4)
    return UViT(d, size(16, 2), hw), (randn(size(16, 2), 4, 2 * hw, 2 * hw), randn(size(16, 2), d))


class DiTRegisters(nn.Module):
    def __init__(self, d, h, r):
        super().__init__()
        self.h, self.r = h, r
        self.registers = nn.Parameter(torch.randn(1, r, d) * 0.02)
        self.ada = nn.ModuleList(nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d)) for _ in range(2))
        self.attn = nn.ModuleList(nn.MultiheadAttention(d, h, batch_first=True) for _ in range(2))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))
            for _ in range(2)
        )

    def forward(self, x, c):
        x = torch.cat([self.registers.repeat(x.size(0), 1, 1), x], dim=1)
        for ada, attn, mlp in zip(self.ada, self.attn, self.mlp):
            a, b, g, p, q, r = ada(c).chunk(6, dim=1)
            y = modulate(F.layer_norm(x, x.shape[-1:], eps=1e-6), a, b)
            x = x + g.unsqueeze(1) * attn(y, y, y, need_weights=False)[0]
            x = torch.addcmul(
                x, r.unsqueeze(1), mlp(modulate(F.layer_norm(x, x.shape[-1:], eps=1e-6), p, q))
            )
        return x[:, self.r :]


@MEMBERS
def dit_registers():
    d = size(1152, 32)
    return DiTRegisters(d, size(16, 2), size(16, 4)), (
        randn(size(16, 2), size(256, 12), d),
        randn(size(16, 2), d),
    )


class MARHead(nn.Module):
    """The diffusion loss of MAR: a residual MLP with adaptive norms over rows, and its loss."""

    def __init__(self, c, d, z):
        super().__init__()
        self.inp, self.cond = nn.Linear(c, d), nn.Linear(z, d)
        self.time = nn.Sequential(nn.Linear(256, d), nn.SiLU(), nn.Linear(d, d))
        self.ln = nn.ModuleList(nn.LayerNorm(d, eps=1e-6) for _ in range(3))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d)) for _ in range(3)
        )
        self.ada = nn.ModuleList(nn.Sequential(nn.SiLU(), nn.Linear(d, 3 * d)) for _ in range(3))
        self.fin, self.fada = nn.Linear(d, c), nn.Sequential(nn.SiLU(), nn.Linear(d, 2 * d))

    def forward(self, target, noise, t, z, mask):
        ab = torch.cos(t * math.pi / 2)[:, None] ** 2
        xt = ab.sqrt() * target + (1 - ab).sqrt() * noise
        freqs = torch.exp(
            -math.log(10000) * torch.arange(128, device=t.device, dtype=torch.float32) / 128
        )
        args = t[:, None].float() * 1000 * freqs[None]
        emb = torch.cat([torch.cos(args), torch.sin(args)], dim=-1).to(target.dtype)
        x, y = self.inp(xt), self.time(emb) + self.cond(z)
        for ln, mlp, ada in zip(self.ln, self.mlp, self.ada):
            sh, sc, g = ada(y).chunk(3, dim=-1)
            x = x + g * mlp(ln(x) * (1 + sc) + sh)
        sh, sc = self.fada(y).chunk(2, dim=-1)
        out = self.fin(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + sc) + sh)
        loss = (out - noise).float().square().mean(-1)
        return (loss * mask).sum() / mask.sum()


@MEMBERS
def mar_diffloss():
    n, z = size(8192, 40), size(1024, 32)
    return MARHead(16, size(1024, 32), z), (
        randn(n, 16),
        randn(n, 16),
        torch.rand(n),
        randn(n, z),
        (torch.rand(n) > 0.3).float(),
    )


class Consistency(nn.Module):
    """Two passes of a network (the teacher's without gradients), boundary scalings, pseudo-Huber loss."""

    def __init__(self, d, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
        self.norm, self.emb, self.qkv, self.proj, self.h = (
            nn.LayerNorm(d),
            nn.Linear(1, d),
            nn.Linear(d, 3 * d),
            nn.Linear(d, d),
            h,
        )

    def f(self, x, sigma):
        c_skip = 0.25 / (sigma**2 + 0.25)
        c_out = 0.5 * sigma / (sigma**2 + 0.25) ** 0.5
        y = self.norm(x / (sigma**2 + 0.25).sqrt() + self.emb(sigma.log()))
        q, k, v = self.qkv(y).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = y + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return c_skip * x + c_out * (y + self.net(y))

    def forward(self, x, noise, s1, s2):
        student = self.f(x + s1 * noise, s1)
        with torch.no_grad():
            teacher = self.f(x + s2 * noise, s2)
        c = 0.00054 * math.sqrt(x[0].numel())
        d = (student - teacher).float().flatten(1)
        return (torch.sqrt(d.pow(2).sum(1) + c**2) - c).mean()


@MEMBERS
def consistency_loss():
    d, b, t = size(1024, 32), size(8, 2), size(256, 12)
    s1 = torch.rand(b, 1, 1) + 0.5
    return Consistency(d, size(16, 2)), (randn(b, t, d), randn(b, t, d), s1, s1 * 0.8)
