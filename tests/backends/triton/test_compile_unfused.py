"""Kernels without a GEMM compile ahead of time for every GPU, without spills."""

from pathlib import Path

import pytest

from coda_ir.api import parse
from coda_ir.backends.triton import emit_program
from coda_ir.backends.triton.aot import compile_kernels

TARGETS = ("sm_80", "sm_90", "gfx942")
GOLDENS = Path(__file__).parents[2] / "filecheck/backends/triton"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("golden", ["row_kernels.mlir", "map_and_finalize.mlir"])
def test_kernels_compile(golden: str, target: str) -> None:
    kernels = emit_program(parse(GOLDENS / golden)).kernels
    compiled = compile_kernels(kernels, target)
    assert [kernel.name for kernel in compiled] == [kernel.name for kernel in kernels]
    for kernel in compiled:
        assert kernel.resources.fits and not kernel.resources.spills, kernel


@pytest.mark.parametrize("target", TARGETS)
def test_pack_weight_and_wide_rows_compile(target: str) -> None:
    text = """
        func.func @f(%x : tensor<?x8192xf32>, %w : tensor<70x40xbf16>, %v : tensor<40xbf16>)
            -> (tensor<?x8192xf32>, tensor<70xf32>) {
          %n = coda.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<?x8192xf32>) -> tensor<?x8192xf32>
          %p = gemm.pack_weight nk %w, %v : (tensor<70x40xbf16>, tensor<40xbf16>) -> tensor<70xf32>
          func.return %n, %p : tensor<?x8192xf32>, tensor<70xf32>
        }"""
    for kernel in compile_kernels(emit_program(parse(text)).kernels, target):
        assert kernel.resources.fits and not kernel.resources.spills, kernel
