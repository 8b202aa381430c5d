"""Tensors that a call saves for its backward are freed while the backward runs."""

import gc
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from support.torch_compile import compiled, reset
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import coda_ir
from coda_ir.training.functions import TrainableFunction

library: Any = import_module("torch.library")

WATCHED: dict[str, StorageWeakRef] = {}
ALIVE: list[set[str]] = []
"""The tensors of WATCHED that are alive at each call of the backward of `probe`, in order."""


@library.custom_op("coda_saved::probe", mutates_args=())
def probe(x: torch.Tensor) -> torch.Tensor:
    """The identity; its backward looks at what is alive."""
    return x.clone()


@probe.register_fake
def _fake(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def look(_: object, gradient: torch.Tensor) -> torch.Tensor:
    gc.collect()  # Triton's interpreter makes cycles
    ALIVE.append({name for name, storage in WATCHED.items() if not storage.expired()})
    return gradient


probe.register_autograd(look)

FEED_FORWARD = """
func.func @network(
    %x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]},
    %up: tensor<16x8xf32> {coda.name = "up", coda.weight},
    %middle: tensor<16x16xf32> {coda.name = "middle", coda.weight},
    %down: tensor<8x16xf32> {coda.name = "down", coda.weight}) -> tensor<?x8xf32> {
  %h = torch.call "coda_saved.probe.default"(%x) {arguments = "{0}"} : (tensor<?x8xf32>)
    -> tensor<?x8xf32>
  %a = coda.linear %h, %up : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %b = coda.silu %a : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %p = torch.call "coda_saved.probe.default"(%b) {arguments = "{0}"} : (tensor<?x16xf32>)
    -> tensor<?x16xf32>
  %c = coda.linear %p, %middle : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %d = coda.tanh %c : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = coda.linear %d, %down : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
"""


@pytest.fixture(scope="module", params=["reference", "triton"])
def network(request: pytest.FixtureRequest) -> TrainableFunction:
    return coda_ir.compile(FEED_FORWARD, training=True, target=request.param)


@pytest.fixture(autouse=True)
def watching() -> Iterator[None]:
    WATCHED.clear()
    ALIVE.clear()
    yield


def called(network: TrainableFunction) -> tuple[Any, dict[str, Any]]:
    """The result of a call, whose saved tensors are watched, and the weights."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"x": (5, 8), "up": (16, 8), "middle": (16, 16), "down": (8, 16)}
    tensors = {
        name: torch.randn(shape, generator=generator).to(network.device).requires_grad_()
        for name, shape in shapes.items()
    }
    y = network(**tensors)
    watch(y, tensors.values(), (spec.name for spec in network.saved))
    return y, tensors


def watch(result: Any, inputs: Any, names: Any) -> None:
    """Watch what the node of a result holds beside its inputs, by name."""
    pointers = {tensor.data_ptr() for tensor in inputs}
    saved = [t for t in result.grad_fn.saved_tensors if t.data_ptr() not in pointers]
    for name, tensor in zip(names, saved, strict=True):
        WATCHED[str(name)] = StorageWeakRef(tensor.untyped_storage())


@pytest.mark.slow
def test_saved_tensors_are_freed_after_their_last_use(network: TrainableFunction):
    y, _ = called(network)
    names = set(WATCHED)
    assert {"a", "d"} <= names and names & {"h", "p"}
    y.sum().backward()
    after_tanh, at_the_end = ALIVE
    assert "a" in after_tanh and "d" not in after_tanh
    assert not {"a", "d", "p"} & at_the_end


def test_a_graph_that_is_retained_keeps_them(network: TrainableFunction):
    y, tensors = called(network)
    y.sum().backward(retain_graph=True)
    once = tensors["up"].grad.clone()
    assert [set(WATCHED), set(WATCHED)] == ALIVE
    y.sum().backward()
    assert "d" not in ALIVE[2] and not {"a", "d", "p"} & ALIVE[3]
    torch.testing.assert_close(tensors["up"].grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


class Network(nn.Module):
    """The same network as a model."""

    def __init__(self):
        super().__init__()
        self.up, self.middle = nn.Linear(8, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.down = nn.Linear(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p: torch.Tensor = probe(nn.functional.silu(self.up(probe(x))))
        return self.down(self.middle(p).tanh())


@pytest.mark.slow
def test_saved_tensors_of_a_compiled_model_are_freed():
    reset()
    model = Network()
    x = torch.randn(5, 8, requires_grad=True)
    y: Any = compiled(model)(x)
    watch(y, (x, *model.parameters()), range(4))
    y.sum().backward()
    after_tanh, at_the_end = ALIVE
    assert len(WATCHED) == 4 and 0 < len(after_tanh) < 4 and not at_the_end
