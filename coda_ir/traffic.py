"""Memory traffic of a function whose operators run one by one."""

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from coda_ir.dialects.coda import ConstantOp, ExtentOp, PositionsOp, ReshapeOp, ShiftOp
from coda_ir.dialects.gemm import PackWeightOp, ScaleWeightOp
from coda_ir.storage import is_looked_up_where_read, is_shifted_where_read, is_view
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

NOT_EXECUTED = (
    *(ConstantOp, PositionsOp, ExtentOp, ReshapeOp),
    *(PackWeightOp, ScaleWeightOp, ReturnOp),
)
"""Operators that move nothing in a call: views, code in kernels, and work once per weight."""


def is_executed(op: Operation) -> bool:
    """Return whether `op` moves data in a call: not a view, in PyTorch either, nor rows that a
    kernel shifts or looks up itself.
    """
    if isinstance(op, ShiftOp):
        return not is_shifted_where_read(op)
    is_copy = not (is_view(op) or is_looked_up_where_read(op))
    return is_copy and not isinstance(op, NOT_EXECUTED)


def traffic_by_operator(func: FuncOp) -> list[tuple[Operation, SymbolicSize]]:
    """Return the bytes that each operator of `func` moves: every operand read once, every result
    written once.

    On the block level this is PyTorch without fusion, on the GEMM level one kernel per operator.
    """
    shapes = SymbolicShapes(func)
    return [(op, shapes.traffic(op)) for op in func.body.block.ops if is_executed(op)]


def total_traffic(func: FuncOp) -> SymbolicSize:
    """Return the bytes that all operators of `func` move."""
    return sum((size for _, size in traffic_by_operator(func)), SymbolicSize())
