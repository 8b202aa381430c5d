"""Functions of transformers that torch.compile traces in another form."""

from typing import Any

import pytest
import torch
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
from transformers.utils import import_utils

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.dynamo import coda

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def test_not_exported() -> None:
    """PyTorch 2.11 says yes under torch.compile, others do not."""
    coda_ir.keep_scans()
    coda_ir.keep_scans()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 2 if import_utils.is_torchdynamo_exporting() else x + 1

    compiled = torch.compile(f, backend="eager", fullgraph=True)  # pyright: ignore[reportUnknownMemberType]
    assert compiled(torch.zeros(1)).item() == f(torch.zeros(1)).item() == 1


@pytest.mark.parametrize("is_masked", [False, True])
def test_load_balancing_loss(is_masked: bool) -> None:
    """One graph, whose softmax is in the GEMMs of the routers, with its gradient."""
    coda_ir.keep_scans()
    x = torch.randn(2, 9, 32)
    routers = [torch.randn(8, 32, requires_grad=True) for _ in range(2)]
    mask = (torch.arange(9) < torch.tensor([[9], [5]])).long() if is_masked else None

    def loss(x: torch.Tensor, *weights: torch.Tensor) -> Any:
        logits: Any = tuple(x.flatten(0, 1) @ weight.T for weight in weights)
        return load_balancing_loss_func(logits, 8, 2, mask)

    compiled = torch.compile(loss, backend=coda, fullgraph=True)  # pyright: ignore[reportUnknownMemberType]
    wide = [each.detach().double().requires_grad_() for each in routers]
    exact = loss(x.double(), *wide)
    found = compiled(x, *routers)
    assert relative_error(found.detach(), exact.detach()) < 1e-6
    pairs = zip(torch.autograd.grad(found, routers), torch.autograd.grad(exact, wide), strict=True)
    assert all(relative_error(gradient, wanted) < 1e-5 for gradient, wanted in pairs)
