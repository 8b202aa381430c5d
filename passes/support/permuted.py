"""Permuted values: those that are computed element by element, or row by row, from a transpose."""

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise_op import ElementwiseOp
from coda_ir.dialects.coda.shapes import shape_of

Order: TypeAlias = tuple[int, ...]

ROWS: Order = (0, 2, 1)
"""The permutation between channels before positions (B x C x T) and rows (B x T x C)."""


def is_transposed(op: object) -> bool:
    """Return whether an operator exchanges channels and positions."""
    return isinstance(op, coda.TransposeOp) and op.permutation == ROWS


def inverse(order: Order) -> Order:
    """Return the permutation that undoes `order`."""
    return tuple(order.index(axis) for axis in range(len(order)))


def moves_elements(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether a permutation changes the order of the elements of a tensor."""
    moved = [axis for axis in order if shape[axis] != 1]
    return moved != sorted(moved)


def permuted_values(ops: Sequence[Operation]) -> dict[SSAValue, Order]:
    """Return the permutation of each value of `ops`, in order, that comes from a transposed tensor.

    A concatenation counts iff all of its parts do: new rows after a cache do not.
    """
    found: dict[SSAValue, Order] = {}
    for op in ops:
        if isinstance(op, coda.TransposeOp):
            found[op.result] = op.permutation
        elif len(op.results) == 1:
            (result,) = op.results
            rank = len(shape_of(result))
            orders = [found.get(v) for v in op.operands if len(shape_of(v)) == rank]
            known = {order for order in orders if order is not None}
            if len(known) == 1 and not (isinstance(op, coda.ConcatOp) and None in orders):
                order = known.pop()
                if _keeps_order(op, is_by_row=order[-1] == rank - 1):
                    found[result] = order
    return found


def _keeps_order(op: Operation, *, is_by_row: bool) -> bool:
    """Return whether `op` permutes its result with its operands, or with rows if `is_by_row`."""
    match op:
        case ElementwiseOp() | coda.CastOp() | coda.SliceOp() | coda.ConcatOp():
            return True
        case coda.RMSNormOp() | coda.LayerNormOp() | coda.SoftmaxOp() | coda.ReduceOp():
            is_plain = "group" not in op.properties and len(op.results) == 1
            return is_by_row and is_plain and all(len(shape_of(v)) == 1 for v in op.operands[1:])
        case _:
            return False
