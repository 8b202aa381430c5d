"""Pass `merge-sibling-gemms`: GEMMs that share their input become one launch."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import SSAValue

from coda_ir.dialects.gemm import FusedOp, OrderAttr
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import fuse_locations


@dataclass(frozen=True)
class MergeSiblingGemmsPass(FunctionPass):
    """GEMMs on the same x become the column ranges of one GEMM, each with its own epilogue.

        %q = gemm.fused %h columns(%wq) {...}        %q, %k = gemm.fused %h
        %k = gemm.fused %h columns(%wk) {...}   ->     columns(%wq) {...}
                                                       columns(%wk) {...}

    The weights are not concatenated: each column range keeps its own. Legal iff none of the GEMMs
    depends on another.
    """

    name: ClassVar[str] = "merge-sibling-gemms"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        first_of: dict[tuple[SSAValue, OrderAttr | None], FusedOp] = {}
        for op in rewriter.ops:
            if not isinstance(op, FusedOp):
                continue
            first = first_of.get((op.x, op.order))
            if first is None:
                first_of[op.x, op.order] = op
            elif not rewriter.order.hoist(op.operands, first):
                rewriter.missed(
                    op,
                    Refusal(
                        "no sibling depends on another",
                        "reads its input again: it needs a result of the GEMM it would join",
                    ),
                )
            else:
                rewriter.passed(op, "joins the GEMM that reads the same input")
                first_of[op.x, op.order] = _merge(first, op, rewriter.order)


def _merge(first: FusedOp, second: FusedOp, order: BlockOrder) -> FusedOp:
    segments = [*first.segments(), *second.segments()]
    outputs = [output for segment in segments for output in segment.outputs]
    for segment in segments:
        body = segment.body
        owner = body.parent_op()
        assert owner is not None
        owner.detach_region(body)
    merged = first.with_segments(segments)
    merged.location = fuse_locations(first.location, second.location)
    for old, new in zip(outputs, merged.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    order.replace(first, merged)
    order.erase(second)
    return merged
