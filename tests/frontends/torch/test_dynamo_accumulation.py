"""`torch.compile(model, backend="coda")` with gradients that GEMMs add to those that there are."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from typing import Any

import pytest
import torch
from support.added_gradients import Sums
from support.torch_compile import Block, compiled
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint


Loss = Callable[[Any, torch.Tensor], Any]


def of_squares(function: Any, x: torch.Tensor) -> Any:
    return function(x).float().square().sum()


def in_bfloat16(function: Any, x: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return of_squares(function, x)


def check(
    model: nn.Module, batch: Any, loss_of: Loss = of_squares, tolerance: float = 1e-5
) -> set[torch.Size]:
    """Gradients of three batches are those of PyTorch; gives the shapes that it adds at last."""
    other = deepcopy(model)
    fast = compiled(model, dynamic=True, fuse_gradient_accumulation=True)
    shapes = Counter[tuple[int, ...]]()
    for number in range(3):
        x = batch(number)
        loss_of(other, x).backward()
        loss = loss_of(fast, x)  # TorchDynamo leaves functions alone while something watches
        shapes.clear()
        with Sums(shapes):
            loss.backward()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=tolerance, atol=tolerance)
    return {p.shape for p in model.parameters() if shapes[tuple(p.shape)]}


def rows(number: int) -> torch.Tensor:
    return torch.randn(4 + number, 16)


def ids(number: int) -> torch.Tensor:
    return torch.randint(20, (4 + number,))


def matrices(shapes: set[torch.Size]) -> list[torch.Size]:
    return [shape for shape in shapes if len(shape) > 1]


def test_gradients_of_several_batches():
    assert not matrices(check(Block(), rows))


@pytest.mark.slow
def test_weights_in_float32_and_products_in_bfloat16():
    assert not matrices(check(Block(), rows, in_bfloat16, tolerance=2e-1))


class Tied(nn.Module):
    """A projection with the table of an embedding."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 16)
        self.block = Block()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.block(self.table(ids)), self.table.weight)


@pytest.mark.slow
def test_tied_weights():
    assert not matrices(check(Tied(), ids, tolerance=1e-4))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()
        self.second.up.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = checkpoint(self.first, x, use_reentrant=False)
        return self.second(h)


@pytest.mark.slow
def test_checkpointed_layers_with_a_frozen_weight():
    assert not matrices(check(Checkpointed(), rows, tolerance=1e-3))
