"""Layers that several files of blocks share, in plain PyTorch as users write them."""

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import size


def randn(*shape, scale=1.0):
    return torch.randn(*shape) * scale


B = 2


def tokens(d):
    return randn(B, size(2048, 32), d)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rope_cos_sin(t, d, theta=10000.0):
    inv = 1.0 / (theta ** (torch.arange(0, d, 2).float() / d))
    f = torch.outer(torch.arange(t).float(), inv)
    return torch.cat((f, f), -1).cos(), torch.cat((f, f), -1).sin()


class RMS(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d) + 0.1 * torch.randn(d)), eps

    def forward(self, x):
        xf = x.float()
        return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(
            x
        ) * self.weight


class SwiGLU(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.w12, self.w3 = nn.Linear(d, 2 * h, bias=False), nn.Linear(h, d, bias=False)

    def forward(self, x):
        a, b = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(a) * b)


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def rope_pairs(x, freqs):
    """Flux: rotation matrices of pairs [t, d/2, 2, 2]."""
    x_ = x.float().reshape(*x.shape[:-1], -1, 1, 2)
    out = freqs[..., 0] * x_[..., 0] + freqs[..., 1] * x_[..., 1]
    return out.reshape(*x.shape).type_as(x)


def flux_freqs(t, d):
    a = torch.outer(torch.arange(t).float(), 1.0 / 10000 ** (torch.arange(0, d, 2).float() / d))
    return torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()], -1).view(t, d // 2, 2, 2)


class QKNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.query_norm, self.key_norm = RMS(d), RMS(d)

    def forward(self, q, k, v):
        return self.query_norm(q).to(v), self.key_norm(k).to(v)


class GEGLU(nn.Module):
    def forward(self, x):
        x, gate = x.chunk(2, dim=-1)
        return x * F.gelu(gate)
