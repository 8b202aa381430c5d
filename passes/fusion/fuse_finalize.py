"""Pass `fuse-finalize`: move pointwise operators on combined partials into the finalize."""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.dialects.gemm.scalar_code import emit_scalar, is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.passes.support.editing import is_of_numbers
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.order import BlockOrder


class FuseFinalizePass(FunctionPass):
    """Fuses code on combined partials into the `gemm.finalize` that combines them.

        %s = gemm.finalize row (add %p) { yield sum }        %r = gemm.finalize row (add %p) {
        %m = coda.mul %s, %c                           ->      yield rsqrt(sum · c)
        %r = coda.rsqrt %m                                   }

    Legal iff every operand is a result of the finalize, a constant, or a column or scalar that does
    not depend on it. Code on a reshaped result of `gemm.finalize col` is applied to the result,
    which is then reshaped. Two finalizes become one if neither depends on the other and one
    operator reads results of both, or one kernel computes both sums over the same columns.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(gemm.FinalizeOp):
            _join_sibling(op, rewriter)
        for op in rewriter.ops:
            if is_pointwise(op):
                op = _on_columns(op, rewriter)
                _join_producers(op, rewriter)
                finalize = _producer(op, rewriter.order)
                if finalize is not None:
                    rewriter.passed(op, "fused into gemm.finalize")
                    _fuse(op, finalize, rewriter.order)


def _join_sibling(op: gemm.FinalizeOp, rewriter: FunctionRewriter) -> None:
    """Join `op` to an earlier finalize that combines sums of the same columns of one kernel."""
    kernel, order = op.partials[0].owner, rewriter.order
    if op.axis.data != "col" or not isinstance(kernel, gemm.FusedOp | gemm.MapOp):
        return
    users = dict.fromkeys(use.operation for output in kernel.results for use in output.uses)
    for other in users:
        if not isinstance(other, gemm.FinalizeOp) or order.position(other) >= order.position(op):
            continue
        is_alike = shape_of(other.partials[0]) == shape_of(op.partials[0])
        if is_alike and _can_join(other, op, order):
            rewriter.passed(op, "joins the gemm.finalize of sums of the same columns")
            _join(other, op, order)
            return


def _join_producers(op: Operation, rewriter: FunctionRewriter) -> None:
    """Join the finalizes whose results the pointwise operator `op` combines."""
    shape = shape_of(op.results[0])
    first: gemm.FinalizeOp | None = None
    for operand in op.operands:
        second = operand.owner
        if not isinstance(second, gemm.FinalizeOp) or second is first or shape_of(operand) != shape:
            continue
        if first is None:
            first = second
        elif _can_join(first, second, rewriter.order):
            rewriter.passed(second, "joins the gemm.finalize with which it is combined")
            first = _join(first, second, rewriter.order)


def _can_join(first: gemm.FinalizeOp, second: gemm.FinalizeOp, order: BlockOrder) -> bool:
    alike = (first.axis, first.order) == (second.axis, second.order)
    earlier, later = sorted((first, second), key=order.position)
    return alike and order.slices_after(later.operands, earlier) is not None


def _join(first: gemm.FinalizeOp, second: gemm.FinalizeOp, order: BlockOrder) -> gemm.FinalizeOp:
    """Replace two finalizes by one, in the earlier one's place, with all partials and results."""
    first, second = sorted((first, second), key=order.position)
    order.hoist(second.operands, first)
    outputs = [*first.outputs, *second.outputs]
    partials = [*first.partial_list, *second.partial_list]
    ports = [*first.port_list, *second.port_list]
    sources = [first.detach_region(first.body), second.detach_region(second.body)]
    block = Block(arg_types=[f32] * len(partials))
    yielded: list[SSAValue] = []
    taken = 0
    for source, finalize in zip(sources, (first, second), strict=True):
        count = len(finalize.partial_list)
        extra = [block.insert_arg(a.type, len(block.args)) for a in source.block.args[count:]]
        arguments = [*block.args[taken : taken + count], *extra]
        taken += count
        yielded += _move_code(source.block, block, arguments)
    block.add_op(gemm.YieldOp(*yielded))
    types = [tensor_type(output) for output in outputs]
    axis = first.axis.data
    new = gemm.FinalizeOp(partials, ports, types, Region(block), axis=axis, order=first.order)
    order.join(first, second, outputs, new)
    return new


