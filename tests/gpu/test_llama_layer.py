"""The Llama layer as a GPU compiles and runs it: real sizes, every M, CUDA graphs."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.emitted import module_of
from support.models import MODELS

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 1024, "F": 2816, "HEAD": 128}


@pytest.fixture(scope="module")
def layer() -> CompiledFunction:
    return coda_ir.compile(LAYER, constants=SIZES, device="cuda")


def inputs_of(layer: CompiledFunction, time: int, seed: int) -> dict[str, torch.Tensor]:
    """Fresh normal data for two sequences; weights scaled by 1/sqrt(K)."""
    generator = torch.Generator().manual_seed(seed)
    symbols = {"B": 2, "T": time}
    tensors: dict[str, torch.Tensor] = {}
    for spec in layer.signature.arguments:
        shape = [symbols[dim] if isinstance(dim, str) else dim or 1 for dim in spec.dims]
        normal = torch.randn(shape, generator=generator)
        scaled = normal / math.sqrt(shape[-1]) if spec.is_weight and len(shape) == 2 else normal
        tensors[spec.name] = scaled.to("cuda", spec.dtype)
    return tensors


def errors(
    layer: CompiledFunction, results: tuple[torch.Tensor, ...], inputs: dict[str, torch.Tensor]
) -> list[float]:
    exact = {name: tensor.double() for name, tensor in inputs.items()}
    expected = MODELS["llama_layer"](exact, {**SIZES, "KV_HEADS": SIZES["D"] // SIZES["HEAD"]})
    return [relative_error(a.cpu(), e.cpu()) for a, e in zip(results, expected, strict=True)]


@pytest.mark.parametrize("time", [1, 3, 127, 1024])
def test_bf16_layer_is_right(layer: CompiledFunction, time: int):
    inputs = inputs_of(layer, time, seed=time)
    assert max(errors(layer, layer(**inputs), inputs)) < 5e-3


def test_one_compiled_kernel_serves_every_number_of_rows(layer: CompiledFunction):
    generated: Any = module_of(layer)
    for time in (1, 3, 16, 127, 128):
        layer(**inputs_of(layer, time, seed=0))
    for name in layer.kernels:
        (caches,) = getattr(generated, name).device_caches.values()
        assert len(caches[0]) == 1, f"{name} was compiled {len(caches[0])} times"


def test_layer_runs_in_a_cuda_graph(layer: CompiledFunction):
    inputs = inputs_of(layer, 64, seed=1)
    layer(**inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = layer(**inputs)
    fresh = inputs_of(layer, 64, seed=2)
    for name, tensor in inputs.items():
        tensor.copy_(fresh[name])
    for result in results:
        result.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert max(errors(layer, results, fresh)) < 5e-3
