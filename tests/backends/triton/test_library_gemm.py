"""GEMMs of PyTorch's library in emitted modules: layouts, transposed operands and results, sums."""

import pytest
import torch
import torch.nn.functional as F
from support.emitted import assert_as_accurate, load_module
from torch import Tensor
from xdsl.passes import PassPipeline

import coda_ir
from coda_ir.api import CompiledFunction
from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.float64 import relative_error
from coda_ir.lowering import Lowering
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.layout.unfuse_gemms import UnfuseGemmsPass

PRODUCTS = """
func.func @products(%x: tensor<?x5x8x{T}> {{coda.dims = ["B", 5, 8]}}, %w: tensor<16x8x{T}>,
    %v: tensor<8x16x{T}>, %one: tensor<8x{T}>)
    -> (tensor<?x5x16x{T}>, tensor<?x5x16xf32>, tensor<16x?x5x{T}>, tensor<8x16xf32>,
        tensor<16x{T}>) {{
  %a = gemm.library %x : tensor<?x5x8x{T}> columns(%w : tensor<16x8x{T}>) -> tensor<?x5x16x{T}>
  %b = gemm.library %x : tensor<?x5x8x{T}> + %x : tensor<?x5x8x{T}> columns(%w : tensor<16x8x{T}>)
    + (%w : tensor<16x8x{T}>) -> tensor<?x5x16xf32>
  %c = gemm.library %x : tensor<?x5x8x{T}> columns(%v : tensor<8x16x{T}>) kn
    -> tile_t tensor<16x?x5x{T}>
  %d = gemm.library transposed %x : tensor<?x5x8x{T}> columns(%a : tensor<?x5x16x{T}>) kn
    -> tensor<8x16xf32>
  %e = gemm.library %one : tensor<8x{T}> columns(%w : tensor<16x8x{T}>) -> tensor<16x{T}>
  func.return %a, %b, %c, %d, %e
    : tensor<?x5x16x{T}>, tensor<?x5x16xf32>, tensor<16x?x5x{T}>, tensor<8x16xf32>, tensor<16x{T}>
}}
"""

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}

FUSED = """
fn gated(x: bf16[B, T, 32], r: bf16[B, T, 48], gate: bf16[48, 32], up: bf16[48, 32]) {
    return r + silu(linear(x, gate)) * linear(x, up)
}
"""


def inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    """The first is strided."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 3, 8, generator=generator).transpose(0, 1)
    others = [torch.randn(shape, generator=generator) for shape in ((16, 8), (8, 16), (8,))]
    return [tensor.to(dtype) for tensor in (x, *others)]


@pytest.mark.parametrize("element", TYPES)
def test_products_are_rounded_once(element: str):
    function = coda_ir.compile(PRODUCTS.format(T=element), device="cpu")
    tensors = inputs(TYPES[element])
    found, expected = function(*tensors), function.reference(tensors, precision="stated")
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    for value, wanted in zip(found, expected, strict=True):
        assert value.shape == wanted.shape and value.is_contiguous()
        # Products of 16-bit numbers are exact in float32: sums of 8 differ by their order only.
        assert relative_error(value, wanted.double()) < (
            1e-6 if value.dtype == torch.float32 else 4e-3
        )


GROUPED = """
func.func @products(%x: tensor<?x8x{T}> {{coda.dims = ["M", 8]}}, %w: tensor<3x16x8x{T}>,
    %e: tensor<3xi32>) -> (tensor<?x16x{T}>, tensor<?x8x{T}>) {{
  %a = gemm.library %x : tensor<?x8x{T}> groups(%e : tensor<3xi32>) columns(%w : tensor<3x16x8x{T}>)
    -> tensor<?x16x{T}>
  %b = gemm.library %a : tensor<?x16x{T}> groups(%e : tensor<3xi32>)
    columns(%w : tensor<3x16x8x{T}>) kn -> tensor<?x8x{T}>
  func.return %a, %b : tensor<?x16x{T}>, tensor<?x8x{T}>
}}
"""


@pytest.mark.parametrize("element", TYPES)
def test_products_of_rows_in_groups(element: str):
    function = coda_ir.compile(GROUPED.format(T=element), device="cpu")
    x, w = torch.randn(9, 8), torch.randn(3, 16, 8)
    check_products_in_groups(function, x.to(TYPES[element]), w.to(TYPES[element]))
    assert "grouped_library_gemm" in function.source


def test_products_of_rows_in_groups_with_any_strides():
    """PyTorch's product takes lines of memory at multiples of 16 bytes."""
    function = coda_ir.compile(GROUPED.format(T="f32"), device="cpu")
    x, w = torch.randn(9, 8), torch.randn(3, 16, 8)
    for other in (w[:, :1], w[:, :, :1], w[:1]):
        check_products_in_groups(function, x, other.expand(3, 16, 8))
    for apart in (torch.randn(3, 16, 9)[:, :, 1:], torch.randn(3, 16, 16)[:, :, ::2]):
        check_products_in_groups(function, x, apart)
    check_products_in_groups(function, x[:1].expand(9, 8), w.mT.contiguous().mT)


