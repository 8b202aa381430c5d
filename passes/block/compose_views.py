"""Pass `compose-views`: express chains of reshapes, transposes and slices by the fewest views."""

from dataclasses import replace
from itertools import chain

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import static_shape
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.views import Factor, View, ViewOp, insert_steps, sources


class ComposeViewsPass(FunctionPass):
    """Replaces a chain of views by slices, a reshape, a transpose and a reshape, if those are
    fewer, or equally many with fewer transposes.

    For example, the heads of PyTorch's own attention, whose rows are (T x B):

        %a = coda.reshape %z : (T x B x 3·E) to (T x B x 3 x E)
        %b = coda.transpose %a : to (3 x T x B x E)
        %c = coda.slice %b {dim = 0, ...} : to (1 x T x B x E)     %a = coda.slice %z {dim = 2, ...}
        %d = coda.reshape %c : to (T x B·heads x D)           ->   %b = coda.reshape %a
        %e = coda.transpose %d : to (B·heads x T x D)              %q = coda.transpose %b
        %q = coda.reshape %e : to (B x heads x T x D)

    A reshape between transposes joins dimensions that are not adjacent in memory, which requires a
    copy. The composed views are read in place, and a slice of the columns of a linear map can
    become a separate linear map. Legal iff no reshape splits a factor of a dimension, and each
    slice takes a nonempty range of the outermost factor of a dimension of the tensor.

    If the operand of a linear map has permuted rows, and each reader of the result restores their
    order, the linear map reads the rows in their original order:

        %t = coda.transpose %x : (B x T x K) to (T x B x K)        %l = coda.linear %x, %w
        %l = coda.linear %t, %w                               ->
        %y = coda.transpose %l : (T x B x N) to (B x T x N)

    This does not apply if the operand also joins the permuted rows, which requires a copy.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.LinearOp | coda.MatmulOp):
                _keep_rows(op, rewriter)
        for op in rewriter.ops:
            if isinstance(op, ViewOp):
                _compose(op, rewriter)


def _compose(op: ViewOp, rewriter: FunctionRewriter) -> None:
    view = View.of(op.result, rewriter.shapes)
    found = [*sources(op.result)]
    count = found.index(view.base)
    steps = view.steps(rewriter.shapes.dims(op.result))
    transposes = sum(isinstance(value.owner, coda.TransposeOp) for value in found[:count])
    is_simpler = (len(steps), sum(bool(step.order) for step in steps)) < (count, transposes)
    if not is_simpler or not all(rewriter.shapes.are_declared(step.dims) for step in steps):
        return
    rewriter.passed(op, f"composed with {count - 1} views before it")
    rewriter.replace(op, insert_steps(steps, view.base, rewriter.before(op)))


def _keep_rows(op: coda.LinearOp | coda.MatmulOp, rewriter: FunctionRewriter) -> None:
    """Map the rows of a tensor in its own order, if all that read the result put them back; else
    as separate dimensions, if those of the operand join some in another order.
    """
    view = View.of(op.x, rewriter.shapes)
    factors = list(chain.from_iterable(view.dims[:-1]))
    rows = sorted(factors)
    if rows == factors:
        return
    readers = _result(op, view, rows, rewriter).readers(op.result, rewriter.shapes)
    if readers and all(list(reader.rows) == sorted(reader.rows) for reader in readers):
        rewriter.passed(
            op, "maps rows in the order of its operand, which the readers of the result restore"
        )
        _map_rows(op, view, rows, rewriter)
    elif len(factors) > len(view.dims) - 1:
        rewriter.passed(op, "maps rows whose dimensions stay separate")
        _map_rows(op, view, factors, rewriter)


def _result(
    op: coda.LinearOp | coda.MatmulOp, x: View, rows: list[Factor], rewriter: FunctionRewriter
) -> View:
    """Return the result of `op` as a view of that with other rows of its operand, the view `x`."""
    columns = rewriter.shapes.dims(op.result)[-1]
    whole = View.whole(op.result, (*(factor.extent for factor in rows), columns))
    places = [tuple(whole.dims[rows.index(each)][0] for each in dim) for dim in x.dims[:-1]]
    return replace(whole, dims=(*places, whole.dims[-1]))


def _map_rows(
    op: coda.LinearOp | coda.MatmulOp, view: View, rows: list[Factor], rewriter: FunctionRewriter
) -> None:
    """Map `rows` of the operand, the view `view`, as separate dimensions, in this order."""
    shapes, insert = rewriter.shapes, rewriter.before(op)
    result = _result(op, view, rows, rewriter)
    if not shapes.are_declared(result.extents):
        return
    ordered = replace(view, dims=(*((factor,) for factor in rows), view.dims[-1]))
    steps = ordered.steps((*result.extents[:-1], shapes.dims(op.x)[-1]))
    x = insert_steps(steps, view.base, insert)
    value = insert.again(op, [x, *op.operands[1:]], static_shape(result.extents))
    rewriter.replace(op, insert_steps(result.steps(shapes.dims(op.result)), value, insert))
