"""Decomposed rotary embedding: its operand and tables."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_bytes,
    element_type_of,
    shape_of,
)
from coda_ir.dialects.gemm import NumericsMode, RotationTypes, numerics_mode
from coda_ir.dominance import before
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.passes.support.matching import defined_by, only_use, widens
from coda_ir.passes.support.views import Columns, View
from coda_ir.symbolic_shapes import SymbolicShapes

HALF_SPLIT, INTERLEAVED = coda.ROPE_LAYOUTS


@dataclass(frozen=True)
class Rotation:
    """Pairs (a, b) of columns become (a·cos − b·sin, b·cos + a·sin); `op` computes the result.

    Where it `is_reversed`, the sines have the other sign.
    """

    op: Operation
    view: View
    """The rotated value."""
    layout: str
    cos: SSAValue
    sin: SSAValue
    is_full: bool
    """True if the tables have an entry for each column, and not for each pair."""
    result: View
    """The columns of the result of `op`: what is rotated, and columns beside it that are not."""
    is_reversed: bool = False
    is_operator: bool = False
    """True if the tables are those of a `coda.rope`."""


@dataclass(frozen=True)
class _Join:
    """A join of the first columns of all pairs and of the second ones."""

    layout: str
    first: SSAValue
    second: SSAValue


def find_rotation(op: Operation, shapes: SymbolicShapes) -> Rotation | None:
    """Return the decomposed rotation whose last step is `op`, before conversions and joins."""
    if isinstance(op, coda.AddOp):
        return next(_full_rotations(op, shapes), None)
    if isinstance(op, coda.ConcatOp | coda.ReshapeOp):
        return _paired_rotation(op, shapes)
    return None


def find_rotated_part(op: Operation, shapes: SymbolicShapes) -> Rotation | None:
    """Return the rotation, if `op` splits a `coda.rope` of some columns of each head, which were
    laid side by side for it, into heads that are joined with their other columns.
    """
    rope = defined_by(op.x, coda.RopeOp) if isinstance(op, coda.ReshapeOp) else None
    flat = defined_by(rope.x, coda.ReshapeOp) if rope else None
    if rope is None or flat is None or rope.transposed or rope.is_per_column:
        return None
    *rows, _, width = dims = shapes.dims(flat.x)
    view = View.of_columns(flat.x, shapes)
    are_columns = all(map(Columns.of, view.dims[-2:]))
    if not are_columns or rope.heads_of_tables > 1 or width != rope.head_dim.value.data:
        return None
    if shapes.dims(rope.x)[:-1] != tuple(rows) or shapes.dims(op.results[0]) != dims:
        return None
    layout = rope.layout.data
    part = Rotation(op, view, layout, rope.cos, rope.sin, False, view, is_operator=True)
    return None if with_columns_beside(part, shapes).result == view else part


def _full_rotations(op: coda.AddOp, shapes: SymbolicShapes) -> Iterator[Rotation]:
    """Match x ⊙ cos + rotated(x) ⊙ sin, where rotated joins −b and a, or b and −a."""
    for straight, crossed in op.pairs:
        left, right = defined_by(straight, coda.MulOp), defined_by(crossed, coda.MulOp)
        if left is None or right is None:
            continue
        for rotated, sin in right.pairs:
            join = _join(_narrow(rotated))
            halves = _rotated_halves(join) if join else None
            if join is None or halves is None:
                continue
            a, b, is_reversed = halves
            whole = _pairs(join.layout, a, b, shapes)
            for kept, cos in left.pairs:
                if whole is not None and View.of_columns(kept, shapes, widened=True) == whole:
                    for found in _typed(op, whole, join.layout, cos, sin, is_full=True):
                        yield replace(found, is_reversed=is_reversed)


def _rotated_halves(join: _Join) -> tuple[SSAValue, SSAValue, bool] | None:
    """Return (a, b, False) for −b joined with a, and (a, b, True) for b joined with −a."""
    first, second = (defined_by(part, coda.NegOp) for part in (join.first, join.second))
    if first is not None and second is None:
        return join.second, first.operand, False
    return None if second is None or first is not None else (second.operand, join.first, True)


def _paired_rotation(op: coda.ConcatOp | coda.ReshapeOp, shapes: SymbolicShapes) -> Rotation | None:
    """Match the join of a·cos − b·sin and b·cos + a·sin."""
    join = _join(op.results[0], is_result=True)
    if join is None:
        return None
    minus = defined_by(_unrounded(join.first), coda.SubOp)
    plus = defined_by(_unrounded(join.second), coda.AddOp)
    if minus is None or plus is None:
        return None
    if element_type_of(join.first) not in map(element_type_of, (minus.result, op.results[0])):
        # It is rounded twice.
        return None
    ac, bs = (defined_by(value, coda.MulOp) for value in minus.operands)
    if ac is None or bs is None:
        return None
    for a, cos in ac.pairs:
        for b, sin in bs.pairs:
            if not _is_crossed(plus, (a, b), (cos, sin)):
                continue
            whole = _pairs(join.layout, a, b, shapes)
            if whole is not None:
                return next(_typed(op, whole, join.layout, cos, sin, is_full=False), None)
    return None


def _is_crossed(
    plus: coda.AddOp, pair: tuple[SSAValue, SSAValue], tables: tuple[SSAValue, SSAValue]
) -> bool:
    """Return whether `plus` is b·cos + a·sin."""
    (a, b), (cos, sin) = pair, tables
    for straight, crossed in plus.pairs:
        left, right = defined_by(straight, coda.MulOp), defined_by(crossed, coda.MulOp)
        if left is None or right is None:
            continue
        if set(left.operands) == {b, cos} and set(right.operands) == {a, sin}:
            return True
    return False


def _narrow(value: SSAValue) -> SSAValue:
    """Return `value` before its conversions to wider types, float64 included."""
    return before(value, coda.CastOp, widens)


def _unrounded(value: SSAValue) -> SSAValue:
    """Return `value` before a conversion."""
    cast = defined_by(value, coda.CastOp)
    return value if cast is None else cast.operand


def _join(value: SSAValue, *, is_result: bool = False) -> _Join | None:
    """Return the join that `value` is. What is joined may be rounded before neighbours are
    flattened, and split into other rows, if it is the result of the rotation.
    """
    joined, layout = defined_by(value, coda.ConcatOp), HALF_SPLIT
    if joined is None:
        flat, layout = defined_by(value, coda.ReshapeOp), INTERLEAVED
        stacked = (_unrounded(flat.x) if is_result else flat.x) if flat else value
        joined = defined_by(stacked, coda.ConcatOp)
    if joined is None or len(joined.parts) != 2:
        return None
    first, second = joined.parts
    last = len(shape_of(first)) - 1
    if joined.dim.value.data != last or shape_of(first) != shape_of(second):
        return None
    if layout == HALF_SPLIT:
        return _Join(layout, first, second)
    # stack(a, b) in a new last dimension, which is then joined with the one before.
    shape = shape_of(first)
    if len(shape) < 2 or shape[-1] != 1:
        return None
    has_rows = is_result or len(shape_of(value)) == len(shape) - 1
    is_flat = shape_of(value)[-1:] == (2 * shape[-2],) and has_rows
    return _Join(layout, _unstacked(first), _unstacked(second)) if is_flat else None


def _unstacked(part: SSAValue) -> SSAValue:
    """Return `part` before it got a last dimension of 1, if it had none."""
    reshape = defined_by(part, coda.ReshapeOp)
    is_new = reshape is not None and (*shape_of(reshape.x), 1) == shape_of(part)
    return reshape.x if reshape is not None and is_new else part


def _pairs(layout: str, a: SSAValue, b: SSAValue, shapes: SymbolicShapes) -> View | None:
    """Return the view whose pairs have the first columns `a` and the second columns `b`."""
    first, second = (_without_last_one(View.of_columns(x, shapes, widened=True)) for x in (a, b))
    if first.base is not second.base or first.dims != second.dims or not first.dims:
        return None
    last = Columns.of(first.dims[-1])
    if last is None or last.extent < 2:
        return None
    stride, distance = (1, last.extent) if layout == HALF_SPLIT else (2, 1)
    if (last.step, second.offset - first.offset) != (stride, distance):
        return None
    return first.with_columns(2 * last.extent)


def _without_last_one(view: View) -> View:
    """Return the view without a last dimension of 1, in which columns are stacked."""
    return replace(view, dims=view.dims[:-1]) if view.dims[-1:] == ((),) else view


def _typed(
    op: Operation, view: View, layout: str, cos: SSAValue, sin: SSAValue, *, is_full: bool
) -> Iterator[Rotation]:
    """Yield the rotation if it computes in the types of `coda.rope` and rounds to that of x.

    What is rounded from float64 to 16 bits is computed in float32, but for the mode `eager-exact`.
    """
    product = element_type_of(cos)
    is_wide = product == f64 and numerics_mode(op) != NumericsMode.EAGER_EXACT
    if element_type_of(sin) != product or not (is_wide or computes_in_float32(product)):
        return
    product = f32 if is_wide else product
    for base in dict.fromkeys((_narrow(view.base), view.base)):
        stored = element_type_of(base)
        last = _rounded(op, stored, element_type_of(cos))
        if is_wide and element_bytes(base.type) > 2:
            continue
        if last is not None and RotationTypes.of(stored, product).product == product:
            x = replace(view, base=base)
            yield Rotation(last, x, layout, cos, sin, is_full, x)
            return


def _rounded(op: Operation, type: Attribute, wide: Attribute) -> Operation | None:
    """Return `op`, or the conversion of its `wide` result to `type`; None if there is another."""
    if element_type_of(op.results[0]) == type:
        return op
    if element_type_of(op.results[0]) != wide:
        return None
    user = only_use(op.results[0])
    is_cast = isinstance(user, coda.CastOp) and element_type_of(user.result) == type
    return user if is_cast else None


def with_columns_beside(rotation: Rotation, shapes: SymbolicShapes) -> Rotation:
    """Return `rotation` extended by the columns of the same heads to which its result is joined."""
    joined = only_use(rotation.op.results[0])
    view = rotation.view
    if not isinstance(joined, coda.ConcatOp) or joined.dim.value.data != len(view.dims) - 1:
        return rotation
    parts = [
        view if part is rotation.op.results[0] else View.of_columns(part, shapes)
        for part in joined.parts
    ]
    position = parts[0].offset
    for part in parts:
        columns = Columns.of(part.dims[-1])
        beside = part.base is view.base and part.dims[:-1] == view.dims[:-1]
        if not beside or columns is None or columns.step > 1 or part.offset != position:
            return rotation
        position += columns.extent
    result = parts[0].with_columns(position - parts[0].offset)
    return replace(rotation, op=joined, result=result)


def with_rows_beside(rotation: Rotation, insert: OpInserter, shapes: SymbolicShapes) -> Rotation:
    """Return `rotation` of all rows of a tensor, if only a range of its rows is rotated and joined
    with the others, as those of registers or of text. The tables have 1 and 0 for the others.
    """
    result, rows = rotation.op.results[0], defined_by(rotation.view.base, coda.SliceOp)
    joined = only_use(result)
    if not isinstance(joined, coda.ConcatOp) or rows is None or rotation.result != rotation.view:
        return rotation
    dim, start, stop = rows.range
    extent, rank = shape_of(rows.x)[dim], len(shape_of(rows.x))
    is_whole = rotation.view == View.whole(rows.result, shapes.dims(rows.result))
    if not is_whole or joined.dim.value.data != dim or dim == rank - 1:
        return rotation
    ranges = [_range(rows.result if part is result else part, rows.x) for part in joined.parts]
    dims, starts, stops = zip(*ranges, strict=True)
    is_covered = set(dims) == {dim} and (0, *stops) == (*starts, extent)
    tables = (rotation.cos, rotation.sin)
    axes = [dim - rank + len(shape_of(table)) for table in tables]
    is_cut = all(
        axis >= 0 and shape_of(table)[axis] == stop - start
        for axis, table in zip(axes, tables, strict=True)
    )
    if not is_covered or not is_cut:
        return rotation
    cos, sin = (
        insert.insert(coda.PadOp.around(table, axis, start, extent - stop, rest))
        for table, axis, rest in zip(tables, axes, (1.0, 0.0), strict=True)
    )
    view = View.of_columns(rows.x, shapes)
    return replace(rotation, op=joined, view=view, result=view, cos=cos, sin=sin)


def _range(part: SSAValue, x: SSAValue) -> tuple[int, int, int]:
    """Return the dimension, start and stop of a slice of x; a range of no dimension otherwise."""
    found = defined_by(part, coda.SliceOp)
    return found.range if found is not None and found.x is x else (-1, 0, 0)
