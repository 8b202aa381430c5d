"""Pass `reduce-columns`: replace maxima of the rows of a transpose by maxima of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Combiner, MapOp, ScalarBuilder, numerics_mode
from coda_ir.dialects.gemm.scalar_code import emit_scalar, is_pointwise
from coda_ir.passes.fusion.joining import site_that_loads
from coda_ir.passes.fusion.split_reductions import Reduction, add_partials, make_finalize, rounded
from coda_ir.passes.support.editing import Site, insert_map
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import static_columns
from coda_ir.passes.support.matching import defined_by


class ReduceColumnsPass(FunctionPass):
    """Reduces columns of x instead of rows of xᵀ, in a pointwise kernel that reads x.

        %t = coda.transpose %x             %p = gemm.map tile(%x) -> (partial_col<max>) {
        %a = coda.abs %t                     yield |x|
        %m = coda.reduce %a {max}     ->   }
                                           %m = gemm.finalize col (max %p) { yield max }

    Quantization along the rows of x needs these maxima: they give the scales of xᵀ in the gradient
    of a weight. A kernel that computes or loads x finds them, such as the one that quantizes its
    rows. The epilogue of a GEMM does not, because this would take longer than reading x again.
    Legal iff x has a known number of columns, and only elementwise functions are between the
    transpose and the reduction.
    """

    of_code: bool = True
    """False if columns that pointwise code computes are left to a later run."""

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.ReduceOp):
            columns = rewriter.allowed(op, _columns_of(op))
            if columns and (self.of_code or not is_pointwise(columns.tensor.owner)):
                _rewrite(op, columns, rewriter)


@dataclass(frozen=True)
class _Columns:
    """The columns of `tensor` (... x N), and the functions before the reduction, in order."""

    tensor: SSAValue
    functions: Sequence[Operation]

    def contribution(self, builder: ScalarBuilder, value: SSAValue) -> SSAValue:
        for op in self.functions:
            value = emit_scalar(builder, op, [value])
        return value


def _columns_of(op: coda.ReduceOp) -> _Columns | Refusal | None:
    """Return the columns that `op` reduces; None if it reduces something else."""
    value, functions = op.x, list[Operation]()
    while isinstance(inner := value.owner, Operation) and is_pointwise(inner):
        if len(inner.operands) > 1:
            return None
        functions.insert(0, inner)
        value = inner.operands[0]
    transposed = defined_by(value, coda.TransposeOp)
    if op.kind.data != "max" or transposed is None or transposed.permutation != (1, 0):
        return None
    columns = static_columns(transposed.x)
    if isinstance(columns, Refusal):
        return columns
    rows = defined_by(transposed.x, coda.ReshapeOp)
    is_flat = rows is not None and shape_of(rows.x)[-1:] == (columns,)
    return _Columns(rows.x if rows is not None and is_flat else transposed.x, functions)


def _rewrite(op: coda.ReduceOp, columns: _Columns, rewriter: FunctionRewriter) -> None:
    tensor, type = columns.tensor, element_type_of(op.result)
    site = Site.of(tensor) or site_that_loads(tensor, op, rewriter.order)
    if site is None or site.is_half or not isinstance(site.op, MapOp):
        site = insert_map(rewriter.order, op, op.location, [tensor])
    rewriter.passed(op, "reduced over columns, without the transpose")
    rewriter.order.sink(op, site.op)
    reduction = Reduction([(Combiner.MAX, columns.contribution)], rounded(type), "col")
    partials = add_partials(op, tensor, site, reduction, rewriter)
    of_columns = TensorType(type, shape_of(tensor)[-1:])
    insert = rewriter.before(op)
    total = make_finalize(partials, [of_columns], rounded(type), numerics_mode(op), "col")
    rewriter.replace(op, insert.reshape(insert.insert(total), shape_of(op.result)))
