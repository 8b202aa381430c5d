"""Models of science and recommendation, heads and losses (2 of 2), in plain PyTorch as users write it."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from blocks.common import Blocks, size
from blocks.language_1 import Layer, Stack
from blocks.layers import RMS, B, modulate, randn, rope_cos_sin, tokens

MEMBERS = Blocks("other")


class CLIPLoss(nn.Module):
    """Two towers' projections, normalized; the softmax loss and the sigmoid loss of SigLIP."""

    def __init__(self, d, e):
        super().__init__()
        self.vp, self.tp = (
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, e, bias=False)),
            nn.Linear(d, e),
        )
        self.logit_scale, self.bias = (
            nn.Parameter(torch.tensor(2.6592)),
            nn.Parameter(torch.tensor(-10.0)),
        )

    def forward(self, img, txt):
        i = self.vp(img.mean(1))
        i = i / i.norm(dim=-1, keepdim=True)
        t = F.normalize(self.tp(txt[:, -1]), p=2, dim=-1)
        logits = self.logit_scale.exp() * i @ t.t()
        y = torch.arange(len(i), device=i.device)
        clip = (F.cross_entropy(logits, y) + F.cross_entropy(logits.T, y)) / 2
        z = 2 * torch.eye(len(i), device=i.device) - 1
        sig = -F.logsigmoid(z * (logits.float() + self.bias)).sum(-1).mean()
        return clip.float() + 0.1 * sig


@MEMBERS
def clip_siglip_loss():
    b, d = size(2048, 8), size(1024, 32)
    return CLIPLoss(d, size(768, 16)), (randn(b, size(16, 4), d), randn(b, size(8, 4), d))


class Distill(nn.Module):
    """Student logits against a teacher's (no gradients): KL at a temperature, reverse KL, and cross entropy."""

    def __init__(self, d, vocab):
        super().__init__()
        self.norm, self.student, self.adapter = (
            nn.LayerNorm(d),
            nn.Linear(d, vocab, bias=False),
            nn.Linear(d, d),
        )
        self.teacher = nn.Linear(d, vocab, bias=False).requires_grad_(False)

    def forward(self, h, ht, labels):
        z = self.student(F.gelu(self.adapter(self.norm(h)))).flatten(0, 1)
        with torch.no_grad():
            zt = self.teacher(ht).flatten(0, 1)
        T = 2.0
        kl = (
            F.kl_div(
                F.log_softmax(z.float() / T, dim=-1),
                F.softmax(zt.float() / T, dim=-1),
                reduction="batchmean",
            )
            * T**2
        )
        return 0.5 * kl + 0.5 * F.cross_entropy(z.float(), labels.flatten(), label_smoothing=0.1)


@MEMBERS
def distill_kl():
    d, v = size(1024, 32), size(32000, 67)
    return Distill(d, v), (
        randn(B, size(1024, 16), d),
        randn(B, size(1024, 16), d),
        torch.randint(0, v, (B, size(1024, 16))),
    )


class LoRALinear(nn.Module):
    def __init__(self, i, o, r, dora=False):
        super().__init__()
        self.base = nn.Linear(i, o, bias=False).requires_grad_(False)
        self.A, self.B = (
            nn.Parameter(torch.randn(r, i) * i**-0.5),
            nn.Parameter(torch.randn(o, r) * 0.02),
        )
        self.m = nn.Parameter(self.base.weight.detach().norm(dim=1)) if dora else None
        self.scaling = 2.0

    def forward(self, x):
        if self.m is None:
            return self.base(x) + F.linear(F.linear(x, self.A), self.B) * self.scaling
        w = self.base.weight + self.scaling * (self.B @ self.A)
        norm = torch.linalg.norm(w.float(), dim=1).detach()
        mag = (self.m / norm).to(x.dtype)
        out = self.base(x)
        return (
            out
            + (mag - 1).view(1, -1) * out
            + mag.view(1, -1) * ((x @ self.A.t()) @ self.B.t()) * self.scaling
        )


