"""Pass `drop-places`: compute maxima alone where nothing uses their places."""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    shape_of,
    static_shape,
)
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.symbolic_shapes import Dim, Dims


class DropPlacesPass(FunctionPass):
    """Turns a maximum along a dimension, which PyTorch returns with its place, into a reduction.

        %v, %i = torch.call "aten.max.dim"(%x)          %t = coda.transpose %x {perm = [0, 2, 1]}
            {arguments = "{0}, 1, True"}        ->      %m = coda.reduce %t {max}
                                                        %v = coda.reshape %m

    The reduction fuses with code on its rows, and a kernel reads each element once: on an H200,
    PyTorch's kernel of few blocks takes 45 us for 4 x 512 x 1024 in 16 bits. `coda.topk` of one
    element is such a maximum, too. Legal iff nothing uses the place. It changes the derivative,
    which belongs to that place alone, so it runs after `differentiate`.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            found = _maximum(op)
            if found is not None:
                rewriter.passed(op, "its places are not used: it is a reduction")
                _reduce(op, *found, rewriter)


def _maximum(op: Operation) -> tuple[SSAValue, int, SSAValue] | None:
    """Return the operand, the dimension and the result of a maximum without a used place."""
    if isinstance(op, coda.TopkOp) and op.given["k"] == 1 and not op.ids.uses:
        x, dim, result = op.x, op.given["dim"], op.result
    elif isinstance(op, CallOp) and op.callee.data == "aten.max.dim" and op.in_place is None:
        taken = op.picks or tuple(range(len(op.outputs)))
        (result, *places) = op.outputs
        if taken[0] != 0 or op.template.symbols or any(place.uses for place in places):
            return None
        (x, dim, *_), _ = op.template.evaluate(op.inputs, {}, {})
    else:
        return None
    if not shape_of(x) or not computes_in_float32(element_type_of(x)):
        return None
    dim %= len(shape_of(x))
    # A type may leave open an extent that follows from the operand.
    is_known = shape_of(result) == static_shape(_reduced(shape_of(x), dim, result))
    return (x, dim, result) if is_known else None


def _reduced(dims: Sequence[Dim], dim: int, result: SSAValue) -> Dims:
    """Return `dims` with 1 for dimension `dim`, or without it, like the dimensions of `result`."""
    kept = (1,) if len(shape_of(result)) == len(dims) else ()
    return (*dims[:dim], *kept, *dims[dim + 1 :])


def _reduce(
    op: Operation, x: SSAValue, dim: int, result: SSAValue, rewriter: FunctionRewriter
) -> None:
    insert, dims = rewriter.before(op), rewriter.shapes.dims(x)
    order = [*(axis for axis in range(len(dims)) if axis != dim), dim]
    rows = x if dim == len(order) - 1 else insert.insert(coda.TransposeOp(x, order))
    column = insert.insert(coda.ReduceOp(rows, "max"), result.name_hint)
    result.replace_all_uses_with(insert.reshape(column, _reduced(dims, dim, result)))
    rewriter.order.erase(op)
