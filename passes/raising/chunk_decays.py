"""Chunks of rows, and exponentials of sums within and between chunks, in terms of their
summands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.raising.contraction import Contraction, Factor, Label, Labels, padding_behind
from coda_ir.passes.support.function_pass import FunctionRewriter, OpInserter
from coda_ir.passes.support.index_values import Affine, IndexValues, Mask
from coda_ir.passes.support.matching import defined_by, number_of, only_use


@dataclass(frozen=True)
class Sums:
    """The terms of running sums; the position in the sum has the label of its last row."""

    terms: SSAValue
    labels: Labels


@dataclass(frozen=True)
class ChunkDecays:
    """The exponents of decays within and between chunks."""

    view: Contraction
    known: IndexValues

    def between(self, factor: Factor, row: Label, key: Label) -> Sums | None:
        """Return the terms after `key` up to `row`, where the factor is 0 for keys after the row.

        exp(where(key > row, −inf, cumsum(where(key >= row, 0, terms))))
        """
        exp = defined_by(factor.value, coda.ExpOp)
        axes = [i for i, group in enumerate(factor.labels) if group in ((row,), (key,))]
        if exp is None or len(axes) != 2 or factor.labels[axes[0]] != (row,):
            return None
        rank = len(factor.labels)
        summed = self._kept(exp.operand, -inf, axes, rank, strict=True)
        cumsum = None if summed is None else defined_by(summed, coda.CumsumOp)
        if cumsum is None or cumsum.dim.value.data != axes[0]:
            return None
        terms = self._kept(cumsum.x, 0.0, axes, rank, strict=False)
        if terms is None or shape_of(terms)[axes[1]] != 1:
            return None
        labels = tuple(() if i == axes[1] else group for i, group in enumerate(factor.labels))
        return Sums(terms, labels)

    def _kept(
        self, value: SSAValue, filler: float, axes: list[int], rank: int, *, strict: bool
    ) -> SSAValue | None:
        """Return the terms of `value`; the filler replaces those after the row, or up to it."""
        where = defined_by(value, coda.WhereOp)
        if where is None or number_of(where.lhs) != filler:
            return None
        hidden = [0] * rank
        hidden[axes[0]], hidden[axes[1]] = -1, 1
        mask = self.known.spread(where.condition, rank)
        wanted = Mask(frozenset((Affine(-int(strict), tuple(hidden)),)))
        return where.rhs if mask == wanted and len(shape_of(where.rhs)) == rank else None

    def until(self, factor: Factor, row: Label) -> Sums | None:
        """Return the terms up to the row of a chunk: exp(cumsum(terms))."""
        exp = defined_by(factor.value, coda.ExpOp)
        return None if exp is None else self._running(exp.operand, factor.labels, row)

    def to_end(self, factor: Factor, key: Label) -> Sums | None:
        """Return the terms after the row `key` of a chunk: exp(cumsum(terms)[last] −
        cumsum(terms)).
        """
        exp = defined_by(factor.value, coda.ExpOp)
        difference = None if exp is None else defined_by(exp.operand, coda.SubOp)
        if difference is None or not self._is_last(difference.lhs, difference.rhs):
            return None
        return self._running(difference.rhs, factor.labels, key)

    def last_of_chunks(self, sums: Sums, chunk: Label, row: Label) -> Sums | None:
        """Return the terms of the whole chunks before one: 0 for the first, then the last sum of
        each.
        """
        value, labels = sums.terms, list(sums.labels)
        reshape = defined_by(value, coda.ReshapeOp)
        if reshape is not None and shape_of(value)[-1] == 1:
            value, labels = reshape.x, labels[: len(shape_of(reshape.x))]
        pad = value.owner
        rank = len(shape_of(value))
        if not isinstance(pad, coda.PadOp) or pad.number or pad.added != (1, 0):
            return None
        last = defined_by(pad.x, coda.ReshapeOp) if pad.dim.value.data == rank - 1 else None
        cut = last if last is None else defined_by(last.x, coda.SliceOp)
        if last is None or cut is None or not self._is_last(cut.result, cut.x):
            return None
        if shape_of(cut.result) != (*shape_of(last.result), 1):
            return None
        chunks = (chunk,) if self.view.extents[chunk] != 1 else ()
        return self._running(cut.x, (*labels[: rank - 1], chunks, (row,)), row)

    def _running(self, value: SSAValue, labels: Labels, row: Label) -> Sums | None:
        """Return the terms of running sums along the last dimension, that of the rows."""
        cumsum = defined_by(value, coda.CumsumOp)
        if cumsum is None or cumsum.dim.value.data != len(labels) - 1 or labels[-1] != (row,):
            return None
        return Sums(cumsum.x, labels)

    def _is_last(self, value: SSAValue, whole: SSAValue) -> bool:
        """Return whether `value` is the last element of the last dimension of `whole`."""
        cut, shape = defined_by(value, coda.SliceOp), shape_of(whole)
        expected = (len(shape) - 1, shape[-1] - 1, shape[-1])
        return cut is not None and cut.x is whole and cut.range == expected


AXIS = 1
"""The dimension of positions."""

Replace: TypeAlias = Callable[[SSAValue], None]


def replace_rows(value: SSAValue, length: int, rewriter: FunctionRewriter) -> Replace | None:
    """Return a function that uses other rows, of B x `length` x H x P, for `value` of chunks of
    rows.

    None where something reads them that is no pointwise code in front of a slice of the rows.
    """
    batch, chunks, inner, heads, columns = shape_of(value)
    if chunks * inner == length:
        return lambda y: value.replace_all_uses_with(_in_chunks(y, value, rewriter))
    merged = only_use(value)
    if not isinstance(merged, coda.ReshapeOp):
        return None
    rows = merged.result
    if shape_of(rows) != (batch, chunks * inner, heads, columns):
        return None
    cut = _cut(rows, length)
    if cut is None or not _has_rows(cut.x, rows, length):
        return None

    def replace(y: SSAValue) -> None:
        before = rewriter.before(cut)
        cut.result.replace_all_uses_with(_rebuilt(cut.x, rows, y, length, before))

    return replace


def _in_chunks(y: SSAValue, value: SSAValue, rewriter: FunctionRewriter) -> SSAValue:
    """Reshape rows like `value`, at the place where it is computed."""
    assert isinstance(value.owner, Operation), "a sum"
    before = rewriter.before(value.owner)
    return before.insert(coda.ReshapeOp(y, shape_of(value)), value.name_hint)


def _cut(value: SSAValue, length: int) -> coda.SliceOp | None:
    """Return the slice of the first rows that, after pointwise code, is the only reader."""
    user = only_use(value)
    while user is not None and is_pointwise(user) and len(user.results) == 1:
        user = only_use(user.results[0])
    is_cut = isinstance(user, coda.SliceOp) and user.range == (AXIS, 0, length)
    return user if is_cut and isinstance(user, coda.SliceOp) else None


def _is_free(value: SSAValue) -> bool:
    """Return whether a tensor has no dimension of positions, or is broadcast along it."""
    shape = shape_of(value)
    return len(shape) < 3 or shape[-3] == 1


def _has_rows(value: SSAValue, rows: SSAValue, length: int) -> bool:
    """Return whether the first rows of `value` depend only on first rows."""
    op = value.owner
    if value is rows or _is_free(value) or _is_padded(op, length):
        return True
    if not isinstance(op, Operation) or not is_pointwise(op):
        return False
    return all(_has_rows(operand, rows, length) for operand in op.operands)


def _is_padded(op: object, length: int) -> bool:
    if not isinstance(op, coda.PadOp) or len(shape_of(op.result)) != 4:
        return False
    padded = padding_behind(op)
    return padded is not None and padded[0] == AXIS and shape_of(op.x)[AXIS] == length


def _rebuilt(
    value: SSAValue, rows: SSAValue, y: SSAValue, length: int, insert: OpInserter
) -> SSAValue:
    op = value.owner
    if value is rows:
        return y
    if _is_free(value):
        return value
    assert isinstance(op, Operation), "pointwise code, or a pad"
    if isinstance(op, coda.PadOp):
        return op.x
    operands = [_rebuilt(operand, rows, y, length, insert) for operand in op.operands]
    shape = list(shape_of(value))
    shape[-3] = length
    result = TensorType(element_type_of(value), shape)
    copy = type(op).create(operands=operands, result_types=[result], properties=dict(op.properties))
    return insert.insert(copy, value.name_hint)
