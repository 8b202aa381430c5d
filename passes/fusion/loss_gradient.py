"""The gradient of the cross-entropy in the epilogue of the GEMM that computes the logits."""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32, i32
from xdsl.ir import Block, Region, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionRewriter, OpInserter


def fuse_loss_gradient(op: coda.CrossEntropyGradOp, site: Site, rewriter: FunctionRewriter) -> None:
    """Let the epilogue at `site`, which computes the logits, compute their gradient `op`.

    The caller has checked legality: `lse` is given, and nothing that `op` needs beside the logits
    depends on the GEMM.
    """
    assert op.row_lse, "legality was checked before"
    rewriter.order.hoist([op.target, op.dloss, *op.row_lse], site.op)
    insert = rewriter.before(site.op, op.location)
    kind, dloss = _dloss(op, insert)
    start = insert.insert(coda.ConstantOp(op.first_column, element_type_of(op.target)))
    editor = EpilogueEditor(site.op, rewriter.order)
    segment = editor.segments[site.segment]
    ports = [
        gemm.Port(gemm.PortKind.COL, op.target),
        *(gemm.Port(gemm.PortKind.COL, lse) for lse in op.row_lse),
        gemm.Port(kind, dloss),
        gemm.Port(gemm.PortKind.SCALAR, start),
    ]
    (logit,) = segment.yielded(site.result)
    arguments = [logit, *(segment.add_port(*port)[0] for port in ports)]
    builder = editor.builder(site.segment, op.location)
    value = builder.result(_gradient(builder, op, arguments), element_type_of(op.result))
    value.name_hint = op.result.name_hint
    replace_by_result(editor, op, site.segment, [value])


def _gradient(
    builder: gemm.ScalarBuilder, op: coda.CrossEntropyGradOp, arguments: Sequence[SSAValue]
) -> SSAValue:
    """Return (exp(logit − lse − rest) − onehot) · dloss; 0 where the target is ignored."""
    logit, target, *row_lse, dloss, start = arguments
    type, zero = target.type, builder.constant(0.0)
    place = _as_column(
        builder, builder.insert(arith.SubiOp(target, start)), shape_of(op.logits)[-1]
    )
    is_target = builder.insert(arith.CmpiOp(builder.insert(gemm.ColumnOp(i32)), place, "eq"))
    onehot = builder.select(is_target, builder.constant(1.0), zero)
    for lse in row_lse:
        logit = builder.sub(logit, lse)
    softmax = builder.exp(logit)
    ignored = builder.integer(op.ignore_index.value.data, type)
    is_ignored = builder.insert(arith.CmpiOp(target, ignored, "eq"))
    return builder.select(is_ignored, zero, builder.mul(builder.sub(softmax, onehot), dloss))


def _as_column(builder: gemm.ScalarBuilder, place: SSAValue, columns: int) -> SSAValue:
    """Return `place` in 32 bits, like columns of a tile; one that is no column stays none."""
    if place.type == i32:
        return place
    least, most = builder.integer(-1, place.type), builder.integer(columns, place.type)
    place = builder.insert(arith.MaxSIOp(place, least))
    return builder.insert(arith.TruncIOp(builder.insert(arith.MinSIOp(place, most)), i32))


def _dloss(op: coda.CrossEntropyGradOp, insert: OpInserter) -> tuple[gemm.PortKind, SSAValue]:
    """Return the gradient of a row's loss; for a mean, over the number of rows that count."""
    if op.reduction.data != "mean":
        is_per_row = op.reduction.data == "none"
        return gemm.PortKind.COL if is_per_row else gemm.PortKind.SCALAR, op.dloss
    counts = insert.insert(_counted(op), "counts")
    flat = insert.insert(coda.ReshapeOp(counts, (DYNAMIC_INDEX,)))
    block = Block(arg_types=[f32, f32])
    builder = gemm.ScalarBuilder(block, op.location)
    block.add_op(gemm.YieldOp(builder.div(block.args[1], block.args[0])))
    share = gemm.FinalizeOp(
        [(gemm.Combiner.ADD, flat)],
        [gemm.Port(gemm.PortKind.SCALAR, op.dloss)],
        [TensorType(f32, ())],
        Region(block),
    )
    return gemm.PortKind.SCALAR, insert.insert(share, "share")


def _counted(op: coda.CrossEntropyGradOp) -> gemm.MapOp:
    """Return 1 for each row that counts, 0 for an ignored one."""
    type = element_type_of(op.target)
    block = Block(arg_types=[type])
    builder = gemm.ScalarBuilder(block, op.location)
    ignored = builder.integer(op.ignore_index.value.data, type)
    is_ignored = builder.insert(arith.CmpiOp(block.args[0], ignored, "eq"))
    value = builder.select(is_ignored, builder.constant(0.0), builder.constant(1.0))
    block.add_op(gemm.YieldOp(value))
    column = TensorType(f32, (*shape_of(op.target), 1))
    return gemm.MapOp(
        gemm.Segment(
            weights=[],
            ports=[gemm.Port(gemm.PortKind.COL, op.target)],
            results=[gemm.Result(gemm.ResultPortAttr.tile(), column)],
            body=Region(block),
        )
    )
