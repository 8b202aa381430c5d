"""Pass `raise-group-biases`: turn a bias that is selected for each row into the bias of a group."""

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.row_numbers import number_groups


class RaiseGroupBiasesPass(FunctionPass):
    """Reads the bias of a group of rows from an E x N tensor, instead of selecting M x N elements.

        %b = coda.index %biases, %sorted {dim = 0}
        %p = coda.grouped_linear %x, %w, %ends      ->   %y = coda.grouped_linear %x, %w, %ends,
        %y = coda.add %p, %b                                    %biases

    Experts have such biases. The kernel reads a row of E x N for each tile, and no M x N tensor is
    written. Legal iff nothing else reads the product, and the ids are known to be the group
    numbers: sorted, below E, and counted for the group ends.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.AddOp):
            for value, bias in op.pairs:
                product, rows = value.owner, bias.owner
                if isinstance(product, coda.GroupedLinearMap) and isinstance(rows, coda.IndexOp):
                    if not rewriter.refuses(op, _why_not(op, product, rows, rewriter)):
                        _raise(op, product, rows, rewriter)
                    break


def _why_not(
    op: coda.AddOp, product: coda.GroupedLinearMap, rows: coda.IndexOp, rewriter: FunctionRewriter
) -> Refusal | None:
    biases, name = rows.x, name_of(rows.x)
    groups, columns = shape_of(product.offsets)[0], shape_of(product.result)[-1]
    types = {element_type_of(value) for value in (op.result, product.result, biases)}
    is_given = (shape_of(biases), rows.given["dim"]) == ((groups, columns), 0)
    if product.bias is not None or not is_given or len(types) > 1:
        return Refusal(
            "each group has a row of the bias, in the type of the product",
            f"a row of {name} is copied for each row of the product",
        )
    if product.result.has_more_than_one_use():
        return Refusal(
            "nothing else reads the product", f"the product without {name} is also read elsewhere"
        )
    if not number_groups(rows.ids, product.offsets, rewriter.shapes):
        return Refusal(
            "the ids are the group numbers that are sorted, and counted for the group ends",
            f"{name_of(rows.ids)} may select rows of {name} other than those of the groups",
        )
    return None


def _raise(
    op: coda.AddOp, product: coda.GroupedLinearMap, rows: coda.IndexOp, rewriter: FunctionRewriter
) -> None:
    rewriter.passed(op, f"{name_of(rows.x)} is the bias of the groups")
    insert = rewriter.before(op, product.location)
    biased = type(product)(product.x, product.weight, product.offsets, rows.x)
    value: SSAValue = insert.insert(biased, op.result.name_hint)
    rewriter.replace(op, value)
    rewriter.order.erase(product)
