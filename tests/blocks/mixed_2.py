"""Experts, trunks of proteins and preferences, in plain PyTorch as users write it."""

import torch
from torch import nn
from torch.nn import functional as F

from blocks.common import Blocks, size
from blocks.mixed_1 import Attention, Mlp

MEMBERS = Blocks("mixed")


class DiTMoE(nn.Module):
    """DiT block with adaLN and a mixture of experts beside a shared expert."""

    def __init__(self, d, heads, experts, k):
        super().__init__()
        self.k, self.e = k, experts
        self.n1, self.n2 = (nn.LayerNorm(d, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.ada = nn.Linear(d, 6 * d)
        self.attn = Attention(d, heads, causal=False)
        self.router = nn.Linear(d, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, d, 2 * d) * d**-0.5)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * d, d) * (2 * d) ** -0.5)
        self.shared = Mlp(d, 2 * d)

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(F.silu(c))[:, None].chunk(6, -1)
        x = x + a1 * self.attn(self.n1(x) * (1 + g1) + s1)
        n = self.n2(x) * (1 + g2) + s2
        score, which = self.router(n).softmax(-1).topk(self.k, -1)
        gate = torch.zeros_like(self.router(n)).scatter(-1, which, score)
        flat = n.reshape(1, -1, n.shape[-1])
        each = torch.bmm(
            F.gelu(torch.bmm(flat.expand(self.e, -1, -1), self.w1), approximate="tanh"), self.w2
        )
        y = (each * gate.reshape(-1, self.e).t()[..., None]).sum(0).reshape(x.shape)
        return x + a2 * (y + self.shared(n))


