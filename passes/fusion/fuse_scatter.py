"""Pass `fuse-scatter`: let GEMMs store rows in the order in which they are read."""

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, PortKind, ResultKind
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.ports import move_columns
from coda_ir.passes.support.row_numbers import inverse_of


class FuseScatterPass(FunctionPass):
    """Stores the rows of a result in permuted order, if they are read only in that order.

        %inverse = ... of %order                    %z = gemm.fused %x scatter(%order) ...
        %y = gemm.fused %x ...                ->
        %z = coda.index %y, %inverse {dim = 0}

    This returns the rows that experts compute to the order of the tokens, without a copy and
    without computing the inverse permutation. Scales of rows in that order are loaded by row number
    (`scatter_col`). Legal iff the row numbers are the inverse of a permutation, and the rows are
    the only result of a GEMM and have no other use.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.IndexOp) and isinstance(op.x.owner, FusedOp):
                order = rewriter.allowed(op, _order(op, op.x.owner))
                if order is not None:
                    _fuse(op, op.x.owner, order, rewriter)


def _order(op: coda.IndexOp, gemm: FusedOp) -> SSAValue | Refusal:
    """Return the rows in which results are to be stored."""
    order = inverse_of(op.ids) if op.given["dim"] == 0 else None
    if order is None:
        return Refusal(
            "the ids are the inverse of a permutation of the rows that a sort computed",
            f"copies rows of a GEMM: {name_of(op.ids)} may select a row twice",
        )
    if not op.x.has_one_use() or not _has_rows_alone(gemm):
        return Refusal(
            "the rows are the only result of a GEMM, and nothing else reads them",
            f"copies rows of a GEMM: {name_of(op.x)} is also read in its own order",
        )
    return order


def _has_rows_alone(gemm: FusedOp) -> bool:
    """Return whether a GEMM has one result, stored row by row in a matrix."""
    ports = [result.port for segment in gemm.segments() for result in segment.results]
    is_matrix = not gemm.is_transposed and len(gemm.row_shape) == 1
    return (
        is_matrix
        and gemm.scatter is None
        and gemm.blocks is None
        and [port.kind.data in (ResultKind.TILE, ResultKind.HALF) for port in ports] == [True]
        and isinstance(ports[0].place, NoneAttr)
    )


def _fuse(op: coda.IndexOp, gemm: FusedOp, order: SSAValue, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, "its rows are stored in this order by the GEMM that computes them")
    is_known = rewriter.order.hoist([order], gemm)
    assert is_known, "what depends on the rows would be another use of them"
    segments = move_columns(gemm.take_segments(), order, PortKind.SCATTER_COL)
    scattering = gemm.with_segments(segments, scatter=order)
    name = op.result.name_hint
    rewriter.order.give_way(op, scattering.outputs)
    rewriter.order.substitute(gemm, scattering)
    scattering.outputs[0].name_hint = name
