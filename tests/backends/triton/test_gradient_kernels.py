"""Kernels of backward passes on Triton's CPU interpreter, against the reference in float64."""

from pathlib import Path

import pytest
import torch
from support import gradient_programs as programs
from support.emitted import run_operator
from support.kernel_harness import (
    assert_rounded,
    check_against_reference,
    function_of,
    gemms_of,
    gemms_of_func,
    parse_module,
    run_kernel,
)

from coda_ir.backends.reference import run_function
from coda_ir.backends.triton.definitions import used_names
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.prelude import device_definitions

pytestmark = pytest.mark.any_device

DTYPES = ("f32", "bf16")
MAINLOOPS = ("pointer", "tma")


def schedule(mainloop: str, bm: int, bn: int, bk: int, warps: int = 4) -> str:
    return f'{mainloop}, "{bm}x{bn}x{bk}", warps = {warps}, stages = 3, group_m = 2'


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["kn", "nk"])
def test_sums_of_products(layout: str, dtype: str, tmp_path: Path) -> None:
    text = programs.input_gradient(dtype, (40, 7, 1), 33, schedule("pointer", 16, 32, 16), layout)
    assert check_against_reference(text, [19], tmp_path).name == "gemm_terms_residual_sum_colsum"


@pytest.mark.parametrize("layout", ["kn", "nk"])
@pytest.mark.parametrize("depths", [(40, 24), (40,)])
def test_sums_of_products_by_tma(depths: tuple[int, ...], layout: str, tmp_path: Path) -> None:
    text = programs.input_gradient("bf16", depths, 72, schedule("tma", 32, 32, 32), layout)
    check_against_reference(text, [3, 11], tmp_path)


def test_an_epilogue_of_many_tiles_works_on_fewer_elements(tmp_path: Path) -> None:
    text = programs.swiglu_gradient("bf16", (24,), 40, schedule("pointer", 32, 64, 16, warps=1))
    kernel = check_against_reference(text, [37], tmp_path)
    assert "for subtile in tl.static_range(2):" in kernel.source


@pytest.mark.parametrize("mainloop", MAINLOOPS)
def test_sums_of_products_in_pair_mode(mainloop: str, tmp_path: Path) -> None:
    text = programs.gated_input_gradient("f16", (48, 16), 56, schedule(mainloop, 32, 64, 16))
    check_against_reference(text, [37], tmp_path)


@pytest.mark.parametrize("rows", [1, 3, 127])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weight_gradient(dtype: str, rows: int, tmp_path: Path) -> None:
    text = programs.weight_gradient(dtype, 40, 33, schedule("pointer", 32, 16, 16))
    kernel = check_against_reference(text, [rows], tmp_path)
    assert kernel.name == "gemm_transposed_ssq_colmax"
    assert [argument.name for argument in kernel.arguments][-1] == "K"


def test_weight_gradient_without_columns() -> None:
    dy, x = torch.randn(2, 3, 4), torch.randn(2, 3, 0)
    found = run_operator("coda.weight_gradient", dy, x, result="tensor<4x0xf32>")
    assert found.shape == (4, 0)


def test_gradients_in_three_parts(tmp_path: Path) -> None:
    in_parts = schedule("three_parts", 32, 16, 16)
    of_weight = programs.weight_gradient("f32", 40, 33, in_parts)
    of_input = programs.input_gradient("f32", (40, 7, 1), 33, in_parts, "nk")
    for text in (of_weight, of_input):
        assert "IN_PARTS=True" in check_against_reference(text, [21], tmp_path).source


@pytest.mark.parametrize(("m", "n"), [(1, 35), (16, 1), (37, 16), (1, 1)])
def test_every_extent_of_a_weight(m: int, n: int, tmp_path: Path) -> None:
    text = programs.weight_gradient("bf16", m, n, schedule("pointer", 16, 16, 16))
    check_against_reference(text, [21], tmp_path, seed=m + n)


@pytest.mark.parametrize("rows", [1, 31, 100])
def test_weight_gradient_by_tma(rows: int, tmp_path: Path) -> None:
    text = programs.weight_gradient("bf16", 40, 72, schedule("tma", 32, 64, 32))
    check_against_reference(text, [rows], tmp_path)


@pytest.mark.parametrize("mainloop", MAINLOOPS)
def test_no_rows_give_zeros(mainloop: str, tmp_path: Path) -> None:
    text = programs.weight_gradient("f16", 24, 40, schedule(mainloop, 16, 16, 16))
    func = function_of(parse_module(text))
    arguments = [torch.empty(0, 24).half(), torch.empty(0, 40).half()]
    _, results = run_kernel(func, arguments, tmp_path)
    assert torch.equal(results[0], torch.zeros(24, 40).half())


@pytest.mark.parametrize("mainloop", MAINLOOPS)
@pytest.mark.parametrize("columns", [(24, 40), (72,)])
def test_merged_weight_gradients(columns: tuple[int, ...], mainloop: str, tmp_path: Path) -> None:
    text = programs.merged_weight_gradients("bf16", 56, columns, schedule(mainloop, 32, 32, 16))
    check_against_reference(text, [33], tmp_path)


@pytest.mark.parametrize("mainloop", MAINLOOPS)
def test_a_weight_that_is_used_twice(mainloop: str, tmp_path: Path) -> None:
    text = programs.twice_used_weight("bf16", 24, 40, schedule(mainloop, 16, 32, 16))
    func = function_of(parse_module(text))
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 24), (2, 9, 24), (5, 40), (2, 9, 40))
    arguments = [torch.randn(s, generator=generator).bfloat16() for s in shapes]
    kernel, (result,) = run_kernel(func, arguments, tmp_path)
    (op,) = gemms_of_func(func)
    assert_rounded(op.results[0], result.double(), run_function(func, arguments)[0])
    assert {"K", "K_1"} <= {argument.name for argument in kernel.arguments}


def test_forward_kernels_have_no_loops_of_their_own() -> None:
    """One input as it is keeps the helpers of the prelude, whatever is new here."""
    text = programs.input_gradient("bf16", (64,), 32, schedule("pointer", 16, 32, 16))
    (op,) = gemms_of(parse_module(text))
    kernel = emit_gemm(op, NameAllocator())
    assert used_names(kernel.source) & device_definitions().keys() == {
        *("SUM_TYPE", "grouped_tile", "multiply", "sum_rows", "to_bf16")
    }
    assert "for k in" not in kernel.source
