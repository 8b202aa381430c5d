"""Launches that overlap with the kernels before, and statistics that GEMMs combine, on Hopper."""

from pathlib import Path

import pytest
import torch

import coda_ir
from coda_ir.api import CompiledFunction, find_entry
from coda_ir.float64 import relative_error
from coda_ir.random_inputs import random_inputs

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 1024, "F": 2816, "HEAD": 128}
MAIN_LOOPS = ("pointer", "tma", "warp_specialized", "ping_pong")


@pytest.fixture(autouse=True)
def _needs_hopper() -> None:
    if torch.version.hip is not None or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("programmatic dependent launch came with Hopper")


def compiled(main_loop: str, options: str) -> CompiledFunction:
    schedule = f"target=sm_90 mainloop={main_loop} {options}"
    return coda_ir.compile(LAYER, constants=SIZES, device="cuda", schedule=schedule)


def inputs_of(layer: CompiledFunction, time: int, seed: int) -> dict[str, torch.Tensor]:
    func = find_entry(layer.module("block"))
    return random_inputs(func, {"B": 2, "T": time}, seed=seed, device="cuda")


def assert_same(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize("main_loop", MAIN_LOOPS)
def test_results_are_the_same_bits(main_loop: str):
    """Also of calls that follow one another at once, which use the same memory."""
    plain, overlapping = compiled(main_loop, ""), compiled(main_loop, "pdl=true")
    for time in (1, 127, 1024):
        sets = [inputs_of(plain, time, seed) for seed in range(4)]
        expected = [plain(**inputs) for inputs in sets]
        for _ in range(10):
            results = [overlapping(**inputs) for inputs in sets]
            for actual, wanted in zip(results, expected, strict=True):
                assert_same(actual, wanted)


def test_in_a_cuda_graph():
    plain, overlapping = (compiled("tma", f"absorb=true {o}") for o in ("", "pdl=true"))
    inputs, fresh = (inputs_of(plain, 64, seed) for seed in range(2))
    for _ in range(3):
        overlapping(**inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = overlapping(**inputs)
    for name, tensor in inputs.items():
        tensor.copy_(fresh[name])
    for _ in range(10):
        graph.replay()
    assert_same(results, plain(**fresh))


@pytest.mark.parametrize("main_loop", MAIN_LOOPS)
@pytest.mark.parametrize("time", [1, 1000])
def test_absorbed_statistics(main_loop: str, time: int):
    plain, absorbed = compiled(main_loop, ""), compiled(main_loop, "absorb=true")
    assert not [name for name in absorbed.kernels if "finalize_sum" in name]
    inputs = inputs_of(plain, time, 0)
    for actual, wanted in zip(absorbed(**inputs), plain(**inputs), strict=True):
        assert relative_error(actual, wanted) < 1e-3
