"""Pass `fuse-gather`: let GEMMs read rows that ids select in place."""

from dataclasses import replace

from xdsl.ir import SSAValue, Use

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import FusedOp, PortKind
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of, reader_name
from coda_ir.passes.support.ports import move_columns
from coda_ir.passes.support.row_numbers import bound_of
from coda_ir.symbolic_shapes import SymbolicSize


class FuseGatherPass(FunctionPass):
    """Lets GEMMs gather rows in their main loops instead of reading a copy.

        %r = coda.index %x, %ids {dim = 0}          %y = gemm.fused %x gather(%ids) ...
        %y = gemm.fused %r ...                ->

    Examples are the tokens of experts. The GEMM reads as many bytes as before, but the copy is
    neither written nor read. Legal iff only GEMMs without other inputs read the rows, and the ids
    are known to be row numbers of x, such as those of a sort. An invalid id must raise an error,
    which a GEMM cannot do. Scales of the same rows are gathered as well (`gather_col`). A GEMM that
    sums over rows in groups, such as the gradient of a weight, gathers the rows of either operand.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.IndexOp):
            is_read = any(map(_is_input, op.result.uses))
            if is_read and not rewriter.refuses(op, _why_not(op, rewriter)):
                _fuse(op, rewriter)


def _is_input(use: Use) -> bool:
    """Return whether a GEMM reads rows by this use: of x, or of the factor of a transposed x."""
    gemm = use.operation
    if not isinstance(gemm, FusedOp):
        return False
    is_summed = gemm.has_ragged_depth and len(gemm.weights) == 1
    return use.index < len(gemm.inputs) + is_summed


def _why_not(op: coda.IndexOp, rewriter: FunctionRewriter) -> Refusal | None:
    if (len(shape_of(op.x)), len(shape_of(op.ids)), op.given["dim"]) != (2, 1, 0):
        return Refusal("the ids select rows of a matrix", "copies the selected elements for a GEMM")
    for use in op.result.uses:
        if not _is_input(use) or not _can_gather(use):
            return Refusal(
                "only GEMMs of one input read the rows",
                f"copies rows for a GEMM: {reader_name(use.operation)} also reads them",
            )
    bound, (rows, _) = bound_of(op.ids, rewriter.shapes), rewriter.shapes.dims(op.x)
    if bound is None or not _is_at_most(bound, SymbolicSize.of(rows)):
        return Refusal(
            "the ids are known to be valid row numbers, such as those of a sort",
            f"copies rows for a GEMM, which would not detect an invalid id in {name_of(op.ids)}",
        )
    return None


def _can_gather(use: Use) -> bool:
    gemm = use.operation
    assert isinstance(gemm, FusedOp)
    is_free = (gemm.gather, gemm.gather_weights, gemm.blocks) == (None, None, None)
    is_summed = gemm.has_ragged_depth and len(gemm.weights) == 1
    return len(gemm.inputs) == 1 and is_free and (is_summed or not gemm.is_transposed)


def _is_at_most(bound: SymbolicSize, rows: SymbolicSize) -> bool:
    if bound.symbols or rows.symbols:
        return bound == rows
    return int(bound) <= int(rows)


def _fuse(op: coda.IndexOp, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, f"its rows are gathered by {_gemms_that_read(op.result)}")
    for use in list(op.result.uses):
        gemm = use.operation
        assert isinstance(gemm, FusedOp)
        if use.index < len(gemm.inputs):
            segments = move_columns(gemm.take_segments(), op.ids, PortKind.GATHER_COL)
            gathering = gemm.with_segments(segments, inputs=op.x, gather=op.ids)
        else:
            (segment,) = gemm.take_segments()
            parts = [replace(segment, weights=[op.x])]
            gathering = gemm.with_segments(parts, gather_weights=op.ids)
        rewriter.order.substitute(gemm, gathering)
    rewriter.order.erase(op)


def _gemms_that_read(value: SSAValue) -> str:
    """Describe the GEMMs that read `value`, for a remark."""
    count = len(list(value.uses))
    return "the GEMM that reads them" if count == 1 else f"the {count} GEMMs that read them"
