"""Pass `join-pointwise`: move pointwise code into an epilogue that loads its operands."""

from xdsl.ir import Operation

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.fusion.fuse_pointwise import fuse_at
from coda_ir.passes.fusion.joining import find_companion, join_with_operands
from coda_ir.passes.support.editing import is_left_to_readers
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import find_site, kernel_name


class JoinPointwisePass(FunctionPass):
    """Moves pointwise code into an epilogue that loads the same tensors anyway (horizontal fusion).

        %dx = gemm.fused %dz ... tile(%x) {...}        %dx, %h = gemm.fused %dz ... tile(%x) {
        %h  = coda.mul %x, %r                     ->     yield ..., x · r
                                                       }

    The code needs no accumulator, only a kernel that has its operands on chip. In the backward, a
    norm or an activation is recomputed in the kernel that computes the gradient of the same
    elements. `fuse-pointwise` can then fuse the users of the code. Legal iff the code has the shape
    of the tile, its other operands fit ports, and neither the code nor the kernel needs a result of
    the other.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if is_pointwise(op) and not _is_repeated(op):
                _place(op, rewriter)


def _is_repeated(op: Operation) -> bool:
    """Return whether the readers of `op` recompute it."""
    return len(shape_of(op.results[0])) < 2 or is_left_to_readers(op)


def _place(op: Operation, rewriter: FunctionRewriter) -> None:
    site = find_site(op, rewriter.order)
    if not isinstance(site, Refusal) and fuse_at(op, site, rewriter):
        return
    join_companion(op, rewriter)


def join_companion(op: Operation, rewriter: FunctionRewriter) -> bool:
    """Let `op` join an epilogue that loads its operands, if there is one."""
    companion = find_companion(op, rewriter.order)
    if companion is None:
        return False
    rewriter.passed(op, f"joins the epilogue of {kernel_name(companion.op)}")
    return join_with_operands(op, companion, rewriter.order)
