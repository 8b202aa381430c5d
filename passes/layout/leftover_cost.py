"""Estimates of the savings of a compiler for all leftovers: kernels, and bytes between them."""

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.cost_model.comparison import connected
from coda_ir.cost_model.memory_times import traffic
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.groups import MAX_ROW
from coda_ir.storage import is_trained
from coda_ir.symbolic_shapes import SymbolicShapes

BYTES_PER_US = 3e6
"""The bytes that a GPU of 3 TB/s moves in a microsecond."""

KERNEL_US = 5.0
"""The time of a kernel beside that of the bytes that it moves."""

CALL_US = 25.0
"""The time of the host for the call of a program in inference, where the GPU hides a part of it. On
an H100, a graph that saves 58 us for each of its programs took 0.97 of the time of kernels.
"""

TRAINED_CALL_US = 75.0
"""The same in training. Chosen so that graphs that save 18 to 73 us for each program become
kernels: on an H100, such graphs took 1.01 to 1.16 of the time of kernels.
"""


def call_us(func: FuncOp) -> float:
    """Return the microseconds that a call of a program takes in the graph that replaces `func`."""
    return TRAINED_CALL_US if is_trained(func) else CALL_US


def saved_us(ops: Sequence[Operation], shapes: SymbolicShapes) -> float:
    """Return the microseconds saved if a compiler makes one kernel of each connected group of
    `ops`, rather than one of each operator or group of elementwise operators.
    """
    apart = connected(ops, lambda a, b: _is_pointwise(a) and _is_pointwise(b))
    joined = connected(ops, lambda a, b: True)
    bytes = sum(traffic(group, shapes) for group in apart)
    bytes -= sum(traffic(group, shapes) for group in joined)
    return bytes / BYTES_PER_US + KERNEL_US * (len(apart) - len(joined))


def _is_pointwise(op: Operation) -> bool:
    """Return whether `op` is pointwise, or a softmax, shift or lookup in a pointwise kernel."""
    if isinstance(op, coda.SoftmaxOp):
        return 1 < shape_of(op.x)[-1] <= MAX_ROW
    return isinstance(op, coda.ElementwiseOp | coda.CastOp | coda.ShiftOp | coda.EmbeddingOp)
