"""Contents of tensors computed from positions only: integers and masks.

An integer tensor is known as an affine function of its own index, a mask as the conjunction of
conditions `affine >= 0`. Everything else is unknown.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isinf
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import before
from coda_ir.passes.support.matching import number_of
from coda_ir.storage import repeats
from coda_ir.symbolic_shapes import SymbolicShapes


@dataclass(frozen=True)
class Affine:
    """constant + sum of coefficients[a] · index[a]; 0 is the coefficient of an extent of 1."""

    constant: int
    coefficients: tuple[int, ...]

    def minus(self, other: Affine) -> Affine:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Affine(self.constant - other.constant, tuple(a - b for a, b in pairs))

    def plus(self, other: Affine) -> Affine:
        return self.minus(Affine(0, (0,) * len(other.coefficients)).minus(other))

    def least(self, shape: Sequence[int]) -> float:
        """Return the least value at any index of a tensor of `shape`; minus infinity if unknown."""
        least: float = self.constant
        for coefficient, extent in zip(self.coefficients, shape, strict=True):
            if coefficient < 0:
                least += -float("inf") if extent == DYNAMIC_INDEX else coefficient * (extent - 1)
        return least


@dataclass(frozen=True)
class Mask:
    """True where every affine function of `conditions` is at least 0; `never` is False."""

    conditions: frozenset[Affine]
    never: bool = False

    def both(self, other: Mask) -> Mask:
        """Return the mask that is true where both are."""
        return Mask(self.conditions | other.conditions, self.never or other.never)

    def negated(self) -> Mask | None:
        """Return the negated mask; None if that is no conjunction."""
        if self.never or not self.conditions:
            return Mask(frozenset(), never=not self.never)
        if len(self.conditions) > 1:
            return None
        (only,) = self.conditions
        opposite = Affine(-only.constant - 1, tuple(-c for c in only.coefficients))
        return Mask(frozenset((opposite,)))


@dataclass(frozen=True)
class Magnitude:
    """The absolute value of an affine function."""

    of: Affine


Argument: TypeAlias = SSAValue | float | int | bool
"""A tensor or a number."""

Known: TypeAlias = Affine | Magnitude | Mask

_TYPES = (i1, i32, i64)
"""Types of masks, and of integers that positions do not exceed."""

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.gt,
    "le": operator.ge,
    "gt": operator.lt,
    "ge": operator.le,
}
"""The relations of `coda.compare`, with their operands exchanged."""

_EXACT = 2**8
"""Whole numbers up to here are exact in every float type."""


class IndexValues:
    """The known contents of the values in a function."""

    def __init__(self, shapes: SymbolicShapes):
        self.shapes = shapes
        self._known: dict[SSAValue, Known | None] = {}

    def of(self, value: SSAValue) -> Known | None:
        """Return the contents of `value`, or None if they are unknown."""
        if value not in self._known:
            self._known[value] = _map(self._derive(value), lambda a: _within(a, shape_of(value)))
        return self._known[value]

    def spread(self, value: SSAValue, rank: int) -> Known | None:
        """Return the contents of `value` as a tensor of `rank`, with leading extents of 1."""
        return _spread(self.of(value), rank)

    def _derive(self, value: SSAValue) -> Known | None:
        element_type = element_type_of(value)
        if is_float(element_type):
            return self._number(value)
        if element_type not in _TYPES:
            return None
        match value.owner:
            case coda.ReshapeOp() as op:
                return self._reshaped(op)
            case coda.TransposeOp() as op:
                return _moved(self.of(op.x), op.permutation)
            case coda.ConcatOp() as op:
                return self._joined(op)
            case coda.SliceOp() as op:
                dim, start, _ = op.range
                return _cut(self.of(op.x), dim, start, shape_of(op.result))
            case coda.ConstantOp() as op:
                return _constant(op)
            case Operation() as op if repeats(op):
                return _spread(self.of(op.operands[0]), len(shape_of(value)))
            case coda.CastOp() as op:
                chosen = self._chosen(op.operand, bool) if element_type == i1 else None
                known = chosen or self.of(op.operand)
                return _converted(known, element_type, len(shape_of(value)))
            case coda.PositionsOp() as op:
                start, step = op.first_and_step
                return Affine(start, (step,))
            case coda.CompareOp() as op if (known := self._compared(op)) is not None:
                return _spread(known, len(shape_of(value)))
            case coda.ElementwiseOp() as op:
                name = op.relation.data if isinstance(op, coda.CompareOp) else op.name[5:]
                rank = len(shape_of(value))
                operands = [self.spread(x, rank) for x in op.operands]
                return _computed(name, operands, shape_of(value))
            case CallOp() as op if op.callee.data in _CALLS:
                operands = [self.of(operand) for operand in op.inputs]
                return _CALLS[op.callee.data](op, operands)
            case _:
                return None

    def _compared(self, op: coda.CompareOp) -> Mask | None:
        """Evaluate the comparison of a choice between two numbers with a third."""
        number = number_of(op.rhs)
        if number is None or not _is_exact(number):
            return None
        return self._chosen(op.lhs, partial(_RELATIONS[op.relation.data], number))

    def _chosen(self, value: SSAValue, is_true: Callable[[float], bool]) -> Mask | None:
        """Return where `is_true` of `value`, a choice between two numbers by a mask, as of `tril`
        or `triu` of ones; None for others.
        """
        where = before(value, coda.BroadcastOp).owner
        if not isinstance(where, coda.WhereOp):
            return None
        mask = self.spread(where.condition, len(shape_of(value)))
        numbers = [number for x in where.operands[1:] if (number := number_of(x)) is not None]
        if not isinstance(mask, Mask) or len(numbers) < 2 or not all(map(_is_exact, numbers)):
            return None
        chosen, other = map(is_true, numbers)
        if chosen == other:
            return Mask(frozenset(), never=not chosen)
        return mask if chosen else mask.negated()

    def _number(self, value: SSAValue) -> Known | None:
        """Return a small whole number that is written as a float."""
        rank, op = len(shape_of(value)), before(value, coda.BroadcastOp).owner
        number = float(op.number) if isinstance(op, coda.ConstantOp) else None
        if number is None or isinf(number) or not _is_exact(number):
            return None
        return Affine(int(number), (0,) * rank)

    def _reshaped(self, op: coda.ReshapeOp) -> Known | None:
        """Evaluate a reshape that adds or drops dimensions of extent 1."""
        before, after = self.shapes.dims(op.x), self.shapes.dims(op.result)
        kept = [axis for axis, dim in enumerate(before) if dim != 1]
        places = [axis for axis, dim in enumerate(after) if dim != 1]
        if [before[axis] for axis in kept] != [after[axis] for axis in places]:
            return None
        known = self.of(op.x)
        sources = dict(zip(places, kept, strict=True))

        def move(affine: Affine) -> Affine:
            c = affine.coefficients
            moved = (c[sources[a]] if a in sources else 0 for a in range(len(after)))
            return Affine(affine.constant, tuple(moved))

        return _map(known, move)

    def _joined(self, op: coda.ConcatOp) -> Known | None:
        """Evaluate a concatenation of parts that continue one another."""
        axis, position, found = op.dim.value.data, 0, list[tuple[int, int, Affine]]()
        for part in op.parts:
            known, extent = self.of(part), shape_of(part)[axis]
            if not isinstance(known, Affine) or position == DYNAMIC_INDEX:
                return None
            found.append((position, extent, known))
            position = DYNAMIC_INDEX if extent == DYNAMIC_INDEX else position + extent
        slopes = {known.coefficients[axis] for _, extent, known in found if extent != 1}
        if len(slopes) != 1:
            return None
        (slope,) = slopes
        whole = {_shifted(known, axis, slope, -position) for position, _, known in found}
        return whole.pop() if len(whole) == 1 else None


def _is_exact(number: float) -> bool:
    """Return whether a number is the same in every float type."""
    return isinf(number) or (number.is_integer() and abs(number) <= _EXACT)


def _constant(op: coda.ConstantOp) -> Known | None:
    if element_type_of(op.result) == i1:
        return Mask(frozenset(), never=not op.number)
    return Affine(int(op.number), ())


def _computed(name: str, operands: Sequence[Known | None], shape: Sequence[int]) -> Known | None:
    """Evaluate an elementwise operator, by its name, on operands of the rank of the result."""
    match name, operands:
        case "add", [Affine() as a, Affine() as b]:
            return a.plus(b)
        case "sub", [Affine() as a, Affine() as b]:
            return a.minus(b)
        case "abs", [Affine() as a]:
            return Magnitude(a)
        case "logical_not", [Mask() as mask]:
            return mask.negated()
        case "logical_and", [Mask() as a, Mask() as b]:
            return a.both(b)
        case "eq" | "ne", [Affine() as a, Affine() as b] if not any(a.minus(b).coefficients):
            return Mask(frozenset(), never=(a.constant == b.constant) != (name == "eq"))
        case "ge" | "gt", [a, b]:
            return _ordered(a, b, shape, strict=name == "gt")
        case "le" | "lt", [a, b]:
            return _ordered(b, a, shape, strict=name == "lt")
        case _:
            return None


def _ordered(
    a: Known | None, b: Known | None, shape: Sequence[int], *, strict: bool
) -> Known | None:
    """Evaluate a >= b, or a > b."""
    match a, b:
        case Affine(), Affine():
            differences = [a.minus(b)]
        case Affine(), Magnitude(of=b):
            differences = [a.minus(b), a.plus(b)]
        case _:
            return None
    conditions = {Affine(d.constant - strict, d.coefficients) for d in differences}
    return Mask(frozenset(c for c in conditions if c.least(shape) < 0))


def _shifted(known: Affine, axis: int, slope: int, by: int) -> Affine:
    """Return `known` with `slope` along an axis, and its index on the axis shifted."""
    coefficients = list(known.coefficients)
    coefficients[axis] = slope
    return Affine(known.constant + slope * by, tuple(coefficients))


def _map(known: Known | None, function: Callable[[Affine], Affine]) -> Known | None:
    if isinstance(known, Mask):
        return Mask(frozenset(map(function, known.conditions)), known.never)
    if isinstance(known, Magnitude):
        return Magnitude(function(known.of))
    return None if known is None else function(known)


def _within(affine: Affine, shape: Sequence[int]) -> Affine:
    pairs = zip(affine.coefficients, shape, strict=True)
    return Affine(affine.constant, tuple(0 if extent == 1 else c for c, extent in pairs))


def _moved(known: Known | None, sources: Sequence[int]) -> Known | None:
    return _map(
        known, lambda a: Affine(a.constant, tuple(a.coefficients[axis] for axis in sources))
    )


def _spread(known: Known | None, rank: int) -> Known | None:
    """Add missing leading dimensions to `known`."""
    return _map(
        known, lambda a: Affine(a.constant, (0,) * (rank - len(a.coefficients)) + a.coefficients)
    )


# Calls of PyTorch

_Operands: TypeAlias = Sequence[Known | None]


def literal(node: ast.expr) -> int | float | bool | None:
    """Return the number that an argument is, None if it is something else."""
    if isinstance(node, ast.UnaryOp):
        number = literal(node.operand)
        return None if number is None else -number
    match node:
        case ast.Constant(value=bool() | int() | float() as number):
            return number
        case ast.Name(id="inf"):
            return float("inf")
        case _:
            return None


def argument_of(node: ast.expr, op: CallOp) -> Argument | None:
    """Return the tensor or number that an argument of a call is; None if it is something else."""
    if isinstance(node, ast.Set):
        (number,) = node.elts
        assert isinstance(number, ast.Constant) and isinstance(number.value, int)
        return op.inputs[number.value]
    return literal(node)


def _arange(op: CallOp, operands: _Operands) -> Known | None:
    arguments = [literal(node) for node in op.template.call.args]
    start, step = arguments[0], arguments[2] if len(arguments) > 2 else 1
    return Affine(start, (step,)) if isinstance(start, int) and isinstance(step, int) else None


def _converted(known: Known | None, type: Attribute, rank: int) -> Known | None:
    """Evaluate a conversion of a tensor of `rank`; of bool to integers only if all are equal."""
    match known:
        case Affine() if type != i1:
            return known
        case Affine() if not any(known.coefficients):
            return Mask(frozenset(), never=known.constant == 0)
        case Mask() if type == i1:
            return known
        case Mask() if known.never or not known.conditions:
            return Affine(int(not known.never), (0,) * rank)
        case _:
            return None


def _slice(op: CallOp, operands: _Operands) -> Known | None:
    known, numbers = operands[0], [literal(node) for node in op.template.call.args]
    if known is None or len(numbers) < 3 or op.template.call.keywords:
        return None
    axis, start, step = numbers[1], numbers[2], numbers[4] if len(numbers) > 4 else 1
    if not isinstance(axis, int) or not isinstance(start, int) or start < 0 or step != 1:
        return None
    shape = shape_of(op.outputs[0])
    return _cut(known, axis % len(shape), start, shape)


def _cut(known: Known | None, axis: int, start: int, shape: Sequence[int]) -> Known | None:
    """Return `known` from index `start` of an axis on, in the shape of the result."""

    def cut(affine: Affine) -> Affine:
        slope = affine.coefficients[axis]
        moved = affine.constant + slope * start
        return _shifted(Affine(moved, affine.coefficients), axis, slope * (shape[axis] != 1), 0)

    return _map(known, cut)


def _cumsum(op: CallOp, operands: _Operands) -> Known | None:
    zeros = Affine(0, (0,) * len(shape_of(op.outputs[0])))
    return zeros if operands[0] == zeros else None


def _index(op: CallOp, operands: _Operands) -> Known | None:
    """Evaluate elements of a tensor that holds one number only."""
    known, rank = operands[0], len(shape_of(op.outputs[0]))
    if isinstance(known, Mask):
        return known if not known.conditions else None
    if not isinstance(known, Affine) or any(known.coefficients):
        return None
    return Affine(known.constant, (0,) * rank)


_CALLS: dict[str, Callable[[CallOp, _Operands], Known | None]] = {
    "aten.arange.start_step": _arange,
    "aten.slice.Tensor": _slice,
    "aten.cumsum.default": _cumsum,
    "aten.index.Tensor": _index,
}
