"""Integers that number rows: their bounds and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, Signedness
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import FloorDivideOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import before
from coda_ir.passes.support.index_values import literal
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

PERMUTATION = "coda.permutation"
"""The attribute of an argument whose elements are the numbers of all of them, as a sort gives."""

_VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.IndexOp)
"""Operators whose elements are those of their first operand."""


def bound_of(value: SSAValue, shapes: SymbolicShapes) -> SymbolicSize | None:
    """Return a number above every element of `value`, all at least 0; None if unknown."""
    if is_permutation(value):
        return SymbolicSize.of(shapes.dims(value)[0])
    match value.owner:
        case coda.SortOp() | coda.TopkOp() as op if value is op.results[1]:
            dim: int = op.given["dim"]
            return SymbolicSize.of(shapes.dims(op.operands[0])[dim])
        case CallOp() as op if op.callee.data == "aten.max.dim" and _is_index(value, op):
            number = literal(op.template.call.args[1])
            return SymbolicSize.of(shapes.dims(op.inputs[0])[int(number or 0)])
        case coda.ConcatOp() as op:
            bounds = {bound_of(part, shapes) for part in op.parts}
            return bounds.pop() if len(bounds) == 1 else None
        case coda.SortOp() as op:
            return bound_of(op.x, shapes)
        case coda.CastOp() as op if isinstance(element_type_of(op.operand), IntegerType):
            bound = bound_of(op.operand, shapes)
            return bound if _is_kept(bound, element_type_of(op.result)) else None
        case FloorDivideOp() as op if isinstance(op.rhs.owner, coda.ConstantOp):
            bound, divisor = bound_of(op.lhs, shapes), op.rhs.owner.number
            is_whole = divisor >= 1 and divisor % 1 == 0
            return bound.divided(int(divisor)) if bound is not None and is_whole else None
        case Operation() as op if isinstance(op, _VIEWS):
            return bound_of(op.operands[0], shapes)
        case _:
            return None


def _is_index(value: SSAValue, op: CallOp) -> bool:
    """Return whether a result of a call that gives values and their positions is the latter."""
    return value is op.outputs[-1] and (op.picks is None or 1 in op.picks)


def _is_kept(bound: SymbolicSize | None, type: Attribute) -> bool:
    """Return whether no number below `bound`, and no size, is negative in an integer type."""
    if bound is None or not isinstance(type, IntegerType):
        return False
    width, is_unsigned = type.width.data, type.signedness.data == Signedness.UNSIGNED
    return width >= 32 or is_unsigned or (not bound.symbols and int(bound) <= 2 ** (width - 1))


def differ_in_rows(ids: SSAValue) -> bool:
    """Return whether no two numbers in the last dimension are equal: one, or places of elements."""
    if shape_of(ids)[-1] == 1:
        return True
    match ids.owner:
        case coda.SortOp() | coda.TopkOp() as op:
            return ids is op.results[1] and op.given["dim"] == len(shape_of(ids)) - 1
        case coda.SliceOp() as op:
            return differ_in_rows(op.x)
        case coda.ReshapeOp() as op:
            return shape_of(op.x)[-1:] == shape_of(ids)[-1:] and differ_in_rows(op.x)
        case _:
            return False


def is_permutation(ids: SSAValue) -> bool:
    """Return whether a vector is a permutation, as a sort returns, maybe in another function."""
    if isinstance(ids, BlockArgument):
        func = ids.owner.parent_op()
        entries = func.arg_attrs if isinstance(func, FuncOp) else None
        return entries is not None and PERMUTATION in entries.data[ids.index].data
    op = ids.owner
    if isinstance(op, coda.GroupOrderOp):
        return ids is op.order
    return isinstance(op, coda.SortOp) and ids is op.ids and len(shape_of(ids)) == 1


def number_groups(ids: SSAValue, ends: SSAValue, shapes: SymbolicShapes) -> bool:
    """Return whether element m of `ids` is the group of row m, for groups with these ends: `ids`
    are sorted numbers below the number of groups, and `ends` count how many are not larger than
    each.
    """
    (groups,) = shape_of(ends)
    sort, bound = ids.owner, bound_of(ids, shapes)
    if not isinstance(sort, coda.SortOp) or ids is not sort.results[0]:
        return False
    if sort.given["descending"] or len(shape_of(ids)) != 1 or groups < 2:
        return False
    if bound is None or bound.symbols or int(bound) > groups:
        return False
    return _counted(ends, groups) is ids or _searched(ends, groups) is ids


def _counted(ends: SSAValue, groups: int) -> SSAValue | None:
    """Return the tensor whose numbers up to `groups` are counted and the counts added up."""
    total = ends.owner
    if not _is_call(total, "aten.cumsum.default", "{0}, 0, dtype=torch.int32"):
        return None
    counts = total.operands[0].owner
    if not _is_call(counts, "aten.histc.default", f"{{0}}, {groups}, 0, {groups - 1}"):
        return None
    # Numbers of groups are exact in each type.
    return before(counts.operands[0], coda.CastOp)


def _searched(ends: SSAValue, groups: int) -> SSAValue | None:
    """Return the tensor in which the position after each number up to `groups` is searched."""
    search = ends.owner
    options = "{0}, {1}, right=True, out_int32=True"
    if not _is_call(search, "aten.searchsorted.Tensor", options):
        return None
    numbers = coda.positions_in(search.operands[1])
    is_all = numbers is not None and numbers.first_and_step == (0, 1)
    return search.operands[0] if is_all and shape_of(search.operands[1]) == (groups,) else None


def _is_call(op: Operation | Block, callee: str, arguments: str) -> TypeGuard[CallOp]:
    if not isinstance(op, CallOp):
        return False
    return (op.callee.data, op.arguments.data) == (callee, arguments)


def inverse_of(ids: SSAValue) -> SSAValue | None:
    """Return the permutation whose inverse is `ids`, which sorts it or scatters 0, 1, ... by it."""
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


@dataclass(frozen=True)
class RepeatedRows:
    """The rows of `x`, each repeated `count` times side by side."""

    x: SSAValue
    """(T x H), (T x 1 x H) or (T x H x 1)."""
    count: int
    shape: tuple[int, int]
    """T and H."""

    @staticmethod
    def of(value: SSAValue) -> RepeatedRows | None:
        """Return the tensor that the rows of a matrix repeat, or None."""
        shape = shape_of(value)
        inner = value.owner.x if isinstance(value.owner, coda.ReshapeOp) else None
        if inner is None or len(shape) != 2 or len(shape_of(inner)) != 3:
            return None
        rows, count, columns = shape_of(inner)
        axis = 1
        if isinstance(inner.owner, coda.TransposeOp) and inner.owner.permutation == (0, 2, 1):
            inner, axis = inner.owner.x, 2
        if not isinstance(inner.owner, coda.BroadcastOp) or columns != shape[1]:
            return None
        once = list(shape_of(inner))
        once[axis] = 1
        if DYNAMIC_INDEX in (count, columns) or shape_of(inner.owner.x) != tuple(once):
            return None
        return RepeatedRows(inner.owner.x, count, (rows, columns))


def quotient_of(
    ids: SSAValue, rows: SSAValue, shapes: SymbolicShapes
) -> tuple[SSAValue, int] | None:
    """Return the permutation p and the number k for which `ids` is p // k, and names each of `rows`
    k times; None if `ids` is something else.
    """
    quotient = ids.owner
    if not isinstance(quotient, FloorDivideOp) or not is_permutation(quotient.lhs):
        return None
    if not isinstance(quotient.rhs.owner, coda.ConstantOp):
        return None
    bound, (count, *_) = bound_of(ids, shapes), shapes.dims(rows)
    if bound is None or bound != SymbolicSize.of(count):
        return None
    return quotient.lhs, int(quotient.rhs.owner.number)
