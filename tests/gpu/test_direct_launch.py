"""Direct launches on a GPU: the results of Triton's launches, in graphs, on streams and devices."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.inputs import signature_inputs

import coda_ir
from coda_ir.api import CompiledFunction

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 1024, "F": 2816, "HEAD": 128}


def compiled(value: str) -> CompiledFunction:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODA_DIRECT_LAUNCH", value)
        return coda_ir.compile(LAYER, constants=SIZES, device="cuda")


@pytest.fixture(scope="module")
def plain() -> CompiledFunction:
    return compiled("0")


@pytest.fixture(scope="module")
def direct() -> CompiledFunction:
    return compiled("1")


def inputs_of(layer: CompiledFunction, time: int, device: str = "cuda") -> list[torch.Tensor]:
    return signature_inputs(layer, {"B": 2, "T": time}, time, device)


def launches_of(layer: CompiledFunction) -> dict[str, Any]:
    module: Any = layer._generated  # pyright: ignore[reportPrivateUsage]
    names: dict[str, Any] = module.__dict__
    return {name: x for name, x in names.items() if isinstance(x, module.DirectLaunch)}


def assert_same(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize("time", [1, 3, 127, 1024])
def test_results_are_the_same_bits(plain: CompiledFunction, direct: CompiledFunction, time: int):
    inputs = inputs_of(plain, time)
    expected = plain(*inputs)
    for _ in range(4):
        assert_same(direct(*inputs), expected)
        assert_same(direct(*(tensor.clone() for tensor in inputs)), expected)


@pytest.mark.skipif(torch.version.hip is not None, reason="launches are Triton's own on AMD GPUs")
def test_launches_are_direct(direct: CompiledFunction):
    inputs = inputs_of(direct, 64)
    for _ in range(3):
        direct(*inputs)
    launches = launches_of(direct)
    assert launches and all(launch.prepared for launch in launches.values())


@pytest.mark.skipif(torch.version.hip is not None, reason="launches are Triton's own on AMD GPUs")
@pytest.mark.parametrize("time", [1, 64])
def test_repeated_calls(plain: CompiledFunction, direct: CompiledFunction, time: int):
    """Tensors stay where they are, their values change."""
    inputs = inputs_of(plain, time)
    for seed in range(8):
        for tensor, new in zip(inputs, inputs_of(plain, time + seed), strict=True):
            tensor.copy_(new.flatten()[: tensor.numel()].view(tensor.shape))
        assert_same(direct(*inputs), plain(*inputs))
    module: Any = direct._generated  # pyright: ignore[reportPrivateUsage]
    assert any(module.CALLS.known.values())


def test_in_a_cuda_graph(plain: CompiledFunction, direct: CompiledFunction):
    inputs, fresh = inputs_of(plain, 64), inputs_of(plain, 64)
    for _ in range(3):
        direct(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = direct(*inputs)
    for tensor, new in zip(inputs, fresh, strict=True):
        tensor.copy_(new.flip(0))
    graph.replay()
    assert_same(results, plain(*inputs))


def test_on_a_stream_of_its_own(plain: CompiledFunction, direct: CompiledFunction):
    inputs = inputs_of(plain, 256)
    expected = plain(*inputs)
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for _ in range(3):
                results = direct(*inputs)
                stream.synchronize()
                assert_same(results, expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_another_device(plain: CompiledFunction, direct: CompiledFunction):
    for device in ("cuda:0", "cuda:1", "cuda:0", "cuda:1"):
        inputs = inputs_of(plain, 64, device)
        for _ in range(3):
            assert_same(direct(*inputs), plain(*inputs))
