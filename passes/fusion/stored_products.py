"""Results of GEMMs that are stored for the epilogue of another GEMM alone, and why."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import name_of, share_inputs
from coda_ir.passes.support.order import BlockOrder
from coda_ir.passes.support.sums import biases_of


def stored_products(op: Operation, site: Site, order: BlockOrder) -> Iterator[Refusal]:
    """For each operand of `op` that only it needs and another GEMM than that of `site` computes:
    why the two are not one.

    What sums of products are refused for is told where they are merged.
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
            "the GEMMs whose results meet multiply the same tensors",
            f"{found}: its GEMM has other inputs",
        )
    first, second = sorted((other, gemm), key=order.position)
    if order.slices_after(second.operands, first) is None:
        return Refusal(
            "the GEMMs whose results meet do not depend on each other",
            f"{found}: one GEMM needs what the other computes",
        )
    return Refusal(
        "the GEMMs whose results meet can be the two halves of one",
        f"{found}: they differ in columns or types, or have more than one epilogue",
    )
