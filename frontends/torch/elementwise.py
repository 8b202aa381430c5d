"""Import of ATen's elementwise operators.

A handler answers None for a use that the counterpart does not cover.
"""

from typing import Any

import torch
from torch.fx import Node
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, OpResult, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import SHARED_TIES
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.frontends.torch.importer import GraphImporter, Handler, Value
from coda_ir.frontends.torch.types import element_type


def result_dtype(node: Node) -> torch.dtype:
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value.dtype


def arguments(node: Node) -> tuple[Any, ...]:
    """The positional arguments."""
    return node.args


def argument(node: Node, index: int, name: str, default: Any = None) -> Any:
    """An argument by position or by name."""
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


def unary(operator: type[coda.UnaryOp]) -> Handler:
    def handle(graph: GraphImporter, node: Node) -> Value | None:
        x = graph.operand(arguments(node)[0], result_dtype(node))
        if x is None or not is_float(element_type_of(x)):
            return None
        return graph.insert(operator(x)).result

    return handle


def binary(operator: type[coda.BinaryOp]) -> Handler:
    """Import a binary operator; like PyTorch, convert both operands to the type of the result.

    What PyTorch computes in float32 inside of its kernel, with a single rounding at the end, is
    float32 here too: a factor `alpha`, and a float32 tensor of one element among narrow ones.
    """

    def handle(graph: GraphImporter, node: Node) -> Value | None:
        if not result_dtype(node).is_floating_point:
            return None
        a, b = arguments(node)[:2]
        alpha = argument(node, 2, "alpha", 1)
        wide = alpha != 1 or _is_wide_number(graph, a, node) or _is_wide_number(graph, b, node)
        dtype = computing_dtype(node) if wide else result_dtype(node)
        lhs, rhs = graph.operand(a, dtype), graph.operand(b, dtype)
        if alpha != 1 and rhs is not None:
            factor = graph.operand(alpha, dtype)
            rhs = None if factor is None else graph.insert(coda.MulOp(rhs, factor)).result
        if lhs is None or rhs is None:
            return None
        return rounded(graph, node, graph.insert(operator(lhs, rhs)).result)

    return handle


def extremum(operator: type[coda.MaximumOp | coda.MinimumOp]) -> Handler:
    """Import the maximum or minimum of two tensors, or of one and a number; a tie splits the
    gradient.
    """
    of_tensors = binary(operator)

    def handle(graph: GraphImporter, node: Node) -> Value | None:
        chosen = of_tensors(graph, node)
        if not isinstance(chosen, OpResult):
            return None
        op = chosen.op.operands[0].owner if isinstance(chosen.op, coda.CastOp) else chosen.op
        assert isinstance(op, Operation)
        op.attributes[SHARED_TIES] = UnitAttr()
        return chosen

    return handle


def computing_dtype(node: Node) -> torch.dtype:
    """Return the type that PyTorch's kernels compute in: float32 for narrow floats."""
    dtype = result_dtype(node)
    return torch.float32 if dtype.itemsize < torch.float32.itemsize else dtype


def rounded(graph: GraphImporter, node: Node, value: SSAValue) -> SSAValue:
    """Return `value` in the type of the node's result."""
    type = element_type(result_dtype(node))
    if element_type_of(value) == type:
        return value
    return graph.insert(coda.CastOp(value, type)).result


def _is_wide_number(graph: GraphImporter, operand: object, node: Node) -> bool:
    """Return whether `operand` is a single float with more digits than the result."""
    if not isinstance(operand, Node) or operand not in graph.values:
        return False
    value: Any = operand.meta["val"]
    return (
        not value.ndim
        and value.dtype.is_floating_point
        and value.dtype.itemsize > result_dtype(node).itemsize
    )


def clamp(graph: GraphImporter, node: Node) -> Value | None:
    """Import `clamp`, `clamp_min` and `clamp_max`, with numbers or tensors as bounds."""
    name = str(node.target)
    dtype = result_dtype(node)
    low, high = argument(node, 1, "min"), argument(node, 2, "max")
    if "clamp_max" in name:
        low, high = None, argument(node, 1, "max")
    x = graph.operand(arguments(node)[0], dtype)
    limits = [bound if bound is None else graph.operand(bound, dtype) for bound in (low, high)]
    if x is None or dtype.is_complex or limits.count(None) > [low, high].count(None):
        return None
    for limit, operator in zip(limits, (coda.MaximumOp, coda.MinimumOp), strict=True):
        if limit is not None:
            x = _limited(graph, x, limit, operator)
    return x


