"""Operands with a row for each sample, beside tiles that cross samples: against float64."""

from pathlib import Path

import pytest
import torch
from support.compiled_kernels import compiled
from support.device import on_device
from support.kernel_harness import (
    assert_rounded,
    function_of,
    gemms_of_func,
    parse_module,
    run_kernel,
)

import coda_ir

pytestmark = pytest.mark.any_device

SCHEDULES = {
    "pointer": 'pointer, "32x64x32", warps = 4, stages = 2, group_m = 2',
    "tma": 'tma, "64x64x64", warps = 4, stages = 2, group_m = 2',
    "warp_specialized": 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2',
    "ping_pong": 'ping_pong, "128x128x64", warps = 8, stages = 4, group_m = 2',
}


def modulated(schedule: str, rows: str = "?x?", gates: str = "?x1") -> str:
    """res + gate · one · acc, its sums by row, and the gate itself, summed over the rows."""
    y, gate, one = f"tensor<{rows}x264xbf16>", f"tensor<{gates}x264xbf16>", f"tensor<{gates}x1xf32>"
    results = f"{y}, tensor<{rows}x?xf32>, tensor<?x264xf32>"
    return f"""
func.func @f(%x : tensor<{rows}x72xbf16>, %w : tensor<264x72xbf16>, %res : {y}, %gate : {gate},
             %one : {one}) -> ({results}) {{
  %y, %sums, %gates = gemm.fused %x : tensor<{rows}x72xbf16> schedule<{schedule}>
      columns(%w : tensor<264x72xbf16>) tile(%res : {y}) table(%gate : {gate}, %one : {one})
      -> (tile : {y}, partial_row<add> : tensor<{rows}x?xf32>,
          partial_col<add> : tensor<?x264xf32>) {{
  ^epilogue(%acc : f32, %r : f32, %g : f32, %o : f32):
    %a = arith.mulf %g, %o : f32
    %b = arith.mulf %acc, %a : f32
    %c = arith.addf %b, %r : f32
    gemm.yield %c, %o, %a : f32, f32, f32
  }}
  func.return %y, %sums, %gates : {results}
}}
"""


def check(text: str, rows: tuple[int, ...], gates: tuple[int, ...], folder: Path) -> str:
    """Run the kernel and compare it with PyTorch's broadcasting; returns its source."""
    generator = torch.Generator().manual_seed(sum(rows))
    shapes = ((*rows, 72), (264, 72), (*rows, 264), (*gates, 264), (*gates, 1))
    arguments = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes[:-1]]
    arguments.append(torch.randn(shapes[-1], generator=generator))
    func = function_of(parse_module(text))
    kernel, (y, sums, columns) = run_kernel(func, arguments, folder)
    x, w, res, gate, one = (tensor.double() for tensor in arguments)
    exact = res + x @ w.T * gate * one
    (op,) = gemms_of_func(func)
    assert_rounded(op.results[0], y.double(), exact)
    ones, scales = (value.expand(exact.shape) for value in (one, gate * one))
    torch.testing.assert_close(sums.double().sum(-1), ones.sum(-1), rtol=1e-5, atol=1e-4)
    expected = scales.reshape(-1, 264).sum(0)
    torch.testing.assert_close(columns.double().sum(0), expected, rtol=1e-5, atol=1e-4)
    return kernel.source


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestKernels:
    @pytest.mark.slow
    @pytest.mark.parametrize("rows", [(3, 75), (5, 1), (1, 130), (2, 128), (40, 7)])
    def test_one_row_for_a_sample(self, schedule: str, rows: tuple[int, int], tmp_path: Path):
        check(modulated(SCHEDULES[schedule]), rows, (rows[0], 1), tmp_path)

    @pytest.mark.slow
    def test_static_length(self, schedule: str, tmp_path: Path):
        text = modulated(SCHEDULES[schedule], "?x75")
        source = check(text, (3, 75), (3, 1), tmp_path)
        assert "rows // 75" in source

    @pytest.mark.slow
    def test_samples_within_what_repeats(self, schedule: str, tmp_path: Path):
        """B x 3 x T rows: each of 3 rows serves T rows, and then again in the next of B."""
        text = modulated(SCHEDULES[schedule], "?x3x?", "3x1")
        source = check(text, (2, 3, 29), (3, 1), tmp_path)
        assert "% 3" in source

    @pytest.mark.slow
    def test_several_dimensions_of_a_sample(self, schedule: str, tmp_path: Path):
        text = modulated(SCHEDULES[schedule], "?x?x5", "?x1x1")
        check(text, (3, 11, 5), (3, 1, 1), tmp_path)

    @pytest.mark.slow
    def test_rows_on_both_sides_of_what_repeats(self, schedule: str, tmp_path: Path):
        """B x 3 x T rows take those of a mask (B x 1 x T): row t of sample b serves 3 rows."""
        text = modulated(SCHEDULES[schedule], "?x3x?", "?x1x?")
        check(text, (2, 3, 29), (2, 1, 29), tmp_path)


