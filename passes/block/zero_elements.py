"""Numbers for which elementwise code gives 0."""

from collections.abc import Sequence
from math import isfinite, nan

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import FloorDivideOp, PowerOp, RemainderOp
from coda_ir.dialects.coda.shapes import element_type_of

_ZERO_AT_ZERO = (coda.CastOp, *(op for op in coda.ELEMENTWISE_OPS if op.ZERO_AT_ZERO))
_INFINITE_AT_ZERO = (
    *(op for op in coda.ELEMENTWISE_OPS if op.OF_POSITIVE),
    *(coda.DivOp, coda.PowOp, PowerOp, RemainderOp, FloorDivideOp),
)
_ZERO_AT_MINUS_INFINITY = (coda.SigmoidOp, coda.ExpOp, coda.ReluOp)
_WITH_INFINITY = (BFloat16Type, Float16Type, Float32Type, Float64Type)


def number_computed(op: Operation, operands: Sequence[float | None]) -> float | None:
    """Return what `op` computes of numbers, if that is 0 or an infinity; None if it is an unknown
    finite number, and NaN if it may be none.

    An operand of None is an unknown finite number.
    """
    if all(number is None or isfinite(number) for number in operands):
        if isinstance(op, coda.MulOp) and 0.0 in operands:
            return 0.0
        if set(operands) == {0.0} and isinstance(op, _ZERO_AT_ZERO):
            return 0.0
        return nan if 0.0 in operands and isinstance(op, _INFINITE_AT_ZERO) else None
    if list(operands) != [float("-inf")]:
        return nan
    if isinstance(op, coda.CastOp) and isinstance(element_type_of(op.result), _WITH_INFINITY):
        return float("-inf")
    return 0.0 if isinstance(op, _ZERO_AT_MINUS_INFINITY) else nan
