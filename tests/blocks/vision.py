"""Vision models, in plain PyTorch as users write it."""

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.layers import GEGLU, B, randn, rope_cos_sin, rotate_half

MEMBERS = Blocks("vision")


class DINOv3(nn.Module):
    """Registers, rotary embedding of patches alone, k without bias (a masked bias), layer scale."""

    def __init__(self, d, h, prefix):
        super().__init__()
        self.h, self.prefix = h, prefix
        self.prefix_tokens = nn.Parameter(torch.randn(1, prefix, d) * 0.02)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("bias_mask", torch.cat([torch.ones(d), torch.zeros(d), torch.ones(d)]))
        self.norm1, self.norm2, self.norm = (
            nn.LayerNorm(d, 1e-5),
            nn.LayerNorm(d, 1e-5),
            nn.LayerNorm(d, 1e-5),
        )
        self.ls1, self.ls2 = (
            nn.Parameter(torch.full((d,), 0.1)),
            nn.Parameter(torch.full((d,), 0.1)),
        )
        self.w1, self.w2, self.w3 = nn.Linear(d, 4 * d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def rope(self, x, cos, sin):
        p = x[:, :, : self.prefix]
        y = x[:, :, self.prefix :]
        return torch.cat((p, y * cos + rotate_half(y) * sin), dim=-2)

    def forward(self, x, cos, sin):
        x = torch.cat([self.prefix_tokens.expand(x.shape[0], -1, -1), x], 1)
        b, n, d = x.shape
        qkv = F.linear(self.norm1(x), self.qkv.weight, self.qkv.bias * self.bias_mask).reshape(
            b, n, 3, self.h, d // self.h
        )
        q, k, v = torch.unbind(qkv, 2)
        q, k, v = [t.transpose(1, 2) for t in [q, k, v]]
        q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        x = x + self.ls1 * self.proj(
            F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        )
        y = self.norm2(x)
        x = x + self.w3(F.silu(self.w1(y)) * self.w2(y)) * self.ls2
        return self.norm(x)[:, 0]


@MEMBERS
def dinov3():
    d, h, n = size(1024, 32), size(16, 2), size(196, 16)
    cos, sin = rope_cos_sin(n, d // h, 100.0)
    return DINOv3(d, h, 5), (randn(size(16, 2), n, d), cos, sin)


class ConvNeXtV2(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.dw = nn.ModuleList(nn.Conv2d(d, d, 7, padding=3, groups=d) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(d, eps=1e-6) for _ in range(2))
        self.pw1, self.pw2 = (
            nn.ModuleList(nn.Linear(d, 4 * d) for _ in range(2)),
            nn.ModuleList(nn.Linear(4 * d, d) for _ in range(2)),
        )
        self.gamma = nn.ParameterList(torch.randn(1, 1, 1, 4 * d) * 0.1 for _ in range(2))
        self.beta = nn.ParameterList(torch.zeros(1, 1, 1, 4 * d) for _ in range(2))

    def forward(self, x):
        for dw, norm, p1, p2, g, b in zip(
            self.dw, self.norm, self.pw1, self.pw2, self.gamma, self.beta
        ):
            y = norm(dw(x).permute(0, 2, 3, 1))
            y = F.gelu(p1(y))
            gx = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
            y = g * (y * (gx / (gx.mean(dim=-1, keepdim=True) + 1e-6))) + b + y
            x = x + p2(y).permute(0, 3, 1, 2)
        return x


@MEMBERS
def convnext_v2():
    return ConvNeXtV2(size(512, 16)), (randn(size(16, 2), size(512, 16), size(28, 6), size(28, 6)),)


class MaxViT(nn.Module):
    """Window and grid attention with relative position biases, by view and permute."""

    def __init__(self, d, dh, w):
        super().__init__()
        self.h, self.w = d // dh, w
        self.tables = nn.ParameterList(
            torch.randn((2 * w - 1) ** 2, self.h) * 0.02 for _ in range(2)
        )
        c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        r = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + w - 1
        self.register_buffer("index", r[..., 0] * (2 * w - 1) + r[..., 1])
        self.norm, self.norm2 = (
            nn.ModuleList(nn.LayerNorm(d) for _ in range(2)),
            nn.ModuleList(nn.LayerNorm(d) for _ in range(2)),
        )
        self.qkv, self.proj = (
            nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(2)),
            nn.ModuleList(nn.Linear(d, d) for _ in range(2)),
        )
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(2)
        )

    def attend(self, i, x):
        b, n, d = x.shape
        q, k, v = self.qkv[i](x).reshape(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.tables[i][self.index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        a = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
        return self.proj[i]((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))

    def forward(self, x):
        b, H, W, d = x.shape
        w = self.w
        for i in range(2):
            y = self.norm[i](x)
            if i == 0:
                y = y.view(b, H // w, w, W // w, w, d).permute(0, 1, 3, 2, 4, 5)
            else:
                y = y.view(b, w, H // w, w, W // w, d).permute(0, 2, 4, 1, 3, 5)
            y = self.attend(i, y.reshape(-1, w * w, d))
            y = y.view(b, H // w, W // w, w, w, d)
            y = y.permute(0, 1, 3, 2, 4, 5) if i == 0 else y.permute(0, 3, 1, 4, 2, 5)
            x = x + y.reshape(b, H, W, d)
            x = x + self.mlp[i](self.norm2[i](x))
        return x


@MEMBERS
def maxvit():
    return MaxViT(size(512, 32), size(32, 16), size(7, 3)), (
        randn(size(16, 2), size(28, 6), size(28, 6), size(512, 32)),
    )


class FastViT(nn.Module):
    """RepMixer (branches of batch norms and depthwise convolutions), a convolutional MLP, layer scale."""

    def __init__(self, d):
        super().__init__()
        self.skip, self.conv, self.bn, self.scale_conv, self.bn2 = (
            nn.BatchNorm2d(d),
            nn.Conv2d(d, d, 3, padding=1, groups=d, bias=False),
            nn.BatchNorm2d(d),
            nn.Conv2d(d, d, 1, groups=d, bias=False),
            nn.BatchNorm2d(d),
        )
        self.ls, self.ls2 = (
            nn.Parameter(1e-1 * torch.ones(d, 1, 1)),
            nn.Parameter(1e-1 * torch.ones(d, 1, 1)),
        )
        self.dw, self.bn3, self.fc1, self.fc2 = (
            nn.Conv2d(d, d, 7, padding=3, groups=d, bias=False),
            nn.BatchNorm2d(d),
            nn.Conv2d(d, 3 * d, 1),
            nn.Conv2d(3 * d, d, 1),
        )

    def forward(self, x):
        x = x + self.ls * (self.bn(self.conv(x)) + self.bn2(self.scale_conv(x)) - self.skip(x))
        return x + self.ls2 * self.fc2(F.gelu(self.fc1(self.bn3(self.dw(x)))))


@MEMBERS
def fastvit():
    return FastViT(size(384, 16)), (randn(size(16, 2), size(384, 16), size(32, 6), size(32, 6)),)


class EVA02(nn.Module):
    """SwiGLU with a sub-norm, q and v biases, interleaved rotary embedding without the class token."""

    def __init__(self, d, h, ff):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.proj = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d),
        )
        self.qb, self.vb = nn.Parameter(torch.randn(d) * 0.02), nn.Parameter(torch.randn(d) * 0.02)
        self.inner, self.n1, self.n2, self.sub = (
            nn.LayerNorm(d),
            nn.LayerNorm(d),
            nn.LayerNorm(d),
            nn.LayerNorm(ff),
        )
        self.w1, self.w2, self.w3 = nn.Linear(d, ff), nn.Linear(d, ff), nn.Linear(ff, d)

    def rot(self, x, cos, sin):
        t = x[:, :, 1:]
        r = torch.stack([-t[..., 1::2], t[..., ::2]], -1).reshape(t.shape)
        return torch.cat((x[:, :, :1], t * cos + r * sin), -2).type_as(x)

    def forward(self, x, cos, sin):
        b, n, d = x.shape
        y = self.n1(x)
        q = F.linear(y, self.q.weight, self.qb).reshape(b, n, self.h, -1).permute(0, 2, 1, 3)
        k = F.linear(y, self.k.weight, None).reshape(b, n, self.h, -1).permute(0, 2, 1, 3)
        v = F.linear(y, self.v.weight, self.vb).reshape(b, n, self.h, -1).permute(0, 2, 1, 3)
        q, k = self.rot(q, cos, sin), self.rot(k, cos, sin)
        a = ((q * (d // self.h) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1).type_as(x)
        x = x + self.proj(self.inner((a @ v).transpose(1, 2).reshape(b, n, -1)))
        y = self.n2(x)
        return x + self.w3(self.sub(F.silu(self.w1(y)) * self.w2(y)))


@MEMBERS
def eva02():
    d, h, n = size(1024, 32), size(16, 2), size(256, 16)
    cos, sin = rope_cos_sin(n, d // h)
    return EVA02(d, h, size(2730, 64)), (randn(size(16, 2), n + 1, d), cos, sin)


class RTDETRDecoder(nn.Module):
    """Self attention with positions in q and k, deformable attention by grid_sample, an MLP."""

    def __init__(self, d, h, shapes, points):
        super().__init__()
        self.h, self.shapes, self.p = h, shapes, points
        L = len(shapes)
        self.sa, self.n1, self.n2, self.n3 = (
            nn.MultiheadAttention(d, h, batch_first=True),
            nn.LayerNorm(d),
            nn.LayerNorm(d),
            nn.LayerNorm(d),
        )
        self.off, self.w, self.val, self.out = (
            nn.Linear(d, h * L * points * 2),
            nn.Linear(d, h * L * points),
            nn.Linear(d, d),
            nn.Linear(d, d),
        )
        self.l1, self.l2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def deform(self, q, ref, mem):
        b, n, d = q.shape
        L = len(self.shapes)
        v = self.val(mem).view(b, -1, self.h, d // self.h)
        off = self.off(q).view(b, n, self.h, L, self.p, 2)
        w = self.w(q).view(b, n, self.h, L * self.p).softmax(-1).view(b, n, self.h, L, self.p)
        loc = ref[:, :, None, None, None, :2] + off / self.p * ref[:, :, None, None, None, 2:] * 0.5
        grids = 2 * loc - 1
        outs = []
        for i, (vl, (hh, ww)) in enumerate(
            zip(v.split([a * c for a, c in self.shapes], 1), self.shapes)
        ):
            vl = vl.flatten(2).transpose(1, 2).reshape(b * self.h, d // self.h, hh, ww)
            g = grids[:, :, :, i].transpose(1, 2).flatten(0, 1)
            outs.append(
                F.grid_sample(vl, g, mode="bilinear", padding_mode="zeros", align_corners=False)
            )
        w = w.transpose(1, 2).reshape(b * self.h, 1, n, L * self.p)
        o = (torch.stack(outs, -2).flatten(-2) * w).sum(-1).view(b, d, n)
        return self.out(o.transpose(1, 2))

    def forward(self, t, pos, ref, mem):
        q = k = t + pos
        t = self.n1(t + self.sa(q, k, value=t, need_weights=False)[0])
        t = self.n2(t + self.deform(t + pos, ref, mem))
        return self.n3(t + self.l2(F.relu(self.l1(t))))


@MEMBERS
def rtdetr_decoder():
    d, b, n = size(256, 32), size(16, 2), size(300, 10)
    shapes = size([(80, 80), (40, 40), (20, 20)], [(6, 6), (3, 3)])
    m = sum(a * c for a, c in shapes)
    return RTDETRDecoder(d, size(8, 2), shapes, 4), (
        randn(b, n, d),
        randn(b, n, d),
        torch.rand(b, n, 4) * 0.6 + 0.2,
        randn(b, m, d),
    )


class SAM2Memory(nn.Module):
    """Memory attention: rotary self attention, cross attention to keys of another width with object pointers."""

    def __init__(self, d, kd, ff, ptr):
        super().__init__()
        self.ptr = ptr
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.cq, self.ck, self.cv, self.co = (
            nn.Linear(d, d),
            nn.Linear(kd, d),
            nn.Linear(kd, d),
            nn.Linear(d, d),
        )
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d) for _ in range(3))
        self.l1, self.l2 = nn.Linear(d, ff), nn.Linear(ff, d)

    @staticmethod
    def rot(x, f):
        xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return (
            torch.view_as_real(xc * torch.view_as_complex(f.float().contiguous()))
            .flatten(-2)
            .to(x.dtype)
        )

    def forward(self, x, mem, pos, mpos, f):
        y = self.n1(x)
        qk = y + pos
        q, k, v = (
            self.rot(self.q(qk)[:, None], f),
            self.rot(self.k(qk)[:, None], f),
            self.v(y)[:, None],
        )
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).squeeze(1))
        y = self.n2(x)
        q, k, v = self.cq(y + pos)[:, None], self.ck(mem + mpos)[:, None], self.cv(mem)[:, None]
        n = k.size(2) - self.ptr
        k = torch.cat([self.rot(k[:, :, :n], f.repeat(n // f.shape[0], 1, 1)), k[:, :, n:]], 2)
        x = x + self.co(F.scaled_dot_product_attention(self.rot(q, f), k, v).squeeze(1))
        return x + self.l2(F.relu(self.l1(self.n3(x))))


@MEMBERS
def sam2_memory():
    d, kd, n, ptr = size(256, 32), size(64, 16), size(1024, 16), size(64, 4)
    cos, sin = rope_cos_sin(n, d)
    f = torch.stack([cos[:, : d // 2], sin[:, : d // 2]], -1)
    m = 3 * n + ptr
    return SAM2Memory(d, kd, size(2048, 64), ptr), (
        randn(B, n, d),
        randn(B, m, kd),
        randn(B, n, d),
        randn(B, m, kd),
        f,
    )


class Mask2Former(nn.Module):
    """Masked cross attention: the mask comes from a product of queries and pixels."""

    def __init__(self, d, h, ff):
        super().__init__()
        self.h = h
        self.mask_embed = nn.Sequential(
            nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d)
        )
        self.norm, self.cross, self.self_ = (
            nn.LayerNorm(d),
            nn.MultiheadAttention(d, h),
            nn.MultiheadAttention(d, h),
        )
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Dropout(0.0), nn.Linear(ff, d))
        self.cls = nn.Linear(d, 81)

    def forward(self, q, qpos, mem, mpos, pixels):
        e = self.mask_embed(self.norm(q).transpose(0, 1))
        masks = torch.einsum("bqc,bchw->bqhw", e, pixels)
        m = (
            masks.sigmoid().flatten(2).unsqueeze(1).repeat(1, self.h, 1, 1).flatten(0, 1) < 0.5
        ).detach()
        m = m & ~m.all(-1, keepdim=True)
        q = self.n1(q + self.cross(q + qpos, mem + mpos, mem, attn_mask=m)[0])
        q = self.n2(q + self.self_(q + qpos, q + qpos, q)[0])
        q = self.n3(q + self.ffn(q))
        return torch.cat(
            [self.cls(q).flatten(1), torch.einsum("qbc,bchw->qbhw", q, pixels).flatten(1)], -1
        )


@MEMBERS
def mask2former():
    d, b, n, hw = size(256, 32), size(8, 2), size(100, 6), size(64, 5)
    return Mask2Former(d, size(8, 2), size(2048, 64)), (
        randn(n, b, d),
        randn(n, b, d),
        randn(hw * hw, b, d),
        randn(hw * hw, b, d),
        randn(b, d, hw, hw, scale=d**-0.5),
    )


class Perceiver(nn.Module):
    """PerceiverAR-like resampler: latents attend to inputs and latents, then a latent layer."""

    def __init__(self, d, dc, h, n):
        super().__init__()
        self.h, self.latents = h, nn.Parameter(torch.randn(n, d))
        self.nm, self.nl, self.ff_n = nn.LayerNorm(dc), nn.LayerNorm(d), nn.LayerNorm(d)
        self.proj_in = nn.Linear(dc, d)
        self.to_q, self.to_kv, self.to_out = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(d, d, bias=False),
        )
        self.ff = nn.Sequential(
            nn.Linear(d, 8 * d, bias=False), GEGLU(), nn.Linear(4 * d, d, bias=False)
        )

    def forward(self, x):
        b = x.shape[0]
        x = self.proj_in(self.nm(x))
        lat = self.latents.unsqueeze(0).repeat(b, 1, 1)
        for _ in range(2):
            q = self.nl(lat)
            k, v = self.to_kv(torch.cat((x, q), dim=-2)).chunk(2, dim=-1)
            q, k, v = (
                t.view(b, t.shape[1], self.h, -1).permute(0, 2, 1, 3) for t in (self.to_q(q), k, v)
            )
            q = q * q.shape[-1] ** -0.5
            sim = torch.einsum("b h i d, b h j d -> b h i j", q, k)
            sim = sim - sim.amax(dim=-1, keepdim=True).detach()
            o = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
            lat = lat + self.to_out(o.permute(0, 2, 1, 3).reshape(b, lat.shape[1], -1))
            lat = lat + self.ff(self.ff_n(lat))
        return lat


@MEMBERS
def perceiver():
    return Perceiver(size(1024, 32), size(1280, 16), size(16, 2), size(64, 6)), (
        randn(size(8, 2), size(1024, 24), size(1280, 16)),
    )
