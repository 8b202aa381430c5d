"""Derivatives at bounds: a clamp, a ReLU and a maximum differ where an element is on the bound."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled
from torch import Tensor, nn

from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {
    "clamp": (lambda x: x.clamp(-1.0, 2.0), [-2.0, -1.0, 0.5, 2.0, 3.0]),
    "clamp below": (lambda x: x.clamp(min=0.0), [-1.0, 0.0, 1.0]),
    "clamp above": (lambda x: torch.clamp_max(x, 0.0), [-1.0, 0.0, 1.0]),
    "relu6": (F.relu6, [-1.0, 0.0, 3.0, 6.0, 7.0]),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 2.0), [-1.0, -0.5, 0.0, 2.0, 3.0]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.25), [-1.0, 0.0, 1.0]),
    "hardswish": (F.hardswish, [-4.0, -3.0, 0.0, 3.0, 4.0]),
    "hardsigmoid": (F.hardsigmoid, [-4.0, -3.0, 0.0, 3.0, 4.0]),
    "maximum of a number": (lambda x: torch.maximum(x, torch.tensor(0.5)), [0.0, 0.5, 1.0]),
    "maximum of zeros": (lambda x: torch.maximum(x, torch.zeros_like(x)), [-1.0, 0.0, 1.0]),
    "minimum of a tensor": (lambda x: torch.minimum(x, 2 * x), [-1.0, 0.0, 1.0]),
}


class OnBounds(nn.Module):
    """The functions of what linear maps give, which is their input."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.eye(16) for _ in FUNCTIONS)

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        cases = zip(FUNCTIONS.values(), inputs, self.weights, strict=True)
        return [function(F.linear(x, weight)) for (function, _), x, weight in cases]


@pytest.mark.slow
@pytest.mark.parametrize("backward", ["derived", "autograd"])
def test_gradients_on_bounds_are_pytorchs(backward: str):
    model = OnBounds()
    inputs = [
        torch.tensor(values).repeat(16, 16)[:, :16].T.contiguous().requires_grad_()
        for _, values in FUNCTIONS.values()
    ]
    dy = torch.randn(16, 16)
    fast = compiled(model, target="triton", backward=backward)
    got, wanted = (
        torch.autograd.grad(f(*inputs), [*inputs, *model.weights], [dy[: len(x)] for x in inputs])
        for f in (fast, model)
    )
    for name, mine, eager in zip([*FUNCTIONS] * 2, got, wanted, strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-6, atol=1e-6, msg=name)


class DecomposedElu(nn.Module):
    """An ELU as it is written out: in bfloat16 exp(x) − 1 is often the bound of the clamp."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = 8 * self.up(self.norm(x)) - 10
        return x + self.down(F.relu(h) + torch.clamp(torch.exp(h) - 1, max=0))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_a_decomposed_elu_in_bfloat16_is_as_exact_as_eager(target: str):
    model = DecomposedElu().bfloat16()
    fast = compiled(model, target=target)
    errors: dict[str, list[list[float]]] = {}
    for seed in range(5):
        torch.default_generator.manual_seed(seed)
        model.load_state_dict(DecomposedElu().bfloat16().state_dict())
        x, dy = torch.randn(2, 16, 32).bfloat16()
        wide = copy.deepcopy(model).double()
        exact = of_parameters(wide, wide, x.double(), dy.double())
        pairs = [of_parameters(function, model, x, dy) for function in (fast, model)]
        for name, gradient in exact.items():
            found = [relative_error(pair[name], gradient) for pair in pairs]
            errors.setdefault(name, []).append(found)
    for name, found in errors.items():
        mine, eager = map(sum, zip(*found, strict=True))
        assert mine <= 1.25 * eager, (name, found)


def of_parameters(function: Any, model: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    names, weights = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(function(x), weights, dy)
    return dict(zip(names, gradients, strict=True))
