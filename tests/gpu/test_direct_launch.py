"""Direct launches on a GPU: the bits of Triton's launches, in graphs, on streams and devices."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.emitted import module_of
from support.inputs import signature_inputs
from support.threads import in_threads

import coda_ir
from coda_ir.api import CompiledFunction

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.version.hip is not None, reason="Triton launches on AMD GPUs"),
]

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 1024, "F": 2816, "HEAD": 128}

Tensors = list[torch.Tensor]


def compiled(value: str, schedule: str | None = None) -> CompiledFunction:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODA_DIRECT_LAUNCH", value)
        return coda_ir.compile(LAYER, constants=SIZES, device="cuda", schedule=schedule)


@pytest.fixture(scope="module")
def plain() -> CompiledFunction:
    return compiled("0")


@pytest.fixture(scope="module")
def direct() -> CompiledFunction:
    return compiled("1")


def inputs_of(layer: CompiledFunction, time: int, seed: int = 0, device: str = "cuda") -> Tensors:
    return signature_inputs(layer, {"B": 2, "T": time}, seed, device)


def assert_same(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    assert all(map(torch.equal, actual, expected))


def triton_launches(layer: CompiledFunction, call: Callable[[], object]) -> int:
    """Return how many launches of a call are Triton's."""
    module, count = module_of(layer), 0
    kernels = [getattr(module, name) for name in module.KERNELS]

    def counting(run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += not options["warmup"]
            return run(*arguments, **options)

        return launch

    for kernel in kernels:
        kernel.run = counting(kernel.run)
    try:
        call()
    finally:
        for kernel in kernels:
            del kernel.run
    return count


@pytest.mark.parametrize("time", [1, 3, 127, 1024])
def test_results_are_the_same_bits(plain: CompiledFunction, direct: CompiledFunction, time: int):
    """At the same places, at others, and where only the values are others."""
    inputs = inputs_of(direct, time, seed=time)
    for seed in range(4):
        for tensor, new in zip(inputs, inputs_of(direct, time, seed), strict=True):
            tensor.copy_(new)
        expected = plain(*inputs)
        assert_same(direct(*inputs), expected)
        assert_same(direct(*(tensor.clone() for tensor in inputs)), expected)


@pytest.mark.parametrize(
    "schedule", [None, "mainloop=pointer", "mainloop=tma", "pdl=true absorb=true"]
)
def test_launches_are_direct(schedule: str | None):
    plain, direct = compiled("0", schedule), compiled("1", schedule)
    inputs = inputs_of(direct, 64)
    expected = plain(*inputs)
    for other in (inputs, inputs_of(direct, 64), inputs_of(direct, 48), inputs):
        assert triton_launches(direct, partial(direct, *other)) == 0
    for _ in range(8):
        assert_same(direct(*inputs), expected)


def test_without_waiting(plain: CompiledFunction, direct: CompiledFunction):
    """The next call, which is after it, may take the memory that a call has freed."""
    several = [inputs_of(direct, 96, seed) for seed in range(4)]
    expected = [plain(*inputs) for inputs in several]
    found: list[tuple[torch.Tensor, ...]] = []
    for _ in range(20):
        found = [direct(*inputs) for inputs in several]
    assert_same(sum(found, ()), sum(expected, ()))


def test_threads(plain: CompiledFunction, direct: CompiledFunction):
    """Each with a stream of its own. A thread has no context before its first launch."""
    several = [inputs_of(direct, 80, seed) for seed in range(4)]
    expected = [plain(*inputs) for inputs in several]
    direct(*several[0])
    torch.cuda.synchronize()

    def work(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for step in range(50):
                place = (index + step) % 4
                results = direct(*several[place])
                torch.cuda.current_stream().synchronize()
                assert_same(results, expected[place])

    in_threads(work)


def test_threads_on_the_default_stream(plain: CompiledFunction, direct: CompiledFunction):
    inputs = inputs_of(direct, 80)
    expected = plain(*inputs)
    direct(*inputs)
    in_threads(lambda index: assert_same(direct(*inputs), expected))


def test_in_a_cuda_graph(plain: CompiledFunction, direct: CompiledFunction):
    inputs, fresh = inputs_of(direct, 64), inputs_of(direct, 64)
    for _ in range(3):
        direct(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = direct(*inputs)
    for tensor, new in zip(inputs, fresh, strict=True):
        tensor.copy_(new.flip(0))
    graph.replay()
    assert_same(results, plain(*inputs))


def test_on_other_streams(plain: CompiledFunction, direct: CompiledFunction):
    inputs = inputs_of(direct, 256)
    expected = plain(*inputs)
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for _ in range(3):
                results = direct(*inputs)
                stream.synchronize()
                assert_same(results, expected)


def test_other_drivers_are_left_to_triton(
    plain: CompiledFunction, direct: CompiledFunction, monkeypatch: pytest.MonkeyPatch
):
    inputs, module = inputs_of(direct, 64), module_of(direct)
    direct(*inputs)
    with monkeypatch.context() as patch:
        patch.setattr(module, "DRIVER_FUNCTIONS", {"cuNoSuchFunction": ()})
        module.cuda_driver.cache_clear()
        assert triton_launches(direct, partial(direct, *inputs)) >= len(direct.kernels)
    module.cuda_driver.cache_clear()
    assert_same(direct(*inputs), plain(*inputs))
    assert triton_launches(direct, partial(direct, *inputs)) == 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_another_device(plain: CompiledFunction, direct: CompiledFunction):
    for device in ("cuda:0", "cuda:1", "cuda:0", "cuda:1"):
        inputs = inputs_of(direct, 64, device=device)
        for _ in range(3):
            assert_same(direct(*inputs), plain(*inputs))
