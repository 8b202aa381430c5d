"""Every example against a plain PyTorch model of the same block, at every level.

In float64 all levels are right to rounding. In the element types that the IR states, the error
against float64 is at most 1.25 times that of PyTorch eager, for the reference backend and for
the emitted Triton program (on the CPU interpreter where there is no GPU). In float32 that holds
even where eager's sums have no error, as no processor's BLAS is more exact than that.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import pytest
import torch
from support.daily import daily
from support.equivalence import assert_results_close
from support.exact_sums import ExactSums
from support.examples import DTYPES, EXAMPLES, Example, mean_errors
from support.models import MODELS

from coda_ir.api import Level
from coda_ir.devices import default_device
from coda_ir.float64 import relative_error

# No extent is a multiple of a tile; heads are not powers of two where the example allows it.
ODD_SIZES = {
    "llama_layer": {"D": 160, "F": 200, "HEAD": 32, "KV_HEADS": 5},
    "llama_mlp": {"D": 160, "F": 201},
    "gpt2_block": {"D": 144, "HEAD": 24},
    "dit_block": {"D": 144, "HEAD": 24},
    "qwen3_block": {"D": 152, "F": 201, "HEAD": 24, "HEADS": 6, "KV_HEADS": 2},
    "gemma_block": {"D": 152, "F": 201, "HEAD": 24, "HEADS": 4, "KV_HEADS": 2},
    "lm_head_cross_entropy": {"D": 153, "V": 333},
    "linear_bias_gelu": {"K": 150, "N": 173},
    "custom_epilogue.quantizable_linear": {"K": 150, "N": 173},
    "custom_epilogue.gated_linear": {"K": 150, "N": 173},
}
EVEN_SIZES = {
    "llama_layer": {"D": 128, "F": 192, "HEAD": 32, "KV_HEADS": 2},
    "llama_mlp": {"D": 128, "F": 192},
    "gpt2_block": {"D": 128, "HEAD": 32},
    "dit_block": {"D": 128, "HEAD": 32},
    "qwen3_block": {"D": 128, "F": 192, "HEAD": 32, "HEADS": 4, "KV_HEADS": 2},
    "gemma_block": {"D": 128, "F": 192, "HEAD": 32, "HEADS": 4, "KV_HEADS": 2},
    "lm_head_cross_entropy": {"D": 128, "V": 256},
    "linear_bias_gelu": {"K": 128, "N": 192},
    "custom_epilogue.quantizable_linear": {"K": 128, "N": 192},
    "custom_epilogue.gated_linear": {"K": 128, "N": 192},
}
TINY_SIZES = {
    "llama_layer": {"D": 2, "F": 1, "HEAD": 2, "KV_HEADS": 1},
    "llama_mlp": {"D": 1, "F": 1},
    "gpt2_block": {"D": 2, "HEAD": 2},
    "dit_block": {"D": 2, "HEAD": 2},
    "qwen3_block": {"D": 1, "F": 1, "HEAD": 2, "HEADS": 2, "KV_HEADS": 1},
    "gemma_block": {"D": 1, "F": 1, "HEAD": 2, "HEADS": 2, "KV_HEADS": 1},
    "lm_head_cross_entropy": {"D": 1, "V": 3},
    "linear_bias_gelu": {"K": 1, "N": 1},
    "custom_epilogue.quantizable_linear": {"K": 1, "N": 1},
    "custom_epilogue.gated_linear": {"K": 1, "N": 1},
}
ROWS = (1, 3, 127)
NORMLESS = {
    "linear_bias_gelu",
    "custom_epilogue.quantizable_linear",
    "custom_epilogue.gated_linear",
}
LEVELS: Sequence[Level] = ("block", "gemm", "scheduled")

examples = pytest.mark.parametrize("name", MODELS)
types = pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.get)


@lru_cache
def example(name: str, dtype: torch.dtype = torch.bfloat16) -> Example:
    """The example with odd sizes; one object for all tests, which keeps what it has compiled."""
    return Example(name, dtype, ODD_SIZES[name])


def dims_of(program: Example, rows: int) -> dict[str, int]:
    """Sizes of the symbols that make `rows` rows: in two sequences where they can be halved."""
    if program.is_flat:
        return {"M": rows}
    return {"B": 2, "T": rows // 2} if rows % 2 == 0 else {"B": 1, "T": rows}


def test_every_example_has_a_model():
    functions = {path.stem for path in EXAMPLES.glob("*.coda")}
    # norms.coda is what others import.
    assert functions - {"norms"} == {name.partition(".")[0] for name in MODELS}


@pytest.mark.slow
@examples
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [*ROWS, 128])
def test_float64_is_right_at_every_level(name: str, level: Level, rows: int):
    program = example(name)
    inputs = program.inputs(dims_of(program, rows), seed=rows)
    expected = program.run_model(inputs, exact=True)
    actual = program.run_reference(inputs, level, "float64")
    assert_results_close(actual, expected, 1e-13)


def assert_as_accurate(
    program: Example, rows: int, runs: int, eager_mode: AbstractContextManager[object] | None = None
) -> None:
    """The error of each result is at most 1.25 times that of eager, in the mean of `runs`.

    Eager runs inside of `eager_mode`.
    """
    inputs = [program.inputs(dims_of(program, rows), seed) for seed in range(runs)]
    exact = [program.run_model(tensors, exact=True) for tensors in inputs]
    with eager_mode or nullcontext():
        eager = mean_errors([program.run_model(tensors, exact=False) for tensors in inputs], exact)
    attempts = {
        "reference": [program.run_reference(x, "scheduled", "stated") for x in inputs],
        "triton": [program.run_triton(x) for x in inputs],
    }
    for backend, results in attempts.items():
        for index, error in enumerate(mean_errors(results, exact)):
            got, allowed = results[0][index], 1.25 * eager[index]
            assert got.dtype == program.result_dtypes[index]
            allowed = max(allowed, floor_of(got))
            assert error <= allowed, (
                f"{backend}, result {index}: {error:.2e}, eager {eager[index]:.2e}"
            )


def floor_of(result: torch.Tensor) -> float:
    """The error below which a comparison with eager means nothing.

    A single number may be right by luck: no more than its last bit can be asked. On a GPU, a kernel
    in float32 adds one product after another, and cuBLAS splits the sum where there are few rows
    (see docs/numerics.md): a few bits.
    """
    eps = torch.finfo(result.dtype).eps
    if result.dtype == torch.float32 and default_device().type != "cpu":
        return 6 * eps
    return eps if result.numel() == 1 else 0.0


# Each type, and each number of rows, of a third of the examples; of that with most runs, many rows.
ROWS_OF_A_DAY = {name: ROWS[(number + 2) % 3] for number, name in enumerate(MODELS)}
TYPES_OF_A_DAY = {name: list(DTYPES)[number % 3] for number, name in enumerate(MODELS)}


@pytest.mark.slow
@daily(lambda name, rows, dtype: (rows, dtype) == (ROWS_OF_A_DAY[name], TYPES_OF_A_DAY[name]))
@examples
@types
@pytest.mark.parametrize("rows", ROWS)
def test_error_is_at_most_that_of_eager(name: str, dtype: torch.dtype, rows: int):
    assert_as_accurate(example(name, dtype), rows, runs_of(name, rows))


def runs_of(name: str, rows: int) -> int:
    """Runs whose mean is steady: the loss is one number, its error is a matter of luck."""
    return {1: 3, 3: 2}.get(rows, 1) * (6 if name == "lm_head_cross_entropy" else 1)


@pytest.mark.slow
@daily(lambda name, rows: rows == ROWS_OF_A_DAY[name])
@examples
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.skipif(default_device().type != "cpu", reason="kernels sum in float32 on a GPU")
def test_error_is_at_most_that_of_eager_with_exact_sums(name: str, rows: int):
    # Two steps of K.
    target = "interpreter tile=16x256x128"
    program = Example(name, torch.float32, ODD_SIZES[name], target)
    # The rounding of a row's norm moves the whole row: for few rows, that is a matter of luck.
    runs = {1: 40 if name == "llama_layer" else 8, 3: 4}.get(rows, 1)
    exact_sums = ExactSums()
    assert_as_accurate(program, rows, runs, exact_sums)
    assert exact_sums.products >= runs


@pytest.mark.slow
@examples
def test_sizes_that_tiles_divide(name: str):
    assert_as_accurate(Example(name, torch.bfloat16, EVEN_SIZES[name]), 64, 2 * runs_of(name, 64))


@pytest.mark.slow
@examples
@pytest.mark.parametrize("target", ["portable", "sm_90"])
def test_schedules_for_gpus(name: str, target: str):
    program = Example(name, torch.bfloat16, ODD_SIZES[name], target)
    assert_as_accurate(program, 127, runs_of(name, 127))


@pytest.mark.slow
@examples
@pytest.mark.parametrize("rows", [1, 5])
def test_extents_of_one(name: str, rows: int):
    program = Example(name, torch.float32, TINY_SIZES[name])
    inputs = program.inputs(dims_of(program, rows), seed=0)
    expected = program.run_model(inputs, exact=True)
    assert_results_close(program.run_reference(inputs, "gemm", "float64"), expected, 1e-13)
    assert_results_close(program.run_triton(inputs), expected, 2e-6)


def assert_special_values_as_eager(program: Example, inputs: dict[str, torch.Tensor]) -> None:
    """NaN and infinities are where eager has them, and the rest is as close as eager."""
    eager = program.run_model(inputs, exact=False)
    for run in (program.run_triton(inputs), program.run_reference(inputs, "scheduled", "stated")):
        for got, wanted in zip(run, eager, strict=True):
            assert torch.equal(got.isnan(), wanted.isnan())
            assert torch.equal(got.isinf(), wanted.isinf())
            tolerance = 4 * torch.finfo(program.dtype).eps
            assert relative_error(got, wanted) <= tolerance


def activation(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The tensor that carries the residual stream."""
    return inputs["x0"] if "x0" in inputs else inputs["x"]


