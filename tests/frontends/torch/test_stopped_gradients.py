"""Graphs of TorchDynamo with parts that have no gradients: the backward is derived nevertheless."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE
from support.torch_compile import compiled, gradients, graphs, joined, record_derived
from torch import Tensor, nn

from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Model(nn.Module):
    """Two layers, and what `forward` makes of them."""

    def __init__(self, forward: Forward):
        super().__init__()
        self.first, self.second, self.unused = (nn.Linear(16, 16) for _ in range(3))
        self.mean, self.variance = nn.Buffer(torch.zeros(16)), nn.Buffer(torch.ones(16))
        self.calls = nn.Buffer(torch.zeros((), dtype=torch.int64))
        self._forward = forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


Forward: TypeAlias = Callable[[Model, Tensor], Any]


def straight_through(model: Model, x: Tensor) -> Tensor:
    h = model.first(x)
    return model.second(h + (torch.sign(h) - h).detach())


def detached_view(model: Model, x: Tensor) -> Tensor:
    h = model.first(x)
    return model.second(h - h[:, :1].detach())


def teacher(model: Model, x: Tensor) -> Tensor:
    with torch.no_grad():
        target = model.second(x)
    return F.mse_loss(model.first(x), target)


def parts_without_gradients(model: Model, x: Tensor) -> Tensor:
    h = model.first(x)
    with torch.no_grad():
        left, _ = h.chunk(2, -1)
        largest = h.max(-1, keepdim=True)[0]
        with torch.enable_grad():
            y = model.second(h)
    return y * left.sum(-1, keepdim=True) + h / (1 + largest.abs())


def choice(model: Model, x: Tensor) -> Tensor:
    """The scores have no gradient: what is chosen by them does not change with them."""
    chosen = model.second(x).argmax(-1)
    return model.first(x) * F.one_hot(chosen, 16).to(x.dtype)


def dropout_of_attention(model: Model, x: Tensor) -> Tensor:
    layers = (model.first, model.second, model.first)
    q, k, v = (layer(x).view(-1, 2, 8).transpose(0, 1)[None] for layer in layers)
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=True)
    return y[0].transpose(0, 1).flatten(1)


def normalized_batch(model: Model, x: Tensor) -> Tensor:
    return model.second(F.batch_norm(model.first(x), None, None, training=True))


def running_statistics(model: Model, x: Tensor) -> Tensor:
    """The second batch norm reads what the first one has stored."""
    model.calls.add_(1)
    h = model.first(x)
    for _ in range(2):
        h = F.batch_norm(h, model.mean, model.variance, training=True)
    return model.second(F.silu(h)) / model.calls


def moving_average(model: Model, x: Tensor) -> Tensor:
    h = model.first(x)
    shifted = h - model.mean
    with torch.no_grad():
        model.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
    return model.second(shifted * model.variance)


def stored_result(model: Model, x: Tensor) -> Tensor:
    y = model.second(F.silu(model.first(x))).sum(0)
    with torch.no_grad():
        model.mean.copy_(y)
    return y


FORWARDS = (
    straight_through,
    detached_view,
    teacher,
    parts_without_gradients,
    choice,
    dropout_of_attention,
    normalized_batch,
    running_statistics,
    moving_average,
    stored_result,
)


class All(nn.Module):
    """All models, of the same rows."""

    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList(map(Model, FORWARDS))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [model(x) for model in self.models]


@pytest.mark.slow
def test_gradients_are_pytorchs(monkeypatch: pytest.MonkeyPatch):
    derived = record_derived(monkeypatch)
    model = All()
    fast, eager_model = compiled(model, target="triton"), copy.deepcopy(model)
    for _ in range(2):
        x = torch.randn(5, 16, requires_grad=True)
        found = seeded_gradients(joined(fast), model, x)
        compare(found, seeded_gradients(joined(eager_model), eager_model, x))
    compare(list(model.buffers()), list(eager_model.buffers()))
    assert len(derived) == 2 and graphs() == 1


def compare(found: Sequence[Tensor | None], expected: Sequence[Tensor | None]) -> None:
    for ours, eager in zip(found, expected, strict=True):
        assert (ours is None) == (eager is None)
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6)


def seeded_gradients(function: Any, model: nn.Module, x: Tensor) -> list[Tensor | None]:
    torch.default_generator.manual_seed(1)
    return gradients(function, model, x)


def test_inference_mode_within_a_graph():
    """Autograd treats what inference mode computes as a constant, as in eager PyTorch."""

    def forward(model: Model, x: Tensor) -> Tensor:
        with torch.inference_mode():
            largest = model.first(x).amax()
        return model.second(x) / largest.clone()

    model, x = Model(forward), torch.randn(5, 16, requires_grad=True)
    eager = copy.deepcopy(model)
    compare(gradients(compiled(model), model, x), gradients(eager, eager, x))


@pytest.mark.parametrize("target", ["reference", "triton"])
def test_statistics_are_updated_by_each_call(target: str):
    """Equal calls are not one: each updates the buffers."""

    def twice(model: Model, x: Tensor) -> Tensor:
        return running_statistics(model, x) + running_statistics(model, x)

    model = Model(twice)
    eager = copy.deepcopy(model)
    fast, x = compiled(model, target=target), torch.randn(5, 16)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), eager(x), rtol=1e-4, atol=1e-5)
    compare(list(model.buffers()), list(eager.buffers()))


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize(
    ("is_plain", "backward"), [(False, "derived"), (True, "derived"), (False, "autograd")]
)
def test_batches_of_16_bits(is_plain: bool, backward: str):
    """With and without weights and running statistics, whose type is that of the rows."""
    norm = nn.BatchNorm1d(8, affine=not is_plain, track_running_stats=not is_plain)
    model = nn.Sequential(norm, nn.Linear(8, 8)).to(DEVICE, torch.bfloat16)
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    fast = compiled(model, target="triton", compare=False, backward=backward)
    x = torch.randn(12, 8, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    expected = [*gradients(exact, exact, wide), *exact.buffers()]
    usual = [*gradients(eager, eager, x), *eager.buffers()]
    found = [*gradients(fast, model, x), *model.buffers()]
    for ours, theirs, right in zip(found, usual, expected, strict=True):
        assert ours is not None and theirs is not None and right is not None
        assert ours.dtype == theirs.dtype
        assert relative_error(ours, right) <= 2 * relative_error(theirs, right) + 4e-3
