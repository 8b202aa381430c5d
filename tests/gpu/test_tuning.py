"""Tuning on a GPU: cuBLAS and unfused kernels beside fused ones, training, CUDA graphs."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from support.compile_cache import use_cache

import coda_ir
from coda_ir.cache import tuned as store
from coda_ir.cache.folder import cached_files
from coda_ir.dialects.gemm import TUNED_ATTRIBUTE
from coda_ir.float64 import relative_error
from coda_ir.training.functions import TrainableFunction

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"
SIZES = {"D": 512, "F": 1536, "HEAD": 128}
BUDGET = 200.0
"""Seconds: enough also where other tests compile at the same time."""

Compiled = coda_ir.CompiledFunction


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_cache(monkeypatch, tmp_path)
    vars(store)["_kept"].clear()
    yield


def inputs_of(signature: Any, time: int, batch: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(time)
    tensors: list[torch.Tensor] = []
    for spec in signature.arguments:
        symbols = {"B": batch, "T": time}
        shape = [symbols[dim] if isinstance(dim, str) else dim or 1 for dim in spec.dims]
        scale = shape[-1] ** -0.5 if spec.is_weight and len(shape) == 2 else 1.0
        normal = torch.randn(shape, generator=generator) * scale
        tensors.append(normal.to("cuda", spec.dtype))
    return tensors


def errors(function: Compiled, tensors: list[torch.Tensor]) -> list[float]:
    """The error of each result against float64."""
    expected = function.reference([tensor.cpu() for tensor in tensors])
    pairs = zip(function(*tensors), expected, strict=True)
    return [relative_error(found.cpu(), wanted) for found, wanted in pairs]


@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_products_of_the_library_are_float32(element: str):
    """Were products rounded to 16 bits first, their error would be 1e-3."""
    text = f"""
    func.func @f(%x: tensor<?x512x{element}>, %w: tensor<256x512x{element}>)
        -> (tensor<?x256xf32>, tensor<256x?xf32>) {{
      %a = gemm.library %x : tensor<?x512x{element}> columns(%w : tensor<256x512x{element}>)
        -> tensor<?x256xf32>
      %b = gemm.library %x : tensor<?x512x{element}> + %x : tensor<?x512x{element}>
        columns(%w : tensor<256x512x{element}>) + (%w : tensor<256x512x{element}>)
        -> tile_t tensor<256x?xf32>
      func.return %a, %b : tensor<?x256xf32>, tensor<256x?xf32>
    }}"""
    function = coda_ir.compile(text, device="cuda")
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    shapes = ((64, 512), (256, 512))
    tensors = [torch.randn(shape, device="cuda").to(dtypes[element]) for shape in shapes]
    assert max(errors(function, tensors)) < 1e-5


@pytest.mark.parametrize("form", ["library", "unfused"])
@pytest.mark.parametrize("time", [1, 40, 1024])
def test_a_layer_of_each_form_is_as_accurate_as_the_fused_one(form: str, time: int):
    def layer(options: str) -> Compiled:
        return coda_ir.compile(LAYER, constants=SIZES, device="cuda", schedule=options)

    fused, other = layer("gemms=fused target=portable"), layer(f"gemms={form} target=portable")
    tensors = inputs_of(fused.signature, time)
    for error, limit in zip(errors(other, tensors), errors(fused, tensors), strict=True):
        assert error <= 1.25 * limit


def test_a_tuned_layer_is_right_and_can_be_captured():
    function = coda_ir.compile(LAYER, constants=SIZES, device="cuda", tune=BUDGET)
    untuned = coda_ir.compile(LAYER, constants=SIZES, device="cuda")
    tensors = inputs_of(function.signature, 512)
    for error, limit in zip(errors(function, tensors), errors(untuned, tensors), strict=True):
        assert error <= 1.25 * limit
    gemms = [op for op in function.module("scheduled").walk() if TUNED_ATTRIBUTE in op.attributes]
    assert len(gemms) >= 4
    assert any("PyTorch's library" in str(remark) for remark in function.remarks)
    for time in (512, 65):  # the second is not tuned yet, and must not be in a capture
        tensors = inputs_of(function.signature, time)
        expected = untuned(*tensors) if time == 65 else function(*tensors)
        assert captured(function, tensors, expected)


def captured(
    function: Compiled, tensors: list[torch.Tensor], expected: tuple[torch.Tensor, ...]
) -> bool:
    """Return whether a graph of a call gives what a call gives."""
    graph: Any = torch.cuda.CUDAGraph()
    coda_ir.compile(LAYER, constants=SIZES, device="cuda")(*tensors)  # kernels are loaded
    with torch.cuda.graph(graph):
        results = function(*tensors)
    graph.replay()
    torch.cuda.synchronize()
    return all(relative_error(a, b.double()) < 1e-2 for a, b in zip(results, expected, strict=True))


def test_a_tuned_step_has_the_gradients_of_the_untuned_one():
    tuned = coda_ir.compile(LAYER, constants=SIZES, device="cuda", training=True, tune=BUDGET)
    untuned = coda_ir.compile(LAYER, constants=SIZES, device="cuda", training=True)
    found, wanted = gradients(tuned), gradients(untuned)
    for gradient, expected in zip(found, wanted, strict=True):
        assert relative_error(gradient, expected.double()) < 2e-2
    assert any("tuned on" in str(remark) for remark in tuned.remarks)


def gradients(function: TrainableFunction) -> tuple[torch.Tensor, ...]:
    """Gradients of the sum of squares of the results, for all arguments but the rotary tables."""
    tensors = inputs_of(function.signature, 512)
    pairs = zip(function.signature.arguments, tensors, strict=True)
    wanted = [x.requires_grad_() for spec, x in pairs if spec.name not in ("cos", "sin")]
    squares: list[torch.Tensor] = [result.float().square().sum() for result in function(*tensors)]
    return torch.autograd.grad(squares, wanted)


def test_torch_compile_tunes():
    torch_compile: Any = import_module("torch").compile
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.SiLU(), torch.nn.Linear(512, 256)
    ).to("cuda", torch.bfloat16)
    x = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16)
    fast = torch_compile(model, backend="coda", options={"tune": BUDGET, "errors": "raise"})
    with torch.no_grad():
        assert relative_error(fast(x), model(x).double()) < 1e-2
    assert any(file.is_tuning for file in cached_files())
