"""Pass `group-head-norms`: a norm of every head becomes a grouped norm of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.norms import OpInserter


@dataclass(frozen=True)
class GroupHeadNormsPass(FunctionPass):
    """Moves the norm of heads before the split of the columns into heads.

        %h = coda.reshape %q : (... x heads·D) -> (... x heads x D)
        %y = coda.rms_norm %h, %w
    ->
        %n = coda.rms_norm %q, %w {group = D}
        %y = coda.reshape %n

    Both normalize each run of D columns; the grouped norm can join the GEMM that computes %q.
    """

    name: ClassVar[str] = "group-head-norms"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            split = defined_by(op.x, coda.ReshapeOp) if isinstance(op, coda.RMSNormOp) else None
            if isinstance(op, coda.RMSNormOp) and split is not None and op.group is None:
                _group(op, split, rewriter)


def _group(norm: coda.RMSNormOp, split: coda.ReshapeOp, rewriter: FunctionRewriter) -> None:
    before, after = shape_of(split.x), shape_of(split.result)
    if len(after) < 2 or before != (*after[:-2], after[-2] * after[-1]):
        return
    rewriter.passed(norm, f"moved before the split into heads of {after[-1]} columns")
    insert = OpInserter(rewriter, norm, norm.location)
    eps = norm.eps.value.data
    grouped = coda.RMSNormOp(split.x, norm.weight, eps=eps, group=after[-1])
    value = insert.insert(grouped, norm.result.name_hint)
    norm.result.replace_all_uses_with(insert.insert(coda.ReshapeOp(value, after)))
    rewriter.order.erase(norm)
