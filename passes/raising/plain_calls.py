"""Calls of PyTorch that other operators, or simpler calls, compute: views, sums, conversions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_scalar
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.made_tensors import EXPAND
from coda_ir.passes.support.function_pass import FunctionRewriter
from coda_ir.passes.support.index_values import literal
from coda_ir.symbolic_shapes import Dims, dims_attribute


def repeated(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """An expansion where only dimensions of extent 1 are repeated: a view, and no copy."""
    (x,), result = op.inputs, op.outputs[0]
    before, after = rewriter.shapes.dims(x), rewriter.shapes.dims(result)
    aligned = after[len(after) - len(before) :]
    if any(a not in (1, b) for a, b in zip(before, aligned, strict=True)):
        return None
    sizes = ", ".join(map(str, after))
    call = CallOp(EXPAND, [x], f"{{0}}, [{sizes}]", [result.type], view=True)
    call.attributes["coda.dims"] = dims_attribute(after)
    return [call]


def rows_in_order(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """x[i, j] where i and j count all rows and columns along dimensions of their own: a reshape."""
    x, *indices = op.inputs
    before, after = rewriter.shapes.dims(x), rewriter.shapes.dims(op.outputs[0])
    wanted = ", ".join(f"{{{number}}}" for number in range(1, len(op.inputs)))
    if op.arguments.data != f"{{0}}, [{wanted}]" or len(indices) != len(before):
        return None
    axes = [_axis_in_order(index, len(after), rewriter) for index in indices]
    places = [axis for axis in axes if axis is not None]
    if len(places) != len(axes) or places != sorted(set(places)):
        return None
    if tuple(after[axis] for axis in places) != before or _long(before) != _long(after):
        return None
    view = coda.ReshapeOp(x, shape_of(op.outputs[0]))
    view.attributes["coda.dims"] = dims_attribute(after)
    return [view]


def _axis_in_order(index: SSAValue, rank: int, rewriter: FunctionRewriter) -> int | None:
    """The one dimension, of `rank` of them, along which `index` is 0, 1 and so on."""
    positions = coda.positions_in(index)
    if positions is None or positions.first_and_step != (0, 1):
        return None
    dims = rewriter.shapes.dims(index)
    long = [axis for axis, extent in enumerate(dims) if extent != 1]
    return long[0] + rank - len(dims) if len(long) == 1 else None


def _long(dims: Dims) -> Dims:
    return tuple(extent for extent in dims if extent != 1)


def summed(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """`coda.sum_to` for a sum of floats over any dimensions, and a reshape that drops these."""
    x, result = op.inputs[0], op.outputs[0]
    axes = _numbers(op.template.call.args[1]) if len(op.template.call.args) > 1 else None
    if not axes or op.template.call.keywords or not _has_floats(x) or not _has_floats(result):
        return None
    summed = {axis % len(shape_of(x)) for axis in axes}
    kept = [1 if axis in summed else extent for axis, extent in enumerate(shape_of(x))]
    total = coda.SumToOp(x, kept, result_element_type=element_type_of(result))
    if len(kept) == len(shape_of(result)):
        return [total]
    view = coda.ReshapeOp(total, shape_of(result))
    view.attributes["coda.dims"] = dims_attribute(rewriter.shapes.dims(result))
    return [total, view]


def _numbers(node: ast.expr) -> list[int] | None:
    elements = node.elts if isinstance(node, ast.List) else [node]
    numbers = [literal(element) for element in elements]
    found = [number for number in numbers if isinstance(number, int)]
    return found if len(found) == len(numbers) else None


def _has_floats(value: SSAValue) -> bool:
    return computes_in_float32(element_type_of(value))


def added_up(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Running sums with the conversion that PyTorch makes of truth values and integers before."""
    (x,), result = op.inputs, op.outputs[0]
    before, after = element_type_of(x), element_type_of(result)
    axes = op.template.call.args[1:]
    if before == after or after != i64 or len(axes) != 1 or not is_scalar(before):
        return None
    numbers = coda.CastOp(x, after)
    call = CallOp(op.callee.data, [numbers.result], f"{{0}}, {ast.unparse(axes[0])}", [result.type])
    call.attributes["coda.dims"] = dims_attribute(rewriter.shapes.dims(result))
    return [numbers, call]


PLAIN: Mapping[str, Callable[[CallOp, FunctionRewriter], list[Operation] | None]] = {
    "aten.repeat.default": repeated,
    "aten.index.Tensor": rows_in_order,
    "aten.sum.dim_IntList": summed,
    "aten.cumsum.default": added_up,
}
"""By the overload: what computes the same, None where a condition does not hold."""
