"""Tables of cosines and sines in the form of `coda.rope`: an entry for each pair of columns."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import CosOp, SinOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.raising.rotations import HALF_SPLIT
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.passes.support.heads import Heads
from coda_ir.passes.support.matching import defined_by
from coda_ir.storage import EXPAND


def pair_table(
    insert: OpInserter, table: SSAValue, heads: Heads, layout: str, *, is_full: bool
) -> SSAValue | None:
    """Return `table`, which broadcasts to the heads, as (positions x pairs) or (B x positions x
    pairs).

    None where it differs by head, or where both columns of a pair are not known to have the same
    entry.
    """
    rank = len(heads.rows) + 1 + heads.is_split
    shape = (1,) * (rank - len(shape_of(table))) + shape_of(table)
    if len(shape) != rank:
        return None
    rows, expected = list(shape[:-1]), heads.row_shape
    if heads.is_split and rows.pop(rank + heads.axis) != 1:
        return None
    if rows[-1] != expected[-1]:
        return None
    varies = next((axis for axis, extent in enumerate(rows) if extent != 1), len(rows) - 1)
    if any(rows[axis] != expected[axis] for axis in range(varies, len(rows))):
        return None
    pairs = _one_of_each_pair(insert, table, layout) if is_full else table
    if pairs is None:
        return None
    return insert.insert(coda.ReshapeOp(pairs, (*rows[varies:], shape_of(pairs)[-1])))


def _one_of_each_pair(
    insert: OpInserter, table: SSAValue, layout: str, axis: int | None = None
) -> SSAValue | None:
    """Return `table` computed only for the first columns of the pairs, if both columns are equal.
    Its columns are dimension `axis`, by default the last one.
    """
    last = len(shape_of(table)) - 1
    axis = last if axis is None else axis
    op = table.owner
    match op:
        case coda.ConcatOp() if layout == HALF_SPLIT:
            twice = len(op.parts) == 2 and op.parts[0] is op.parts[1]
            return op.parts[0] if twice and op.dim.value.data == axis else None
        case coda.ConcatOp() if axis == last and op.dim.value.data == last:
            parts = [_one_of_each_pair(insert, part, layout) for part in op.parts]
            halves = [half for half in parts if half is not None]
            is_all = len(halves) == len(parts)
            return insert.insert(coda.ConcatOp(halves, last)) if is_all else None
        case coda.CastOp():
            half = _one_of_each_pair(insert, op.operand, layout, axis)
            return None if half is None else insert.cast(half, element_type_of(table))
        case coda.MulOp() if not shape_of(op.rhs):
            half = _one_of_each_pair(insert, op.lhs, layout, axis)
            return None if half is None else insert.mul(half, op.rhs)
        case CosOp() | SinOp():
            half = _one_of_each_pair(insert, op.operand, layout, axis)
            return None if half is None else insert.again(op, [half], shape_of(half))
        case coda.BroadcastOp() if axis == last and not shape_of(op.x):
            return _half_filled(insert, op)
        case coda.PadOp() if op.added is not None and op.dim.value.data != axis:
            half = _one_of_each_pair(insert, op.x, layout, axis)
            padded = half and coda.PadOp.around(half, op.dim.value.data, *op.added, op.number)
            return padded and insert.insert(padded)
        case coda.TransposeOp():
            half = _one_of_each_pair(insert, op.x, layout, op.permutation[axis])
            order = op.permutation
            return None if half is None else insert.insert(coda.TransposeOp(half, order))
        case coda.ReshapeOp() if axis == last and shape_of(op.x)[-1:] == shape_of(table)[-1:]:
            half = _one_of_each_pair(insert, op.x, layout)
            shape = (*shape_of(table)[:-1], shape_of(table)[-1] // 2)
            return None if half is None else insert.insert(coda.ReshapeOp(half, shape))
        case coda.ReshapeOp() if axis == last and layout != HALF_SPLIT:
            return _repeated(insert, op)
        case _:
            return None


def _half_filled(insert: OpInserter, op: coda.BroadcastOp) -> SSAValue | None:
    """Return half of the columns of a tensor of one number."""
    *rows, columns = shape_of(op.result)
    like = op.like
    if columns % 2 or columns == DYNAMIC_INDEX:
        return None
    if like is not None:
        if shape_of(like) != shape_of(op.result):
            return None
        like = insert.insert(coda.SliceOp(like, len(rows), 0, columns // 2))
    return insert.insert(coda.BroadcastOp(op.x, (*rows, columns // 2), like))


def _repeated(insert: OpInserter, op: coda.ReshapeOp) -> SSAValue | None:
    """Return f if `op` repeats each column of f, one after the other."""
    *outer, columns = shape_of(op.result)
    many = shape_of(op.x)
    is_flat = _long(many[:-2]) == _long(outer) and many[-2:] == (columns // 2, 2)
    if not is_flat or columns == DYNAMIC_INDEX:
        return None
    source = op.x.owner
    if isinstance(source, CallOp) and source.callee.data == EXPAND:
        single = source.inputs[0]
        if shape_of(single)[-1] != 1 or shape_of(single)[-2:-1] != (columns // 2,):
            return None
        return insert.insert(coda.ReshapeOp(single, shape_of(single)[:-1]))
    stacked = defined_by(op.x, coda.ConcatOp)
    if stacked is None or len(stacked.parts) != 2 or stacked.parts[0] is not stacked.parts[1]:
        return None
    if stacked.dim.value.data != len(many) - 1:
        return None
    return insert.insert(coda.ReshapeOp(stacked.parts[0], many[:-1]))


def _long(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def joined_table(
    insert: OpInserter, parts: Sequence[tuple[int, SSAValue]], pairs: int, rest: float
) -> SSAValue:
    """Return a table of `pairs` columns with each of `parts` in its place and `rest` elsewhere."""
    filled: list[SSAValue] = []
    position = 0
    for index, (start, table) in enumerate(parts):
        width = shape_of(table)[-1]
        after = parts[index + 1][0] if index + 1 < len(parts) else pairs
        before = start - position if index == 0 else 0
        filled.append(_padded(insert, table, before, after - start - width, rest))
        position = after
    if len(filled) == 1:
        return filled[0]
    return insert.insert(coda.ConcatOp(filled, len(shape_of(filled[0])) - 1))


def _padded(insert: OpInserter, table: SSAValue, before: int, after: int, rest: float) -> SSAValue:
    if not before and not after:
        return table
    return insert.insert(coda.PadOp.around(table, len(shape_of(table)) - 1, before, after, rest))
