"""Gradients of every example against a plain PyTorch model of the same block.

In float64 the derived backward is right to rounding. In the element types that the IR states, the
error of each gradient against float64 is at most 1.25 times that of PyTorch eager, for the
reference backend on the joint function and for the compiled forward and backward programs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pytest
import torch
from support.examples import DTYPES, Example, mean_errors
from support.gradients import differentiated, joint_of
from support.joints import function_of
from support.models import MODELS
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.backends.reference import Precision, run_function
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.passes.gradient.derive_gradient import NoDerivativeError
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.signatures import signature_of

# No extent is a multiple of a tile.
SIZES = {
    "llama_layer": {"D": 40, "F": 56, "HEAD": 8, "KV_HEADS": 5},
    "llama_mlp": {"D": 40, "F": 57},
    "gpt2_block": {"D": 48, "HEAD": 8},
    "dit_block": {"D": 48, "HEAD": 8},
    "qwen3_block": {"D": 40, "F": 57, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2},
    "gemma_block": {"D": 40, "F": 57, "HEAD": 8, "HEADS": 4, "KV_HEADS": 2},
    "lm_head_cross_entropy": {"D": 41, "V": 77},
    "linear_bias_gelu": {"K": 38, "N": 45},
}
ON_GEMM_LEVEL = ("gemma_block",)
"""Examples that round more than eager PyTorch on the block level, where 1 + w has the type of w."""

EPILOGUES = ("custom_epilogue.quantizable_linear", "custom_epilogue.gated_linear")
"""Written on the GEMM level, where nothing is differentiated."""

RUNS, COMPILED_RUNS = 4, 2

Tensors = Mapping[str, torch.Tensor]
Gradients = tuple[torch.Tensor, ...]

examples = pytest.mark.parametrize("name", SIZES)
types = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=DTYPES.get)


@dataclass(frozen=True)
class Draw:
    """Arguments by name, gradients of the results, and what PyTorch makes of them."""

    inputs: dict[str, torch.Tensor]
    seeds: list[torch.Tensor]
    exact: Gradients
    eager: Gradients


class Differentiated:
    """One example with the joint function that is derived from it."""

    def __init__(self, name: str, dtype: torch.dtype):
        self.program = Example(name, dtype, SIZES[name])
        self.module = self.program.module("block").clone()
        self.joint = joint_of(self.module, function=name)
        names = [spec.name for spec in signature_of(self.program.function()).arguments]
        self.wanted = [names[number] for number in differentiated(self.joint)]
        self.draws = [self._draw(seed) for seed in range(RUNS)]

    def _draw(self, seed: int) -> Draw:
        dims = {"M": 6} if self.program.is_flat else {"B": 2, "T": 3}
        inputs = self.program.inputs(dims, seed)
        generator = torch.Generator().manual_seed(seed)
        seeds = [
            torch.randn(result.shape, generator=generator).to(result.dtype)
            for result in self._model(inputs)
        ]
        exact = self.gradients(self._model, inputs, seeds, torch.float64)
        return Draw(inputs, seeds, exact, self.gradients(self._model, inputs, seeds))

    def _model(self, tensors: Tensors) -> tuple[torch.Tensor, ...]:
        return self.program.model(tensors, self.program.constants)

    def gradients(
        self,
        function: Callable[[Tensors], torch.Tensor | tuple[torch.Tensor, ...]],
        inputs: Tensors,
        seeds: Sequence[torch.Tensor],
        dtype: torch.dtype | None = None,
    ) -> Gradients:
        """The gradients by PyTorch's autograd, with the floats of `dtype` where it is given."""
        tensors = {
            name: tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor
            for name, tensor in inputs.items()
        }
        leaves = {name: tensors[name].detach().clone().requires_grad_() for name in self.wanted}
        results = function({**tensors, **leaves})
        results = (results,) if isinstance(results, torch.Tensor) else results
        weights = [seed.to(result.dtype) for seed, result in zip(seeds, results, strict=True)]
        return torch.autograd.grad(results, list(leaves.values()), weights)

    @cached_property
    def fused(self) -> ModuleOp:
        """The joint function on the GEMM level."""
        module = self.module.clone()
        CodaToGemmPass().apply(make_context(), module)
        return module

    def run_joint(self, module: ModuleOp, draw: Draw, precision: Precision) -> Gradients:
        """The gradients that the joint function gives on the reference backend."""
        func = function_of(module, self.joint.func.sym_name.data)
        results = run_function(func, [*draw.inputs.values(), *draw.seeds], precision)
        return results[self.joint.primal_results :]


