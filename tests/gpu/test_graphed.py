"""CUDA graphs of compiled functions: the bits of calls without them."""

from pathlib import Path

import pytest
import torch
from support.inputs import signature_inputs

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.diagnostics import CodaError
from coda_ir.launching.cuda_graphs import captured

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 1024, "F": 2816, "HEAD": 128}


def inputs_of(layer: CompiledFunction, batch: int, time: int, seed: int) -> list[torch.Tensor]:
    return signature_inputs(layer, {"B": batch, "T": time}, seed)


@pytest.mark.parametrize("schedule", [None, "target=portable split_k=4"])
def test_results_are_the_same_bits(schedule: str | None):
    layer = coda_ir.compile(LAYER, constants=SIZES, device="cuda", schedule=schedule)
    graph = layer.graphed()
    weights = inputs_of(layer, 1, 1, seed=0)
    for seed in range(6):
        for time in (1, 64):
            inputs = inputs_of(layer, 2, time, seed)
            for index, spec in enumerate(layer.signature.arguments):
                if spec.is_weight:
                    weights[index].copy_(inputs[index])
                    inputs[index] = weights[index]
            expected = layer(*inputs)
            assert all(map(torch.equal, graph(*inputs), expected))


def test_on_streams_of_their_own():
    layer = coda_ir.compile(LAYER, constants=SIZES, device="cuda")
    graph, inputs = layer.graphed(), inputs_of(layer, 2, 64, seed=0)
    expected = layer(*inputs)
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for _ in range(3):
                results = graph(*inputs)
                stream.synchronize()
                assert all(map(torch.equal, results, expected))


def test_folded_weights_are_folded_in_each_replay_of_a_capture():
    """Right, but slow: a graph that is recorded by the function itself is refused."""
    layer = coda_ir.compile(LAYER, constants=SIZES, device="cuda", fold_weights=True)
    assert layer.folds_weights
    with pytest.raises(CodaError, match="fold the weights again in each replay"):
        layer.graphed()
    inputs = inputs_of(layer, 2, 64, seed=0)
    names = [spec.name for spec in layer.signature.arguments]
    layer(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = layer(*inputs)
    for name in ("w_gate", "norm2", "wk"):
        inputs[names.index(name)].mul_(-1.5)
        graph.replay()
        assert all(map(torch.equal, results, layer(*inputs)))
    exact = layer.reference(inputs)
    for result, expected in zip(results, exact, strict=True):
        assert (result.double() - expected).abs().max() <= 0.02 * expected.abs().max()


def test_a_capture_that_fails_leaves_pytorch_as_it_was():
    stream = torch.cuda.current_stream()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="capture"), captured(torch.cuda.CUDAGraph()):
            torch.ones(8, device="cuda").sum().item()
        assert torch.cuda.current_stream() == stream
        drawn = [torch.randn(8, device="cuda") for _ in range(2)]
        assert not torch.equal(*drawn)
    graph, x = torch.cuda.CUDAGraph(), torch.ones(8, device="cuda")
    with captured(graph):
        y = x * 2
    x.fill_(3)
    graph.replay()
    assert torch.equal(y, torch.full_like(x, 6))
