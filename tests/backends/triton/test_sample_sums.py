"""Sums over the rows of each sample: a tile may have rows of several samples, or some of one."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from support import gradient_programs as programs
from support.emitted import emit_module, load_program
from support.kernel_harness import check_against_reference, gemms_of, parse_module

from coda_ir.api import parse
from coda_ir.backends.triton import map_kernel
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator

pytestmark = pytest.mark.any_device

POINTER = 'pointer, "64x64x32", warps = 4, stages = 2, group_m = 8'
TMA = 'tma, "64x64x64", warps = 4, stages = 2, group_m = 8'
SPECIALIZED = 'warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 2'
PING_PONG = 'ping_pong, "128x128x64", warps = 8, stages = 3, group_m = 2'
SAMPLES = ([3, 64], [3, 128], [2, 40], [5, 7], [2, 65], [2, 150], [70, 1], [1, 300])
"""Samples and their rows: whole tiles, less than a tile, and ends within tiles."""

MAP = """
    func.func @f(%x : tensor<?x?x96xf32> {coda.dims = ["B", "T", 96]})
        -> (tensor<?x?x96xbf16>, tensor<?x96xf32>) {
      %y, %sums = gemm.map tile(%x : tensor<?x?x96xf32>)
          -> (tile : tensor<?x?x96xbf16>, partial_col<add> : tensor<?x?x96xf32>) {
      ^bb0(%a : f32):
        %0 = arith.mulf %a, %a : f32
        gemm.yield %0, %0 : f32, f32
      }
      %s = gemm.finalize col (add %sums : tensor<?x?x96xf32>) -> (tensor<?x96xf32>) {
      ^bb0(%a : f32):
        gemm.yield %a : f32
      }
      func.return %y, %s : tensor<?x?x96xbf16>, tensor<?x96xf32>
    }"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", SAMPLES, ids=str)
@pytest.mark.parametrize("schedule", [POINTER, TMA], ids=["pointer", "tma"])
def test_partials_of_a_gemm(schedule: str, rows: Sequence[int], tmp_path: Path):
    text = programs.sample_sums("bf16", 40, 136, schedule)
    kernel = check_against_reference(text, rows, tmp_path)
    assert "store_sample_sums(" in kernel.source


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[2, 128], [2, 150], [5, 7]], ids=str)
@pytest.mark.parametrize("schedule", [SPECIALIZED, PING_PONG], ids=["groups", "ping-pong"])
def test_partials_of_groups_of_warps(schedule: str, rows: Sequence[int], tmp_path: Path):
    check_against_reference(programs.sample_sums("bf16", 72, 264, schedule), rows, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [*SAMPLES, [0, 5], [3, 0]], ids=str)
def test_partials_of_a_pointwise_kernel(rows: Sequence[int]):
    x = torch.randn(*rows, 96, generator=torch.Generator().manual_seed(sum(rows)))
    y, sums = load_program(MAP)(x)
    exact = x.double().square()
    torch.testing.assert_close(y, exact.bfloat16(), rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(sums, exact.sum(1).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("length", "steps"), [(64, 2), (96, 1), (40, 1)])
def test_programs_have_rows_of_one_sample(length: int, steps: int, monkeypatch: pytest.MonkeyPatch):
    """They take tiles of 32 rows, as many as divide a sample of known length."""
    monkeypatch.setattr(map_kernel, "PROGRAMS_OF_A_SUM", 1)
    text = MAP.replace("?x?x96xf32> {coda.dims", f"2x{length}x96xf32> {{coda.dims")
    text = text.replace('"B", "T"', f"2, {length}").replace(
        "tile(%x : tensor<?x?", f"tile(%x : tensor<2x{length}"
    )
    text = text.replace("?x?x96xbf16", f"2x{length}x96xbf16").replace("tensor<?x", "tensor<2x")
    x = torch.randn(2, length, 96)
    y, sums = load_program(text)(x)
    torch.testing.assert_close(y, x.double().square().bfloat16(), rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(sums, x.double().square().sum(1).float(), rtol=1e-5, atol=1e-5)
    assert ("for step in" in emit_module(parse(text))) == (steps > 1)


def test_partials_of_programs_that_share_a_tile(tmp_path: Path):
    schedule = 'pointer, "64x64x32", warps = 4, stages = 2, group_m = 8, split_k = 2'
    check_against_reference(programs.sample_sums("bf16", 200, 72, schedule), [3, 50], tmp_path)


def test_ahead_of_time():
    names = NameAllocator()
    texts = [programs.sample_sums("bf16", 1152, 1152, each) for each in (POINTER, TMA, SPECIALIZED)]
    kernels = [emit_gemm(op, names) for text in texts for op in gemms_of(parse_module(text))]
    for compiled in compile_kernels(kernels, "sm_90", "ptx"):
        assert compiled.resources.spills == 0, compiled.resources
