"""Attention of samples whose keys are all hidden by numbers: the gradients of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
from support.torch_compile import compiled
from torch import Tensor, nn

from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

LEAST = torch.finfo(torch.float32).min
Masking: TypeAlias = Callable[[Tensor, Tensor], Tensor]

MASKINGS: dict[str, Masking] = {
    "filled": lambda scores, keep: scores.masked_fill(~keep[:, None, None], LEAST),
    "chosen": lambda scores, keep: torch.where(keep[:, None, None], scores, -1e9),
    "added": lambda scores, keep: scores + (~keep[:, None, None]).float() * LEAST,
    "strictly causal": lambda scores, keep: scores.masked_fill(
        torch.ones(scores.shape[-2:], dtype=torch.bool).triu(), LEAST
    ),
}


class Attention(nn.Module):
    """Attention of 2 heads that is spelled out."""

    def __init__(self, masking: Masking):
        super().__init__()
        self.qkv, self.out, self.masking = nn.Linear(16, 48), nn.Linear(16, 16), masking

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = self.masking(q @ k.transpose(-1, -2) * 8**-0.5, keep)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(-2))


@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("name", MASKINGS)
def test_gradients(name: str, target: str):
    model = Attention(MASKINGS[name])
    fast = compiled(model, target=target)
    x, dy = torch.randn(2, 2, 5, 16)
    keep = torch.tensor([[False] * 5, [True] * 4 + [False]])
    found, expected = (gradients(function, model, x, keep, dy) for function in (fast, model))
    for ours, eager in zip(found, expected, strict=True):
        assert relative_error(ours, eager) < 1e-5


def gradients(function: Any, model: nn.Module, x: Tensor, keep: Tensor, dy: Tensor) -> list[Tensor]:
    given = x.requires_grad_()
    y = function(given, keep)
    return [y.detach(), *torch.autograd.grad(y, [given, *model.parameters()], dy)]
