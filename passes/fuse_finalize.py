"""Pass `fuse-finalize`: pointwise operators on row statistics move into the finalize."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of, tensor_type
from coda_ir.dialects.gemm import (
    FinalizeOp,
    Port,
    PortKind,
    ScalarBuilder,
    numerics_mode,
    region_type,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.order import BlockOrder
from coda_ir.passes.support.ports import port_kind
from coda_ir.passes.support.scalar_code import emit_scalar, is_pointwise
from coda_ir.remarks import fuse_locations


@dataclass(frozen=True)
class FuseFinalizePass(FunctionPass):
    """What is computed from combined partials, row by row, runs in the finalize that makes them.

        %s = gemm.finalize row (add %p) { yield sum }        %r = gemm.finalize row (add %p) {
        %m = coda.mul %s, %c                           ->      yield rsqrt(sum · c)
        %r = coda.rsqrt %m                                   }

    Legal iff every operand is a result of the finalize, a constant, or a column or scalar that
    does not depend on it.
    """

    name: ClassVar[str] = "fuse-finalize"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if is_pointwise(op) and (finalize := _producer(op, rewriter.order)) is not None:
                rewriter.passed(op, "fused into gemm.finalize")
                _fuse(op, finalize, rewriter.order)


def _producer(op: Operation, order: BlockOrder) -> FinalizeOp | None:
    for operand in op.operands:
        finalize = operand.owner
        if not isinstance(finalize, FinalizeOp) or finalize.axis.data != "row":
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


def _column_port(value: SSAValue, domain: Sequence[int]) -> PortKind | None:
    if shape_of(value) == tuple(domain):
        return PortKind.COL
    return PortKind.SCALAR if port_kind(shape_of(value), domain) == PortKind.SCALAR else None


def _fuse(op: Operation, finalize: FinalizeOp, order: BlockOrder) -> None:
    """Build the finalize with the result of `op` added, and without results that nobody uses."""
    body = finalize.detach_region(finalize.body)
    ports = finalize.port_list
    terminator = body.block.last_op
    assert terminator is not None
    builder = ScalarBuilder(body.block, op.location, numerics_mode(op))
    yielded: dict[SSAValue, SSAValue] = dict(
        zip(finalize.outputs, terminator.operands, strict=True)
    )

    def element(value: SSAValue) -> SSAValue:
        if value in yielded:
            return yielded[value]
        if isinstance(value.owner, coda.ConstantOp):
            return builder.constant(float(value.owner.number))
        kind = _column_port(value, shape_of(op.results[0]))
        assert kind is not None
        ports.append(Port(kind, value))
        type = region_type(tensor_type(value).element_type)
        return body.block.insert_arg(type, len(body.block.args))

    yielded[op.results[0]] = emit_scalar(builder, op, [element(v) for v in op.operands])
    op.operands = ()
    kept = [value for value in yielded if value.uses]
    terminator.operands = [yielded[value] for value in kept]
    types = [tensor_type(value) for value in kept]
    new = FinalizeOp(
        finalize.partial_list, ports, types, body, axis=finalize.axis.data, order=finalize.order
    )
    new.location = fuse_locations(finalize.location, op.location)
    for old, output in zip(kept, new.outputs, strict=True):
        output.name_hint = old.name_hint
        old.replace_all_uses_with(output)
    order.replace(finalize, new)
    order.erase(op)
