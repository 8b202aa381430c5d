"""Elementwise code on one number: where it gives 0."""

from collections.abc import Sequence

from xdsl.ir import Operation

from coda_ir.dialects import coda

_ZERO_AT_ZERO = (
    *(coda.CastOp, coda.NegOp, coda.AbsOp, coda.SqrtOp, coda.TanhOp, coda.DetachOp),
    *(coda.SiluOp, coda.ReluOp, coda.Relu2Op, coda.GeluOp),
)
_ZERO_AT_MINUS_INFINITY = (coda.SigmoidOp, coda.ExpOp, coda.ReluOp)
_ZERO_OF_ZEROS = (coda.AddOp, coda.SubOp, coda.MaximumOp, coda.MinimumOp)


def number_computed(op: Operation, operands: Sequence[float | None]) -> float | None:
    """Return what `op` computes of numbers, if that is 0 or an infinity; None if it is unknown.

    An operand of None is an unknown finite number.
    """
    if isinstance(op, coda.MulOp):
        return 0.0 if 0.0 in operands else None
    if isinstance(op, _ZERO_OF_ZEROS):
        return 0.0 if set(operands) == {0.0} else None
    if operands == [0.0]:
        return 0.0 if isinstance(op, _ZERO_AT_ZERO) else None
    if operands != [float("-inf")]:
        return None
    if isinstance(op, coda.CastOp):
        return float("-inf")
    return 0.0 if isinstance(op, _ZERO_AT_MINUS_INFINITY) else None
