"""Attention of rows whose keys are all hidden by numbers: what eager PyTorch computes of them."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
from support.torch_compile import compiled
from torch import Tensor, nn

import coda_ir
from coda_ir.dialects import coda
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

LEAST = torch.finfo(torch.float32).min
Masking: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def future(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


MASKINGS: dict[str, Masking] = {
    "filled": lambda scores, keep: scores.masked_fill(~keep[:, None, None], LEAST),
    "chosen": lambda scores, keep: torch.where(keep[:, None, None], scores, -1e9),
    "added": lambda scores, keep: scores + (~keep[:, None, None]).float() * LEAST,
    "strictly causal": lambda scores, keep: scores.masked_fill(
        torch.ones(scores.shape[-2:], dtype=torch.bool).triu(), LEAST
    ),
    "filled twice": lambda scores, keep: scores.masked_fill(future(scores), LEAST).masked_fill(
        ~keep[:, None, None], LEAST
    ),
    "filled in place of infinity": lambda scores, keep: scores.masked_fill(
        future(scores), -torch.inf
    ).masked_fill(~keep[:, None, None], LEAST),
    "filled with several numbers": lambda scores, keep: scores.masked_fill(
        future(scores), -1e9
    ).masked_fill(~keep[:, None, None], -1e6),
    "filled and added": lambda scores, keep: (
        scores.masked_fill(future(scores), LEAST) + (~keep[:, None, None]).float() * LEAST
    ),
    "queries filled": lambda scores, keep: scores.masked_fill(
        ~(keep[:, None, None] & keep[:, None, :, None]), -1e9
    ),
    "heads filled": lambda scores, keep: scores.masked_fill(
        torch.tensor([True, False])[:, None, None] & ~keep[:, None, None], LEAST
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


KEEP = torch.tensor([[False] * 5, [True] * 4 + [False], [False] * 2 + [True] * 3])
"""Samples without keys, with padding behind, and with padding in front."""

FUSED = ("filled", "added", "strictly causal", "filled twice", "queries filled", "heads filled")


@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("name", MASKINGS)
def test_gradients(name: str, target: str):
    model = Attention(MASKINGS[name])
    fast = compiled(model, target=target)
    x, dy = torch.randn(2, 3, 5, 16)
    found, expected = (gradients(function, model, x, KEEP, dy) for function in (fast, model))
    for ours, eager in zip(found, expected, strict=True):
        assert relative_error(ours, eager) < 1e-5


@pytest.mark.parametrize("name", MASKINGS)
def test_exported_models(name: str):
    """One exported module serves inference, as results, and training, as gradients."""
    model = Attention(MASKINGS[name])
    x, dy = torch.randn(2, 3, 5, 16)
    exported = coda_ir.export(model, (x, KEEP))
    is_fused = any(isinstance(op, coda.AttentionOp) for op in exported.module.walk())
    assert is_fused == (name in (*FUSED, "chosen"))
    trained = coda_ir.compile(exported.module, training=True, device="cpu", target="reference")

    def function(*args: Tensor) -> Any:
        return trained(*exported.arguments(*args))

    expected = gradients(model, model, x, KEEP, dy)
    for ours, eager in zip(gradients(function, model, x, KEEP, dy), expected, strict=True):
        assert relative_error(ours, eager) < 1e-5
    with torch.no_grad():
        found = exported.compile(device="cpu", target="triton")(x.detach(), KEEP)
    assert relative_error(found, expected[0]) < 1e-5


def gradients(function: Any, model: nn.Module, x: Tensor, keep: Tensor, dy: Tensor) -> list[Tensor]:
    given = x.requires_grad_()
    y = function(given, keep)
    return [y.detach(), *torch.autograd.grad(y, [given, *model.parameters()], dy)]
