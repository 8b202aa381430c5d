"""Integers that number rows: how large they are at most, and in what order they come."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import FloorDivideOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

_VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.IndexOp)
"""Operators whose elements are those of their first operand."""


def bound_of(value: SSAValue, shapes: SymbolicShapes) -> SymbolicSize | None:
    """A number above every element of `value`, none of which is negative; None where unknown."""
    match value.owner:
        case coda.SortOp() | coda.TopkOp() as op if value is op.results[1]:
            return SymbolicSize.of(shapes.dims(op.operands[0])[op.given["dim"]])
        case coda.SortOp() as op:
            return bound_of(op.x, shapes)
        case coda.CastOp() as op if isinstance(element_type_of(op.operand), IntegerType):
            return bound_of(op.operand, shapes)
        case FloorDivideOp() as op if isinstance(op.rhs.owner, coda.ConstantOp):
            bound = bound_of(op.lhs, shapes)
            return None if bound is None else _quotient(bound, op.rhs.owner.number)
        case Operation() as op if isinstance(op, _VIEWS):
            return bound_of(op.operands[0], shapes)
        case _:
            return None


def _quotient(bound: SymbolicSize, divisor: float) -> SymbolicSize | None:
    """A bound over a number that divides it."""
    if divisor < 1 or any(coefficient % divisor for _, coefficient in bound.terms):
        return None
    return SymbolicSize(tuple((name, int(count // divisor)) for name, count in bound.terms))


def is_permutation(ids: SSAValue) -> bool:
    """Return whether a vector has the numbers of all of its elements: those of a sort."""
    return isinstance(ids.owner, coda.SortOp) and ids is ids.owner.ids and len(shape_of(ids)) == 1


def inverse_of(ids: SSAValue) -> SSAValue | None:
    """The permutation whose inverse is `ids`: a sort of its numbers, or their places one by one."""
    match ids.owner:
        case coda.SortOp() as op if is_permutation(ids) and not op.given["descending"]:
            order: SSAValue = op.x
        case coda.ScatterOp() as op if len(shape_of(ids)) == 1 and _counts_up(op.values):
            order = op.ids
        case _:
            return None
    return order if is_permutation(order) else None


def _counts_up(values: SSAValue) -> bool:
    positions = coda.positions_in(values)
    return positions is not None and positions.first_and_step == (0, 1)
