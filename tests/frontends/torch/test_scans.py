"""Associative scans of PyTorch in graphs of `torch.compile`: raised, or left to PyTorch."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.block_references import scanned
from support.torch_compile import compiled, gradients
from torch import Tensor, nn

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.types import tensors_in

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Combine = Callable[[Tensor, Tensor, Tensor, Tensor], Sequence[Tensor]]
RAISED = "raised to coda.selective_scan"
LEFT = "a part of a graph runs through"


def linear(a: Tensor, x: Tensor, b: Tensor, y: Tensor) -> list[Tensor]:
    return [a * b, b * x + y]


def largest(a: Tensor, x: Tensor, b: Tensor, y: Tensor) -> list[Tensor]:
    return [torch.maximum(a, b), torch.maximum(x, y)]


class Scanning(nn.Module):
    """A selective scan as transformers spells it for GPUs, and what reads its states."""

    def __init__(self, combine: Combine = linear, read: str = "product"):
        super().__init__()
        self.project = nn.Linear(16, 24 + 24 + 4 + 4)
        self.rates = nn.Parameter(torch.randn(24, 4, generator=torch.Generator().manual_seed(0)))
        self.out = nn.Linear(24, 16)
        self.combine, self.read = combine, read

    def forward(self, x: Tensor) -> Any:
        u, dt, b, c = self.project(x).split([24, 24, 4, 4], -1)
        dt = F.softplus(dt).transpose(1, 2)
        decay = torch.exp(-torch.exp(self.rates)[:, None] * dt[..., None])
        added = dt[..., None] * b[:, None] * u.transpose(1, 2)[..., None]
        scan: Any = torch.ops.higher_order.associative_scan
        inputs = [each.movedim(2, 0) for each in (decay, added)]
        states = scan(self.combine, inputs, ())[1].movedim(0, 2)
        if self.read == "sum":
            return self.out(states.sum(-1).transpose(1, 2))
        y = (states.transpose(1, 2) @ c[..., None]).squeeze(-1)
        places = {"first": 0, "last": -1}
        if self.read in places:
            return self.out(y), states[:, :, places[self.read]]
        return self.out(y)


def check(model: Scanning, *lengths: int, samples: int = 2) -> None:
    run = compiled(model, target="triton")
    for length in lengths:
        x = torch.randn(samples, length, 16, generator=torch.Generator().manual_seed(length))
        with torch.no_grad():
            got, eager = run(x), model(x)
            exact = model.double()(x.double())
            model.float()
        for a, b, c in zip(*map(tensors_in, (got, eager, exact)), strict=True):
            assert relative_error(a, c) <= 1.25 * relative_error(b, c) + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("read", ["product", "last"])
def test_raised(read: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    check(Scanning(read=read), *((20, 9, 13) if read == "product" else (20,)))
    assert RAISED in caplog.text
    assert LEFT not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("read", ["product", "last"])
def test_one_sample(read: str, caplog: pytest.LogCaptureFixture) -> None:
    """A transpose that moves a dimension of 1 is a view."""
    caplog.set_level(logging.INFO)
    check(Scanning(read=read), 20, samples=1)
    assert RAISED in caplog.text
    assert LEFT not in caplog.text


class Looped(Scanning):
    """The same, one position after the other: PyTorch's derivative of its scan gives `rates` 0."""

    def forward(self, x: Tensor) -> Any:
        u, dt, b, c = self.project(x).split([24, 24, 4, 4], -1)
        return self.out(scanned(u, F.softplus(dt), -torch.exp(self.rates), b, c))


def test_gradients_are_derived(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model, loop = Scanning(), Looped()
    loop.load_state_dict(model.state_dict())
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(1), requires_grad=True)
    found = gradients(compiled(model, target="triton"), model, x)
    assert RAISED in caplog.text
    eager = gradients(loop, loop, x)
    exact = gradients(loop, loop.double(), x.detach().double().requires_grad_())
    for a, b, c in zip(found, eager, exact, strict=True):
        assert a is not None and b is not None and c is not None
        assert relative_error(a, c) <= 1.25 * relative_error(b, c) + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("combine", "read"), [(largest, "product"), (linear, "sum"), (linear, "first")]
)
def test_left_to_pytorch(combine: Combine, read: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    check(Scanning(combine, read), 12)
    assert RAISED not in caplog.text
    assert LEFT in caplog.text
    assert "associative_scan" in caplog.text
