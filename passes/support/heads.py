"""Heads: groups of columns that are split off a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of, static_shape
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionRewriter, OpInserter
from coda_ir.passes.support.matching import defined_by
from coda_ir.passes.support.views import Columns, Factor, Factors, View, extent_of
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import Dim, Dims, SymbolicShapes

HEADS_FIRST = (0, 2, 1, 3)
"""The permutation between (B x T x heads x D) and (B x heads x T x D)."""


@dataclass(frozen=True)
class Heads:
    """Heads of columns of `x`: columns `first` to `first + count · period` of (rows x N) are split
    to (rows x count x period), of which each head is `width` columns from `offset` on, and possibly
    moved before the last dimension of the rows, (B x count x T x width). The rows are those of x,
    but for extents of 1, or in another order. Whole rows that are not split are a single head
    without a dimension.
    """

    x: SSAValue
    rows: tuple[Dim, ...]
    first: int
    count: int
    period: int
    offset: int
    width: int
    is_before_rows: bool
    is_split: bool = True
    order: tuple[int, ...] = ()
    """The dimensions of x that the rows are, if they are in another order."""

    @property
    def is_whole(self) -> bool:
        """True if the heads are adjacent: one head is one period."""
        return self.width == self.period

    @property
    def axis(self) -> int:
        """The dimension of the heads, counted from the end."""
        return -3 if self.is_before_rows else -2

    @property
    def row_shape(self) -> tuple[int, ...]:
        return static_shape(self.rows)

    def part(self, offset: int, width: int) -> Heads:
        """Return other columns of the same periods."""
        return replace(self, offset=offset, width=width)

    def columns(self, insert: OpInserter) -> SSAValue:
        """Return the columns of `x` that the periods cover, with the rows of the heads."""
        value, stop = self.x, self.first + self.count * self.period
        *rows, columns = shape_of(value)
        if not self.order and tuple(rows) != self.row_shape:
            shape = (*self.row_shape, columns)
            value = insert.insert(coda.ReshapeOp(value, shape), self.x.name_hint)
        if (self.first, stop) != (0, columns):
            sliced = coda.SliceOp(value, len(self.rows), self.first, stop)
            value = insert.insert(sliced, self.x.name_hint)
        if not self.order:
            return value
        transposed = coda.TransposeOp(value, (*self.order, len(self.order)))
        return insert.insert(transposed, self.x.name_hint)

    def own_columns(self, insert: OpInserter) -> SSAValue:
        """Return the columns of the heads alone, side by side."""
        value = self.columns(insert)
        if self.is_whole:
            return value
        *rows, _ = shape_of(value)
        split = insert.insert(coda.ReshapeOp(value, (*rows, self.count, self.period)))
        stop = self.offset + self.width
        part = insert.insert(coda.SliceOp(split, len(rows) + 1, self.offset, stop))
        return insert.insert(coda.ReshapeOp(part, (*rows, self.count * self.width)))

    def together(self, width: int) -> Heads:
        """Return as many adjacent heads of `width` columns."""
        return replace(self, first=0, period=width, offset=0, width=width)

    def of(self, columns: SSAValue, insert: OpInserter) -> SSAValue:
        """Split `columns`, which has the shape of `self.columns`, into heads in the same way."""
        if not self.is_split:
            return columns
        rows, rank = shape_of(columns)[:-1], len(self.rows) + 2
        value = insert.insert(coda.ReshapeOp(columns, (*rows, self.count, self.period)))
        if not self.is_whole:
            stop = self.offset + self.width
            value = insert.insert(coda.SliceOp(value, rank - 1, self.offset, stop))
        if not self.is_before_rows:
            return value
        order = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        return insert.insert(coda.TransposeOp(value, order))


def heads_of(
    value: SSAValue, shapes: SymbolicShapes, *, in_any_order: bool = False
) -> Heads | None:
    """Return the columns from which the heads `value` were split; None if they are not the columns
    of a tensor, with its rows in its order or, with `in_any_order`, in another one.
    """
    return heads_of_view(View.of_columns(value, shapes), in_any_order=in_any_order)


def heads_of_view(view: View, *, in_any_order: bool = False) -> Heads | None:
    """Return the heads that a view of columns is, given its dimensions (rows, heads, columns)."""
    if len(view.dims) < 3:
        return None
    *others, last = view.dims
    for position in (-1, -2):
        rest = list(others)
        heads, columns = Columns.of(rest.pop(position)), Columns.of(last)
        rows = _rows(rest, view)
        order = () if rows or not in_any_order else _transposed(rest, view)
        rows = rows or tuple(view.extents[axis] for axis in order)
        if rows and heads and columns:
            found = _heads(view, rows, heads, columns, is_before_rows=position == -2)
            return found and replace(found, order=order)
    return None


def whole_rows(view: View) -> Heads | None:
    """Return the only head that a view of whole rows is, given its dimensions (rows, columns):
    those of (B x T x N) or (T x N), since more dimensions are heads that are no columns.
    """
    columns = shape_of(view.base)[-1]
    if not 0 < len(view.dims) <= 3 or Columns.of(view.dims[-1]) != (1, columns):
        return None
    rows = _rows(view.dims[:-1], view)
    if not rows:
        return None
    return Heads(view.base, rows, 0, 1, columns, 0, columns, False, is_split=False)


def heads_in_rows(view: View, insert: OpInserter) -> Heads | None:
    """Return the heads that a view is of a tensor (... x heads x D), such as the norm of heads that
    are no columns: whole heads, as columns of that tensor after a reshape, which is inserted.
    """
    if len(view.extents) < 4:
        return None
    *rows, count, width = view.extents
    if not isinstance(count, int) or not isinstance(width, int):
        return None

    def joined(factor: Factor) -> Factor:
        if factor.axis < -2:
            return replace(factor, axis=factor.axis + 1)
        return factor if factor.axis == -1 else Factor(-1, factor.behind * width, factor.extent)

    *first, start, offset = view.starts
    found = heads_of_view(
        View(
            insert.reshape(view.base, (*rows, count * width)),
            (*rows, count * width),
            (*first, start * width + offset),
            tuple(tuple(map(joined, factors)) for factors in view.dims),
        )
    )
    return found if found is not None and found.is_whole else None


def _rows(dims: Sequence[Factors], view: View) -> Dims | None:
    """Return the rows that `dims` are, if these are those of the base in order, merged or not,
    except for extents of 1.
    """
    if tuple(chain.from_iterable(dims)) != view.rows_of_base:
        return None
    return tuple(map(extent_of, dims))


def _transposed(dims: Sequence[Factors], view: View) -> tuple[int, ...]:
    """Return the dimensions of the base that `dims` are, if these are all its rows; else none."""
    rank, rows = len(view.extents), [*chain.from_iterable(dims)]
    are_whole = {*rows} == {*view.rows_of_base} and len(rows) == len(dims) == rank - 1
    return tuple(rank + factor.axis for factor in rows) if are_whole else ()


def _heads(
    view: View, rows: Dims, heads: Columns, last: Columns, *, is_before_rows: bool
) -> Heads | None:
    columns, width = shape_of(view.base)[-1], last.extent
    if width == 0 or (width > 1 and last.step != 1):
        return None
    # A single head has all columns of the tensor, or its own if those are a projection of others.
    period = heads.step if heads.extent > 1 else (width if view.offset else columns)
    # Any start does that keeps a head in its period; projections are whole heads.
    offset = view.offset % period
    first = view.offset - offset
    if offset + width > period or first + heads.extent * period > columns:
        return None
    return Heads(view.base, rows, first, heads.extent, period, offset, width, is_before_rows)


def unrepeated(value: SSAValue, rewriter: FunctionRewriter) -> SSAValue:
    """Return the heads before each was repeated for the queries that share it: what the new
    dimension was added to, or a view of it if it has another shape (a single head of columns).

    The heads come before the rows, or were repeated after the rows and then transposed.
    """
    transpose = defined_by(value, coda.TransposeOp)
    if transpose is not None and transpose.permutation == HEADS_FIRST:
        heads = _unrepeated(transpose.x, 2, rewriter)
        before = rewriter.before(transpose)
        return value if heads is None else before.insert(coda.TransposeOp(heads, HEADS_FIRST))
    return _unrepeated(value, 1, rewriter) or value


def _unrepeated(value: SSAValue, axis: int, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return the heads of `value`, which are dimension `axis`, before each was repeated."""
    joined, dims = defined_by(value, coda.ReshapeOp), rewriter.shapes.dims
    expanded = defined_by(joined.x if joined else value, CallOp)
    if expanded is None or expanded.callee.data != EXPAND:
        return None
    x = expanded.inputs[0]
    one, many, after = map(dims, (x, expanded.outputs[0], value))
    if joined is None:
        is_repeated = len(one) == 4 and one == (*many[:axis], 1, *many[axis + 1 :])
        return x if is_repeated else None
    single = defined_by(x, coda.ReshapeOp)
    if single is None or len(one) != 5 or len(many) != 5 or one[axis + 1] != 1:
        return None
    heads, times = one[axis], many[axis + 1]
    if not isinstance(times, int) or not isinstance(heads, int):
        return None
    before, rest = one[:axis], one[axis + 2 :]
    if many != (*before, heads, times, *rest) or after != (*before, heads * times, *rest):
        return None
    return rewriter.before(single).reshape(single.x, (*before, heads, *rest))
