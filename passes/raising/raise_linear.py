"""Pass `raise-linear`: turn products of flattened rows and weights into `coda.linear`."""

from dataclasses import replace
from functools import reduce

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, is_float, shape_of
from coda_ir.dialects.gemm import numerics_mode
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import before
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.matching import (
    Norm,
    defined_by,
    is_row,
    only_use,
    same_type,
)
from coda_ir.passes.support.norm_products import is_modulated
from coda_ir.passes.support.permuted import ROWS, is_transposed, moves_elements
from coda_ir.passes.support.views import View, insert_steps

BY_ROW = (coda.MatmulOp, coda.LinearOp, coda.LayerNormOp, coda.RMSNormOp)
"""Operators on the rows of their first operand; the others are the same for every row."""


class RaiseLinearPass(FunctionPass):
    """Turns matrix products as PyTorch calls them, with transposes and flattened rows, into linear
    layers.

        %f = coda.reshape %x : (B x T x K) -> (M x K)
        %t = coda.transpose %w {perm = [1, 0]}              %y = coda.linear %x, %w, %b
        %p = coda.add (coda.matmul %f, %t), %b         ->
        %y = coda.reshape %p : (M x N) -> (B x T x N)

    W · transpose(x), with channels before positions, becomes transpose(linear(x, W)), even if x has
    one position, so that the gradient of W is not one product per sample. A product of batches of 1
    (1 x M x K, 1 x K x N), which einsum creates for a linear map, becomes that linear map. One of
    at most 16 stacked columns and as many numbers for each sample, such as experts and their gates,
    becomes the sum of the columns times the numbers. A row for each of G matrices (B x G x 1 x K,
    G x K x N) becomes B rows for each, for which PyTorch repeats no matrix.

    Legal for every transposed matrix, and for every batch of 1 whose second matrix is an argument
    of the function; in attention, it is computed. A reshape before a GEMM, a norm or elementwise
    code is removed if it keeps the columns, and before a GEMM if it adds dimensions of one row.
    PyTorch's product of groups of rows, `_grouped_mm` or the one of transformers, becomes
    `coda.grouped_linear`, or `coda.grouped_matmul` if its matrices are not transposed.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.MatmulOp):
                _use_weight(op, rewriter)
            elif isinstance(op, CallOp) and op.callee.data in GROUPED:
                _raise_grouped(op, rewriter)
            elif isinstance(op, CallOp) and op.callee.data == "aten.matmul.default":
                _use_rows(op, rewriter)
                _add_columns(op, rewriter)
                _share_matrices(op, rewriter)
            elif isinstance(op, CallOp) and op.callee.data == "aten.bmm.default":
                _use_one_matrix(op, rewriter)
        for op in rewriter.ops:
            if isinstance(op, (*BY_ROW, coda.ElementwiseOp, coda.CastOp)):
                _keep_rows(op, rewriter)


MAX_COLUMNS = 16
"""Columns that one pointwise kernel adds up, which loads an element of each."""

GROUPED = ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")
"""PyTorch's product of groups of rows, and what transformers calls for types that it lacks."""


