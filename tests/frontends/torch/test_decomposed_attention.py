"""Gradients of attention that a model writes as products and a softmax, of rows that are almost
equal: those of the scores almost cancel. Against float64, by the emitted kernels.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.daily import daily
from support.device import DEVICE
from support.torch_compile import compiled, record_derived
from torch import nn

from coda_ir.float64 import relative_error

pytestmark = [pytest.mark.usefixtures("fresh_dynamo"), pytest.mark.any_device]

HEADS, ROWS, INPUTS = 2, 45, 64
Tensor = torch.Tensor


def plain(scores: Tensor, _: Tensor) -> Tensor:
    return scores.softmax(-1)


def causal(scores: Tensor, _: Tensor) -> Tensor:
    i = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill(i > i[:, None], -torch.inf).softmax(-1)


def capped(scores: Tensor, _: Tensor) -> Tensor:
    return (2.0 * torch.tanh(scores / 2.0)).softmax(-1)


def biased(scores: Tensor, numbers: Tensor) -> Tensor:
    places = torch.arange(scores.shape[-1], device=scores.device)
    return (scores + numbers[:, None, None] * places).softmax(-1)


def with_sinks(scores: Tensor, numbers: Tensor) -> Tensor:
    column = numbers.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column], -1).softmax(-1)[..., :-1]


def split_heads(x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2)


class Attention(nn.Module):
    numbers: Tensor

    def __init__(self, weights: Callable[[Tensor, Tensor], Tensor], width: int):
        super().__init__()
        self.weights, self.out = weights, nn.Linear(HEADS * width, 32, bias=False)
        self.register_buffer("numbers", -torch.rand(HEADS) / 8)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = split_heads(q), split_heads(k), split_heads(v)
        weights = self.weights(q @ k.mT * q.shape[-1] ** -0.5, self.numbers)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


def gradients(function: Any, tensors: list[Tensor], d_y: Tensor) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    return list(torch.autograd.grad(function(*leaves), leaves, d_y))


def similar_rows(width: int) -> list[Tensor]:
    """Queries, keys and values of rows that differ by a tenth."""
    x = torch.randn(1, 1, INPUTS) + 0.1 * torch.randn(2, ROWS, INPUTS)
    weights = [torch.randn(INPUTS, HEADS * width) / 8 for _ in range(3)]
    return [(x @ weight).bfloat16().to(DEVICE) for weight in weights]


@pytest.mark.slow
@daily(lambda weights, width: (weights, width) in ((causal, 40), (biased, 32)))
@pytest.mark.parametrize("width", [32, 40])
@pytest.mark.parametrize("weights", [plain, causal, capped, biased, with_sinks])
def test_gradients_of_similar_rows(
    weights: Callable[[Tensor, Tensor], Tensor], width: int, monkeypatch: pytest.MonkeyPatch
):
    derived = record_derived(monkeypatch)
    model = Attention(weights, width).bfloat16().to(DEVICE)
    function = compiled(model, target="triton", fallback="eager", compare=False)
    tensors, d_y = similar_rows(width), torch.randn(2, ROWS, 32).bfloat16().to(DEVICE)
    exact = gradients(copy.deepcopy(model).double(), [x.double() for x in tensors], d_y.double())
    found, eager = (gradients(f, tensors, d_y) for f in (function, model))
    assert derived and "attention_dq" in derived[0].kernels
    for mine, other, wanted in zip(found, eager, exact, strict=True):
        assert relative_error(mine, wanted) <= 1.25 * relative_error(other, wanted)


class BiasedAttention(nn.Module):
    """Attention whose scores have a learned bias; the softmax is in float32, as in T5. If
    `is_called`, it is that of PyTorch.
    """

    def __init__(self, width: int, *, is_called: bool):
        super().__init__()
        self.is_called = is_called
        self.out = nn.Linear(HEADS * width, 32, bias=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        q, k, v = split_heads(q), split_heads(k), split_heads(v)
        if self.is_called:
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        else:
            y = (q @ k.mT + bias).float().softmax(-1).type_as(v) @ v
        return self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.slow
@daily(lambda shape: shape[0] == 1)
@pytest.mark.parametrize(
    "shape", [(1, HEADS, ROWS, ROWS), (2, HEADS, ROWS, ROWS), (HEADS, 1, ROWS)]
)
@pytest.mark.parametrize("is_called", [False, True])
def test_gradients_of_learned_biases(
    shape: tuple[int, ...], is_called: bool, monkeypatch: pytest.MonkeyPatch
):
    """Those of the biases and of what comes before the scores. Where it is called, eager PyTorch
    computes in float32, and kernels round gradients of scores to multiply them.
    """
    rounding = 2e-2 if is_called else 0.0
    derived = record_derived(monkeypatch)
    model = BiasedAttention(32, is_called=is_called).bfloat16().to(DEVICE)
    function = compiled(model, target="triton", fallback="eager", compare=False)
    q, k, v = similar_rows(32)
    tensors = [q / 32**0.5, k, v, torch.randn(shape).bfloat16().to(DEVICE)]
    d_y = torch.randn(2, ROWS, 32).bfloat16().to(DEVICE)
    exact = gradients(copy.deepcopy(model).double(), [x.double() for x in tensors], d_y.double())
    found, eager = (gradients(f, tensors, d_y) for f in (function, model))
    assert derived and "attention_dmask" in derived[0].kernels
    for mine, other, wanted in zip(found, eager, exact, strict=True):
        bound = max(rounding, 1.1 * relative_error(other, wanted))
        assert relative_error(mine, wanted) <= bound
