"""`torch.compile(model, backend="coda")` in training: the gradients and updates of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import Block, compiled, gradients, reset
from torch import nn


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    reset()
    torch.default_generator.manual_seed(0)
    yield


def check(fast: Any, model: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-5) -> None:
    got, wanted = (gradients(function, model, *inputs) for function in (fast, model))
    for a, b in zip(got, wanted, strict=True):
        assert (a is None) == (b is None)
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_frozen_parameters_and_inputs_that_want_gradients():
    model = Block()
    model.gate.weight.requires_grad_(False)
    model.norm.weight.requires_grad_(False)
    check(compiled(model), model, torch.randn(3, 16, requires_grad=True))
    assert model.gate.weight.grad is None


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 16)
            self.head = nn.Linear(16, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(F.silu(self.embed(ids)))

    model = Tied()
    check(compiled(model), model, torch.randint(0, 10, (2, 5)))


def test_autocast():
    model = Block()
    fast = compiled(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(fast, model, torch.randn(4, 16), tolerance=3e-2)


def test_optimizer_steps_are_followed():
    model, twin = Block(), Block()
    twin.load_state_dict(model.state_dict())
    fast, x = compiled(model), torch.randn(4, 16)
    for function, owner in ((fast, model), (twin, twin)):
        optimizer: Any = torch.optim.AdamW(owner.parameters(), lr=1e-2)
        for _ in range(3):
            gradients(function, owner, x)
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert list(fast.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]


def test_dropout_draws_what_eager_draws():
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.Linear(32, 16))
    fast, x = compiled(model), torch.randn(4, 16)
    results: list[torch.Tensor] = []
    for function in (fast, model):
        torch.default_generator.manual_seed(1)
        results.append(function(x))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss(reduction: str):
    class Loss(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            target = torch.tensor([3, -100, 9, 0])
            return F.cross_entropy(super().forward(x), target, reduction=reduction)

    model = Loss(16, 10)
    check(compiled(model), model, torch.randn(4, 16, requires_grad=True))


def test_gradients_that_are_enabled_inside():
    """The graph is called without gradients, but computes some."""
    model = Block()

    def inside(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return model(x)

    gradients: list[torch.Tensor | None] = []
    for function in (compiled(inside), inside):
        model.zero_grad()
        with torch.no_grad():
            result: Any = function(torch.ones(3, 16))
        result.backward(torch.ones(3, 16))
        gradients.append(model.up.weight.grad)
    torch.testing.assert_close(*gradients)