def check_products_in_groups(function: CompiledFunction, x: Tensor, w: Tensor) -> None:
    tensors = [x, w, torch.tensor([4, 4, 9], dtype=torch.int32)]
    expected = function.reference(tensors, precision="stated")
    for value, wanted in zip(function(*tensors), expected, strict=True):
        bound = 1e-6 if value.dtype == torch.float32 else 4e-3
        assert relative_error(value, wanted.double()) < bound


GROUPED_SUMS = """
func.func @sums(%x: tensor<?x8xf32> {coda.dims = ["M", 8]},
    %y: tensor<?x16xf32> {coda.dims = ["M", 16]}, %e: tensor<2xi32>) -> tensor<2x8x16xf32> {
  %w = coda.grouped_weight_gradient %x, %y, %e
    : (tensor<?x8xf32>, tensor<?x16xf32>, tensor<2xi32>) -> tensor<2x8x16xf32>
  func.return %w : tensor<2x8x16xf32>
}
"""


def test_sums_of_rows_in_groups_that_begin_anywhere():
    """The columns of three rows are no lines at multiples of 16 bytes."""
    function = coda_ir.compile(
        GROUPED_SUMS, device="cpu", schedule="target=interpreter gemms=library"
    )
    assert "grouped_library_gemm" in function.source
    x, y = torch.randn(1 + 3 * 8)[1:].view(3, 8), torch.randn(3, 16)
    found = function(x, y, torch.tensor([1, 3], dtype=torch.int32))
    for value, rows in zip(found, (slice(0, 1), slice(1, 3)), strict=True):
        assert relative_error(value, x[rows].double().T @ y[rows].double()) < 1e-6


EXPERTS = """
fn experts(x: bf16[M, 16], w: bf16[3, 24, 16], v: bf16[3, 16, 24], b: bf16[3, 24], ends: i32[3]) {
    return grouped_linear(gelu(grouped_linear(x, w, ends, b)), v, ends)
}
"""


def test_what_the_library_computes_of_rows_in_groups():
    """Products that are stored as they are; the others are not rounded before their epilogues."""
    found = coda_ir.compile(EXPERTS, device="cpu", schedule="target=interpreter gemms=library")
    assert found.operators["gemm.fused"] == found.operators["gemm.library"] == 1


def layer(form: str) -> CompiledFunction:
    return coda_ir.compile(FUSED, device="cpu", schedule=f"target=interpreter gemms={form}")


def test_every_form_computes_the_same():
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 9, 32), (2, 9, 48), (48, 32), (48, 32))
    tensors = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    results = {form: layer(form)(*tensors) for form in ("fused", "unfused", "library")}
    for result in results.values():
        assert torch.equal(result, results["fused"])
    assert [layer(form).operators.get("gemm.map", 0) for form in results] == [0, 1, 1]


def test_what_is_called_shows_in_the_text():
    assert "library_gemm(torch.float32, x.flatten(0, -2), gate.t())" in layer("library").source
    assert "library_gemm" not in layer("unfused").source


def test_products_in_16_bits_are_as_accurate_as_eager_ones():
    """Eager PyTorch also rounds the product before the gate, and each result of the code after it;
    what a bias is added to first is stored in float32.
    """
    text = """fn gated(x: bf16[M, 64], w: bf16[48, 64], t: bf16[M, 48], b: bf16[48]) {
        return silu(linear(x, w) * t), silu(linear(x, w, b) * t)
    }"""
    generator = torch.Generator().manual_seed(0)
    shapes = ((70, 64), (48, 64), (70, 48), (48,))
    given = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    module = Lowering(coda_ir.parse(text)).module("gemm").clone()
    PassPipeline((UnfuseGemmsPass(narrow=True), SchedulePass("interpreter"))).apply(
        make_context(), module
    )
    source = emit_module(module)
    assert source.count("dtype=torch.float32") == 1

    def gated(x: Tensor, w: Tensor, t: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.silu(F.linear(x, w, bias) * t) for bias in (None, b))

    wide = gated(*(tensor.double() for tensor in given))
    for value, eager, exact in zip(
        load_module(source).run(*given), gated(*given), wide, strict=True
    ):
        assert_as_accurate(value, eager, exact)
