"""Tensors that calls of PyTorch make of numbers: positions, and one number everywhere."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.elementwise_call import ElementwiseCall
from coda_ir.passes.support.function_pass import FunctionRewriter
from coda_ir.passes.support.index_values import literal
from coda_ir.shape_rules import broadcast_dims
from coda_ir.symbolic_shapes import Dim

ARANGE = ("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
EXPAND = "aten.expand.default"
_FULL = "aten.full.default"

_EXACT = 2**24
"""Whole numbers up to here are exact in float32."""


def raised_positions(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """`coda.positions` for a vector of whole numbers, and a conversion to floats.

    None where the numbers are not whole, or where no argument of the function has the extent.
    """
    call, result = ElementwiseCall.of(op, arguments=()), op.outputs[0]
    first_and_step = _first_and_step(op)
    extent = _extent(rewriter.shapes.dims(result)[0], rewriter)
    if call is None or not call.makes_tensor or first_and_step is None or extent is None:
        return None
    start, step = first_and_step
    element = element_type_of(result)
    if not is_float(element):
        return [coda.PositionsOp(extent, start=start, step=step, element_type=element)]
    largest = abs(start) + abs(step) * (extent if isinstance(extent, int) else 1)
    if largest > _EXACT:
        return None
    numbers = coda.PositionsOp(extent, start=start, step=step, element_type=i32)
    return [numbers, coda.CastOp(numbers, element)]


def _first_and_step(op: CallOp) -> tuple[int, int] | None:
    numbers = [literal(node) for node in op.template.call.args]
    start = numbers[0] if op.callee.data != ARANGE[0] else 0
    step = numbers[2] if len(numbers) > 2 else 1
    if (
        start is None
        or step is None
        or not (float(start).is_integer() and float(step).is_integer())
    ):
        return None
    return int(start), int(step)


def _extent(dim: Dim, rewriter: FunctionRewriter) -> int | tuple[SSAValue, int] | None:
    """A number, or an argument and its dimension that has the extent."""
    if isinstance(dim, int):
        return dim
    for argument in rewriter.func.args:
        dims = rewriter.shapes.dims(argument)
        if dim in dims:
            return argument, dims.index(dim)
    return None


def read_through(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Let elementwise operators read what a call repeats, where they broadcast it themselves."""
    source = _repeated(op, rewriter)
    if source is None:
        return
    for use in list(op.outputs[0].uses):
        user = use.operation
        if isinstance(user, coda.ElementwiseOp) and _broadcasts_itself(
            user, use.index, source, rewriter
        ):
            user.operands[use.index] = source


def _repeated(op: CallOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """The tensor, or the number, that a call repeats along dimensions."""
    if op.callee.data == EXPAND:
        return op.inputs[0]
    if op.callee.data != _FULL:
        return None
    call = ElementwiseCall.of(op, arguments=op.template.call.args[1:])
    if call is None or not call.makes_tensor:
        return None
    (number,) = call.arguments
    if isinstance(number, SSAValue):
        return None
    constant = coda.ConstantOp(
        float(number) if is_float(call.element_type) else int(number), call.element_type
    )
    constant.location = op.location
    rewriter.order.insert_before(constant, op)
    return constant.result


def _broadcasts_itself(
    op: coda.ElementwiseOp, index: int, x: SSAValue, rewriter: FunctionRewriter
) -> bool:
    """Whether `op` keeps its shape with `x` as operand number `index`."""
    operands = [x if number == index else value for number, value in enumerate(op.operands)]
    dims = broadcast_dims([rewriter.shapes.dims(value) for value in operands])
    return dims == rewriter.shapes.dims(op.result)