def adapted(dora):
    d, dh, ff = size(2048, 32), size(128, 16), size(5632, 64)
    cos, sin = rope_cos_sin(size(2048, 32), dh)
    model = Stack([Layer(d, size(16, 4), size(4, 2), dh, ff) for _ in range(1)])
    for p in model.parameters():
        p.requires_grad_(False)
    r = size(16, 4)
    for layer in model.layers:
        for n in ("wq", "wk", "wv", "wo"):
            old = getattr(layer.attn, n)
            setattr(layer.attn, n, LoRALinear(old.in_features, old.out_features, r, dora))
        layer.mlp.w12, layer.mlp.w3 = LoRALinear(d, 2 * ff, r, dora), LoRALinear(ff, d, r, dora)
    return model, (tokens(d), cos, sin)


@MEMBERS
def lora_layer():
    return adapted(False)


@MEMBERS
def dora_layer():
    return adapted(True)


class MixtureHead(nn.Module):
    """Mixture of softmaxes and a Gaussian mixture head over the same features."""

    def __init__(self, d, vocab, k, comps):
        super().__init__()
        self.k, self.c = k, comps
        self.latent, self.prior, self.dec, self.gmm = (
            nn.Linear(d, k * d),
            nn.Linear(d, k),
            nn.Linear(d, vocab),
            nn.Linear(d, comps * 3),
        )

    def forward(self, x, labels, target):
        b, t, d = x.shape
        lat = torch.tanh(self.latent(x)).view(-1, d)
        prior = F.softmax(self.prior(x).view(-1, self.k).float(), -1)
        p = F.softmax(self.dec(lat).view(-1, self.k, self.dec.out_features).float(), -1)
        nll = F.nll_loss(torch.log((p * prior.unsqueeze(2)).sum(1) + 1e-8), labels.view(-1))
        w, mu, ls = self.gmm(x).float().chunk(3, -1)
        ll = (
            -0.5 * ((target.float()[..., None] - mu) * torch.exp(-ls)).square()
            - ls
            - 0.5 * math.log(2 * math.pi)
        )
        return nll - torch.logsumexp(F.log_softmax(w, -1) + ll, -1).mean()


@MEMBERS
def mixture_heads():
    d, v = size(1024, 32), size(8000, 37)
    return MixtureHead(d, v, 4, 8), (
        randn(B, size(512, 12), d),
        torch.randint(0, v, (B, size(512, 12))),
        randn(B, size(512, 12)),
    )


