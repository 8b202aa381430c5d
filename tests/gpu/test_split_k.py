"""Programs that share tiles, on a GPU: accuracy, equal bits, several streams, CUDA graphs.

python -m pytest tests/gpu/test_split_k.py tests/backends/triton/test_split_k.py
"""

from pathlib import Path

import pytest
import torch
from support.inputs import signature_inputs

import coda_ir
from coda_ir import CompiledFunction
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 1024, "F": 2816, "HEAD": 128}
REPEATS = 200


def compiled(options: str) -> CompiledFunction:
    return coda_ir.compile(LAYER, constants=SIZES, device="cuda", schedule=options)


@pytest.fixture(scope="module")
def split() -> CompiledFunction:
    layer = compiled('split_k=4 sizes="B=1,T=16"')
    assert layer.source.count("is_last_of_tile(counters_ptr") >= 4
    return layer


def inputs_of(layer: CompiledFunction, time: int, seed: int = 0) -> list[torch.Tensor]:
    return signature_inputs(layer, {"B": 2, "T": time}, seed)


def assert_same(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize("time", [1, 8, 33, 700])
def test_results_are_as_accurate_as_those_of_whole_tiles(split: CompiledFunction, time: int):
    inputs = inputs_of(split, time)
    exact = split.reference(inputs)
    plain = compiled('split_k=1 sizes="B=1,T=16"')
    for ours, theirs, expected in zip(split(*inputs), plain(*inputs), exact, strict=True):
        error, allowed = (relative_error(each, expected) for each in (ours, theirs))
        assert error <= 1.25 * allowed


def test_every_call_gives_the_same_bits(split: CompiledFunction):
    """Chance decides which program comes last."""
    inputs = inputs_of(split, 9)
    expected = split(*inputs)
    for _ in range(REPEATS):
        assert_same(split(*inputs), expected)


def test_calls_on_two_streams_do_not_meet(split: CompiledFunction):
    inputs = [inputs_of(split, 9, seed) for seed in (1, 2)]
    expected = [split(*each) for each in inputs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    results: list[list[tuple[torch.Tensor, ...]]] = [[], []]
    for _ in range(REPEATS):
        for stream, each, found in zip(streams, inputs, results, strict=True):
            with torch.cuda.stream(stream):
                found.append(split(*each))
    torch.cuda.synchronize()
    for found, wanted in zip(results, expected, strict=True):
        for each in found:
            assert_same(each, wanted)


def test_a_graph_replays_beside_calls(split: CompiledFunction):
    inputs = inputs_of(split, 9)
    expected = split(*inputs)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        captured = split(*inputs)
    for _ in range(REPEATS):
        for tensor in captured:
            tensor.zero_()
        side.wait_stream(torch.cuda.current_stream())
        graph.replay()
        with torch.cuda.stream(side):
            beside = split(*inputs)
        torch.cuda.synchronize()
        assert_same(captured, expected)
        assert_same(beside, expected)


def test_a_gradient_of_a_small_weight_is_split():
    text = "fn f(x: bf16[M, 512], weight w: bf16[512, 512]) {\n    return linear(x, w)\n}"
    layer = coda_ir.compile(text, device="cuda", training=True)
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(16384, 512, device="cuda", generator=generator, dtype=torch.bfloat16)
    w = (torch.randn(512, 512, device="cuda", generator=generator) / 22).bfloat16()
    w.requires_grad_()
    seed = torch.randn_like(x)
    gradients: list[torch.Tensor] = []
    for _ in range(3):
        w.grad = None
        layer(x, w).backward(seed)
        assert w.grad is not None
        gradients.append(w.grad)
    exact = seed.double().T @ x.double()
    eager = relative_error(seed.T @ x, exact)
    assert relative_error(gradients[0], exact) <= 1.25 * eager
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[0], gradients[2])
