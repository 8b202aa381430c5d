"""PyTorch calls that other operators, or simpler calls, compute: views, sums, conversions."""

import ast
from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32, i64
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.base import new_operators
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    shape_of,
    static_shape,
)
from coda_ir.dialects.gemm.scalar_code import is_scalar
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.fillers import expanded
from coda_ir.passes.support.function_pass import FunctionRewriter
from coda_ir.passes.support.index_values import Affine, IndexValues, Known, literal
from coda_ir.symbolic_shapes import Dims, dims_attribute


def repeated(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise an expansion that only repeats dimensions of extent 1: a view without a copy."""
    (x,), result = op.inputs, op.outputs[0]
    before, after = rewriter.shapes.dims(x), rewriter.shapes.dims(result)
    aligned = after[len(after) - len(before) :]
    if any(a not in (1, b) for a, b in zip(before, aligned, strict=True)):
        return None
    return [expanded(x, after, result.type)] if rewriter.shapes.are_declared(after) else None


def rows_in_order(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise x[i, j], where i and j count rows and columns, to slices and a reshape."""
    x, *indices = op.inputs
    before, after = rewriter.shapes.dims(x), rewriter.shapes.dims(op.outputs[0])
    wanted = ", ".join(f"{{{number}}}" for number in range(1, len(op.inputs)))
    if op.arguments.data != f"{{0}}, [{wanted}]" or len(indices) != len(before):
        return None
    values = IndexValues(rewriter.shapes)
    axes = [_axis_in_order(values.spread(index, len(after))) for index in indices]
    places = [axis for axis in axes if axis is not None]
    if len(places) != len(axes) or places != sorted(set(places)):
        return None
    taken = tuple(after[axis] for axis in places)
    if _long(taken) != _long(after) or not rewriter.shapes.are_declared(taken):
        return None
    slices = _first(x, before, taken)
    view = coda.ReshapeOp(slices[-1].results[0] if slices else x, shape_of(op.outputs[0]))
    view.attributes["coda.dims"] = rewriter.shapes.stated(after)
    return [*slices, view]


def _axis_in_order(index: Known | None) -> int | None:
    """Return the dimension along which `index` is 0, 1 and so on, and no other matters."""
    if not isinstance(index, Affine) or index.constant or sum(map(abs, index.coefficients)) != 1:
        return None
    return index.coefficients.index(1) if 1 in index.coefficients else None


def _first(x: SSAValue, before: Dims, taken: Dims) -> list[Operation]:
    """Return slices that take the first elements of dimensions; calls check their number."""
    slices: list[Operation] = []
    for dim, (extent, kept) in enumerate(zip(before, taken, strict=True)):
        if extent == kept:
            continue
        if isinstance(kept, int):
            slices.append(coda.SliceOp(x, dim, 0, kept))
        else:
            dims = (*taken[: dim + 1], *before[dim + 1 :])
            type = TensorType(element_type_of(x), static_shape(dims))
            call = CallOp("aten.slice.Tensor", [x], f"{{0}}, {dim}, 0, {kept}", [type], view=True)
            call.attributes["coda.dims"] = dims_attribute(dims)
            slices.append(call)
        x = slices[-1].results[0]
    return slices


def _long(dims: Dims) -> Dims:
    return tuple(extent for extent in dims if extent != 1)


def summed(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise a sum of floats over any dimensions to `coda.sum_to` and a reshape that drops them."""
    x, result = op.inputs[0], op.outputs[0]
    kept = _kept(op, 1)
    if kept is None or op.template.call.keywords or not _has_floats(result):
        return None
    total = coda.SumToOp(x, kept, element_type=element_type_of(result))
    return _in_shape(total, op, rewriter)


def averaged(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise a mean over known extents to a sum, times a number, rounded at the end."""
    x, result = op.inputs[0], op.outputs[0]
    kept = _kept(op, 1)
    if kept is None or op.template.call.keywords or element_type_of(x) != element_type_of(result):
        return None
    pairs = zip(shape_of(x), kept, strict=True)
    extents = [extent for extent, left in pairs if extent != left]
    if DYNAMIC_INDEX in extents or 0 in extents:
        return None
    total = coda.SumToOp(x, kept, element_type=f32)
    share = coda.ConstantOp(1 / prod(extents), f32)
    mean = coda.CastOp(coda.MulOp(total, share), element_type_of(result))
    return _in_shape(mean, op, rewriter)


def length(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise a norm to the root of the sum of squares, whose derivative at 0 is 0, as in PyTorch."""
    x, result = op.inputs[0], op.outputs[0]
    kept, arguments = _kept(op, 2), op.template.call.args
    is_euclidean = len(arguments) > 2 and literal(arguments[1]) == 2
    if kept is None or not _is_widened(op) or not is_euclidean:
        return None
    x, kept = _of_rows(x, kept, rewriter)
    wide = coda.CastOp(x, f32)
    total = coda.SumToOp(coda.MulOp(wide, wide), kept, element_type=f32)
    zero, one = coda.ConstantOp(0.0, f32), coda.ConstantOp(1.0, f32)
    is_zero = coda.CompareOp(total, zero, "eq")
    root = coda.SqrtOp(coda.WhereOp(is_zero, one, total))
    narrow = coda.CastOp(coda.WhereOp(is_zero, zero, root), element_type_of(result))
    return _in_shape(narrow, op, rewriter)


def _is_widened(op: CallOp) -> bool:
    """Return whether a call has no keyword, or only the type of a result in float32."""
    names = [keyword.arg for keyword in op.template.call.keywords]
    return not names or (names == ["dtype"] and element_type_of(op.outputs[0]) == f32)


def _of_rows(
    x: SSAValue, kept: Sequence[int], rewriter: FunctionRewriter
) -> tuple[SSAValue, Sequence[int]]:
    """Return x with its last dimensions as one, if these are summed, and what then is `kept`."""
    dims = rewriter.shapes.dims(x)
    first = next((axis for axis, extent in enumerate(kept) if extent != shape_of(x)[axis]), 0)
    summed = shape_of(x)[first:]
    is_of_rows = first > 0 and set(kept[first:]) == {1}
    if not is_of_rows or len(summed) == 1 or DYNAMIC_INDEX in summed:
        return x, kept
    rows = coda.ReshapeOp(x, (*shape_of(x)[:first], prod(summed)))
    rows.attributes["coda.dims"] = rewriter.shapes.stated((*dims[:first], prod(summed)))
    return rows.result, (*kept[:first], 1)


def _kept(op: CallOp, place: int) -> list[int] | None:
    """Return the extents of a float tensor in which some dimensions become 1: those of argument
    `place`, or all if there are none.

    None where they are not known, or the type is not computed in float32.
    """
    x, arguments = op.inputs[0], op.template.call.args
    axes = _numbers(arguments[place]) if len(arguments) > place else []
    if axes is None or not shape_of(x) or not _has_floats(x):
        return None
    every = range(len(shape_of(x)))
    gone = {axis % len(every) for axis in axes or every}
    return [1 if axis in gone else extent for axis, extent in enumerate(shape_of(x))]


def _in_shape(last: Operation, op: CallOp, rewriter: FunctionRewriter) -> list[Operation]:
    """Return `last`, the operators made for it, and a reshape that drops dimensions of extent 1."""
    made, result = new_operators(last), op.outputs[0]
    if shape_of(last.results[0]) == shape_of(result):
        return made
    view = coda.ReshapeOp(last, shape_of(result))
    view.attributes["coda.dims"] = rewriter.shapes.stated(rewriter.shapes.dims(result))
    return [*made, view]


def _numbers(node: ast.expr) -> list[int] | None:
    elements = node.elts if isinstance(node, ast.List) else [node]
    numbers = [literal(element) for element in elements]
    found = [number for number in numbers if isinstance(number, int)]
    return found if len(found) == len(numbers) else None


def _has_floats(value: SSAValue) -> bool:
    return computes_in_float32(element_type_of(value))


def added_up(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise running sums, with PyTorch's prior conversion of truth values and integers."""
    (x,), result = op.inputs, op.outputs[0]
    before, after = element_type_of(x), element_type_of(result)
    axes = op.template.call.args[1:]
    if before == after or after != i64 or len(axes) != 1 or not is_scalar(before):
        return None
    numbers = coda.CastOp(x, after)
    call = CallOp(op.callee.data, [numbers.result], f"{{0}}, {ast.unparse(axes[0])}", [result.type])
    call.attributes["coda.dims"] = rewriter.shapes.stated(rewriter.shapes.dims(result))
    return [numbers, call]


PLAIN: Mapping[str, Callable[[CallOp, FunctionRewriter], list[Operation] | None]] = {
    "aten.repeat.default": repeated,
    "aten.index.Tensor": rows_in_order,
    **dict.fromkeys(("aten.sum.default", "aten.sum.dim_IntList"), summed),
    **dict.fromkeys(("aten.mean.default", "aten.mean.dim"), averaged),
    "aten.linalg_vector_norm.default": length,
    "aten.cumsum.default": added_up,
}
"""Functions, by overload, that build an equal computation, or return None if they cannot."""
