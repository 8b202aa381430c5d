"""Losses of pretraining, preferences and self supervision, untyped as their users write them."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from blocks.common import Blocks, Mlp, RMSNorm, SwiGLU, size, words

MEMBERS = Blocks("loss")


def head():
    """Return batch, tokens, width and words."""
    return 2, size(1024, 8), size(1024, 32), size(32000, 96)


class MultiToken(nn.Module):
    """Heads for the next tokens, one after the other, which share norm and unembedding."""

    def __init__(self, d, vocabulary, depth):
        super().__init__()
        self.emb = nn.Embedding(vocabulary, d)
        self.norm, self.out = RMSNorm(d), nn.Linear(d, vocabulary, bias=False)
        self.hn, self.en = (nn.ModuleList(RMSNorm(d) for _ in range(depth)) for _ in range(2))
        self.join = nn.ModuleList(nn.Linear(2 * d, d, bias=False) for _ in range(depth))
        self.mlps = nn.ModuleList(SwiGLU(d, 2 * d) for _ in range(depth))

    def loss(self, x, labels):
        return F.cross_entropy(self.out(self.norm(x)).float().flatten(0, 1), labels.flatten())

    def forward(self, x, ids):
        total = self.loss(x[:, :-1], ids[:, 1:])
        for k in range(len(self.join)):
            e = self.emb(ids[:, k + 1 :])
            x = self.join[k](torch.cat([self.hn[k](x[:, :-1]), self.en[k](e)], -1))
            x = x + self.mlps[k](x)
            total = total + 0.3 * self.loss(x[:, :-1], ids[:, k + 2 :])
        return total


@MEMBERS
def multi_token_prediction():
    b, t, d, v = head()
    return MultiToken(d, v, 2), (torch.randn(b, t, d), words(b, t, vocabulary=v))


class EarlyExit(nn.Module):
    """LayerSkip: every layer predicts through the same head; later exits weigh more."""

    def __init__(self, d, vocabulary, layers):
        super().__init__()
        self.layers = nn.ModuleList(SwiGLU(d, 2 * d) for _ in range(layers))
        self.norms = nn.ModuleList(RMSNorm(d) for _ in range(layers))
        self.norm, self.head = RMSNorm(d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, x, labels):
        total, weights = 0.0, 0.0
        for i, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True), 1):
            x = x + layer(norm(x))
            logits = self.head(self.norm(x)).float()
            total = total + i * F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100)
            weights += i
        return total / weights


@MEMBERS
def early_exit():
    b, t, d, v = head()
    labels = words(b, t, vocabulary=v)
    labels[:, ::5] = -100
    return EarlyExit(d, v, 3), (torch.randn(b, t, d), labels)


class Dino(nn.Module):
    """DINO's head: a bottleneck, a weight-normed last layer, and the loss of student crops against
    centred teacher outputs, with a KoLeo term.
    """

    def __init__(self, d, prototypes):
        super().__init__()
        hidden, narrow = size(2048, 64), size(256, 16)
        self.mlp = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, narrow))
        self.last = weight_norm(nn.Linear(narrow, prototypes, bias=False))

    def forward(self, x, teacher, center):
        crops = x.shape[0]
        z = F.normalize(self.mlp(x), dim=-1, eps=1e-6)
        logits = F.log_softmax(self.last(z).float() / 0.1, dim=-1)
        target = F.softmax((teacher.float() - center) / 0.04, dim=-1)
        total, terms = 0.0, 0
        for i in range(target.shape[0]):
            for j in range(crops):
                if i != j:
                    total, terms = total - (target[i] * logits[j]).sum(-1).mean(), terms + 1
        first = F.normalize(x[0].float(), dim=-1)
        dots = (first @ first.t()).fill_diagonal_(-1)
        near = first[dots.argmax(1)]
        koleo = -torch.log((first - near).norm(dim=-1) + 1e-8).mean()
        return total / terms + 0.1 * koleo


@MEMBERS
def dino_head():
    n, d, k = size(64, 6), size(768, 24), size(16384, 40)
    teacher, center = torch.randn(2, n, k), torch.randn(1, k)
    return Dino(d, k), (torch.randn(4, n, d), teacher, center)


class VectorQuantizer(nn.Module):
    """VQ-VAE with projections, a codebook of unit vectors, and a straight-through gradient."""

    def __init__(self, d, codes, width):
        super().__init__()
        self.enc, self.dec = nn.Linear(d, width), Mlp(width, 4 * width)
        self.book, self.out = nn.Embedding(codes, width), nn.Linear(width, d)

    def forward(self, x):
        z = self.enc(x)
        flat, book = F.normalize(z.flatten(0, 1), dim=-1), F.normalize(self.book.weight, dim=-1)
        far = flat.pow(2).sum(1, keepdim=True) + book.pow(2).sum(1) - 2 * flat @ book.t()
        ids = far.argmin(1)
        q = F.embedding(ids, book).view_as(z)
        z = F.normalize(z, dim=-1)
        commit = F.mse_loss(q.detach(), z) * 0.25 + F.mse_loss(q, z.detach())
        q = z + (q - z).detach()
        return F.mse_loss(self.out(self.dec(q)), x) + commit


@MEMBERS
def vector_quantizer():
    b, t, d, _ = head()
    return VectorQuantizer(d, size(8192, 40), size(256, 16)), (torch.randn(b, t, d),)


class Grpo(nn.Module):
    """GRPO on a head: clipped ratios of log probabilities, advantages of groups, and k3 of KL."""

    def __init__(self, d, vocabulary):
        super().__init__()
        self.norm, self.head = RMSNorm(d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, x, ids, old, reference, rewards, mask):
        logits = self.head(self.norm(x))[:, :-1] / 0.9
        chosen = logits.gather(-1, ids[:, 1:, None]).squeeze(-1).float()
        logp = chosen - torch.logsumexp(logits.float(), dim=-1)
        groups = rewards.view(-1, 4)
        spread = groups.std(1, keepdim=True) + 1e-4
        advantage = ((groups - groups.mean(1, keepdim=True)) / spread).view(-1, 1)
        ratio = torch.exp(logp - old)
        policy = torch.min(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
        away = reference - logp
        loss = -policy + 0.04 * (torch.exp(away) - away - 1)
        return (loss * mask).sum() / mask.sum().clamp(min=1)


@MEMBERS
def grpo():
    _, t, d, v = head()
    b = 4
    x, ids, rewards = torch.randn(b, t, d), words(b, t, vocabulary=v), torch.randn(b)
    old, reference = (torch.randn(b, t - 1) * 0.1 - 8 for _ in range(2))
    mask = (torch.arange(t - 1) < torch.tensor([t, t // 2, t // 3, t - 1])[:, None]).float()
    return Grpo(d, v), (x, ids, old, reference, rewards, mask)


class Ppo(nn.Module):
    """PPO: a policy and a value head, an entropy bonus, clipped values, whitened advantages."""

    def __init__(self, d, actions):
        super().__init__()
        hidden = size(512, 32)
        layers = nn.Linear(d, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        self.body = nn.Sequential(*layers)
        self.pi, self.v = (nn.Linear(hidden, n) for n in (actions, 1))

    def forward(self, x, action, old_logp, old_value, advantage, returns):
        h = self.body(x)
        logits, value = self.pi(h).float(), self.v(h).float().squeeze(-1)
        logp = logits.log_softmax(-1)
        chosen = logp.gather(-1, action[:, None]).squeeze(-1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        ratio = (chosen - old_logp).exp()
        a = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = torch.max(-a * ratio, -a * ratio.clamp(0.8, 1.2)).mean()
        near = old_value + (value - old_value).clamp(-0.2, 0.2)
        error = torch.max((value - returns) ** 2, (near - returns) ** 2).mean()
        return policy - 0.01 * entropy + 0.25 * error


@MEMBERS
def ppo():
    n, d, a = size(16384, 24), size(256, 16), 18
    values = (torch.randn(n) for _ in range(4))
    return Ppo(d, a), (torch.randn(n, d), words(n, vocabulary=a), *values)
