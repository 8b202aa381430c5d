"""Scans in models of users: calls of `coda_ir.state_space`, and others, which PyTorch runs."""

import logging
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.block_references import scanned
from support.torch_compile import compiled, gradients
from torch import Tensor, nn

import coda_ir
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

LEFT = "a region of a graph runs in"


class Called(nn.Module):
    """A selective scan as one call, between linear layers."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 24 + 24 + 4 + 4)
        self.rates = nn.Parameter(torch.randn(24, 4, generator=torch.Generator().manual_seed(0)))
        self.out = nn.Linear(24, 16)

    def scanned(self, u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return coda_ir.state_space("selective_scan", (u, dt, a, b, c), 4)[0]

    def forward(self, x: Tensor) -> Tensor:
        u, dt, b, c = self.project(x).split([24, 24, 4, 4], -1)
        return self.out(self.scanned(u, F.softplus(dt), -torch.exp(self.rates), b, c))


class Looped(Called):
    """The same, one position after the other."""

    def scanned(self, u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return scanned(u, dt, a, b, c)


class Associative(Called):
    """The same by `associative_scan`."""

    def scanned(self, u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        dt, u = (x.transpose(1, 2)[..., None] for x in (dt, u))
        inputs = [x.movedim(2, 0) for x in (torch.exp(a[:, None] * dt), dt * b[:, None] * u)]
        scan: Any = torch.ops.higher_order.associative_scan
        states = scan(linear, inputs, ())[1].movedim(0, 2)
        return (states.transpose(1, 2) @ c[..., None]).squeeze(-1)


def linear(a: Tensor, x: Tensor, b: Tensor, y: Tensor) -> list[Tensor]:
    return [a * b, b * x + y]


@pytest.mark.slow
@pytest.mark.parametrize("model", [Called(), Associative()], ids=["call", "associative_scan"])
def test_forward(model: Called, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    loop = Looped()
    loop.load_state_dict(model.state_dict())
    x = torch.randn(2, 13, 16)
    with torch.no_grad():
        found, exact = compiled(model, target="triton", compare=False)(x), loop.double()(x.double())
    assert relative_error(found, exact) <= 1e-6
    assert (LEFT in caplog.text) == isinstance(model, Associative)


@pytest.mark.slow
def test_gradients_are_derived(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model, loop = Called(), Looped()
    loop.load_state_dict(model.state_dict())
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(1), requires_grad=True)
    found = gradients(compiled(model, target="triton"), model, x)
    assert LEFT not in caplog.text
    exact = gradients(loop, loop.double(), x.detach().double().requires_grad_())
    for a, c in zip(found, exact, strict=True):
        assert a is not None and c is not None
        assert relative_error(a, c) <= 1e-5
