"""Functions that batch or differentiate a part of themselves, through `torch.compile`."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from support.torch_compile import compiled, reset

Function = Callable[[torch.Tensor], Any]

func: Any = import_module("torch.func")
forward_ad: Any = import_module("torch.autograd.forward_ad")
SAMPLES = torch.Generator().manual_seed(0)
WEIGHT = torch.randn(8, 16, generator=SAMPLES)
X = torch.randn(5, 16, generator=SAMPLES)


def gated(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x @ WEIGHT.to(x.dtype).T)


def normalized(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x @ WEIGHT.to(x.dtype).T, (8,))


def total(x: torch.Tensor) -> torch.Tensor:
    return gated(x).sum()


def penalty(x: torch.Tensor) -> torch.Tensor:
    return gated(x).mean() + func.grad(total)(x).square().sum()


def change(x: torch.Tensor) -> torch.Tensor:
    return func.jvp(gated, (x,), (x,))[1].sum()


TRANSFORMS: dict[str, Function] = {
    "grad": func.grad(total),
    "vmap": func.vmap(gated),
    "vmap of grad": func.vmap(func.grad(total)),
    "vmap of jacrev": func.vmap(func.jacrev(normalized)),
    "jvp": lambda x: func.jvp(gated, (x,), (x,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str):
    reset()
    transformed = TRANSFORMS[name]
    found, exact = compiled(transformed)(X), transformed(X.double())
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5, check_dtype=False)


def test_transforms_of_a_compiled_function():
    """PyTorch runs it in eager mode, then and later."""
    reset()
    fast = compiled(gated)
    fast(X)

    def total_of(x: torch.Tensor) -> torch.Tensor:
        return fast(x).sum()

    torch.testing.assert_close(func.vmap(fast)(X), func.vmap(gated)(X), rtol=0, atol=0)
    found = func.grad(total_of)(X)
    torch.testing.assert_close(found, func.grad(total)(X), rtol=0, atol=0)
    found = func.jvp(fast, (X,), (X,))
    torch.testing.assert_close(found, func.jvp(gated, (X,), (X,)), rtol=0, atol=0)
    torch.testing.assert_close(fast(X), gated(X), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("function", [penalty, change])
def test_the_gradient_of_a_gradient(function: Function):
    reset()
    gradients: list[torch.Tensor] = []
    losses: list[tuple[Any, torch.Tensor]] = [
        (compiled(function, target="triton"), X),
        (function, X.double()),
    ]
    for loss, x in losses:
        x = x.clone().requires_grad_()
        loss(x).backward()
        assert x.grad is not None
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5, check_dtype=False)


@pytest.mark.parametrize("trained", [False, True])
def test_tangents_of_what_was_compiled_without(trained: bool):
    reset()
    weight = WEIGHT.clone().requires_grad_(trained)

    def linear(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x @ weight.T)

    fast = compiled(linear)
    fast(X)
    with forward_ad.dual_level():
        found, tangent = forward_ad.unpack_dual(fast(forward_ad.make_dual(X, X.flip(0))))
    results = func.jvp(gated, (X.double(),), (X.double().flip(0),))
    torch.testing.assert_close((found, tangent), results, rtol=1e-4, atol=1e-5, check_dtype=False)
