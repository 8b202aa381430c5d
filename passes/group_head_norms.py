"""Pass `group-head-norms`: a norm of every head becomes a grouped norm of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.heads import Heads, heads_of
from coda_ir.passes.support.norms import OpInserter


@dataclass(frozen=True)
class GroupHeadNormsPass(FunctionPass):
    """Moves the norm of heads before the split of the columns into heads.

        %h = coda.reshape %q : (... x heads·D) -> (... x heads x D)
        %y = coda.rms_norm %h, %w
    ->
        %n = coda.rms_norm %q, %w {group = D}
        %y = coda.reshape %n

    Both normalize each run of D columns; the grouped norm can join the GEMM that computes %q. The
    heads may also stand before the rows, transposed.
    """

    name: ClassVar[str] = "group-head-norms"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.RMSNormOp) and op.group is None:
                heads = heads_of(op.x, rewriter.shapes)
                if heads is not None and heads.is_whole:
                    _group(op, heads, rewriter)


def _group(norm: coda.RMSNormOp, heads: Heads, rewriter: FunctionRewriter) -> None:
    rewriter.passed(norm, f"moved before the split into heads of {heads.width} columns")
    insert = OpInserter(rewriter, norm, norm.location)
    eps = norm.eps.value.data
    grouped = coda.RMSNormOp(heads.columns(insert), norm.weight, eps=eps, group=heads.width)
    value = insert.insert(grouped, norm.result.name_hint)
    norm.result.replace_all_uses_with(heads.of(value, insert))
    rewriter.order.erase(norm)
