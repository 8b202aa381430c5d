"""Pass `merge-gemm-sums`: merge a sum of products into one GEMM with several inputs."""

from collections.abc import Hashable, Sequence

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, PortKind, ScalarBuilder, Segment
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_products_may_meet, name_of
from coda_ir.passes.support.sums import addends_of, biases_of, is_part_of_sum, replace_sum
from coda_ir.remarks import fuse_locations


class MergeGemmSumsPass(FunctionPass):
    """Accumulates a sum of products in one GEMM, which runs their loops over K one after the other.

        %a = gemm.fused %dq columns(%wq) kn          %dh = gemm.fused %dq + %dk
        %b = gemm.fused %dk columns(%wk) kn    ->      columns(%wq) + (%wk) kn
        %dh = coda.add %a, %b

    Examples are the gradient of a value that several linear maps read, the gradient of a weight
    with several uses, and the projections of blocks whose attention and MLP run in parallel. Longer
    sums, and sums with other addends, are regrouped first. The epilogue of the GEMM adds the
    biases. Legal iff each product has no other use (so none depends on another) and no epilogue
    except a bias, all have the same type, and their weights the same layout. The sum is rounded
    once instead of once per product, which the mode eager-exact forbids.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.AddOp) and not is_part_of_sum(op):
                addends = list(addends_of(op))
                products = [value for value in addends if _is_product(value)]
                if len(products) > 1:
                    groups = _groups(op, products, rewriter)
                    if groups:
                        _rewrite(op, addends, groups, rewriter)


def _is_product(value: SSAValue) -> bool:
    """Return whether `value` comes from a GEMM that no barrier separates from its users."""
    is_ordered = any(isinstance(use.operation, coda.BarrierOp) for use in value.uses)
    return isinstance(value.owner, FusedOp) and not (is_ordered or value.owner.has_ragged_depth)


def _groups(
    root: coda.AddOp, products: Sequence[SSAValue], rewriter: FunctionRewriter
) -> list[list[SSAValue]]:
    """Return groups of two or more products that one accumulator can hold."""
    if rewriter.refuses(root, check_products_may_meet(root)):
        return []
    groups: dict[Hashable, list[SSAValue]] = {}
    for value in products:
        if not rewriter.refuses(root, _check_product(value, root)):
            groups.setdefault(_kind(value), []).append(value)
    if len(groups) > 1:
        rewriter.missed(root, _ARE_STORED_DIFFERENTLY)
    return [group for group in groups.values() if len(group) > 1]


_ARE_STORED_DIFFERENTLY = Refusal(
    "the weights of all products have the same layout",
    "the products are stored and added one by one: some weights are N x K, others K x N",
)


def _check_product(value: SSAValue, root: coda.AddOp) -> Refusal | None:
    """Return whether an addend is a bare product with the type of the sum."""
    gemm = value.owner
    assert isinstance(gemm, FusedOp)
    if value.has_more_than_one_use():
        return Refusal(
            "an added product has no other use",
            f"{name_of(value)} is stored and loaded again: it is also used elsewhere",
        )
    segments = gemm.segments()
    if gemm.blocks is not None:
        return Refusal(
            "the products of a sum have no block scales",
            f"{name_of(value)} is stored and loaded again: each of its blocks is scaled separately",
        )
    if value.type != root.result.type or len(segments) > 1 or biases_of(segments[0]) is None:
        return Refusal(
            "the products are added unchanged or with a bias",
            f"{name_of(value)} is stored and loaded again: it has its own epilogue",
        )
    return None


def _kind(value: SSAValue) -> Hashable:
    """Return a key that is equal for products that one operator can add up."""
    gemm = value.owner
    assert isinstance(gemm, FusedOp)
    (segment,) = gemm.segments()
    columns = tuple(segment.weight_columns(index) for index in range(len(segment.weights)))
    return (
        element_type_of(gemm.x),
        gemm.is_transposed,
        gemm.groups,
        gemm if gemm.is_numbered else None,
        gemm.gather,
        gemm.scatter,
        gemm.schedule,
        gemm.order,
        segment.layout,
        columns,
    )


def _rewrite(
    root: coda.AddOp,
    addends: Sequence[SSAValue],
    groups: Sequence[Sequence[SSAValue]],
    rewriter: FunctionRewriter,
) -> None:
    """Insert a GEMM for each group before the sum, which adds up the rest from the left."""
    left = list(addends)
    for group in groups:
        rewriter.passed(root, f"{len(group)} products add up in one accumulator")
        merged = _merged(group, root)
        rewriter.order.insert_before(merged, root)
        left[left.index(group[0])] = merged.outputs[0]
        left = [value for value in left if value not in group]
    replace_sum(root, left, rewriter)


def _merged(group: Sequence[SSAValue], root: coda.AddOp) -> FusedOp:
    gemms = [value.owner for value in group if isinstance(value.owner, FusedOp)]
    first, *others = gemms
    terms = [weights for gemm in gemms for weights in gemm.segments()[0].terms]
    (segment,) = first.take_segments()
    segment.weights, segment.more_weights = terms[0], terms[1:]
    for gemm in others:
        _add_biases(segment, gemm)
    inputs = [x for gemm in gemms for x in gemm.inputs]
    merged = first.with_segments([segment], inputs=inputs)
    merged.location = fuse_locations(*(gemm.location for gemm in gemms), root.location)
    merged.outputs[0].name_hint = group[0].name_hint
    return merged


def _add_biases(segment: Segment, gemm: FusedOp) -> None:
    """Let the epilogue add, in float32, the biases of another product's epilogue."""
    (value,) = segment.yielded(0)
    builder = ScalarBuilder(segment.block, gemm.location)
    for bias in biases_of(gemm.segments()[0]) or ():
        (argument,) = segment.add_port(PortKind.ROW, bias)
        value = builder.add(value, argument)
    segment.set_yielded(0, [value])
