"""Bytes moved by a function at each level."""

from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from coda_ir.context import make_context
from coda_ir.traffic import total_traffic, traffic_by_operator

PROGRAM = """
func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> tensor<?x2x4xf32> {
  %c = coda.constant {value = 2.0 : f64} : tensor<f32>
  %y = coda.mul %x, %c : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %s = coda.mul %y, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.reshape %s : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
  func.return %z : tensor<?x2x4xf32>
}
"""


def function() -> FuncOp:
    (func,) = Parser(make_context(), PROGRAM).parse_module().ops
    assert isinstance(func, FuncOp)
    return func


def test_each_distinct_operand_is_read_once_and_each_result_written():
    sizes = [(op.name, str(size)) for op, size in traffic_by_operator(function())]
    assert sizes == [("coda.mul", "64*M"), ("coda.mul", "64*M")], "constants are in the code"


def test_total():
    assert total_traffic(function()).evaluate({"M": 3}) == 3 * 128
