"""Direct launches on a GPU: the results of Triton's launches, in graphs, on streams and devices."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.inputs import signature_inputs
from support.threads import in_threads

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.native_calls.library import why_not

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


NATIVE = pytest.mark.skipif(
    torch.version.hip is not None, reason="launches are Triton's own on AMD GPUs"
)


def natively(layer: CompiledFunction, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """A call of which the generated module does nothing."""
    names: dict[str, Any] = vars(layer)
    run, names["_run"] = names["_run"], pytest.fail
    try:
        return layer(*inputs)
    finally:
        names["_run"] = run


@NATIVE
@pytest.mark.parametrize("time", [1, 64, 127])
def test_native_calls(plain: CompiledFunction, direct: CompiledFunction, time: int):
    """Tensors at other places, on streams of their own, and in a graph."""
    for _ in range(3):
        direct(*inputs_of(direct, time))
    assert why_not() is None
    for seed in range(4):
        inputs = signature_inputs(direct, {"B": 2, "T": time}, seed, "cuda")
        expected = plain(*inputs)
        assert_same(natively(direct, inputs), expected)
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            results = natively(direct, inputs)
            torch.cuda.current_stream().synchronize()
        assert_same(results, expected)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = natively(direct, inputs)
        graph.replay()
        assert_same(results, expected)


@NATIVE
def test_native_calls_without_waiting(plain: CompiledFunction, direct: CompiledFunction):
    """What a call needs meanwhile may be taken by the next one, which is behind it."""
    several = [signature_inputs(direct, {"B": 2, "T": 96}, seed, "cuda") for seed in range(4)]
    expected = [plain(*inputs) for inputs in several]
    for _ in range(3):
        direct(*several[0])
    torch.cuda.synchronize()
    found: list[tuple[torch.Tensor, ...]] = []
    for _ in range(20):
        found = [direct(*inputs) for inputs in several]
    assert all(map(torch.equal, sum(found, ()), sum(expected, ())))


@NATIVE
def test_native_calls_of_threads(plain: CompiledFunction, direct: CompiledFunction):
    several = [signature_inputs(direct, {"B": 2, "T": 80}, seed, "cuda") for seed in range(4)]
    expected = [plain(*inputs) for inputs in several]
    direct(*several[0])
    torch.cuda.synchronize()
    failures: list[object] = []

    def work(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for step in range(50):
                place = (index + step) % 4
                results = direct(*several[place])
                torch.cuda.current_stream().synchronize()
                failures.extend(
                    place
                    for a, b in zip(results, expected[place], strict=True)
                    if not torch.equal(a, b)
                )

    in_threads(work)
    assert not failures


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