@MEMBERS
def dit_moe():
    n, t, d, h, e = size((8, 256, 768, 12, 8), (2, 8, 32, 4, 4))
    return DiTMoE(d, h, e, 2), (torch.randn(n, t, d), torch.randn(n, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn, self.mlp = Attention(d, heads), Mlp(d)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class DenseFormer(nn.Module):
    def __init__(self, d, heads, layers):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.w = nn.ParameterList(nn.Parameter(torch.randn(i + 2) * 0.3) for i in range(layers))

    def forward(self, x):
        seen = [x]
        for block, w in zip(self.blocks, self.w):
            seen.append(block(x))
            x = sum(w[i] * y for i, y in enumerate(seen))
        return x


@MEMBERS
def dense_former():
    return DenseFormer(size(768, 32), size(12, 4), 4), (
        torch.randn(size(2, 2), size(2048, 16), size(768, 32)),
    )


class Penalties(nn.Module):
    def __init__(self, d, vocab):
        super().__init__()
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, x, counts, prompt):
        logits = self.head(self.norm(x)).float()
        seen = (counts > 0) | prompt
        logits = torch.where(seen, torch.where(logits > 0, logits / 1.2, logits * 1.2), logits)
        logits = logits - 0.3 * counts.float() - 0.2 * (counts > 0).float()
        return (logits / 0.8).softmax(-1)


@MEMBERS
def penalties():
    n, d, v = size((64, 2048, 32000), (4, 32, 64))
    return Penalties(d, v), (torch.randn(n, d), torch.randint(0, 3, (n, v)), torch.rand(n, v) > 0.5)


class TriangleMultiplication(nn.Module):
    def __init__(self, d, c, outgoing):
        super().__init__()
        self.outgoing = outgoing
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(c)
        self.a, self.b, self.ag, self.bg = (nn.Linear(d, c) for _ in range(4))
        self.g, self.z = nn.Linear(d, d), nn.Linear(c, d)

    def forward(self, z, mask):
        n = self.n1(z)
        m = mask[..., None]
        a = m * torch.sigmoid(self.ag(n)) * self.a(n)
        b = m * torch.sigmoid(self.bg(n)) * self.b(n)
        a, b = (y.permute(0, 3, 1, 2) if self.outgoing else y.permute(0, 3, 2, 1) for y in (a, b))
        p = (a @ b.transpose(-1, -2)).permute(0, 2, 3, 1)
        return self.z(self.n2(p)) * torch.sigmoid(self.g(n))


class TriangleAttention(nn.Module):
    def __init__(self, d, heads, starting):
        super().__init__()
        self.h, self.starting = heads, starting
        self.norm = nn.LayerNorm(d)
        self.bias = nn.Linear(d, heads, bias=False)
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.g, self.o = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, z, mask):
        if not self.starting:
            z, mask = z.transpose(1, 2), mask.transpose(1, 2)
        n = self.norm(z)
        b, i, j, d = n.shape
        heads = lambda y: y.reshape(b, i, j, self.h, d // self.h).transpose(2, 3)
        q, k, v = heads(self.q(n)), heads(self.k(n)), heads(self.v(n))
        bias = self.bias(n).permute(0, 3, 1, 2)[:, None] + (1e4 * (mask - 1))[:, :, None, None, :]
        a = (q @ k.transpose(-1, -2) * (d // self.h) ** -0.5 + bias).softmax(-1)
        y = (a @ v).transpose(2, 3).reshape(b, i, j, d) * torch.sigmoid(self.g(n))
        y = self.o(y)
        return y if self.starting else y.transpose(1, 2)


class Trunk(nn.Module):
    """The pair track of a block of ESMFold's trunk."""

    def __init__(self, d, heads):
        super().__init__()
        self.out, self.inc = TriangleMultiplication(d, d, True), TriangleMultiplication(d, d, False)
        self.start, self.end = TriangleAttention(d, heads, True), TriangleAttention(d, heads, False)
        self.norm, self.mlp = nn.LayerNorm(d), Mlp(d)

    def forward(self, z, mask):
        z = z + self.out(z, mask)
        z = z + self.inc(z, mask)
        z = z + self.start(z, mask)
        z = z + self.end(z, mask)
        return z + self.mlp(self.norm(z))


@MEMBERS
def esmfold_trunk():
    n, d, h = size((128, 128, 4), (6, 16, 2))
    return Trunk(d, h), (torch.randn(1, n, n, d), torch.ones(1, n, n))


class MixtureOfSoftmaxes(nn.Module):
    def __init__(self, d, vocab, k):
        super().__init__()
        self.k = k
        self.prior, self.latent = nn.Linear(d, k, bias=False), nn.Linear(d, k * d)
        self.head = nn.Linear(d, vocab)

    def forward(self, x):
        n, d = x.shape
        latent = torch.tanh(self.latent(x)).reshape(n, self.k, d)
        p = self.head(latent).softmax(-1)
        return ((p * self.prior(x).softmax(-1)[..., None]).sum(1) + 1e-8).log()


@MEMBERS
def mixture_of_softmaxes():
    n, d, v = size((512, 512, 16000), (4, 32, 64))
    return MixtureOfSoftmaxes(d, v, 8), (torch.randn(n, d),)


class Simplified(nn.Module):
    """Simplified transformer block (SAS-P): shaped attention with identity values, parallel MLP."""

    def __init__(self, d, heads, t):
        super().__init__()
        self.h = heads
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.q, self.k = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.alpha, self.beta, self.gamma = (
            nn.Parameter(torch.ones(heads, 1, 1)) for _ in range(3)
        )
        self.mlp = Mlp(d)
        self.w_a, self.w_f = nn.Parameter(torch.ones(())), nn.Parameter(torch.tensor(0.1))
        mask = torch.ones(t, t).tril().bool()
        self.register_buffer("mask", mask, persistent=False)
        self.register_buffer("centre", mask.float() / mask.sum(-1, keepdim=True), persistent=False)
        self.register_buffer("eye", torch.eye(t), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        n = self.norm(x)
        heads = lambda y: y.reshape(b, t, self.h, d // self.h).transpose(1, 2)
        q, k, v = heads(self.q(n)), heads(self.k(n)), heads(n)
        s = (
            (q @ k.transpose(-1, -2) * (d // self.h) ** -0.5)
            .masked_fill(~self.mask, float("-inf"))
            .softmax(-1)
        )
        a = self.alpha * self.eye + self.beta * s - self.gamma * self.centre
        y = (a @ v).transpose(1, 2).reshape(b, t, d)
        return self.w_a * y + self.w_f * self.mlp(n)


@MEMBERS
def simplified_block():
    b, t, d, h = size((2, 1024, 1024, 8), (2, 16, 32, 4))
    return Simplified(d, h, t), (torch.randn(b, t, d),)


class Preference(nn.Module):
    """A head and a preference loss; chosen and rejected sequences are halves of the batch."""

    def __init__(self, d, vocab, kind):
        super().__init__()
        self.kind = kind
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, x, labels):
        logits = self.head(self.norm(x))
        logits, labels = logits[:, :-1], labels[:, 1:]
        mask = labels != -100
        safe = labels.masked_fill(~mask, 0)
        logp = logits.float().log_softmax(-1).gather(-1, safe[..., None]).squeeze(-1)
        logp = (logp * mask).sum(-1) / mask.sum(-1)
        chosen, rejected = logp.chunk(2, 0)
        if self.kind == "simpo":
            return -F.logsigmoid(2.0 * (chosen - rejected) - 1.0).mean()
        odds = (chosen - rejected) - (torch.log1p(-chosen.exp()) - torch.log1p(-rejected.exp()))
        return -chosen.mean() - 0.1 * F.logsigmoid(odds).mean()


def preference(kind):
    """Return a head with a preference loss, and its arguments."""
    b, t, d, v = size((4, 512, 1024, 32000), (4, 6, 32, 64))
    labels = torch.randint(0, v, (b, t))
    labels[:, : t // 4] = -100
    return Preference(d, v, kind), (torch.randn(b, t, d), labels)


@MEMBERS
def orpo():
    return preference("orpo")


@MEMBERS
def simpo():
    return preference("simpo")
