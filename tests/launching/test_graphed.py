"""Calls that replay a CUDA graph. The graphs here run the function again; GPUs have real ones."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.compiled import CompiledFunction
from coda_ir.diagnostics import CodaError
from coda_ir.launching import cuda_graphs
from coda_ir.launching.cuda_graphs import GraphedFunction, Tensors

TEXT = """
fn f(x: f32[B, 4], weight w: f32[4]) -> (f32[B, 4], f32[B, 4]) {
    return x * w, x + x
}
"""


class Gpu:
    """The used interface of PyTorch: a stream, and graphs that run again what was recorded."""

    def __init__(self, function: CompiledFunction, monkeypatch: pytest.MonkeyPatch):
        self.stream, self.recorded, self.replayed = 1, 0, 0
        self.is_capturing = False
        monkeypatch.setattr(function.executable, "has_cuda_graphs", True)
        for name, value in {
            "current_stream": lambda: SimpleNamespace(cuda_stream=self.stream),
            "device": nullcontext,
            "is_initialized": lambda: True,
            "is_current_stream_capturing": lambda: self.is_capturing,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)

    def record(self, run: Callable[[], Tensors]) -> tuple[Callable[[], None], Tensors]:
        assert not torch.is_grad_enabled()
        self.recorded += 1
        results = [torch.full_like(result, torch.nan) for result in run()]

        def replay() -> None:
            self.replayed += 1
            for place, result in zip(results, run(), strict=True):
                place.copy_(result)

        return replay, results


@pytest.fixture
def function() -> CompiledFunction:
    return coda_ir.compile(TEXT, target="reference", device="cpu")


@pytest.fixture
def gpu(function: CompiledFunction, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return Gpu(function, monkeypatch)


def check(graph: GraphedFunction, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    product, total = graph(x, w=w)
    assert torch.equal(product, x * w) and torch.equal(total, x + x)
    return product, total


def test_one_graph_for_sizes(function: CompiledFunction, gpu: Gpu):
    graph, w = GraphedFunction(function, gpu), torch.randn(4)
    check(graph, torch.randn(3, 4), w)
    first = check(graph, torch.randn(3, 4), w)
    for _ in range(3):
        again = check(graph, torch.randn(3, 4), w)
        assert [a.data_ptr() for a in again] == [a.data_ptr() for a in first]
    for x in (torch.randn(2, 4), torch.randn(4, 3).T):
        check(graph, x, w)
        check(graph, torch.randn_like(x), w)
    assert (gpu.recorded, gpu.replayed) == (3, 6)


def test_weights_are_read_where_they_are(function: CompiledFunction, gpu: Gpu):
    graph, x, w = GraphedFunction(function, gpu), torch.randn(3, 4), torch.randn(4)
    check(graph, x, w)
    w.mul_(2)
    check(graph, x, w)
    assert gpu.recorded == 1
    check(graph, x, torch.randn(4))
    check(graph, x, torch.randn(4, 2)[:, 0])
    assert gpu.recorded == 3


def test_inputs_are_copied(function: CompiledFunction, gpu: Gpu):
    graph, x, w = GraphedFunction(function, gpu), torch.randn(3, 4), torch.randn(4)
    product, _ = check(graph, x, w)
    before = product.clone()
    x.zero_()
    assert torch.equal(product, before)


def test_streams_have_graphs_of_their_own(function: CompiledFunction, gpu: Gpu):
    graph, x, w = GraphedFunction(function, gpu), torch.randn(3, 4), torch.randn(4)
    for gpu.stream in (1, 2, 1, 2):
        check(graph, x, w)
    assert gpu.recorded == 2


def test_inside_of_another_capture_the_function_runs(function: CompiledFunction, gpu: Gpu):
    graph, x, w = GraphedFunction(function, gpu), torch.randn(3, 4), torch.randn(4)
    gpu.is_capturing = True
    with torch.no_grad():
        check(graph, x, w)
    assert not gpu.recorded


def test_graphs_are_bounded(function: CompiledFunction, gpu: Gpu, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS_OF_FUNCTION", 2)
    graph, w = GraphedFunction(function, gpu), torch.randn(4)
    for batch in (1, 2, 1, 3, 1, 2):  # 3 goes for the second 2: 1 was used later
        check(graph, torch.randn(batch, 4), w)
    assert gpu.recorded == 4


def test_an_argument_that_is_wrong(function: CompiledFunction, gpu: Gpu):
    graph = GraphedFunction(function, gpu)
    function.device = torch.device("cpu")
    with pytest.raises(CodaError, match="argument w has shape"):
        graph(torch.randn(3, 4), torch.randn(5))
    assert not gpu.recorded


@pytest.mark.parametrize("target", ["triton", "reference"])
def test_not_without_a_gpu(target: Any):
    function = coda_ir.compile(TEXT, target=target, device="cpu")
    with pytest.raises(CodaError, match="CUDA graphs are for kernels on GPUs"):
        function.graphed()
