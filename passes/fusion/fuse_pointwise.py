"""Pass `fuse-pointwise`: move pointwise operators into the epilogue that computes their operand."""

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import FusedOp
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.fusion.joining import join_operands
from coda_ir.passes.support.editing import Site, fuse_consumer, is_left_to_readers, leaf_operands
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import (
    check_site,
    find_site,
    kernel_name,
    name_of,
    pair_of_siblings,
    share_inputs,
)
from coda_ir.passes.support.order import BlockOrder
from coda_ir.passes.support.sums import biases_of


class FusePointwisePass(FunctionPass):
    """Fuses a pointwise operator on the tile of a GEMM into the epilogue of the GEMM.

        %z = gemm.fused ... { yield acc }         %y = gemm.fused ... tile(%x) {
        %y = coda.add %z, %x                ->      yield acc + x
                                                  }

    This pass fuses residuals, biases, activations, casts, norm weights and deferred row scales. A
    fused operand that other operators use is stored as well. Pointwise code that computes only
    another operand of the operator is fused together with it. Legal iff the operator has the shape
    of the tile, every other operand fits a port, and none of them depends on the same GEMM.
    `pair-glu` handles operators that combine two GEMMs which can share a pair epilogue. If they
    cannot, one of them is stored for the other, and a remark gives the reason.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not _is_candidate(op):
                continue
            site = find_site(op, rewriter.order)
            if isinstance(site, Refusal) or pair_of_siblings(op, rewriter.order) is not None:
                continue
            fuse_at(op, site, rewriter)


def _is_candidate(op: Operation) -> bool:
    return is_pointwise(op) and not is_left_to_readers(op)


def fuse_at(op: Operation, site: Site, rewriter: FunctionRewriter) -> bool:
    """Fuse `op` at a legal site. Returns False where what came along made the site illegal."""
    site = join_operands(op, site, rewriter.order)
    if check_site(op, site, rewriter.order) is not None:
        return False
    for refusal in stored_products(op, site, rewriter.order):
        rewriter.missed(op, refusal)
    rewriter.passed(op, f"fused into the epilogue of {kernel_name(site.op)}")
    leaves = [v for v in leaf_operands(op, shape_of(op.results[0])) if not site.holds(v)]
    rewriter.order.hoist(leaves, site.op)
    fuse_consumer(site, op, rewriter.order)
    return True


# Results of GEMMs that are stored for the epilogue of another GEMM alone, and why


def stored_products(op: Operation, site: Site, order: BlockOrder) -> Iterator[Refusal]:
    """Yield, for each operand of `op` that only it needs and that another GEMM than that of `site`
    computes, why the two GEMMs are not joined.

    `merge-gemm-sums` reports refusals of sums of products.
    """
    for value in op.operands:
        other = Site.of(value)
        if other is None or other.op is site.op or not value.has_one_use():
            continue
        if not isinstance(other.op, FusedOp) or not isinstance(site.op, FusedOp):
            continue
        is_tile = shape_of(value) == shape_of(op.results[0])
        if is_tile and not (isinstance(op, coda.AddOp) and _is_sum_of_products(op)):
            yield _refusal(value, other.op, site.op, order)


def _is_sum_of_products(op: coda.AddOp) -> bool:
    owners = [value.owner for value in op.operands]
    return all(
        isinstance(owner, FusedOp)
        and len(owner.segments()) == 1
        and biases_of(owner.segments()[0]) is not None
        for owner in owners
    )


def _refusal(value: SSAValue, other: FusedOp, gemm: FusedOp, order: BlockOrder) -> Refusal:
    found = f"{name_of(value)} is stored and loaded again"
    if not share_inputs(other, gemm):
        return Refusal(
            "the GEMMs whose results are combined have the same inputs",
            f"{found}: its GEMM has other inputs",
        )
    first, second = sorted((other, gemm), key=order.position)
    if order.slices_after(second.operands, first) is None:
        return Refusal(
            "the GEMMs whose results are combined do not depend on each other",
            f"{found}: one GEMM needs what the other computes",
        )
    return Refusal(
        "the GEMMs whose results are combined can be the two halves of one GEMM",
        f"{found}: they differ in columns or types, or have more than one epilogue",
    )
