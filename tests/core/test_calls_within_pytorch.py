"""Compiled functions called where PyTorch transforms, traces or compiles the caller."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import coda_ir
from coda_ir.diagnostics import ArgumentError

PROGRAM = """
fn scores(x: f32[M, 16], w: f32[8, 16]) {
    return silu(linear(x, w))
}
"""

forward_ad: Any = import_module("torch.autograd.forward_ad")

Scores = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(scope="module", params=[False, True], ids=["forward", "training"])
def scores(request: pytest.FixtureRequest) -> Scores:
    """A program of one argument, since the other one is there already."""
    training: bool = request.param
    program = coda_ir.compile(PROGRAM, device="cpu", training=training)
    w = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    w.requires_grad_(training)
    return lambda x: program(x, w)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 16, generator=torch.Generator().manual_seed(1))


def test_transforms_are_refused(scores: Scores, x: torch.Tensor):
    func: Any = import_module("torch.func")
    scores(x)  # what fits is known from here on
    with pytest.raises(ArgumentError, match=r"argument x .* torch\.func"):
        func.vmap(scores)(x.expand(3, 4, 16))
    with pytest.raises(ArgumentError, match=r"argument x .* torch\.func"):
        func.vjp(scores, x)
    with pytest.raises(ArgumentError, match=r"argument x .* torch\.func"):
        func.jvp(scores, (x,), (x,))


def test_tangents_are_refused(scores: Scores, x: torch.Tensor):
    expected = scores(x)
    with forward_ad.dual_level():
        torch.testing.assert_close(scores(x), expected)
        with pytest.raises(ArgumentError, match=r"x has a tangent.*\n.*PyTorch model"):
            scores(forward_ad.make_dual(x, x))


def test_tensors_without_elements_are_refused(scores: Scores, x: torch.Tensor):
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    with pytest.raises(ArgumentError, match=r"x is of type FakeTensor.*\n.*custom_op"):
        scores(fake)


def test_dynamo_runs_a_program_as_it_is(scores: Scores, x: torch.Tensor):
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    def after_and_before(x: torch.Tensor) -> torch.Tensor:
        return scores(x + 1) * 2

    any_torch: Any = torch
    twice = any_torch.compile(after_and_before, backend=count)
    torch.testing.assert_close(twice(x), scores(x + 1) * 2, rtol=0, atol=0)
    calls = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert [name for name in calls if "function" in name] == [
        "<built-in function add>",
        "<built-in function mul>",
    ]
