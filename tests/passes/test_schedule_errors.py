"""Programs that cannot be scheduled are refused with the place and a remedy."""

import pytest
from support.programs import parse_mlir

import coda_ir
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.layout.schedule import SchedulePass


@pytest.mark.parametrize(
    ("shapes", "name"),
    [(("f32[M, K]", "i8[16, K]"), "K"), (("f32[M, 8]", "i8[N, 8]"), "N")],
)
def test_symbolic_extents_of_weights(shapes: tuple[str, str], name: str):
    """PyTorch does not multiply operands of 8 bits."""
    x, w = shapes
    program = f"fn f(x: {x}, w: {w}) {{\n    return linear(x, w)\n}}"
    with pytest.raises(CodaError) as error:
        coda_ir.compile(program, device="cpu")
    assert str(error.value) == (
        f"<text>:2:12: schedule: {name} of gemm.fused is symbolic\n"
        "  help: give the extents of weights as numbers or consts; only rows may be symbols"
    )


def test_products_without_elements():
    text = """
    func.func @f(%x: tensor<?x0xf32>, %w: tensor<8x0xf32>) -> tensor<?x8xf32> {
      %y = gemm.fused %x : tensor<?x0xf32> columns(%w : tensor<8x0xf32>)
          -> (tile : tensor<?x8xf32>) {
        ^bb0(%acc: f32):
          gemm.yield %acc : f32
      }
      func.return %y : tensor<?x8xf32>
    }
    """
    with pytest.raises(CodaError, match=r"schedule: K of gemm\.fused is 0"):
        SchedulePass().apply(make_context(), parse_mlir(text))


def test_options_that_leave_no_tile_are_named():
    program = "fn f(x: bf16[M, 64], w: bf16[32, 64]) {\n    return linear(x, w)\n}"
    with pytest.raises(CodaError) as error:
        options = "target=portable stages=99 warps=4"
        compiled = coda_ir.compile(program, device="cpu", schedule=options)
        compiled.prepare()
    assert "no tile of gemm.fused Mx32x64 fits portable" in str(error.value)
    assert error.value.remedy == "leave warps=4, stages=99 to the cost model"


def test_results_of_one_row_without_dimensions():
    text = """
    func.func @f(%x: tensor<64xbf16>, %w: tensor<256x64xbf16>, %t: tensor<i64>) -> tensor<f32> {
      %y = gemm.fused %x : tensor<64xbf16> columns(%w : tensor<256x64xbf16>) col(%t : tensor<i64>)
          -> (select<0> : tensor<f32>) {
        ^bb0(%acc: f32, %id: i64):
          gemm.yield %acc : f32
      }
      func.return %y : tensor<f32>
    }
    """
    module = parse_mlir(text)
    SchedulePass(target="sm_90", mainloop="warp_specialized").apply(make_context(), module)
    assert "schedule<" in str(module)
