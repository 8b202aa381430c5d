"""Functions of transformers that torch.compile traces in another form."""

import sys
from importlib import import_module
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


def test_models_that_are_imported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the backend imports no model."""
    coda_ir.keep_scans()
    monkeypatch.delitem(sys.modules, load_balancing_loss_func.__module__)
    model: Any = import_module(load_balancing_loss_func.__module__)
    assert model.load_balancing_loss_func is not load_balancing_loss_func
    codes: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        codes.append(graph.code)
        return graph.forward

    compiled: Any = torch.compile(model.load_balancing_loss_func, backend=backend, fullgraph=True)  # pyright: ignore[reportUnknownMemberType]
    logits: Any = (torch.randn(9, 8), torch.randn(9, 8))
    expected: Any = load_balancing_loss_func(logits, 8, 2)
    assert torch.allclose(compiled(logits, 8, 2), expected)
    assert len(codes) == 1 and "bincount" not in codes[0]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("has_bias", [True, False])
def test_cached_window(has_bias: bool) -> None:
    """A new position of a causal convolution, by a kernel that reads the cached ones."""
    coda_ir.keep_scans()
    mamba: Any = import_module("transformers.models.mamba.modeling_mamba")
    x, state = torch.randn(2, 6, 1), torch.randn(2, 6, 4)
    weight, bias = torch.randn(6, 4), torch.randn(6) if has_bias else None

    def updated(x: Any, state: Any, weight: Any, bias: Any) -> Any:
        return mamba.causal_conv1d_update(x, state, weight, bias, activation="silu")

    wide_state = state.double()
    wide_bias = None if bias is None else bias.double()
    exact = updated(x.double(), wide_state, weight.double(), wide_bias)
    compiled: Any = torch.compile(updated, backend=coda, fullgraph=True)  # pyright: ignore[reportUnknownMemberType]
    assert relative_error(compiled(x, state, weight, bias), exact) < 1e-6
    assert relative_error(state, wide_state) < 1e-6
