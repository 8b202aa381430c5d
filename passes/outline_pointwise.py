"""Pass `outline-pointwise`: pointwise operators that found no GEMM become kernels together."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import MapOp, Segment, YieldOp
from coda_ir.passes.fuse_pointwise import fuse_at, only_widens_for_pointwise
from coda_ir.passes.legality import find_site
from coda_ir.passes.support.editing import EpilogueEditor, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.ports import port_kind
from coda_ir.passes.support.scalar_code import is_pointwise


@dataclass(frozen=True)
class OutlinePointwisePass(FunctionPass):
    """What is left of pointwise code is gathered in `gemm.map` kernels, each with a remark.

        %s = coda.silu %a                   %y = gemm.map tile(%a, %b) {
        %y = coda.mul %s, %b         ->       yield silu(a) · b
                                            }

    An operator joins the kernel that computes one of its operands where that is legal.
    """

    name: ClassVar[str] = "outline-pointwise"

    statistics: bool = True
    """Whether code on the statistics of rows is outlined; it may yet join a finalize."""

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        cheap: list[Operation] = []
        for op in rewriter.ops:
            if is_pointwise(op) and (self.statistics or not _reads_statistics(op)):
                if _is_repeated_by_consumers(op):
                    cheap.append(op)
                else:
                    _place(op, rewriter)
        for op in reversed(cheap):
            if op.results[0].uses:
                _place(op, rewriter)
            else:
                rewriter.order.erase(op)


def _is_repeated_by_consumers(op: Operation) -> bool:
    """Whether the kernels that need `op` will rather repeat it: see `editing.recomputed`."""
    return len(shape_of(op.results[0])) < 2 or only_widens_for_pointwise(op)


def _reads_statistics(op: Operation) -> bool:
    is_column = shape_of(op.results[0])[-1:] == (1,)
    return is_column and any(isinstance(v.owner, coda.NormStatsOp) for v in op.operands)


def _place(op: Operation, rewriter: FunctionRewriter) -> None:
    """Fuse `op` where that is legal, else make it a kernel."""
    site = find_site(op, rewriter.order)
    if not isinstance(site, Refusal):
        fuse_at(op, site, rewriter)
        return
    rewriter.missed(op, site)
    if all(_fits(operand, op) for operand in op.operands):
        _outline(op, rewriter)


def _fits(operand: SSAValue, op: Operation) -> bool:
    return port_kind(shape_of(operand), shape_of(op.results[0])) is not None


def _outline(op: Operation, rewriter: FunctionRewriter) -> None:
    """Put `op` into a map of its own: an empty map takes it over like any other consumer."""
    block = Block()
    block.add_op(YieldOp())
    empty = MapOp(Segment(weights=[], ports=[], results=[], body=Region(block)))
    empty.location = op.location
    rewriter.order.insert_before(empty, op)
    editor = EpilogueEditor(empty, rewriter.order)
    index = editor.fuse_pointwise(op, 0, half=False)
    replace_by_result(editor, op, 0, index)
