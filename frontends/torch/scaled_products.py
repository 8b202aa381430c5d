"""PyTorch's products of float8 with scales: a matmul, and ordinary factors of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch.fx import Node
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, is_float8, shape_of
from coda_ir.frontends.torch.elementwise import argument, arguments, result_dtype
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.types import element_type

TENSOR_OR_ROW = (0, 1)
"""The recipes of `_scaled_mm_v2` with one scale for the tensor, and one for each row."""


def scaled_mm(graph: GraphImporter, node: Node) -> Value | None:
    """`_scaled_mm` with scales of tensors or of rows; its faster sums are left to `numerics`."""
    if argument(node, 5, "scale_result") is not None:
        return None
    return _product(graph, node, arguments(node)[2:4], argument(node, 4, "bias"))


def scaled_mm_v2(graph: GraphImporter, node: Node) -> Value | None:
    """`_scaled_mm_v2` with one scale of each operand, of the tensor or of its rows."""
    scales, recipes, swizzles = (_pair(node, index) for index in (2, 3, 4))
    known = len(scales) == 2 and all(recipe in TENSOR_OR_ROW for recipe in recipes)
    if not known or any(swizzles) or argument(node, 10, "contraction_dim"):
        return None
    return _product(graph, node, scales, argument(node, 8, "bias"))


def _pair(node: Node, index: int) -> list[Any]:
    """The elements of an argument of the first operand, and of that of the second one."""
    return [*arguments(node)[index], *arguments(node)[index + 3]]


def _product(graph: GraphImporter, node: Node, scales: Sequence[Any], bias: object) -> Value | None:
    x, weight = (graph.tensor(operand) for operand in arguments(node)[:2])
    m, n = shape_of(x)[0], shape_of(weight)[1]
    type = element_type(result_dtype(node))
    of_x, of_weight = (graph.tensor(scale) for scale in scales)
    is_scaled = _is_scale(of_x, (m, 1)) and _is_scale(of_weight, (1, n))
    if DYNAMIC_INDEX in shape_of(weight) or not is_float(type) or not is_scaled:
        return None
    if not all(is_float8(element_type_of(value)) for value in (x, weight)):
        return None
    value = graph.insert(coda.MatmulOp(x, weight)).result
    for scale in (of_x, _as_vector(graph, of_weight)):
        value = graph.insert(coda.MulOp(value, scale)).result
    if bias is not None:
        wide = graph.insert(coda.CastOp(graph.tensor(bias), f32)).result
        value = graph.insert(coda.AddOp(value, wide)).result
    return graph.insert(coda.CastOp(value, type)).result


def _is_scale(scale: SSAValue, by_row: tuple[int, int]) -> bool:
    """Return whether a scale is one number, or has the shape of those of rows."""
    shape = shape_of(scale)
    is_one = DYNAMIC_INDEX not in shape and prod(shape) == 1
    return element_type_of(scale) == f32 and (is_one or shape == by_row)


def _as_vector(graph: GraphImporter, scale: SSAValue) -> SSAValue:
    """The scales of the columns as one dimension."""
    if len(shape_of(scale)) < 2:
        return scale
    return graph.insert(coda.ReshapeOp(scale, [prod(shape_of(scale))])).result


SCALED_PRODUCTS: dict[str, Callable[[GraphImporter, Node], Value | None]] = {
    "aten._scaled_mm.default": scaled_mm,
    "aten._scaled_mm_v2.default": scaled_mm_v2,
}