class PaddedEncoder(nn.Module):
    """nn.TransformerEncoder before norms with a padding mask, then pooled by the mask."""

    def __init__(self, d, h, vocab):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(
            d, h, 4 * d, dropout=0.0, activation="relu", batch_first=True, norm_first=True
        )
        self.enc, self.cls = (
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            nn.Linear(d, 2),
        )

    def forward(self, ids):
        pad = ids == 0
        x = self.enc(self.emb(ids) * math.sqrt(self.emb.embedding_dim), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.cls((x * keep).sum(1) / keep.sum(1).clamp(min=1))


@MEMBERS
def padded_encoder():
    ids = torch.randint(1, size(30000, 50), (size(8, 2), size(512, 16)))
    ids[0, -size(100, 5) :] = 0
    return PaddedEncoder(size(768, 32), size(12, 2), size(30000, 50)), (ids,)


class AutocastMLP(nn.Module):
    """A weight-normed network with autocast inside, in front of a float32 head; the head's weight is tied and sliced."""

    def __init__(self, d, classes):
        super().__init__()
        self.inp, self.mid = weight_norm(nn.Linear(d, 4 * d)), weight_norm(nn.Linear(4 * d, d))
        self.table = nn.Parameter(torch.randn(2 * classes, d) * d**-0.5)

    def forward(self, x, y):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            h = x + self.mid(F.mish(self.inp(F.layer_norm(x, x.shape[-1:]))))
            n = self.table.shape[0] // 2
            a, b = F.linear(h, self.table[:n]), F.linear(h.relu(), self.table[n:])
        p = torch.softmax(a.float(), -1) * torch.sigmoid(b.float())
        return -(p.gather(-1, y[..., None]).clamp_min(1e-12).log()).mean()


@MEMBERS
def autocast_weight_norm():
    d, c = size(1024, 32), size(1000, 20)
    return AutocastMLP(d, c), (
        randn(size(8, 2), size(512, 12), d),
        torch.randint(0, c, (size(8, 2), size(512, 12))),
    )


class Hunyuan(nn.Module):
    """HunyuanVideo: a token refiner (masked self attention, adaptive gates), and a joint block with a padding mask."""

    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.rn1, self.rn2, self.rqkv, self.rproj = (
            nn.LayerNorm(d, 1e-6),
            nn.LayerNorm(d, 1e-6),
            nn.Linear(d, 3 * d),
            nn.Linear(d, d),
        )
        self.rmlp, self.rada = (
            nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)),
            nn.Sequential(nn.SiLU(), nn.Linear(d, 2 * d)),
        )
        self.mod, self.norm = (
            nn.Linear(d, 3 * d),
            nn.LayerNorm(d, elementwise_affine=False, eps=1e-6),
        )
        self.lin1, self.lin2 = nn.Linear(d, 7 * d), nn.Linear(5 * d, d)
        self.qn, self.kn = RMS(d // h), RMS(d // h)

    def refine(self, txt, c, m):
        g1, g2 = self.rada(c).unsqueeze(1).chunk(2, -1)
        b, n, d = txt.shape
        q, k, v = self.rqkv(self.rn1(txt)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        mm = m.view(b, 1, 1, n).repeat(1, 1, n, 1)
        mask = (mm & mm.transpose(2, 3)).bool()
        mask[:, :, :, 0] = True
        txt = (
            txt
            + self.rproj(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))
            * g1
        )
        return txt + self.rmlp(self.rn2(txt)) * g2

    def forward(self, img, txt, c, m, cos, sin):
        txt = self.refine(txt, c, m)
        n = img.shape[1]
        x = torch.cat([img, txt], 1)
        b, t, d = x.shape
        sh, sc, g = self.mod(F.silu(c)).chunk(3, dim=-1)
        qkv, mlp = torch.split(self.lin1(modulate(self.norm(x), sh, sc)), [3 * d, 4 * d], -1)
        q, k, v = qkv.view(b, t, 3, self.h, -1).permute(2, 0, 1, 3, 4)
        q, k = self.qn(q).to(v), self.kn(k).to(v)

        def rot(y):
            r, i = y.float().reshape(*y.shape[:-1], -1, 2).unbind(-1)
            return (y.float() * cos + torch.stack([-i, r], dim=-1).flatten(3) * sin).type_as(y)

        q, k = torch.cat([rot(q[:, :n]), q[:, n:]], 1), torch.cat([rot(k[:, :n]), k[:, n:]], 1)
        valid = torch.cat([m.new_ones(b, n), m], 1)[:, None, None, :]
        a = (
            F.scaled_dot_product_attention(*(y.transpose(1, 2) for y in (q, k, v)), attn_mask=valid)
            .transpose(1, 2)
            .reshape(b, t, d)
        )
        return x + self.lin2(torch.cat((a, F.gelu(mlp, approximate="tanh")), 2)) * g.unsqueeze(1)


@MEMBERS
def hunyuan_video():
    d, h, ti, tt = size(2048, 32), size(16, 2), size(1792, 24), size(256, 8)
    cos, sin = rope_cos_sin(ti, d // h)
    cos, sin = (y[:, None, : d // h // 2].repeat_interleave(2, -1) for y in (cos, sin))
    m = torch.arange(tt) < torch.tensor([tt, tt // 3])[:, None]
    return Hunyuan(d, h), (randn(B, ti, d), randn(B, tt, d), randn(B, d), m, cos, sin)