@lru_cache
def differentiated_example(name: str, dtype: torch.dtype) -> Differentiated:
    return Differentiated(name, dtype)


def assert_as_accurate(
    case: Differentiated, draws: Sequence[Draw], runs: Sequence[Gradients]
) -> None:
    """Every error is at most 1.25 times that of eager."""
    exact = [draw.exact for draw in draws]
    errors, eager = mean_errors(runs, exact), mean_errors([draw.eager for draw in draws], exact)
    for name, got, error, allowed in zip(case.wanted, runs[0], errors, eager, strict=True):
        assert got.dtype == case.program.dtype
        assert error <= 1.25 * allowed, f"d_{name}: {error:.2e}, eager {allowed:.2e}"


@pytest.mark.slow
@examples
def test_float64_is_right(name: str):
    case = differentiated_example(name, torch.float32)
    draw = case.draws[0]
    for got, exact in zip(case.run_joint(case.module, draw, "float64"), draw.exact, strict=True):
        assert relative_error(got, exact) <= 1e-13


@pytest.mark.slow
@examples
@types
def test_error_is_at_most_that_of_eager(name: str, dtype: torch.dtype):
    case = differentiated_example(name, dtype)
    module = case.fused if name in ON_GEMM_LEVEL else case.module
    runs = [case.run_joint(module, draw, "stated") for draw in case.draws]
    assert_as_accurate(case, case.draws, runs)


@pytest.mark.slow
@examples
@types
def test_compiled_programs(name: str, dtype: torch.dtype):
    case = differentiated_example(name, dtype)
    module = case.program.module("block").clone()
    program = coda_ir.compile(module, training=True, device="cpu")
    draws = case.draws[:COMPILED_RUNS]
    runs = [
        case.gradients(lambda tensors: program(**tensors), draw.inputs, draw.seeds)
        for draw in draws
    ]
    assert_as_accurate(case, draws, runs)


def test_every_example_is_differentiated():
    assert set(MODELS) == {*SIZES, *EPILOGUES}


@pytest.mark.parametrize("name", EPILOGUES)
def test_the_gemm_level_is_refused(name: str):
    program = Example(name)
    with pytest.raises(NoDerivativeError, match=r"gemm\.fused has no derivative for %") as refused:
        joint_of(program.module("block").clone(), function=program.entry)
    assert "write operators" in str(refused.value)


WITH_BACKWARD = """
epilogue squared(acc) -> (y: tile, z: tile) {
    y = acc * acc
    z = acc
}

epilogue last(acc) -> (y: tile) {
    y = acc * acc
}

fn f(x: f32[M, 8], weight w: f32[5, 8]) -> f32[M, 5] {
    y = last(linear(x, w))
    return y
}

fn f_forward(x: f32[M, 8], weight w: f32[5, 8]) -> (f32[M, 5], f32[M, 5]) {
    y, z = squared(linear(x, w))
    return y, z
}

fn f_backward(z: f32[M, 5], weight w: f32[5, 8], d_y: f32[M, 5]) -> f32[M, 8] {
    d_x = matmul(2.0 * z * d_y, w)
    return d_x
}
"""


def test_an_epilogue_with_a_backward_of_its_own():
    program = coda_ir.compile(WITH_BACKWARD, entry="f", training=True, device="cpu")
    x, w = torch.randn(3, 8, requires_grad=True), torch.randn(5, 8)
    (gradient,) = torch.autograd.grad(program(x, w).sum(), x)
    (wanted,) = torch.autograd.grad(torch.nn.functional.linear(x, w).square().sum(), x)
    torch.testing.assert_close(gradient, wanted)
