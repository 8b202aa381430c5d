"""Exported models with parts that have no gradients: those derived here are PyTorch's."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.dialects import coda

Forward: TypeAlias = Callable[["Model", torch.Tensor], torch.Tensor]


class Model(nn.Module):
    """Two layers, and what `forward` makes of them."""

    def __init__(self, forward: Forward):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 16)
        self.frequencies = nn.Buffer(torch.rand(16))
        self._forward = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(self, x)


def squared(model: Model, x: torch.Tensor) -> torch.Tensor:
    h = model.first(x)
    return model.second(h * h.detach())


def shifted_softmax(model: Model, x: torch.Tensor) -> torch.Tensor:
    h = model.first(x)
    terms = torch.exp(h - h.amax(-1, keepdim=True).detach())
    return model.second(terms / terms.sum(-1, keepdim=True))


def gate_without_gradients(model: Model, x: torch.Tensor) -> torch.Tensor:
    h = model.first(x)
    with torch.no_grad():
        gate = torch.sigmoid(model.second(h))
    return h * gate


def gate_without_autocast(model: Model, x: torch.Tensor) -> torch.Tensor:
    h = model.first(x)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        gate = torch.sigmoid(model.second(h))
    return h * gate


def two_results_without_gradients(model: Model, x: torch.Tensor) -> torch.Tensor:
    h = model.first(x)
    with torch.no_grad():
        mean, scale = h.mean(-1, keepdim=True), 1 + h.abs().amax(-1, keepdim=True)
    return model.second((h - mean) / scale)


def gradients_inside_of_none(model: Model, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        h = model.first(x)
        with torch.enable_grad():
            y = model.second(h)
    return y * y


def straight_through(model: Model, x: torch.Tensor) -> torch.Tensor:
    h = model.first(x)
    return model.second(h + (torch.round(h) - h).detach())


def rotary_tables(model: Model, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        angles = torch.arange(x.shape[0])[:, None] * model.frequencies
        cos = angles.cos()
    return model.second(model.first(x) * cos)


MODELS: dict[Forward, int] = {
    squared: 1,
    shifted_softmax: 1,
    gate_without_gradients: 1,
    gate_without_autocast: 1,
    two_results_without_gradients: 2,
    gradients_inside_of_none: 1,
    straight_through: 1,
    rotary_tables: 0,
}
"""The models, and in how many places gradients could go and stop."""


def detached(module: ModuleOp) -> list[int]:
    """In how many places of each model gradients stop."""
    places = " ".join(str(op.location) for op in module.walk() if isinstance(op, coda.DetachOp))
    return [len(re.findall(rf"models\.{index}\b", places)) for index in range(len(MODELS))]


class All(nn.Module):
    """The models, of one input."""

    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList(map(Model, MODELS))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [model(x) for model in self.models]


@pytest.mark.slow
@pytest.mark.parametrize("is_exported", [False, True], ids=["model", "program"])
def test_gradients(is_exported: bool):
    model = All()
    x = torch.randn(5, 8, requires_grad=True)
    program = torch.export.export(model, (x,)) if is_exported else model
    exported = coda_ir.export(program, None if is_exported else (x,))
    assert detached(exported.module) == list(MODELS.values())
    names = [name for name, _ in model.named_parameters()]
    function = coda_ir.compile(exported.module, training=True, device="cpu")
    given = {name: weight.detach() for name, weight in exported.weights.items()}
    leaves = {name: given[name].requires_grad_() for name in names if name in given}
    results: Any = function(x, *given.values())
    seeds = [torch.randn_like(result) for result in results]
    wide = model.double()
    wanted: Any = torch.autograd.grad(
        wide(x.double()), [x, *wide.parameters()], [s.double() for s in seeds], allow_unused=True
    )
    got: Any = torch.autograd.grad(results, [x, *leaves.values()], seeds, allow_unused=True)
    found = dict(zip(["x", *leaves], got, strict=True))
    for name, expected in zip(["x", *names], wanted, strict=True):
        gradient: Any = found.get(name)
        if expected is None:
            assert gradient is None or not gradient.any(), name
        else:
            torch.testing.assert_close(gradient.double(), expected.double(), rtol=1e-4, atol=1e-5)


def test_an_exported_program_is_left_as_it_is():
    program = torch.export.export(Model(gate_without_gradients), (torch.randn(5, 8),))
    before = str(program.graph)
    coda_ir.export(program)
    assert str(program.graph) == before


def test_operators_come_from_the_model():
    module = coda_ir.export(Model(gate_without_gradients), (torch.randn(5, 8),)).module
    places = [op.location for op in module.walk() if isinstance(op, coda.SigmoidOp | coda.DetachOp)]
    assert len(places) == 2
    assert all(Path(__file__).name in str(place) for place in places)


def test_inference_sees_through():
    """The norm of a model that detaches it still runs inside of the GEMM."""
    text = """
    fn f(x: f32[M, 64], w: f32[32, 64]) -> f32[M, 32] {
        return linear(detach(rms_norm(x)), w)
    }
    """
    kernels = [
        len(coda_ir.compile(t, device="cpu").kernels) for t in (text, text.replace("detach", ""))
    ]
    assert kernels[0] == kernels[1]