@pytest.mark.slow
@examples
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_special_values_go_through_as_in_eager(name: str, value: float):
    program = example(name)
    inputs = program.inputs(dims_of(program, 6), seed=0)
    rows = activation(inputs).view(-1, activation(inputs).shape[-1])
    rows[2, 1] = value
    assert_special_values_as_eager(program, inputs)


@pytest.mark.slow
@examples
@pytest.mark.parametrize("magnitude", [1e-30, 1e-4, 3e4, 1e30, 1e37])
def test_extreme_magnitudes_as_in_eager(name: str, magnitude: float):
    """The square of 1e30 overflows float32, and the norm of such a row is 0 in PyTorch."""
    program = example(name)
    inputs = program.inputs(dims_of(program, 6), seed=0)
    activation(inputs).clamp_(-2, 2).mul_(magnitude)
    assert_special_values_as_eager(program, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in NORMLESS])
def test_large_values_in_float16(name: str):
    """Norms of values just below the largest float16, 65504."""
    program = example(name, torch.float16)
    inputs = program.inputs(dims_of(program, 6), seed=0)
    activation(inputs).clamp_(-2, 2).mul_(3e4)
    assert_special_values_as_eager(program, inputs)


@pytest.mark.slow
@examples
def test_strided_inputs(name: str):
    program = example(name)
    inputs = program.inputs(dims_of(program, 6), seed=0)
    strided = {name: torch.stack([t, t], -1)[..., 0] for name, t in inputs.items()}
    expected = program.run_triton(inputs)
    for got, wanted in zip(program.run_triton(strided), expected, strict=True):
        assert torch.equal(got, wanted)
