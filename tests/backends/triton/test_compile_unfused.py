"""Kernels without a GEMM compile ahead of time for every GPU, without spills."""

from pathlib import Path

import pytest
from support.aot import TARGETS, compile_kernels

from coda_ir.api import parse
from coda_ir.backends.triton import emit_program

GOLDENS = Path(__file__).parents[2] / "filecheck/backends/triton"


@pytest.mark.parametrize("golden", ["row_kernels.mlir", "map_and_finalize.mlir"])
def test_kernels_compile(golden: str) -> None:
    program = emit_program(parse(GOLDENS / golden))
    compiled = compile_kernels(program.source, program.kernels)
    assert {kernel.target for kernel in compiled} == set(TARGETS)
    for kernel in compiled:
        assert kernel.fits and not kernel.spills, kernel


def test_pack_weight_and_wide_rows_compile() -> None:
    text = """
        func.func @f(%x : tensor<?x8192xf32>, %w : tensor<70x40xbf16>, %v : tensor<40xbf16>)
            -> (tensor<?x8192xf32>, tensor<70xf32>) {
          %n = coda.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<?x8192xf32>) -> tensor<?x8192xf32>
          %p = gemm.pack_weight nk %w, %v : (tensor<70x40xbf16>, tensor<40xbf16>) -> tensor<70xf32>
          func.return %n, %p : tensor<?x8192xf32>, tensor<70xf32>
        }"""
    program = emit_program(parse(text))
    for kernel in compile_kernels(program.source, program.kernels):
        assert kernel.fits and not kernel.spills, kernel
