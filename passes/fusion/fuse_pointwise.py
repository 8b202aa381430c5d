"""Pass `fuse-pointwise`: pointwise operators move into the epilogue that feeds them."""

from xdsl.ir import Operation

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.fusion.joining import join_operands
from coda_ir.passes.fusion.stored_products import stored_products
from coda_ir.passes.support.editing import Site, fuse_consumer, is_left_to_readers, leaf_operands
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_site, find_site, pair_of_siblings


class FusePointwisePass(FunctionPass):
    """A pointwise operator on the tile of a GEMM runs in the GEMM's epilogue.

        %z = gemm.fused ... { yield acc }         %y = gemm.fused ... tile(%x) {
        %y = coda.add %z, %x                ->      yield acc + x
                                                  }

    Residuals, biases, activations, casts, norm weights and deferred row scales are all fused by
    this pass. An intermediate with other consumers is stored as well, and pointwise code that only
    computes another operand moves along. Legal iff the operator has the shape of the tile, every
    other operand fits a port, and none of them depends on the same GEMM. What combines two GEMMs
    that can share one pair epilogue is left to `pair-glu`; where they cannot, one of them is stored
    for the other, and a remark says why.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if _is_candidate(op) and pair_of_siblings(op, rewriter.order) is None:
                site = find_site(op, rewriter.order)
                if not isinstance(site, Refusal):
                    fuse_at(op, site, rewriter)


def _is_candidate(op: Operation) -> bool:
    return is_pointwise(op) and not is_left_to_readers(op)


def fuse_at(op: Operation, site: Site, rewriter: FunctionRewriter) -> bool:
    """Fuse `op` at a legal site: hoist what it needs, then move its scalar code.

    Returns False where what came along with `op` made the site illegal.
    """
    site = join_operands(op, site, rewriter.order)
    if check_site(op, site, rewriter.order) is not None:
        return False
    for refusal in stored_products(op, site, rewriter.order):
        rewriter.missed(op, refusal)
    rewriter.passed(op, f"fused into the epilogue of {site.op.name}")
    outputs = site.op.results
    leaves = [v for v in leaf_operands(op, shape_of(op.results[0])) if v not in outputs]
    rewriter.order.hoist(leaves, site.op)
    fuse_consumer(site, op, rewriter.order)
    return True
