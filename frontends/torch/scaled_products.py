"""Import of PyTorch's scaled float8 products: a matmul, and ordinary factors of its result."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch.fx import Node
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    ceiling,
    computes_in_float32,
    element_type_of,
    is_float,
    is_float8,
    shape_of,
)
from coda_ir.dialects.gemm import is_power_of_two
from coda_ir.frontends.torch.arguments import argument, arguments, result_dtype
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.low_bit_layers import LOW_BIT_LINEAR
from coda_ir.frontends.torch.scaled_layers import QUANTIZED_LINEAR, SCALED_LINEAR
from coda_ir.frontends.torch.types import element_type

TENSOR_OR_ROW = (0, 1)
"""The recipes of `_scaled_mm_v2` with one scale for the tensor, and one for each row."""

BLOCKS = (4, 5)
"""Its recipes for x in blocks of 1 x 128 and the weight in blocks of 128 x 128."""


def scaled_mm(graph: GraphImporter, node: Node) -> Value | None:
    """Import `_scaled_mm` with scales of tensors or rows; `numerics` controls fast accumulation."""
    if argument(node, 5, "scale_result") is not None:
        return None
    return _product(graph, node, arguments(node)[2:4], argument(node, 4, "bias"))


def scaled_mm_v2(graph: GraphImporter, node: Node) -> Value | None:
    """Import `_scaled_mm_v2` with one scale for each operand, or for each of its rows."""
    scales, recipes, swizzles = (_pair(node, index) for index in (2, 3, 4))
    known = len(scales) == 2 and all(recipe in TENSOR_OR_ROW for recipe in recipes)
    if any(swizzles) or argument(node, 10, "contraction_dim"):
        return None
    if len(scales) == 2 and tuple(recipes) == BLOCKS:
        return _blocks(graph, node, scales)
    if not known:
        return None
    return _product(graph, node, scales, argument(node, 8, "bias"))


def _blocks(graph: GraphImporter, node: Node, scales: Sequence[Any]) -> Value | None:
    """Import x with a scale for each 1 x 128 elements, and the weight with one for each 128 x 128.

    Those of the weight are those of N x K transposed, and cuBLAS requires multiples of four rows.
    """
    x, weight = (graph.tensor(operand) for operand in arguments(node)[:2])
    of_x, of_weight = (graph.tensor(scale) for scale in scales)
    (m, k), n = shape_of(x), shape_of(weight)[1]
    type, depth = element_type(result_dtype(node)), ceiling(k, 128)
    if DYNAMIC_INDEX in (k, n) or not is_float(type) or shape_of(of_x) != (m, depth):
        return None
    padded = shape_of(of_weight)
    if len(padded) != 2 or padded[0] < depth or padded[1] != ceiling(n, 128):
        return None
    if not all(is_float8(element_type_of(value)) for value in (x, weight)):
        return None
    if any(element_type_of(value) != f32 for value in (of_x, of_weight)):
        return None
    if padded[0] > depth:
        of_weight = graph.insert(coda.SliceOp(of_weight, 0, 0, depth)).result
    rows = [graph.insert(coda.TransposeOp(v, (1, 0))).result for v in (weight, of_weight)]
    value = graph.insert(
        coda.ScaledLinearOp(x, rows[0], of_x, rows[1], coda.BlocksAttr.get())
    ).result
    return _with_bias(graph, value, argument(node, 8, "bias"), type)


def scaled_linear(graph: GraphImporter, node: Node) -> Value | None:
    """Import the product of float8 layers: scales of rows or of the whole weight, or of blocks."""
    x, weight, of_x, of_weight = (graph.tensor(operand) for operand in arguments(node)[:4])
    bias, depth, columns, dtype = arguments(node)[4:]
    if DYNAMIC_INDEX in shape_of(weight):
        return None
    n, k = shape_of(weight)
    if depth == k and shape_of(of_weight) in ((n, 1), (1, 1)):
        vector = graph.insert(coda.ReshapeOp(of_weight, shape_of(of_weight)[:1])).result
        value = graph.insert(coda.LinearOp(x, weight)).result
        for scale in (of_x, vector):
            value = graph.insert(coda.MulOp(value, scale)).result
    elif depth >= coda.LEAST_DEPTH and is_power_of_two(depth) and is_power_of_two(columns):
        blocks = coda.BlocksAttr.get(depth, columns)
        value = graph.insert(coda.ScaledLinearOp(x, weight, of_x, of_weight, blocks)).result
    else:
        return None
    return _with_bias(graph, value, bias, element_type(dtype))


def low_bit_linear(graph: GraphImporter, node: Node) -> Value | None:
    """Import the product of layers with weights of 8 or 4 bits."""
    x, weight, scales = (graph.tensor(operand) for operand in arguments(node)[:3])
    zeros, bias, depth, offset, packing = arguments(node)[3:]
    type = element_type_of(x)
    if DYNAMIC_INDEX in shape_of(weight) or not computes_in_float32(type):
        return None
    scheme = coda.QuantizedAttr.get(depth, offset=offset, packing=packing)
    points = None if zeros is None else graph.tensor(zeros)
    wide = type if bias is None else f32
    op = coda.LowBitLinearOp(
        *(x, weight, scales, points, scheme), kn=bool(packing), element_type=wide
    )
    return _with_bias(graph, graph.insert(op).result, bias, type)


def quantized_linear(graph: GraphImporter, node: Node) -> Value | None:
    """Import the product of layers that are trained in float8."""
    x, weight = (graph.tensor(operand) for operand in arguments(node)[:2])
    depth, columns, is_all = arguments(node)[2:]
    if depth is not None and DYNAMIC_INDEX in shape_of(weight):
        return None
    blocks = None if depth is None else coda.BlocksAttr.get(depth, columns)
    return graph.insert(coda.QuantizedLinearOp(x, weight, blocks, is_all)).result


def _pair(node: Node, index: int) -> list[Any]:
    """Return the elements of an argument for the first operand, and for the second one."""
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
    return _with_bias(graph, value, bias, type)


def _with_bias(graph: GraphImporter, value: SSAValue, bias: object, type: Attribute) -> Value:
    """Add the bias to a product, in the type of the result."""
    if bias is not None:
        wide = graph.insert(coda.CastOp(graph.tensor(bias), f32)).result
        value = graph.insert(coda.AddOp(value, wide)).result
    return graph.insert(coda.CastOp(value, type)).result


def _is_scale(scale: SSAValue, by_row: tuple[int, int]) -> bool:
    """Return whether a scale is one number, or has one number for each row."""
    shape = shape_of(scale)
    is_one = DYNAMIC_INDEX not in shape and prod(shape) == 1
    return element_type_of(scale) == f32 and (is_one or shape == by_row)


def _as_vector(graph: GraphImporter, scale: SSAValue) -> SSAValue:
    """Return the scales of the columns as a vector."""
    if len(shape_of(scale)) < 2:
        return scale
    return graph.insert(coda.ReshapeOp(scale, [prod(shape_of(scale))])).result


SCALED_PRODUCTS: dict[str, Callable[[GraphImporter, Node], Value | None]] = {
    "aten._scaled_mm.default": scaled_mm,
    "aten._scaled_mm_v2.default": scaled_mm_v2,
    str(SCALED_LINEAR): scaled_linear,
    str(LOW_BIT_LINEAR): low_bit_linear,
    str(QUANTIZED_LINEAR): quantized_linear,
}
