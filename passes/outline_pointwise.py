"""Pass `outline-pointwise`: pointwise operators that found no GEMM become kernels together."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of, tensor_type
from coda_ir.dialects.gemm import (
    MapOp,
    PortKind,
    Result,
    ResultPortAttr,
    ScalarBuilder,
    Segment,
    YieldOp,
)
from coda_ir.passes.fuse_pointwise import fuse_at
from coda_ir.passes.legality import find_site
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.ports import port_kind
from coda_ir.passes.support.scalar_code import emit_scalar, is_pointwise


@dataclass(frozen=True)
class OutlinePointwisePass(FunctionPass):
    """What is left of pointwise code is gathered in `gemm.map` kernels, each with a remark.

        %s = coda.silu %a                   %y = gemm.map tile(%a, %b) {
        %y = coda.mul %s, %b         ->       yield silu(a) · b
                                            }

    An operator joins the kernel that computes one of its operands where that is legal.
    """

    name: ClassVar[str] = "outline-pointwise"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not is_pointwise(op) or not op.results[0].uses:
                continue
            site = find_site(op, rewriter.order)
            if not isinstance(site, Refusal):
                fuse_at(op, site, rewriter)
                continue
            rewriter.missed(op, site)
            if all(_fits(operand, op) for operand in op.operands):
                _outline(op, rewriter)


def _fits(operand: SSAValue, op: Operation) -> bool:
    return port_kind(shape_of(operand), shape_of(op.results[0])) is not None


def _outline(op: Operation, rewriter: FunctionRewriter) -> None:
    result = op.results[0]
    block = Block()
    segment = Segment(
        weights=[],
        ports=[],
        results=[],
        body=Region(block),
    )
    block.add_op(YieldOp())
    builder = ScalarBuilder(block, op.location)
    args = [_element(operand, op, segment, builder) for operand in op.operands]
    value = emit_scalar(builder, op, args)
    segment.results.append(Result(ResultPortAttr.tile(), tensor_type(result)))
    terminator = block.last_op
    assert terminator is not None
    terminator.operands = [value]
    new = MapOp(segment)
    new.location = op.location
    new.outputs[0].name_hint = result.name_hint
    result.replace_all_uses_with(new.outputs[0])
    rewriter.order.replace(op, new)


def _element(
    operand: SSAValue, op: Operation, segment: Segment, builder: ScalarBuilder
) -> SSAValue:
    if isinstance(operand.owner, coda.ConstantOp):
        return builder.constant(float(operand.owner.number))
    kind = port_kind(shape_of(operand), shape_of(op.results[0]))
    assert kind is not None
    if not shape_of(op.results[0]):
        kind = PortKind.SCALAR
    return segment.add_port(kind, operand)[0]
