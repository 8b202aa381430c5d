"""Pass `fuse-cross-entropy`: compute the loss in the epilogue of the language-model head."""

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32, i32
from xdsl.ir import Block, Region, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import AnyTensor, element_type_of, shape_of, tensor_type
from coda_ir.passes.fusion.split_reductions import make_finalize
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import (
    check_cross_entropy,
    check_cross_entropy_grad,
    check_rounding_may_move,
)
from coda_ir.passes.support.matching import unconverted
from coda_ir.remarks import fuse_locations


class FuseCrossEntropyPass(FunctionPass):
    """Computes loss = logsumexp(logits) − logits[target] without a pass over the logits.

        %z = gemm.fused ... { yield v }              %p, %t = gemm.fused ... col(%target) {
        %l = coda.cross_entropy %z, %target    ->      yield v (partial_row<lse>), v (select)
                                                     }
                                                     %l = gemm.finalize row (lse %p) col(%t, ...)

    If the logits are recomputed and the logsumexp of each row is known, the same epilogue computes
    their gradient:

        %z = gemm.fused ... { yield v }              %d = gemm.fused ... col(%target, %lse) {
        %d = coda.cross_entropy_grad %z, ...   ->      yield (exp(v − lse) − onehot) · dloss
                                                     }

    Otherwise, the kernel that computes the gradient also returns the row sums of the logits times
    their gradient, which the backward of a norm before the head needs (see
    `move-norm-gradient-sums`):

        %d = coda.cross_entropy_grad %z, ...         %d, %s = coda.cross_entropy_grad %z, ...
        %s = coda.reduce (z ⊙ d) {kind = "sum"}  ->

    The logits are stored only if another operator uses them. Rows whose target is `ignore_index`
    contribute 0. A mean or a sum over the rows is one more finalize. Legal iff the logits are the
    tile of a GEMM with unpaired columns, and the target does not depend on it; for the row sums,
    iff the numerics mode allows rounding points to move.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.CrossEntropyOp):
                site = rewriter.allowed(op, check_cross_entropy(op, rewriter.order))
                if site is not None:
                    rewriter.passed(op, "fused into the GEMM that computes the logits")
                    _rewrite(op, site, rewriter)
            elif isinstance(op, coda.CrossEntropyGradOp):
                _place_gradient(op, rewriter)


def _place_gradient(op: coda.CrossEntropyGradOp, rewriter: FunctionRewriter) -> None:
    """Compute the gradient of logits in the epilogue of their GEMM, or with its row sums."""
    site = check_cross_entropy_grad(op, rewriter.order)
    if not isinstance(site, Refusal):
        rewriter.passed(op, "fused into the GEMM that computes the logits")
        _fuse_gradient(op, site, rewriter)
        return
    if isinstance(op.logits.owner, gemm.FusedOp):
        rewriter.missed(op, site)
    if op.moment is None:
        _add_moment(op, rewriter)


def _add_moment(op: coda.CrossEntropyGradOp, rewriter: FunctionRewriter) -> None:
    """Let `op` compute the sums for which reductions of logits ⊙ gradient would read both again."""
    sums = [reduce for reduce in _sums_of(op.result) if _factors(reduce) == {op.logits, op.result}]
    if not sums or check_rounding_may_move(op, "the gradient of the logits is rounded"):
        return
    for reduce in sums:
        rewriter.passed(reduce, "computed with the gradient of the loss")
    operands = (op.logits, op.target, op.dloss, op.row_lse)
    joined = coda.CrossEntropyGradOp(*operands, **op.given, results=2)
    joined.location = fuse_locations(op.location, *(reduce.location for reduce in sums))
    rewriter.order.insert_before(joined, op)
    rewriter.order.give_way(op, [joined.result])
    assert joined.moment is not None
    for reduce in sums:
        joined.moment.name_hint = reduce.result.name_hint
        rewriter.order.give_way(reduce, [joined.moment])


def _sums_of(value: SSAValue) -> Iterator[coda.ReduceOp]:
    """Yield the float32 row sums that are computed from `value` by pointwise operators."""
    for op in dict.fromkeys(use.operation for use in value.uses):
        if isinstance(op, coda.CastOp | coda.MulOp):
            yield from _sums_of(op.result)
        elif isinstance(op, coda.ReduceOp) and op.kind.data == "sum":
            yield from [op] if element_type_of(op.result) == f32 else []


def _factors(reduce: coda.ReduceOp) -> set[SSAValue] | None:
    """Return the two different factors of the summed product, before conversions."""
    product = reduce.x.owner
    if not isinstance(product, coda.MulOp):
        return None
    return {unconverted(product.lhs), unconverted(product.rhs)}


def _rewrite(op: coda.CrossEntropyOp, site: Site, rewriter: FunctionRewriter) -> None:
    rewriter.order.hoist([op.target], site.op)
    columns = shape_of(op.logits)[-1]
    lse, target_logit = _add_results(op, site, rewriter)
    rows = shape_of(op.target)
    per_row = _per_row_loss(op, columns, lse, target_logit, TensorType(f32, rows))
    rewriter.before(op).insert(per_row)
    losses = per_row.outputs[: len(per_row.outputs) - len(op.row_lse)]
    row_lse = per_row.outputs[len(losses) :]
    for old, new in zip(op.row_lse, row_lse, strict=True):
        new.name_hint = old.name_hint
    is_per_row = op.reduction.data == "none"
    loss = losses[0] if is_per_row else _over_rows(op, losses, rewriter)
    loss.name_hint = op.result.name_hint or loss.name_hint
    rewriter.order.give_way(op, (loss, *row_lse))


def _add_results(
    op: coda.CrossEntropyOp, site: Site, rewriter: FunctionRewriter
) -> tuple[SSAValue, SSAValue]:
    editor = EpilogueEditor(site.op, rewriter.order)
    segment = editor.segments[site.segment]
    values = list(segment.yielded(site.result))
    segment.add_port(gemm.PortKind.COL, op.target)
    port = segment.ports.index(gemm.Port(gemm.PortKind.COL, op.target))
    rows = shape_of(op.target)
    lse = editor.add_result(
        site.segment,
        gemm.ResultPortAttr.partial_row(gemm.Combiner.LSE),
        gemm.partial_type(rows, is_wide=True),
        values,
    )
    select = editor.add_result(
        site.segment, gemm.ResultPortAttr.select(port), TensorType(f32, rows), values
    )
    editor.locations.append(op.location)
    # The loss no longer uses the logits: without other uses they are not stored.
    op.operands = (op.target, op.target)
    partial, target_logit = editor.commit_and_locate(site.segment, [lse, select])
    partial.name_hint, target_logit.name_hint = "lse", "target_logit"
    return partial, target_logit


def _per_row_loss(
    op: coda.CrossEntropyOp, columns: int, lse: SSAValue, target_logit: SSAValue, type: AnyTensor
) -> gemm.FinalizeOp:
    """Return lse − target logit, 0 for ignored rows, and for a mean also 1 for each row that
    counts; then the parts of lse that the loss returns.

    A target that is neither one of the `columns` nor ignored is an error.
    """
    index_type = element_type_of(op.target)
    block = Block(arg_types=[*gemm.partial_arguments([lse]), f32, index_type])
    builder = gemm.ScalarBuilder(block)
    total, rest, logit, target = block.args
    target.name_hint, number = op.target.name_hint, op.ignore_index.value.data
    target = builder.insert(gemm.CheckedIndexOp(target, columns, number))
    ignored = builder.insert(arith.CmpiOp(target, builder.integer(number, index_type), "eq"))
    zero, one = builder.constant(0.0), builder.constant(1.0)
    # The difference of two numbers of the magnitude of logits, and only then what they lack.
    loss = builder.add(builder.sub(total, logit), rest)
    loss = builder.insert(arith.SelectOp(ignored, zero, loss))
    values = [loss]
    if op.reduction.data == "mean":
        values.append(builder.insert(arith.SelectOp(ignored, zero, one)))
    types = [*[type] * len(values), *(tensor_type(part) for part in op.row_lse)]
    values += [total, rest][: len(op.row_lse)]
    block.add_op(gemm.YieldOp(*values))
    ports = [gemm.Port(gemm.PortKind.COL, target_logit), gemm.Port(gemm.PortKind.COL, op.target)]
    return gemm.FinalizeOp([(gemm.Combiner.LSE, lse)], ports, types, Region(block))


def _over_rows(
    op: coda.CrossEntropyOp, columns: Sequence[SSAValue], rewriter: FunctionRewriter
) -> SSAValue:
    """Return the sum of the losses of all rows; for a mean, over the number of rows that count."""
    insert = rewriter.before(op)
    flat = [
        column
        if len(shape_of(column)) == 1
        else insert.insert(coda.ReshapeOp(column, (DYNAMIC_INDEX,)))
        for column in columns
    ]
    finalize = make_finalize(
        [(gemm.Combiner.ADD, column) for column in flat],
        [TensorType(f32, ())],
        lambda b, total: [b.div(total[0], total[1]) if len(total) > 1 else total[0]],
    )
    return insert.insert(finalize)


def _fuse_gradient(op: coda.CrossEntropyGradOp, site: Site, rewriter: FunctionRewriter) -> None:
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
