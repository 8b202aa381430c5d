"""Diffusion models and their losses (1 of 2), in plain PyTorch as users write it."""

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.layers import RMS, B, QKNorm, flux_freqs, randn, rope_cos_sin, rope_pairs, tokens

MEMBERS = Blocks("diffusion")


class FluxDouble(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        for n in ("img", "txt"):
            setattr(self, n + "_mod", nn.Linear(d, 6 * d))
            setattr(self, n + "_norm1", nn.LayerNorm(d, elementwise_affine=False, eps=1e-6))
            setattr(self, n + "_norm2", nn.LayerNorm(d, elementwise_affine=False, eps=1e-6))
            setattr(self, n + "_qkv", nn.Linear(d, 3 * d))
            setattr(self, n + "_qkn", QKNorm(d // h))
            setattr(self, n + "_proj", nn.Linear(d, d))
            setattr(
                self,
                n + "_mlp",
                nn.Sequential(
                    nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d)
                ),
            )

    def part(self, n, x, vec):
        mods = getattr(self, n + "_mod")(F.silu(vec))[:, None].chunk(6, -1)
        y = (1 + mods[1]) * getattr(self, n + "_norm1")(x) + mods[0]
        b, t, _ = x.shape
        q, k, v = getattr(self, n + "_qkv")(y).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        q, k = getattr(self, n + "_qkn")(q, k, v)
        return mods, q, k, v

    def rest(self, n, x, mods, a):
        x = x + mods[2] * getattr(self, n + "_proj")(a)
        return x + mods[5] * getattr(self, n + "_mlp")(
            (1 + mods[4]) * getattr(self, n + "_norm2")(x) + mods[3]
        )

    def forward(self, img, txt, vec, pe):
        mi, qi, ki, vi = self.part("img", img, vec)
        mt, qt, kt, vt = self.part("txt", txt, vec)
        q, k, v = torch.cat((qt, qi), 2), torch.cat((kt, ki), 2), torch.cat((vt, vi), 2)
        a = F.scaled_dot_product_attention(rope_pairs(q, pe), rope_pairs(k, pe), v)
        a = a.transpose(1, 2).flatten(2)
        n = txt.shape[1]
        return torch.cat(
            [self.rest("txt", txt, mt, a[:, :n]), self.rest("img", img, mi, a[:, n:])], 1
        )


class FluxSingle(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.d = h, d
        self.linear1, self.linear2 = nn.Linear(d, 7 * d), nn.Linear(5 * d, d)
        self.qkn, self.pre_norm, self.modulation = (
            QKNorm(d // h),
            nn.LayerNorm(d, elementwise_affine=False, eps=1e-6),
            nn.Linear(d, 3 * d),
        )

    def forward(self, x, vec, pe):
        shift, scale, gate = self.modulation(F.silu(vec))[:, None, :].chunk(3, dim=-1)
        qkv, mlp = torch.split(
            self.linear1((1 + scale) * self.pre_norm(x) + shift), [3 * self.d, 4 * self.d], dim=-1
        )
        b, t, _ = qkv.shape
        q, k, v = qkv.view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        q, k = self.qkn(q, k, v)
        a = (
            F.scaled_dot_product_attention(rope_pairs(q, pe), rope_pairs(k, pe), v)
            .transpose(1, 2)
            .flatten(2)
        )
        return x + gate * self.linear2(torch.cat((a, F.gelu(mlp, approximate="tanh")), 2))


class Flux(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.both, self.one = FluxDouble(d, h), FluxSingle(d, h)

    def forward(self, img, txt, vec, pe):
        return self.one(self.both(img, txt, vec, pe), vec, pe)[:, txt.shape[1] :]


@MEMBERS
def flux_double_single():
    d, h, ti, tt = size(2048, 32), size(16, 2), size(2048, 24), size(512, 8)
    return Flux(d, h), (randn(B, ti, d), randn(B, tt, d), randn(B, d), flux_freqs(ti + tt, d // h))


class Sana(nn.Module):
    """Linear attention with ReLU, and a GLU with a depthwise convolution of 3 x 3."""

    def __init__(self, d, dh, ratio, hw):
        super().__init__()
        self.d, self.dh, self.hw, hid = d, dh, hw, int(d * ratio)
        self.table = nn.Parameter(torch.randn(6, d) / d**0.5)
        self.norm1, self.norm2 = (
            nn.LayerNorm(d, elementwise_affine=False),
            nn.LayerNorm(d, elementwise_affine=False),
        )
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        self.inverted, self.depth, self.point = (
            nn.Conv2d(d, 2 * hid, 1),
            nn.Conv2d(2 * hid, 2 * hid, 3, padding=1, groups=2 * hid),
            nn.Conv2d(hid, d, 1, bias=False),
        )

    def attn(self, x):
        b, n, d = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(b, n, 3, d)
            .permute(2, 0, 3, 1)
            .reshape(3, b, d // self.dh, self.dh, n)
        )
        q, k = F.relu(q), F.relu(k)
        q, k, v = q.float(), k.transpose(-1, -2).float(), v.float()
        v = F.pad(v, (0, 0, 0, 1), mode="constant", value=1)
        out = (v @ k) @ q
        out = out[:, :, :-1] / (out[:, :, -1:] + 1e-15)
        return self.proj(out.to(x.dtype).view(b, d, n).permute(0, 2, 1))

    def mlp(self, x):
        b, n, d = x.shape
        y = x.view(b, self.hw, self.hw, d).permute(0, 3, 1, 2)
        y = self.depth(F.silu(self.inverted(y)))
        y, g = torch.chunk(y, 2, dim=1)
        return self.point(y * F.silu(g)).reshape(b, d, n).permute(0, 2, 1)

    def forward(self, x, t):
        m = (self.table[None] + t.reshape(x.shape[0], 6, -1)).chunk(6, dim=1)
        x = x + m[2] * self.attn(self.norm1(x) * (1 + m[1]) + m[0])
        return x + m[5] * self.mlp(self.norm2(x) * (1 + m[4]) + m[3])


@MEMBERS
def sana():
    d, hw = size(1152, 32), size(32, 6)
    return Sana(d, size(32, 8), 2.5, hw), (randn(size(4, 2), hw * hw, d), randn(size(4, 2), 6 * d))


class Lumina(nn.Module):
    """Lumina Next: sandwich norms, normed q and k, tanh gates, complex rotary embedding, gated cross attention."""

    def __init__(self, d, h, kv, ff, cross):
        super().__init__()
        self.h, self.kv, self.dh = h, kv, d // h
        self.wq, self.wk, self.wv, self.wo = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, kv * self.dh, bias=False),
            nn.Linear(d, kv * self.dh, bias=False),
            nn.Linear(d, d, bias=False),
        )
        self.wk_y, self.wv_y, self.gate = (
            nn.Linear(cross, kv * self.dh, bias=False),
            nn.Linear(cross, kv * self.dh, bias=False),
            nn.Parameter(torch.randn(h) * 0.5),
        )
        self.q_norm, self.k_norm, self.ky_norm = (
            nn.LayerNorm(d),
            nn.LayerNorm(kv * self.dh),
            nn.LayerNorm(kv * self.dh),
        )
        self.a1, self.a2, self.f1, self.f2, self.y_norm = RMS(d), RMS(d), RMS(d), RMS(d), RMS(cross)
        self.w1, self.w2, self.w3 = (
            nn.Linear(d, ff, bias=False),
            nn.Linear(ff, d, bias=False),
            nn.Linear(d, ff, bias=False),
        )
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(min(d, 1024), 4 * d))

    def rot(self, x, cos, sin):
        xr, xi = x.float().reshape(*x.shape[:-1], -1, 2).unbind(-1)
        return torch.stack([xr * cos - xi * sin, xr * sin + xi * cos], -1).flatten(3).type_as(x)

    def attn(self, x, y, mask, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q = self.rot(self.q_norm(q).view(b, t, self.h, self.dh), cos, sin).transpose(1, 2)
        k = self.rot(self.k_norm(k).view(b, t, self.kv, self.dh), cos, sin)
        g = self.h // self.kv
        rep = lambda z: z.unsqueeze(3).repeat(1, 1, 1, g, 1).flatten(2, 3).permute(0, 2, 1, 3)
        o = F.scaled_dot_product_attention(q, rep(k), rep(v.view(b, t, self.kv, self.dh)))
        ky = self.ky_norm(self.wk_y(y)).view(b, -1, self.kv, self.dh)
        vy = self.wv_y(y).view(b, -1, self.kv, self.dh)
        oy = F.scaled_dot_product_attention(
            q, rep(ky), rep(vy), mask.view(b, 1, 1, -1).expand(-1, self.h, t, -1)
        )
        return self.wo(
            (o + oy * self.gate.tanh().view(1, -1, 1, 1)).permute(0, 2, 1, 3).flatten(-2)
        )

    def forward(self, x, y, mask, c, cos, sin):
        sm, gm, sf, gf = self.ada(c).chunk(4, dim=1)
        x = x + gm.unsqueeze(1).tanh() * self.a2(
            self.attn(self.a1(x) * (1 + sm.unsqueeze(1)), self.y_norm(y), mask, cos, sin)
        )
        h = self.f1(x) * (1 + sf.unsqueeze(1))
        return x + gf.unsqueeze(1).tanh() * self.f2(self.w2(F.silu(self.w1(h)) * self.w3(h)))


@MEMBERS
def lumina():
    d, h, t, ty = size(2304, 32), size(32, 4), size(1024, 32), size(256, 8)
    cos, sin = rope_cos_sin(t, d // h)
    n = d // h // 2
    mask = torch.arange(ty) < torch.tensor([ty, ty // 2])[:, None]
    return Lumina(d, h, size(8, 2), size(6144, 64), size(2048, 32)), (
        randn(B, t, d),
        randn(B, ty, size(2048, 32)),
        mask,
        randn(B, min(d, 1024)),
        cos[:, None, :n],
        sin[:, None, :n],
    )


class Wan(nn.Module):
    """Wan: modulation in float32, norms of whole q and k, complex rotary embedding, cross attention to text."""

    def __init__(self, d, h, ff):
        super().__init__()
        self.h = h
        self.modulation = nn.Parameter(torch.randn(1, 6, d) / d**0.5)
        self.norm1, self.norm2, self.norm3 = (
            nn.LayerNorm(d, 1e-6, elementwise_affine=e) for e in (False, False, True)
        )
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.cq, self.ck, self.cv, self.co = (nn.Linear(d, d) for _ in range(4))
        self.nq, self.nk, self.ncq, self.nck = (RMS(d) for _ in range(4))
        self.ffn = nn.Sequential(nn.Linear(d, ff), nn.GELU(approximate="tanh"), nn.Linear(ff, d))

    def rope(self, x, freqs):
        xc = torch.view_as_complex(x.float().reshape(*x.shape[:3], -1, 2))
        return (
            torch.view_as_real(xc * torch.view_as_complex(freqs.float().contiguous()))
            .flatten(3)
            .type_as(x)
        )

    def heads(self, x):
        return x.view(*x.shape[:2], self.h, -1)

    def forward(self, x, e, ctx, freqs):
        e = (self.modulation.float() + e.float()).chunk(6, dim=1)
        y = (self.norm1(x).float() * (1 + e[1]) + e[0]).type_as(x)
        q, k, v = (
            self.heads(self.nq(self.q(y))),
            self.heads(self.nk(self.k(y))),
            self.heads(self.v(y)),
        )
        q, k = self.rope(q, freqs), self.rope(k, freqs)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = (x + self.o(a.transpose(1, 2).flatten(2)) * e[2]).type_as(x)
        y = self.norm3(x)
        q, k, v = (
            self.heads(self.ncq(self.cq(y))),
            self.heads(self.nck(self.ck(ctx))),
            self.heads(self.cv(ctx)),
        )
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.co(a.transpose(1, 2).flatten(2))
        return (
            x + self.ffn((self.norm2(x).float() * (1 + e[4]) + e[3]).type_as(x)) * e[5]
        ).type_as(x)


@MEMBERS
def wan():
    d, h = size(1536, 32), size(12, 2)
    cos, sin = rope_cos_sin(size(2048, 32), d // h)
    n = d // h // 2
    freqs = torch.stack([cos[:, :n], sin[:, :n]], -1)[None, :, None]
    return Wan(d, h, size(8960, 64)), (tokens(d), randn(B, 6, d), randn(B, size(512, 8), d), freqs)


class CogVideoX(nn.Module):
    """Expert adaptive norms for text and video, joint attention, rotary embedding of the video alone."""

    def __init__(self, d, h, temb):
        super().__init__()
        self.h = h
        self.lin1, self.lin2 = nn.Linear(temb, 6 * d), nn.Linear(temb, 6 * d)
        self.norm1, self.norm2 = nn.LayerNorm(d, 1e-5), nn.LayerNorm(d, 1e-5)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(d, d) for _ in range(4))
        self.norm_q, self.norm_k = nn.LayerNorm(d // h, 1e-6), nn.LayerNorm(d // h, 1e-6)
        self.ff1, self.ff2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, txt, temb, cos, sin):
        n = txt.size(1)

        def ada(lin, norm, x, txt):
            sh, sc, g, esh, esc, eg = lin(F.silu(temb)).chunk(6, dim=1)
            return (
                norm(x) * (1 + sc)[:, None, :] + sh[:, None, :],
                norm(txt) * (1 + esc)[:, None, :] + esh[:, None, :],
                g[:, None],
                eg[:, None],
            )

        nx, nt, g, eg = ada(self.lin1, self.norm1, x, txt)
        z = torch.cat([nt, nx], dim=1)
        q, k, v = (
            f(z).unflatten(2, (self.h, -1)).transpose(1, 2)
            for f in (self.to_q, self.to_k, self.to_v)
        )
        q, k = self.norm_q(q), self.norm_k(k)

        def rot(y):
            r, i = y.reshape(*y.shape[:-1], -1, 2).unbind(-1)
            return (y.float() * cos + torch.stack([-i, r], dim=-1).flatten(3).float() * sin).to(
                y.dtype
            )

        q = torch.cat([q[:, :, :n], rot(q[:, :, n:])], 2)
        k = torch.cat([k[:, :, :n], rot(k[:, :, n:])], 2)
        a = self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(z.shape))
        at, ax = a.split([n, a.size(1) - n], dim=1)
        x, txt = x + g * ax, txt + eg * at
        nx, nt, g, eg = ada(self.lin2, self.norm2, x, txt)
        f = self.ff2(F.gelu(self.ff1(torch.cat([nt, nx], dim=1)), approximate="tanh"))
        return torch.cat([txt + eg * f[:, :n], x + g * f[:, n:]], 1)


@MEMBERS
def cogvideox():
    d, h, t, n = size(1920, 32), size(30, 2), size(2048, 24), size(226, 8)
    cos, sin = rope_cos_sin(t, d // h)
    cos, sin = (y[:, : d // h // 2].repeat_interleave(2, dim=1) for y in (cos, sin))
    return CogVideoX(d, h, size(512, 16)), (
        randn(B, t, d),
        randn(B, n, d),
        randn(B, size(512, 16)),
        cos,
        sin,
    )


class PixArtSigma(nn.Module):
    """Keys and values compressed by a depthwise convolution; single adaptive norm; padded text."""

    def __init__(self, d, h, hw):
        super().__init__()
        self.h, self.hw = h, hw
        self.table = nn.Parameter(torch.randn(6, d) / d**0.5)
        self.norm1, self.norm2 = (
            nn.LayerNorm(d, elementwise_affine=False, eps=1e-6),
            nn.LayerNorm(d, elementwise_affine=False, eps=1e-6),
        )
        self.qkv, self.proj, self.sr, self.sr_norm = (
            nn.Linear(d, 3 * d),
            nn.Linear(d, d),
            nn.Conv2d(d, d, 2, 2, groups=d),
            nn.LayerNorm(d),
        )
        self.q_linear, self.kv_linear, self.cproj = (
            nn.Linear(d, d),
            nn.Linear(d, 2 * d),
            nn.Linear(d, d),
        )
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def down(self, x):
        b, n, d = x.shape
        y = self.sr(x.reshape(b, self.hw, self.hw, d).permute(0, 3, 1, 2))
        return self.sr_norm(y.reshape(b, d, -1).permute(0, 2, 1))

    def mha(self, q, k, v, bias=None):
        q, k, v = (
            y.reshape(y.shape[0], -1, self.h, y.shape[-1] // self.h).transpose(1, 2)
            for y in (q, k, v)
        )
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)

    def forward(self, x, y, t, mask):
        sh, sc, g, sh2, sc2, g2 = (self.table[None] + t.reshape(x.size(0), 6, -1)).chunk(6, dim=1)
        q, k, v = self.qkv(self.norm1(x) * (1 + sc) + sh).unflatten(-1, (3, -1)).unbind(2)
        x = x + g * self.proj(self.mha(q, self.down(k), self.down(v)))
        k, v = self.kv_linear(y).view(*y.shape[:2], 2, -1).unbind(2)
        bias = ((1 - mask.to(x.dtype)) * -10000.0)[:, None, None, :]
        x = x + self.cproj(self.mha(self.q_linear(x), k, v, bias))
        return x + g2 * self.fc2(
            F.gelu(self.fc1(self.norm2(x) * (1 + sc2) + sh2), approximate="tanh")
        )


@MEMBERS
def pixart_sigma():
    d, hw, n, b = size(1152, 32), size(32, 6), size(300, 8), size(4, 2)
    mask = (torch.arange(n) < torch.linspace(n // 3, n, b)[:, None]).float()
    return PixArtSigma(d, size(16, 2), hw), (
        randn(b, hw * hw, d),
        randn(b, n, d),
        randn(b, 6 * d),
        mask,
    )


class UViTBlock(nn.Module):
    def __init__(self, d, h, skip):
        super().__init__()
        self.h = h
        self.norm1, self.norm2, self.skip = (
            nn.LayerNorm(d),
            nn.LayerNorm(d),
            nn.Linear(2 * d, d) if skip else None,
        )
        self.qkv, self.proj, self.fc1, self.fc2 = (
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, d),
            nn.Linear(d, 4 * d),
            nn.Linear(4 * d, d),
        )

    def forward(self, x, skip=None):
        if self.skip is not None:
            x = self.skip(torch.cat([x, skip], dim=-1))
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        x = x + self.proj(
            F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3).reshape(b, n, d)
        )
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