def gated_residual(schedule: str) -> str:
    y, gate = "tensor<?x?x264xbf16>", "tensor<?x1x264xbf16>"
    return f"""
func.func @f(%x : tensor<?x?x72xbf16>, %w : tensor<264x72xbf16>,
             %res : {y}, %gate : {gate}) -> {y} {{
  %y = gemm.fused %x : tensor<?x?x72xbf16> schedule<{schedule}>
      columns(%w : tensor<264x72xbf16>) tile(%res : {y}) table(%gate : {gate}) -> (tile : {y}) {{
  ^epilogue(%acc : f32, %r : f32, %g : f32):
    %a = arith.mulf %acc, %g : f32
    %b = arith.addf %a, %r : f32
    gemm.yield %b : f32
  }}
  func.return %y : {y}
}}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_kernels_compile_for_hopper_without_spills(schedule: str):
    compiled(gated_residual(SCHEDULES[schedule]), "sm_90")


PAIRS = """
epilogue gated(g, u, scale: table, shift: half_table) -> (y: half) {
    scale_g, scale_u = scale
    y = silu(g * scale_g) * (u * scale_u) + shift
}

fn f(x: bf16[B, T, 64], w: bf16[96, 64], scale: bf16[B, 1, 96], shift: f32[B, 1, 48]) {
    return gated(pairs(linear(x, w)), scale, shift)
}
"""


def test_pairs_of_columns():
    x, w = torch.randn(3, 29, 64).bfloat16(), (torch.randn(96, 64) / 8).bfloat16()
    scale, shift = torch.randn(3, 1, 96).bfloat16(), torch.randn(3, 1, 48)
    y = on_device(coda_ir.compile(PAIRS, target="triton"))(x, w, scale, shift)
    g, u = (x.double() @ w.double().T * scale.double()).chunk(2, -1)
    exact = torch.nn.functional.silu(g) * u + shift.double()
    torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-5)


RANGES = """
const START = 0

fn f(
    x: f32[B, T, 64], w: f32[32, 64], columns: f32[B, 128], rows: f32[B, 3, 32], res: f32[B, T, 32]
) {
    scale = reshape(columns[:, START:START + 32], [B, 1, 32])
    gate, shift = rows[:, 2:3, :], rows[:, 0:1, :]
    return res + gate * linear(x, w), linear(x, w) * scale, res * scale + shift
}
"""
"""Rows of samples that are ranges of wider tensors: of columns, and of rows."""


@pytest.mark.parametrize(("start", "copies"), [(32, 0), (33, 1)])
def test_aligned_ranges_are_read_where_they_are(start: int, copies: int):
    function = coda_ir.compile(RANGES, target="triton", constants={"START": start})
    shapes = (3, 29, 64), (32, 64), (3, 128), (3, 3, 32), (3, 29, 32)
    x, w, columns, rows, res = arguments = [torch.randn(shape) for shape in shapes]
    results = on_device(function)(*arguments)
    product, scale = x.double() @ w.double().T, columns.double()[:, None, start : start + 32]
    gate, shift = rows.double()[:, 2:3], rows.double()[:, :1]
    exact = (res + gate * product, product * scale, res * scale + shift)
    for actual, expected in zip(results, exact, strict=True):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-4)
    assert function.kernels.count("copy") == copies
