"""Running functions and modules: arguments, calls, symbols, and what is refused."""

import pytest
import torch
from support.programs import parse_mlir
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.dialects.func import FuncOp

from coda_ir.backends.reference import run_function, run_module
from coda_ir.diagnostics import CodaError
from coda_ir.functions import find_entry
from coda_ir.random_inputs import random_inputs

TWICE = """
func.func private @twice(%x : tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  %y = coda.add %x, %x : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x4xbf16>
  func.return %y : tensor<?x4xbf16>
}
func.func @main(%x : tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  %y = func.call @twice(%x) : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
  %z = func.call @twice(%y) : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
  func.return %z : tensor<?x4xbf16>
}"""

SUM = """
func.func @f(%a : tensor<?x4xf32> {coda.dims = ["M", 4]}, %b : tensor<?xi64> {coda.dims = ["M"]})
    -> tensor<?x4xf32> {
  func.return %a : tensor<?x4xf32>
}"""


def test_calls_and_the_public_entry():
    x = torch.randn(3, 4, dtype=torch.bfloat16)
    (result,) = run_module(parse_mlir(TWICE), [x], precision="stated")
    assert torch.equal(result, 4 * x)
    (result,) = run_module(parse_mlir(TWICE), [x], entry="main")
    assert torch.equal(result, 4 * x.double())


def test_unknown_entry():
    with pytest.raises(CodaError, match="no function 'other'"):
        run_module(parse_mlir(TWICE), [], entry="other")


def test_arguments_are_not_changed():
    x = torch.ones(2, 4, dtype=torch.float64)
    (result,) = run_module(parse_mlir(SUM), [x, torch.zeros(2, dtype=torch.int64)])
    assert torch.equal(result, x)
    assert result.dtype == torch.float64


@pytest.mark.parametrize(
    ("shapes", "dtypes", "message"),
    [
        ([(2, 4)], [torch.float32], "f takes 2 arguments, not 1"),
        ([(2, 5), (2,)], [torch.float32, torch.int64], "argument 0 .a. of f has shape 2x5"),
        ([(2, 4), (3,)], [torch.float32, torch.int64], "argument 1 .b. of f: M is 3 here and 2"),
        ([(2, 4), (2,)], [torch.float32, torch.float32], "has element type torch.float32"),
        ([(2, 4), (2,)], [torch.int64, torch.int64], "has element type torch.int64, expected"),
    ],
)
def test_arguments_that_do_not_fit(
    shapes: list[tuple[int, ...]], dtypes: list[torch.dtype], message: str
):
    tensors = [torch.zeros(s, dtype=d) for s, d in zip(shapes, dtypes, strict=True)]
    with pytest.raises(CodaError, match=message):
        run_module(parse_mlir(SUM), tensors)


def test_a_function_of_numbers():
    function = "func.func @f(%x: f32) -> f32 { func.return %x : f32 }"
    with pytest.raises(CodaError, match="arg0 has type f32, expected a tensor"):
        run_module(parse_mlir(function), [torch.ones(())])


def test_an_unknown_operator_is_named_with_its_place():
    module = parse_mlir("""
        func.func @f(%x : tensor<4xf32>) -> tensor<4xf32> {
          %y = arith.negf %x : tensor<4xf32>
          func.return %y : tensor<4xf32>
        }""")
    for op in module.walk():
        op.location = FileLineColLoc(StringAttr("block.coda"), IntAttr(3), IntAttr(5))
    with pytest.raises(CodaError, match=r"arith\.negf at block\.coda:3:5 is not supported"):
        run_module(module, [torch.zeros(4)])


def test_an_unknown_operator_in_a_region_is_named():
    module = parse_mlir("""
        func.func @f(%x : tensor<2x4xf32>) -> tensor<2x4xf32> {
          %y = gemm.map tile(%x : tensor<2x4xf32>) -> (tile : tensor<2x4xf32>) {
          ^e(%a : f32):
            %b = math.cbrt %a : f32
            gemm.yield %b : f32
          }
          func.return %y : tensor<2x4xf32>
        }""")
    with pytest.raises(CodaError, match=r"math\.cbrt is not supported by the reference backend"):
        run_module(module, [torch.zeros(2, 4)])


def test_reshape_to_several_symbols():
    module = parse_mlir("""
        func.func @f(%x : tensor<?x?x6xf32> {coda.dims = ["B", "T", 6]}) -> tensor<?x?x3x2xf32> {
          %y = coda.reshape %x : (tensor<?x?x6xf32>) -> tensor<?x?x3x2xf32>
          func.return %y : tensor<?x?x3x2xf32>
        }""")
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    (result,) = run_module(module, [x])
    assert torch.equal(result, x.reshape(2, 5, 3, 2))


def test_float64_values_stay_float64_in_stated_precision():
    module = parse_mlir("""
        func.func @f(%x : tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf32>) {
          %y = coda.exp %x : (tensor<4xf64>) -> tensor<4xf64>
          %z = coda.cast %y : (tensor<4xf64>) -> tensor<4xf32>
          func.return %y, %z : tensor<4xf64>, tensor<4xf32>
        }""")
    x = torch.randn(4, dtype=torch.float64)
    wide, narrow = run_module(module, [x], precision="stated")
    assert torch.equal(wide, x.exp())
    assert torch.equal(narrow, x.exp().float())


def test_strided_arguments_and_gradients():
    module = parse_mlir(TWICE)
    x = torch.randn(4, 3, dtype=torch.bfloat16).T.requires_grad_()
    (result,) = run_module(module, [x], precision="stated")
    assert torch.equal(result, 4 * x)
    assert not result.requires_grad


def test_constants_of_regions_are_exact_in_float64_and_rounded_in_stated_precision():
    module = parse_mlir("""
        func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %y = gemm.map tile(%x : tensor<?x4xf32>) -> (tile : tensor<?x4xf32>) {
          ^bb0(%a: f32):
            %c = arith.constant {gemm.exact = 2.3456789 : f64} 2.34567881 : f32
            %b = arith.mulf %a, %c : f32
            gemm.yield %b : f32
          }
          return %y : tensor<?x4xf32>
        }""")
    (exact,) = run_module(module, [torch.ones(2, 4)])
    (stated,) = run_module(module, [torch.ones(2, 4)], precision="stated")
    assert exact.dtype == torch.float64 and (exact == 2.3456789).all()
    assert stated.dtype == torch.float32 and (stated == torch.tensor(2.3456789)).all()


def test_tensors_of_its_own_are_beside_the_arguments_whatever_the_default_device_is():
    scaled = """
func.func @f(%x : tensor<3xf32>) -> tensor<3xf32> {
  %c = coda.constant {value = 2.0 : f64} : tensor<f32>
  %y = coda.mul %c, %x : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}"""
    with torch.device("meta"):
        module = parse_mlir(scaled)
        (x,) = random_inputs(find_entry(module)).values()
        (result,) = run_module(module, [x], precision="stated")
    assert torch.equal(result, 2 * x)


def test_run_function_of_one_of_several():
    functions = [op for op in parse_mlir(TWICE).ops if isinstance(op, FuncOp)]
    (result,) = run_function(functions[0], [torch.ones(1, 4)])
    assert torch.equal(result, torch.full((1, 4), 2.0, dtype=torch.float64))