def _move_code(source: Block, target: Block, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Move the operators of a region to the end of `target`; return the values that it yielded."""
    for argument, value in zip(source.args, arguments, strict=True):
        value.name_hint = argument.name_hint
        argument.replace_all_uses_with(value)
    terminator = source.last_op
    assert isinstance(terminator, gemm.YieldOp)
    yielded = list(terminator.operands)
    terminator.operands = ()  # it stays behind, and is no user of what is moved
    for inner in list(source.ops):
        if inner is not terminator:
            inner.detach()
            target.add_op(inner)
    return yielded


def _on_columns(op: Operation, rewriter: FunctionRewriter) -> Operation:
    """Apply `op` to the vector that it reads reshaped, if a finalize made it; else return `op`."""
    view, *others = [value for value in op.operands if not _is_constant(value)] or [None]
    if view is None or any(value is not view for value in others):
        return op
    source = defined_by(view, coda.ReshapeOp)
    if source is None or not isinstance(source.x.owner, gemm.FinalizeOp):
        return op
    (result,), vector = op.results, source.x
    if len(shape_of(vector)) != 1 or shape_of(result) != shape_of(view):
        return op
    insert = rewriter.before(op)
    operands = [vector if value is view else value for value in op.operands]
    made = insert.again(op, operands, shape_of(vector))
    rewriter.replace(op, insert.reshape(made, shape_of(result)))
    if not source.result.uses:
        rewriter.order.erase(source)
    assert isinstance(made.owner, Operation)
    return made.owner


def _producer(op: Operation, order: BlockOrder) -> gemm.FinalizeOp | None:
    for operand in op.operands:
        finalize = operand.owner
        if not isinstance(finalize, gemm.FinalizeOp):
            continue
        domain = shape_of(operand)
        outside = [v for v in op.operands if v not in finalize.outputs and not _is_constant(v)]
        fits = shape_of(op.results[0]) == domain and all(
            _column_port(v, domain) is not None for v in outside
        )
        if fits and order.hoist(outside, finalize):
            return finalize
    return None


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, coda.ConstantOp)


def _is_repeated(value: SSAValue) -> bool:
    """Return whether a finalize makes one element, not stored, from extents and constants."""
    op = value.owner
    return (
        isinstance(op, Operation) and not shape_of(value) and is_pointwise(op) and is_of_numbers(op)
    )


def _column_port(value: SSAValue, domain: Sequence[int]) -> gemm.PortKind | None:
    if shape_of(value) == tuple(domain):
        return gemm.PortKind.COL
    return (
        gemm.PortKind.SCALAR if port_kind(shape_of(value), domain) == gemm.PortKind.SCALAR else None
    )


def _fuse(op: Operation, finalize: gemm.FinalizeOp, order: BlockOrder) -> None:
    """Build the finalize with the result of `op` added and unused results removed."""
    body = finalize.detach_region(finalize.body)
    ports = finalize.port_list
    terminator = body.block.last_op
    assert terminator is not None
    builder = gemm.ScalarBuilder(body.block, op.location, gemm.numerics_mode(op))
    yielded: dict[SSAValue, SSAValue] = dict(
        zip(finalize.outputs, terminator.operands, strict=True)
    )

    def element(value: SSAValue) -> SSAValue:
        if value in yielded:
            return yielded[value]
        inner = value.owner
        if isinstance(inner, coda.ConstantOp):
            return builder.number(inner.number, element_type_of(value))
        if _is_repeated(value):
            assert isinstance(inner, Operation)
            return emit_scalar(builder, inner, [element(v) for v in inner.operands])
        kind = _column_port(value, shape_of(op.results[0]))
        assert kind is not None
        ports.append(gemm.Port(kind, value))
        type = gemm.region_type(tensor_type(value).element_type)
        return body.block.insert_arg(type, len(body.block.args))

    yielded[op.results[0]] = emit_scalar(builder, op, [element(v) for v in op.operands])
    op.operands = ()
    kept = [value for value in yielded if value.uses]
    terminator.operands = [yielded[value] for value in kept]
    types = [tensor_type(value) for value in kept]
    new = gemm.FinalizeOp(
        finalize.partial_list, ports, types, body, axis=finalize.axis.data, order=finalize.order
    )
    order.join(finalize, op, kept, new)
