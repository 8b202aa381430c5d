"""Reading and editing the column ranges of a GEMM."""

from support.programs import parse_mlir
from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, bf16, f32, i64
from xdsl.ir import Block, SSAValue

from coda_ir.dialects.gemm import (
    Combiner,
    FusedOp,
    MapOp,
    PortKind,
    ResultKind,
    ResultPortAttr,
    Segment,
    partial_type,
    region_type,
)

TWO_SEGMENTS = """
func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x6xbf16>,
             %r: tensor<?x16xbf16>, %t: tensor<?x4xf32>, %i: tensor<?xi64>) {
  %a, %b, %c = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves, 4>
      tile(%r : tensor<?x16xbf16>) half_table(%t : tensor<?x4xf32>)
    -> (tile : tensor<?x16xbf16>, half : tensor<?x8xbf16>) {
  ^epilogue(%p: f32, %q: f32, %r0: f32, %r1: f32, %angle: f32):
    gemm.yield %p, %q, %angle : f32, f32, f32
  }
    columns(%v : tensor<8x6xbf16>) kn col(%i : tensor<?xi64>)
    -> (select<0> : tensor<?xf32>) {
  ^epilogue(%p: f32, %index: i64):
    gemm.yield %p : f32
  }
  func.return
}"""


def fused_op() -> FusedOp:
    (op,) = (op for op in parse_mlir(TWO_SEGMENTS).walk() if isinstance(op, FusedOp))
    return op


def replaced(op: FusedOp, segments: list[Segment]) -> FusedOp:
    """An operator of `segments`, verified."""
    changed = FusedOp(op.x, segments, op.schedule)
    changed.verify()
    return changed


def test_operands_and_results_are_shared_out():
    op = fused_op()
    first, second = op.segments()
    assert (first.columns, second.columns) == (16, 6)
    assert [port.kind for port in first.ports] == [PortKind.TILE, PortKind.HALF_TABLE]
    assert [port.value for port in second.ports] == [op.ports[2]]
    assert list(first.outputs) == list(op.outputs[:2])
    assert [result.port.kind.data for result in second.results] == [ResultKind.SELECT]


def test_arguments_and_yields_of_pairs():
    segment = fused_op().segments()[0]
    block = segment.block
    assert list(segment.accumulators) == list(block.args[:2])
    assert list(segment.port_args(0)) == list(block.args[2:4])
    assert list(segment.port_args(1)) == [block.args[4]]
    assert list(segment.yielded(0)) == list(block.args[:2])
    assert list(segment.yielded(1)) == [block.args[4]]


def test_group_sizes():
    op = fused_op()
    first, second = op.segments()
    assert first.group_size == 4
    assert second.group_size is None


def test_taking_segments_leaves_the_operator_alone():
    op = fused_op()
    before = str(op)
    first, *_ = op.take_segments()
    first.remove_result(1)
    assert str(op) == before


def test_a_port_is_added_once():
    op = fused_op()
    first, second = op.take_segments()
    row: SSAValue = Block(arg_types=[TensorType(bf16, (16,))]).args[0]
    two = first.add_port(PortKind.ROW, row)
    assert [argument.type for argument in two] == [f32, f32]
    assert list(first.add_port(PortKind.ROW, row)) == list(two)
    assert len(first.ports) == 3
    (index,) = second.add_port(PortKind.COL, op.ports[2])
    assert index.type == i64
    assert len(second.ports) == 1
    replaced(op, [first, second])


def test_results_are_added_changed_and_removed():
    op = fused_op()
    first, second = op.take_segments()
    p, q = first.accumulators
    product = arith.MulfOp(p, q)
    assert first.block.last_op is not None
    first.block.insert_op_before(product, first.block.last_op)
    port = ResultPortAttr.partial_row(Combiner.ADD)
    assert first.add_result(port, partial_type((DYNAMIC_INDEX,)), [product.result]) == 2
    first.set_yielded(0, [q, p])
    first.remove_result(1)
    changed = replaced(op, [first, second])
    segment = changed.segments()[0]
    assert [list(segment.yielded(i)) for i in range(2)] == [[q, p], [product.result]]


def test_map_has_no_accumulators():
    module = parse_mlir("""
        func.func @f(%x: tensor<?x8xbf16>) {
          %y = gemm.map tile(%x : tensor<?x8xbf16>) -> (tile : tensor<?x8xbf16>) {
          ^epilogue(%a: f32):
            gemm.yield %a : f32
          }
          func.return
        }""")
    (op,) = (op for op in module.walk() if isinstance(op, MapOp))
    (segment,) = op.take_segments()
    assert segment.accumulator_count == 0
    assert list(segment.port_args(0)) == list(segment.block.args)
    MapOp(segment).verify()


def test_types_of_a_region():
    assert region_type(bf16) == f32
    assert region_type(i64) == i64
    assert partial_type((2, DYNAMIC_INDEX)) == TensorType(f32, (2, DYNAMIC_INDEX, DYNAMIC_INDEX))
