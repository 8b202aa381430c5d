"""Tensors made from numbers by PyTorch calls: positions, and constants."""

from collections.abc import Iterator

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32, i64
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.elementwise_call import ElementwiseCall
from coda_ir.passes.support.fillers import filler
from coda_ir.passes.support.function_pass import FunctionRewriter
from coda_ir.passes.support.index_values import literal
from coda_ir.shape_rules import broadcast_dims
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import Dim

ARANGE = ("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
FULL, FULL_LIKE = "aten.full.default", "aten.full_like.default"

_EXACT = 2**24
"""Whole numbers up to here are exact in float32."""


def raised_positions(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise a vector of whole numbers to `coda.positions`, with a conversion to floats.

    None where the numbers are not whole, or integers of another type than positions, and where no
    dimension of another value has the extent.
    """
    call, result = ElementwiseCall.of(op, arguments=()), op.outputs[0]
    first_and_step = _first_and_step(op)
    extent = _extent(rewriter.shapes.dims(result)[0], op, rewriter)
    if call is None or not call.makes_tensor or first_and_step is None or extent is None:
        return None
    start, step = first_and_step
    element = element_type_of(result)
    if element in (i32, i64):
        return [coda.PositionsOp(extent, start=start, step=step, element_type=element)]
    largest = abs(start) + abs(step) * (extent if isinstance(extent, int) else 1)
    if not is_float(element) or largest > _EXACT:
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


def _extent(dim: Dim, op: CallOp, rewriter: FunctionRewriter) -> int | tuple[SSAValue, int] | None:
    """Return a number, or a value and the dimension that has the extent."""
    if isinstance(dim, int):
        return dim
    for value in _values_before(op, rewriter):
        dims = rewriter.shapes.dims(value)
        if dim in dims:
            return value, dims.index(dim)
    return None


def read_through(op: CallOp, rewriter: FunctionRewriter) -> None:
    """Let elementwise operators read the operand of a repetition that they can broadcast."""
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
    """Return the tensor or number that a call repeats along dimensions."""
    if op.callee.data == EXPAND:
        return op.inputs[0]
    number = _number(op) if op.callee.data in (FULL, FULL_LIKE) else None
    return None if number is None else rewriter.before(op).insert(number)


def _broadcasts_itself(
    op: coda.ElementwiseOp, index: int, x: SSAValue, rewriter: FunctionRewriter
) -> bool:
    """Return whether `op` keeps its shape with `x` as operand number `index`."""
    operands = [x if number == index else value for number, value in enumerate(op.operands)]
    dims = broadcast_dims([rewriter.shapes.dims(value) for value in operands])
    return dims == rewriter.shapes.dims(op.result)


def raised_number(op: CallOp, rewriter: FunctionRewriter) -> list[Operation] | None:
    """Raise a constant tensor to `coda.broadcast` of a number, for readers other than elementwise
    operators.

    If no other tensor has its extents, a view repeats the number. Returns None if the extents are
    not those of arguments, either.
    """
    number, shape = _number(op), shape_of(op.outputs[0])
    if number is None or not shape:
        return None if number is None else [number]
    if DYNAMIC_INDEX not in shape:
        return [number, coda.BroadcastOp(number, shape)]
    like = op.inputs[0] if op.callee.data == FULL_LIKE else _tensor_like(op, rewriter)
    if like is not None:
        return [number, coda.BroadcastOp(number, shape, like)]
    dims = rewriter.shapes.dims(op.outputs[0])
    is_known = rewriter.shapes.are_declared(dims)
    return [*filler(number.number, element_type_of(number.result), dims)] if is_known else None


def _number(op: CallOp) -> coda.ConstantOp | None:
    """Return the number with which a call fills a tensor."""
    call = ElementwiseCall.of(op, arguments=op.template.call.args[1:])
    return None if call is None else constant_of(call)


def constant_of(call: ElementwiseCall) -> coda.ConstantOp | None:
    """Return the number that is the only argument of a call."""
    (number,) = call.arguments
    if not isinstance(number, int | float) or not call.makes_tensor:
        return None
    type = call.element_type
    return coda.ConstantOp(float(number) if is_float(type) else int(number), type)


def _tensor_like(op: CallOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return an argument, or else a value before `op`, with the dimensions of its result."""
    dims = rewriter.shapes.dims(op.outputs[0])
    return next((x for x in _values_before(op, rewriter) if rewriter.shapes.dims(x) == dims), None)


def _values_before(op: CallOp, rewriter: FunctionRewriter) -> Iterator[SSAValue]:
    yield from rewriter.func.args
    for earlier in rewriter.ops:
        if earlier is op:
            return
        yield from earlier.results