def _limited(
    graph: GraphImporter,
    x: SSAValue,
    limit: SSAValue,
    operator: type[coda.MaximumOp | coda.MinimumOp],
) -> SSAValue:
    """Return the larger or smaller of `x` and a limit; where they are equal, `x` has the gradient.

    That of two tensors is shared by both.
    """
    chosen = graph.insert(operator(x, limit)).result
    if isinstance(limit.owner, coda.ConstantOp):
        return chosen
    relation = "ge" if operator is coda.MaximumOp else "le"
    is_inside = graph.insert(coda.CompareOp(x, limit, relation)).result
    return graph.insert(coda.WhereOp(is_inside, x, chosen)).result


def hardtanh(graph: GraphImporter, node: Node) -> Value | None:
    """Import a clamp between numbers whose derivative at both bounds is 0."""
    low, high = argument(node, 1, "min_val", -1.0), argument(node, 2, "max_val", 1.0)
    x = graph.operand(arguments(node)[0], result_dtype(node))
    if x is None or not is_float(element_type_of(x)):
        return None
    if low == 0:
        return _up_to(graph, graph.insert(coda.ReluOp(x)).result, high)
    return _up_to(graph, _replaced(graph, x, "le", low), high)


def _up_to(graph: GraphImporter, x: SSAValue, high: float) -> SSAValue:
    """Return min(x, high) with derivative 0 at the bound, where a minimum has 1."""
    return _replaced(graph, x, "ge", high)


def _replaced(graph: GraphImporter, x: SSAValue, relation: str, bound: float) -> SSAValue:
    """Return x with `bound` in place of the elements that satisfy a relation to it; NaN satisfies
    none.
    """
    limit = graph.insert(coda.ConstantOp(bound, element_type_of(x))).result
    is_outside = graph.insert(coda.CompareOp(x, limit, relation)).result
    return graph.insert(coda.WhereOp(is_outside, limit, x)).result


def leaky_relu(graph: GraphImporter, node: Node) -> Value | None:
    """relu(x) + slope · min(x, 0), of which the derivative at 0 is the slope, as PyTorch's."""
    dtype = computing_dtype(node)
    x, zero = graph.operand(arguments(node)[0], dtype), graph.operand(0.0, dtype)
    slope = graph.operand(argument(node, 1, "negative_slope", 0.01), dtype)
    if x is None or zero is None or slope is None:
        return None
    above = graph.insert(coda.ReluOp(x)).result
    below = graph.insert(coda.MinimumOp(x, zero)).result
    scaled = graph.insert(coda.MulOp(below, slope)).result
    return rounded(graph, node, graph.insert(coda.AddOp(above, scaled)).result)


def hardswish(graph: GraphImporter, node: Node) -> Value | None:
    """x · min(relu(x + 3), 6) / 6."""
    return _hard_sigmoid(graph, node, times_x=True)


def hardsigmoid(graph: GraphImporter, node: Node) -> Value | None:
    """min(relu(x + 3), 6) / 6."""
    return _hard_sigmoid(graph, node, times_x=False)


def _hard_sigmoid(graph: GraphImporter, node: Node, *, times_x: bool) -> Value | None:
    dtype = computing_dtype(node)
    x = graph.operand(arguments(node)[0], dtype)
    three, six = (graph.operand(number, dtype) for number in (3.0, 6.0))
    if x is None or three is None or six is None:
        return None
    shifted = graph.insert(coda.AddOp(x, three)).result
    value = _up_to(graph, graph.insert(coda.ReluOp(shifted)).result, 6.0)
    if times_x:
        value = graph.insert(coda.MulOp(x, value)).result
    return rounded(graph, node, graph.insert(coda.DivOp(value, six)).result)


def power(graph: GraphImporter, node: Node) -> Value | None:
    x, exponent = graph.operand(arguments(node)[0], result_dtype(node)), arguments(node)[1]
    if x is None or not result_dtype(node).is_floating_point:
        return None
    match exponent:
        case 2 | 2.0:
            return graph.insert(coda.MulOp(x, x)).result
        case 3 | 3.0:
            return graph.insert(coda.MulOp(graph.insert(coda.MulOp(x, x)).result, x)).result
        case 0.5:
            return graph.insert(coda.SqrtOp(x)).result
        case -0.5:
            return graph.insert(coda.RsqrtOp(x)).result
        case _:
            return None


def reciprocal(graph: GraphImporter, node: Node) -> Value | None:
    dtype = result_dtype(node)
    one, x = graph.operand(1.0, dtype), graph.operand(arguments(node)[0], dtype)
    return graph.insert(coda.DivOp(one, x)).result  # pyright: ignore


def gelu(graph: GraphImporter, node: Node) -> Value | None:
    x = graph.tensor(arguments(node)[0])
    approximate = argument(node, 1, "approximate", "none")
    return graph.insert(coda.GeluOp(x, approximate)).result
