"""The bound of rounding errors: how far from float64 a function may be."""

import pytest
import torch
from support.programs import parse_mlir
from xdsl.dialects.func import FuncOp

from coda_ir.backends.reference import run_function
from coda_ir.context import make_context
from coda_ir.equivalence.rounding import Rounding
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass

NORM_OF_TWO_COLUMNS = """
func.func @f(%x: tensor<1x4xbf16>, %w: tensor<2x4xbf16>, %v: tensor<4x2xbf16>) -> tensor<1x2xbf16> {
  %z = coda.linear %x, %w : (tensor<1x4xbf16>, tensor<2x4xbf16>) -> tensor<1x2xbf16>
  %n = coda.layer_norm %z {eps = 1.0e-6 : f64} : (tensor<1x2xbf16>) -> tensor<1x2xbf16>
  %g = coda.linear %n, %v : (tensor<1x2xbf16>, tensor<4x2xbf16>) -> tensor<1x4xbf16>
  %y = coda.glu %g {activation = "identity"} : (tensor<1x4xbf16>) -> tensor<1x2xbf16>
  func.return %y : tensor<1x2xbf16>
}
"""

CANCELLING = (
    [[-1.93, -1.125, -0.578, -1.125]],
    [[-0.346, -0.906, -0.157, -0.297], [-0.264, -0.527, -0.355, -0.535]],
    [[-1.11, -1.52], [-0.379, -0.451], [-1.21, -1.51], [-0.324, -1.09]],
)

HUGE_ROWS = """
func.func @f(%x: tensor<2x4xbf16>) -> tensor<2x4xbf16> {
  %c = coda.constant {value = 1.0e30 : f64} : tensor<bf16>
  %z = coda.mul %x, %c : (tensor<2x4xbf16>, tensor<bf16>) -> tensor<2x4xbf16>
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64} : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
  func.return %n : tensor<2x4xbf16>
}
"""

NORMS_OF_ONE_COLUMN = """
func.func @f(%x: tensor<2x1xbf16>) -> tensor<2x1xbf16> {
  %a = coda.layer_norm %x {eps = 1.0e-6 : f64} : (tensor<2x1xbf16>) -> tensor<2x1xbf16>
  %b = coda.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<2x1xbf16>) -> tensor<2x1xbf16>
  %y = coda.mul %a, %b : (tensor<2x1xbf16>, tensor<2x1xbf16>) -> tensor<2x1xbf16>
  func.return %y : tensor<2x1xbf16>
}
"""


def function(text: str, *, lowered: bool = False) -> FuncOp:
    module = parse_mlir(text)
    if lowered:
        CodaToGemmPass().apply(make_context(), module)
    return next(op for op in module.ops if isinstance(op, FuncOp))


def test_statistics_of_an_unrounded_row():
    """The row is [2.11, 1.91]: rounding it changes the norm by 8 %, and more what cancels later."""
    arguments = [torch.tensor(each).bfloat16() for each in CANCELLING]
    rounding = Rounding(function(NORM_OF_TWO_COLUMNS), arguments)
    fused = function(NORM_OF_TWO_COLUMNS, lowered=True)
    (deferred,) = run_function(fused, arguments, "stated")
    assert rounding.excess(0, deferred) is None
    (exact,) = rounding.exact
    assert rounding.excess(0, (exact + 8 * (deferred - exact)).bfloat16()) is not None


@pytest.mark.parametrize("scale, is_compared", [("1.0e30", False), ("1.0e3", True)])
def test_rows_whose_squares_overflow(scale: str, is_compared: bool):
    """The norm in float32 is 0, or NaN where an infinity is multiplied by its scale of 0."""
    arguments = [torch.ones(2, 4).bfloat16()]
    rounding = Rounding(function(HUGE_ROWS.replace("1.0e30", scale)), arguments)
    nan = torch.full((2, 4), float("nan"), dtype=torch.bfloat16)
    assert (rounding.excess(0, nan) is not None) == is_compared


def test_a_product_of_rounding_errors():
    """A norm of one column is 0, and so is a product of two: each factor alone changes nothing."""
    arguments = [torch.ones(2, 1).bfloat16()]
    rounding = Rounding(function(NORMS_OF_ONE_COLUMN), arguments)
    assert rounding.excess(0, torch.full((2, 1), 4.0, dtype=torch.bfloat16)) is None


LARGE = """
func.func @f(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16> {
  %y = coda.neg %x : (tensor<2x2xbf16>) -> tensor<2x2xbf16>
  func.return %y : tensor<2x2xbf16>
}
"""


@pytest.mark.parametrize(("value", "is_compared"), [(3.38e38, False), (3.0e38, True)])
def test_results_that_rounding_may_take_to_infinity(value: float, is_compared: bool):
    x = torch.full((2, 2), value, dtype=torch.bfloat16)
    rounding = Rounding(function(LARGE), [x])
    overflowed = torch.full((2, 2), -float("inf"), dtype=torch.bfloat16)
    assert (rounding.excess(0, overflowed) is not None) == is_compared
    assert rounding.excess(0, -overflowed) is not None
