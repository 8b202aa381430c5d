"""Pass `scale-rows-first`: apply factors of rows to the input of a grouped GEMM."""

from collections.abc import Iterator

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import PortKind
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move, name_of
from coda_ir.passes.support.matching import unwidened


class ScaleRowsFirstPass(FunctionPass):
    """Applies row factors to the operand of a product instead of its result: s·(a·W) = (s·a)·W.

        %z = coda.grouped_linear %a, %W, %ends        %b = coda.mul %a, %s
        %y = coda.mul %z, %s                    ->    %y = coda.grouped_linear %b, %W, %ends

    The weights of a router scale the results of experts. The gradient of these weights is then a
    sum over the columns of a, in the epilogue of the GEMM that computes the gradient of b, and z
    need not be saved. Legal iff there is one factor per row, z has no other use and no bias, and
    the numerics mode allows rounding points to move.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.MulOp):
            for product, scale in _scaled(op):
                if rewriter.accepts(
                    op, _check(op, product), f"scales {name_of(product.x)} instead"
                ):
                    _rewrite(op, product, scale, rewriter)
                break


def _scaled(op: coda.MulOp) -> Iterator[tuple[coda.GroupedLinearMap, SSAValue]]:
    """Yield a product of grouped rows with a factor that has an element for each row."""
    domain = shape_of(op.result)
    for value, scale in op.pairs:
        product = unwidened(value).owner
        is_column = port_kind(shape_of(scale), domain) == PortKind.COL
        if isinstance(product, coda.GroupedLinearMap) and is_column:
            yield product, scale


def _check(op: coda.MulOp, product: coda.GroupedLinearMap) -> Refusal | None:
    name = name_of(product.result)
    refusal = check_rounding_may_move(op, f"{name} is saved: eager PyTorch rounds the rows")
    if refusal is not None:
        return refusal
    if product.bias is not None:
        found = f"{name} is saved for the gradient: it has a bias"
        return Refusal("the product has no bias", found)
    values = {product.result, *(v for v in op.operands if unwidened(v) is product.result)}
    if any(value.has_more_than_one_use() for value in values):
        return Refusal(
            "nothing else reads the product", f"{name} is stored anyway: it is also used elsewhere"
        )
    return None


def _rewrite(
    op: coda.MulOp, product: coda.GroupedLinearMap, scale: SSAValue, rewriter: FunctionRewriter
) -> None:
    insert, element = rewriter.before(op), element_type_of(op.result)
    scaled = insert.mul(insert.cast(product.x, element), scale)
    rows = insert.cast(scaled, element_type_of(product.x))
    insert.location = product.location
    again = insert.insert(type(product)(rows, product.weight, product.offsets))
    casts = [value.owner for value in op.operands if isinstance(value.owner, coda.CastOp)]
    rewriter.replace(op, insert.cast(again, element))
    for each in (*(cast for cast in casts if cast.operand is product.result), product):
        rewriter.order.erase(each)
