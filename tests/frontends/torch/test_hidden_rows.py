"""Attention of rows whose keys are all hidden by numbers: what eager PyTorch computes of them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
import torch
from support.daily import daily
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
    """For each masking, attention of 2 heads that is decomposed."""

    def __init__(self, maskings: Sequence[Masking]):
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(16, 48) for _ in maskings)
        self.out, self.maskings = nn.ModuleList(nn.Linear(16, 16) for _ in maskings), maskings

    def forward(self, x: Tensor, keep: Tensor) -> list[Tensor]:
        layers = zip(self.qkv, self.out, self.maskings, strict=True)
        return [attended(x, keep, *each) for each in layers]


def attended(x: Tensor, keep: Tensor, qkv: nn.Module, out: nn.Module, masking: Masking) -> Tensor:
    q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in qkv(x).chunk(3, -1))
    scores = masking(q @ k.transpose(-1, -2) * 8**-0.5, keep)
    y = scores.softmax(-1) @ v
    return out(y.transpose(1, 2).flatten(-2))


KEEP = torch.tensor([[False] * 5, [True] * 4 + [False], [False] * 2 + [True] * 3])
"""Samples without keys, with padding after, and with padding in front."""

FUSED = ("filled", "added", "strictly causal", "filled twice", "queries filled", "heads filled")


@pytest.mark.slow
@daily(lambda target: target == "triton")
@pytest.mark.parametrize("target", ["reference", "triton"])
def test_gradients(target: str):
    model = Attention(list(MASKINGS.values()))
    fast = compiled(model, target=target)
    x, dy = torch.randn(2, 3, 5, 16)
    assert_same_gradients(fast, model, x, dy)


@pytest.mark.slow
def test_exported_models():
    """One exported module serves inference, as results, and training, as gradients."""
    model = Attention(list(MASKINGS.values()))
    x, dy = torch.randn(2, 3, 5, 16)
    exported = coda_ir.export(model, (x, KEEP))
    fused = [op for op in exported.module.walk() if isinstance(op, coda.AttentionOp)]
    assert len(fused) == len(FUSED) + 1  # that of "chosen"
    trained = coda_ir.compile(exported.module, training=True, device="cpu", target="reference")

    def function(*args: Tensor) -> Any:
        return trained(*exported.arguments(*args))

    assert_same_gradients(function, model, x, dy)
    with torch.no_grad():
        found = exported.compile(device="cpu", target="triton")(x.detach(), KEEP)
        for name, y, expected in zip(MASKINGS, found, model(x, KEEP), strict=True):
            assert relative_error(y, expected) < 1e-5, name


def assert_same_gradients(function: Any, model: nn.Module, x: Tensor, dy: Tensor) -> None:
    """Results, and gradients of parameters and, as a sum, of the input."""
    given = x.requires_grad_()
    found, expected = (
        [*ys, *torch.autograd.grad(ys, [given, *model.parameters()], [dy] * len(ys))]
        for ys in (function(given, KEEP), model(given, KEEP))
    )
    for ours, eager in zip(found, expected, strict=True):
        assert relative_error(ours.detach(), eager.detach()) < 1e-5


def test_rows_without_keys_are_zeros_where_eager_has_nan():
    """Keys that are hidden by minus infinity, of which a softmax of a whole row is NaN."""

    def hidden(scores: Tensor, keep: Tensor) -> Tensor:
        return scores.masked_fill(~keep[:, None, None], -torch.inf)

    model, x = Attention([hidden]), torch.randn(3, 5, 16)
    with torch.no_grad():
        (eager,) = model(x, KEEP)
        (found,) = coda_ir.export(model, (x, KEEP)).compile(device="cpu", target="triton")(x, KEEP)
        assert bool(eager[0].isnan().all()) and not bool(eager[1:].isnan().any())
        assert torch.equal(found[0], model.out[0](torch.zeros(5, 16)))
        assert relative_error(found[1:], eager[1:]) < 1e-5


def test_a_softmax_by_itself_is_nan_where_that_of_eager_is():
    def f(x: Tensor, keep: Tensor) -> Tensor:
        return x.masked_fill(~keep, -torch.inf).softmax(-1)

    x = torch.randn(3, 5)
    found = compiled(f, target="triton", compare=False)(x, KEEP)
    torch.testing.assert_close(found, f(x, KEEP), equal_nan=True)
