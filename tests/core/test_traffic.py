"""Bytes moved by a function at each level."""

from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from coda_ir.context import make_context
from coda_ir.passes.fusion.report_unfused import ReportUnfusedPass
from coda_ir.remarks import collect_remarks
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


def function(text: str = PROGRAM) -> FuncOp:
    (func,) = Parser(make_context(), text).parse_module().ops
    assert isinstance(func, FuncOp)
    return func


def test_each_distinct_operand_is_read_once_and_each_result_written():
    sizes = [(op.name, str(size)) for op, size in traffic_by_operator(function())]
    assert sizes == [("coda.mul", "64*M"), ("coda.mul", "64*M")], "constants are in the code"


VIEWS = """
func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> (tensor<8x?xf32>, tensor<3x?x4xf32>) {
  %t = coda.transpose %x {perm = [1, 0]} : (tensor<?x8xf32>) -> tensor<8x?xf32>
  %s = coda.slice %x {dim = 1, start = 0, stop = 4} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %r = coda.reshape %s {coda.dims = [1, "M", 4]} : (tensor<?x4xf32>) -> tensor<1x?x4xf32>
  %e = torch.call "aten.expand.default"(%r) {arguments = "{0}, [3, M, 4]", view, coda.dims = [3, "M", 4]} : (tensor<1x?x4xf32>) -> tensor<3x?x4xf32>
  func.return %t, %e : tensor<8x?xf32>, tensor<3x?x4xf32>
}
"""  # noqa: E501


def test_views_move_nothing():
    assert traffic_by_operator(function(VIEWS)) == []


def test_a_view_is_no_missed_fusion():
    module = Parser(make_context(), VIEWS).parse_module()
    with collect_remarks() as remarks:
        ReportUnfusedPass().apply(make_context(), module)
    assert not remarks


def test_total():
    assert total_traffic(function()).evaluate({"M": 3}) == 3 * 128
