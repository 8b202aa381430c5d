"""Programs that cannot be scheduled are refused with the place and a remedy."""

import pytest
from support.programs import parse_mlir

import coda_ir
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.layout.schedule import SchedulePass


@pytest.mark.parametrize(
    ("shapes", "name"),
    [(("f32[M, K]", "f32[16, K]"), "K"), (("f32[M, 8]", "f32[N, 8]"), "N")],
)
def test_symbolic_extents_of_weights(shapes: tuple[str, str], name: str):
    x, w = shapes
    program = f"fn f(x: {x}, w: {w}) {{\n    return linear(x, w)\n}}"
    with pytest.raises(CodaError) as error:
        coda_ir.compile(program, device="cpu")
    assert str(error.value) == (
        f"<text>:2:12: schedule: {name} of gemm.fused is symbolic\n"
        "  help: give the extents of weights as numbers or consts; only rows may be symbols. "
        "PyTorch multiplies activations: give both a dimension in front, for x @ w"
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