def _raise_grouped(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Raise grouped rows times the matrix of each group, if extents are known."""
    if op.arguments.data != "{0}, {1}, {2}":
        return
    x, weight, offsets = op.inputs
    ranks = len(shape_of(x)), len(shape_of(weight))
    if ranks != (2, 3) or DYNAMIC_INDEX in shape_of(weight) or not _are_grouped(op):
        return
    transpose = defined_by(weight, coda.TransposeOp)
    kind = coda.GroupedMatmulOp
    if transpose is not None and transpose.permutation == (0, 2, 1):
        kind, weight = coda.GroupedLinearOp, transpose.x
    rewriter.passed(op, f"raised to {kind.name}")
    rewriter.order.substitute(op, kind(x, weight, offsets))


def _are_grouped(op: CallOp) -> bool:
    """Return whether a product has the types of a linear layer, and one result."""
    x, _, offsets = op.inputs
    (result,) = op.outputs
    computes = computes_in_float32(element_type_of(x)) and same_type(result, x)
    return computes and element_type_of(offsets) == i32


def _use_weight(op: coda.MatmulOp, rewriter: FunctionRewriter) -> None:
    """Raise x · transpose(W) (+ b) to a linear layer with W unchanged."""
    transpose = defined_by(op.weight, coda.TransposeOp)
    if transpose is None or transpose.permutation != (1, 0):
        return
    last, bias = _with_bias(op)
    rewriter.passed(last, "raised to coda.linear")
    linear = coda.LinearOp(op.x, transpose.x, bias, element_type=element_type_of(op.result))
    value = rewriter.before(last, op.location).insert(linear, op.result.name_hint)
    rewriter.order.give_way(last, [value])
    if last is not op:
        rewriter.order.erase(op)


def _use_rows(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Raise W · x with channels before positions to a linear layer on the rows of x."""
    if op.arguments.data != "{0}, {1}" or len(op.inputs) != 2:
        return
    weight, x = op.inputs
    shape, transpose = shape_of(weight), x.owner
    same = same_type(weight, x) and same_type(x, op.outputs[0])
    if len(shape) != 2 or DYNAMIC_INDEX in shape or not same or not is_float(element_type_of(x)):
        return
    has_transpose = isinstance(transpose, Operation) and is_transposed(transpose)
    if not has_transpose and not (len(shape_of(x)) == len(ROWS) and shape_of(x)[-1] == 1):
        return
    rewriter.passed(op, "raised to coda.linear")
    insert = rewriter.before(op)
    (result,) = op.outputs
    rows = transpose.operands[0] if has_transpose else insert.insert(coda.TransposeOp(x, ROWS))
    before = defined_by(weight, coda.TransposeOp)
    linear = coda.LinearOp(rows, weight) if before is None else coda.MatmulOp(rows, before.x)
    product = insert.insert(linear, result.name_hint)
    rewriter.replace(op, insert.insert(coda.TransposeOp(product, ROWS)))


def _add_columns(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Replace a product of stacked columns and numbers by the sum of their products."""
    if op.parent is None or op.arguments.data != "{0}, {1}" or len(op.inputs) != 2:
        return
    stack, numbers = op.inputs
    (result,) = op.outputs
    columns, shape, type = (
        defined_by(stack, coda.ConcatOp),
        shape_of(numbers),
        element_type_of(result),
    )
    same = same_type(stack, numbers) and same_type(stack, result) and computes_in_float32(type)
    if columns is None or not same or len(columns.parts) > MAX_COLUMNS:
        return
    are_columns = shape_of(stack)[:-2] == shape[:-2] and shape[-1] == 1
    if not are_columns or any(shape_of(part)[-1] != 1 for part in columns.parts):
        return
    rewriter.passed(op, "adds up the columns times the numbers")
    insert, dim = rewriter.before(op), len(shape) - 2
    products = list[SSAValue]()
    for place, part in enumerate(columns.parts):
        number = insert.insert(coda.SliceOp(numbers, dim, place, place + 1))
        products.append(insert.mul(insert.cast(part, f32), insert.cast(number, f32)))
    rewriter.replace(op, insert.cast(reduce(insert.add, products), type))


def _share_matrices(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Multiply all rows that have the same matrix at once, instead of one by one."""
    if op.parent is None or op.arguments.data != "{0}, {1}" or len(op.inputs) != 2:
        return
    x, weight = op.inputs
    (result,) = op.outputs
    shape, groups = shape_of(weight), shape_of(weight)[:-2]
    is_row_of_each = bool(groups) and tuple(shape_of(x)[1:-1]) == (*groups, 1)
    if not is_row_of_each or DYNAMIC_INDEX in shape or numerics_mode(op).is_strict:
        return
    rewriter.passed(op, "multiplies all rows that have the same matrix at once")
    insert, dims, count = rewriter.before(op), rewriter.shapes.dims(x), len(groups)
    by_row = insert.reshape(x, (*dims[:-2], dims[-1]))
    by_group = insert.insert(coda.TransposeOp(by_row, (*range(1, count + 1), 0, count + 1)))
    rows, n = shape_of(x)[0], shape[-1]
    type = TensorType(element_type_of(result), (*groups, rows, n))
    call = CallOp(op.callee.data, [by_group, weight], "{0}, {1}", [type])
    call.attributes["coda.dims"] = rewriter.shapes.stated((*groups, dims[0], n))
    product = insert.insert(call, result.name_hint)
    value = insert.insert(coda.TransposeOp(product, (count, *range(count), count + 1)))
    rewriter.replace(op, insert.reshape(value, rewriter.shapes.dims(result)))


def _use_one_matrix(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Raise x · W in a batch of 1 to a linear layer on the rows from which x was reshaped."""
    x, weight = op.tensors
    (result,) = op.outputs
    batch, k, n = shape_of(weight)
    same = same_type(x, weight) and same_type(x, result) and is_float(element_type_of(x))
    if batch != 1 or DYNAMIC_INDEX in (k, n) or not same or not is_argument(weight):
        return
    view, insert = View.of(weight, rewriter.shapes), rewriter.before(op)
    _, rows, columns = view.dims
    is_nk = [*columns, *rows] == sorted(view.order) != [*view.order]
    kind, shape = (coda.LinearOp, (n, k)) if is_nk else (coda.MatmulOp, (k, n))
    matrix = replace(view, dims=(columns, rows) if is_nk else (rows, columns))
    source = insert_steps(matrix.steps(shape), view.base, insert)
    rewriter.passed(op, f"raised to {kind.name}")
    product = insert.insert(kind(rows_before(x), source), result.name_hint)
    rewriter.replace(op, insert.insert(coda.ReshapeOp(product, shape_of(result))))


def _with_bias(op: coda.MatmulOp) -> tuple[Operation, SSAValue | None]:
    """Return the addition of a vector to the product, if that is its only use; else the product."""
    add = only_use(op.result)
    for product, bias in add.pairs if isinstance(add, coda.AddOp) else ():
        fits = is_row(bias, shape_of(op.result)[-1]) and same_type(bias, op.x)
        if product is op.result and fits and add is not None:
            return add, bias
    return op, None


def _keep_rows(op: Operation, rewriter: FunctionRewriter) -> None:
    """Apply `op` to the tensors before their rows were flattened, and flatten its result."""
    if isinstance(op, Norm) and is_modulated(op):
        return
    by_row = isinstance(op, BY_ROW)
    candidates = op.operands[:1] if by_row else op.operands
    before = {n: x for n, value in enumerate(candidates) if (x := _unflattened(value)) is not None}
    if isinstance(op, coda.LinearOp | coda.MatmulOp) and (x := _without_ones(op.x, rewriter)):
        before[0] = x
    sources = list(before.values())
    others = [value for n, value in enumerate(op.operands) if n not in before]
    if not sources or not all(by_row or len(shape_of(value)) <= 1 for value in others):
        return
    rows = {rewriter.shapes.dims(source)[:-1] for source in sources}
    if len(rows) != 1:
        return
    insert = rewriter.before(op)
    operands = [before.get(n, value) for n, value in enumerate(op.operands)]
    (result,) = op.results
    shape = (*shape_of(sources[0])[:-1], shape_of(result)[-1])
    value = insert.again(op, operands, shape)
    dims = rewriter.shapes.dims(result) if len(shape_of(result)) > 2 else shape_of(result)
    rewriter.replace(op, insert.reshape(value, dims))


def _without_ones(value: SSAValue, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return x if `value` is x with additional dimensions of extent 1 among its rows."""
    view = defined_by(value, coda.ReshapeOp)
    if view is None or not 2 <= len(shape_of(view.x)) < len(shape_of(value)):
        return None
    before, after = rewriter.shapes.dims(view.x), rewriter.shapes.dims(value)
    same = [dim for dim in before if dim != 1] == [dim for dim in after if dim != 1]
    return view.x if same and before[-1] == after[-1] else None


def _unflattened(value: SSAValue) -> SSAValue | None:
    """Return x if `value` is x with its rows flattened and its columns kept."""
    flat = defined_by(value, coda.ReshapeOp)
    if flat is None:
        return None
    before, after = shape_of(flat.x), shape_of(flat.result)
    keeps_columns = before[-1:] == after[-1:] and after[-1:] != (DYNAMIC_INDEX,)
    return flat.x if len(before) > 2 and len(after) == 2 and keeps_columns else None


def is_argument(value: SSAValue) -> bool:
    """Return whether a value is an argument of its function, or a view or a cast of one."""
    source = before(value, (coda.ReshapeOp, coda.TransposeOp, coda.CastOp))
    return isinstance(source, BlockArgument)


def rows_before(x: SSAValue) -> SSAValue:
    """Return the first tensor of at least two dimensions with the rows of `x`, in order."""
    columns, found = shape_of(x)[-1], x
    while isinstance(view := x.owner, coda.ReshapeOp | coda.TransposeOp):
        x = view.x
        if isinstance(view, coda.TransposeOp) and moves_elements(shape_of(x), view.permutation):
            break
        if len(shape_of(x)) > 1 and shape_of(x)[-1] == columns != DYNAMIC_INDEX:
            found = x
    return found
