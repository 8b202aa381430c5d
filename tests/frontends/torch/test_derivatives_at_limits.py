"""Gradients where the formulas of a derivative divide 0 by 0, or lose an overflow."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled
from torch import Tensor, nn

from coda_ir.api import compile
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export

special: Any = torch.special

FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x.sigmoid(), (x.detach() > -1).to(x)),
        [-200.0, -2.0, 0.5, 200.0],
    ),
    "celu": (lambda x: F.celu(x, 2.0), [-3.0, 0.0, 2.0, 300.0]),
    "celu of a small alpha": (lambda x: F.celu(x, 0.01), [-0.01, 0.0, 2.0, 3e38]),
    "infinite gradient of relu squared": (
        lambda x: F.relu(x).square().sqrt(),
        [-2.0, 0.0, 0.5, 2.0],
    ),
    "sign": (torch.sign, [-2.0, 0.0, 0.5, 2.0]),
    "infinite gradient of sign": (lambda x: x * x.sign().sqrt(), [0.0, 0.5, 1.0, 2.0]),
    "std": (lambda x: x.std(-1), [0.5, 0.5, 0.5, 0.5]),
    "norm with std": (
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.5) * x,
        [2.0, 2.0, 2.0, 2.0],
    ),
    "std_mean": (
        lambda x: torch.stack(torch.std_mean(x, -1, correction=0)),
        [0.25, 0.25, 0.25, 0.25],
    ),
    "sinc": (torch.sinc, [0.0, 1e-40, -1.0, 2.0]),
    "xlogy": (lambda x: torch.xlogy(x.relu(), x) + torch.xlogy(0, x), [-2.0, -0.5, 0.5, 2.0]),
    "xlog1py": (lambda x: special.xlog1py((x + 3).relu(), x), [-4.0, -3.0, 0.5, 2.0]),
    "atan2": (lambda x: torch.atan2(x, x * 2), [0.0, 0.5, -1.0, 2.0]),
    "log_ndtr": (special.log_ndtr, [-30.0, 0.5, 2.0, 40.0]),
    "entr": (special.entr, [0.0, 0.5, 1.0, 2.0]),
    "logit": (torch.logit, [0.0, 0.25, 0.75, 1.0]),
    "huber_loss": (
        lambda x: F.huber_loss(x, torch.ones_like(x), reduction="none", delta=2.0),
        [-inf, -1.0, 1.5, inf],
    ),
    "smooth_l1_loss": (
        lambda x: F.smooth_l1_loss(x, torch.ones_like(x), reduction="none", beta=0.5),
        [-inf, 0.5, 1.25, inf],
    ),
}


class Added(nn.Module):
    """`function` of an input, to which a linear map of another one adds 0."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function, self.map = function, nn.Linear(4, 4, bias=False)
        nn.init.zeros_(self.map.weight)

    def forward(self, x: Tensor, offset: Tensor) -> Tensor:
        return self.function(offset + self.map(x))


class Sinc(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sinc(x)


def test_sinc_is_as_exact_in_16_bits():
    x = 20 * torch.randn(4, 16, dtype=torch.bfloat16)
    module = export(Sinc(), (x,)).module
    result = compile(module, target="reference", device="cpu")(x)
    torch.testing.assert_close(result, torch.sinc(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("frontend", ["torch.compile", "export"])
def test_gradient(name: str, frontend: str):
    function, elements = FUNCTIONS[name]
    model, x = Added(function), torch.randn(1, 4)
    offset = torch.tensor([elements], requires_grad=True)
    wanted = offset.detach().double().requires_grad_()
    values = function(wanted)
    (expected,) = torch.autograd.grad(values.sum(), wanted)
    if frontend == "torch.compile":
        result = compiled(model)(x, offset)
    else:
        module = export(model, (x, offset)).module
        program = compile(module, target="reference", device="cpu", training=True)
        result = program(x, offset, *(p.detach() for p in model.parameters()))
    (gradient,) = torch.autograd.grad(result.sum(), offset)
    torch.testing.assert_close(result, values.float(), rtol=2e-4, atol=1e-6)
    torch.testing.assert_close(gradient, expected.float(), rtol=2e-4, atol=1e-6)


def test_a_threshold_that_is_one_of_the_compared_elements():
    """The backward must not compare a rounded element with what it was before it was rounded."""
    x = torch.randn(4, 32, dtype=torch.bfloat16)
    weight = torch.randn(16, 32, dtype=torch.bfloat16, requires_grad=True)
    scale = torch.rand(16)

    def model(x: Tensor, weight: Tensor) -> Tensor:
        y = F.linear(x, weight).float() * scale
        return torch.where(y >= y.topk(2).values[:, 1:], y, 0.0)

    exact = weight.detach().double().requires_grad_()
    y = F.linear(x.double(), exact) * scale
    chosen = torch.where(y >= y.topk(2).values[:, 1:], y, 0.0)
    (expected,) = torch.autograd.grad(chosen.sum(), exact)
    result = compiled(model, target="triton")(x, weight)
    (gradient,) = torch.autograd.grad(result.sum(), weight)
    assert relative_error(gradient, expected) < 0.02


def test_a_norm_of_one_column_has_no_gradient():
    layer = nn.Linear(64, 1, bias=False).bfloat16()
    norm = nn.LayerNorm(1).bfloat16()
    x = torch.randn(5, 64, dtype=torch.bfloat16, requires_grad=True)
    compiled(nn.Sequential(layer, norm))(x).sum().backward()
    assert x.grad is not None and not x.grad.any()
    assert norm.weight.grad is not None and not norm.weight.grad.any()
