"""Pass `split-group-norm`: split a GroupNorm into column sums, and scale and shift per sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_cancellation, static_columns
from coda_ir.passes.support.matching import only_use
from coda_ir.symbolic_shapes import SymbolicShapes

NOT_COLUMNS = Refusal(
    "the channels are columns: each row of the tensor in memory has the channels of one position",
    "the norm runs as a library call: its input stores channels before positions",
)
OTHER_ORDER = Refusal(
    "the order in which a sum adds rows does not depend on the tiles",
    "the norm runs as a library call: the rows of a sample may begin within a tile, and the mode "
    "is deterministic",
)
NOT_FLOAT32 = Refusal(
    "float32 can represent every value", "the norm runs as a library call: it computes in f64"
)

SUMS = "split into column sums, and a scale and shift for each sample"
GROUPS = "rewritten as code on groups of columns"


class SplitGroupNormPass(FunctionPass):
    """Splits a GroupNorm into sums of columns of x, and x ⊙ scale + shift with one row of scale and
    shift per sample.

        %t = coda.transpose %x                     %s = coda.sum_to %x        (B x 1 x C)
        %n = coda.group_norm %t, %w, %b      ->    %q = coda.sum_to %x ⊙ %x   (B x 1 x C)
        %y = coda.transpose %n                     %m, %v = %s/T, %q/T − (%s/T)²
                                                   %mean = mean of %m over each group of columns
                                                   %var = mean of %v + (%m − %mean)² over each
                                                   %scale = rsqrt(%var + eps) · %w
                                                   %y = %x ⊙ %scale + (%b − %mean · %scale)

    The sums are partials of the kernel that computes x, or of one that reads it
    (`split-reductions`). One small kernel combines groups of columns (`fuse-groups`). Scale and
    shift are tables of the pointwise code that follows, including activations. PyTorch, in
    contrast, reads x twice, and copies it for the transposes before and after the norm. A norm
    without positions (M x C) is only code on groups of columns, which the epilogue that computes x
    can run. The derivatives of the operators give the derivative.

    Legal iff the channels are columns of x, and the difference %v costs less accuracy than rounding
    x does: not in float32, nor in the mode eager-exact. In the mode deterministic, tiles cannot
    compute sums per sample, so only norms without positions are split.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.GroupNormOp):
            view = ChannelView.of(op.x, rewriter.shapes)
            refusal = NOT_COLUMNS if view is None else _check(op, view.rows)
            if refusal is not None:
                rewriter.missed(op, refusal)
            elif view is not None:
                rewriter.passed(op, SUMS if _has_positions(op) else GROUPS)
                _split(op, view, rewriter)


def _has_positions(op: coda.GroupNormOp) -> bool:
    return len(shape_of(op.x)) > 2


# Legality


def _check(op: coda.GroupNormOp, rows: SSAValue) -> Refusal | None:
    if not computes_in_float32(element_type_of(rows)):
        return NOT_FLOAT32
    columns = static_columns(rows)
    if isinstance(columns, Refusal):
        return columns
    if not _has_positions(op):
        return None
    is_ordered = numerics_mode(op) == NumericsMode.DETERMINISTIC
    return OTHER_ORDER if is_ordered else check_cancellation(op)


# The algebra


def _split(op: coda.GroupNormOp, view: ChannelView, rewriter: FunctionRewriter) -> None:
    algebra = _Algebra(rewriter.before(op), op, view.rows)
    value = algebra.of_positions() if _has_positions(op) else algebra.of_rows()
    value.name_hint = op.result.name_hint
    replaced: list[Operation] = [op, *_activations(op)]
    for activation in replaced[1:]:
        value = rewriter.before(activation).again(activation, [value], shape_of(value))
    value = view.applied_to(value, rewriter.before(replaced[-1], op.location))
    rewriter.replace(replaced.pop(), value)
    for each in reversed(replaced):
        rewriter.order.erase(each)


def _activations(op: Operation) -> Iterator[Operation]:
    """Yield the elementwise functions after `op`, each the only reader of the previous one."""
    reader = only_use(op.results[0])
    if is_pointwise(reader) and isinstance(reader, Operation) and len(reader.operands) == 1:
        yield reader
        yield from _activations(reader)


@dataclass(frozen=True)
class _Algebra:
    """Writes a GroupNorm of rows (B x T1 x ... x C), or without positions (... x C)."""

    insert: OpInserter
    op: coda.GroupNormOp
    rows: SSAValue

    def of_rows(self) -> SSAValue:
        """Return the norm of each row separately."""
        insert = self.insert
        columns = self._in_groups(insert.cast(self.rows, f32))
        distance = insert.sub(columns, self._mean_of_group(columns, "mean"))
        rstd = self._rstd(insert.mul(distance, distance))
        value = insert.reshape(insert.mul(distance, rstd, "normed"), shape_of(self.rows))
        weight, bias = self.op.weight, self.op.bias
        if weight is not None and bias is not None:
            value = insert.mul(value, insert.cast(weight, f32))
            value = insert.add(value, insert.cast(bias, f32))
        return insert.cast(value, element_type_of(self.rows))

    def of_positions(self) -> SSAValue:
        """Return the norm of all rows of a sample: a scale and a shift of each column."""
        insert, wide = self.insert, self.insert.cast(self.rows, f32)
        mean, rstd = map(self._of_each_column, self._statistics(wide))
        weight, bias = self.op.weight, self.op.bias
        if weight is None or bias is None:
            value = insert.sub(insert.mul(wide, rstd), insert.mul(mean, rstd, "shift"))
        else:
            scale = insert.mul(rstd, insert.cast(weight, f32), "scale")
            shift = insert.insert(coda.SubOp(insert.cast(bias, f32), insert.mul(mean, scale)))
            shift.name_hint = "shift"
            value = insert.add(insert.mul(wide, scale), shift)
        return insert.cast(value, element_type_of(self.rows))

    def _statistics(self, wide: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Return the mean and rstd of each group, from the means and variances of its columns."""
        insert = self.insert
        sums = map(self._sum, (wide, insert.mul(wide, wide)))
        share = self._share()
        mean, square = (insert.mul(total, share) for total in sums)
        difference = insert.sub(square, insert.mul(mean, mean))
        zero = insert.insert(coda.ConstantOp(0.0, f32))
        spread = insert.insert(coda.MaximumOp(difference, zero))
        if self._group == 1:
            return mean, self._rstd(spread)
        group_mean = self._mean_of_group(mean, "mean")
        distance = insert.sub(mean, group_mean)
        return group_mean, self._rstd(insert.add(spread, insert.mul(distance, distance)))

    def _sum(self, value: SSAValue) -> SSAValue:
        """Return the sum of each column over the positions of a sample, in groups."""
        total = coda.SumToOp(value, self._of_samples)
        return self._in_groups(self.insert.insert(total))

    def _share(self) -> SSAValue:
        """Return 1 / T, where T is the number of positions."""
        insert, positions = self.insert, shape_of(self.rows)[1:-1]
        # Without positions nothing is normalized.
        known = prod(extent for extent in positions if extent != DYNAMIC_INDEX)
        share: SSAValue = insert.insert(coda.ConstantOp(1 / max(1, known), f32))
        for axis, size in enumerate(positions, 1):
            if size != DYNAMIC_INDEX:
                continue
            extent = coda.ExtentOp(*insert.rewriter.shapes.holder(self.rows, axis))
            count = insert.cast(insert.insert(extent, "positions"), f32)
            share = insert.insert(coda.DivOp(share, count), "share")
        return share

    # Groups of columns

    @property
    def _of_samples(self) -> tuple[int, ...]:
        """The shape of a per-sample value with one element for each column: (B x 1 x ... x C)."""
        first, *positions, columns = shape_of(self.rows)
        return (first, *(1 for _ in positions), columns)

    @property
    def _groups(self) -> int:
        return self.op.groups.value.data

    @property
    def _group(self) -> int:
        """The number of columns of a group."""
        return shape_of(self.rows)[-1] // self._groups

    def _in_groups(self, value: SSAValue) -> SSAValue:
        """Reshape (... x C) to (... x groups x C / groups), if both extents are above 1."""
        if 1 in (self._groups, self._group):
            return value
        shape = (*shape_of(value)[:-1], self._groups, self._group)
        return self.insert.insert(coda.ReshapeOp(value, shape))

    def _mean_of_group(self, value: SSAValue, name: str) -> SSAValue:
        if self._group == 1:
            return value
        return self.insert.insert(coda.ReduceOp(value, "mean"), name)

    def _rstd(self, squares: SSAValue) -> SSAValue:
        """Return rsqrt(mean + eps) of the columns' contributions to a group's variance."""
        insert = self.insert
        variance = self._mean_of_group(squares, "variance")
        eps = insert.insert(coda.ConstantOp(self.op.eps.value.data, f32))
        return insert.insert(coda.RsqrtOp(insert.add(variance, eps)), "rstd")

    def _of_each_column(self, value: SSAValue) -> SSAValue:
        """Repeat the number of each group for each of its columns."""
        if self._group == 1:
            return value
        each = coda.BroadcastOp(value, (*shape_of(value)[:-1], self._group))
        return self.insert.reshape(self.insert.insert(each, value.name_hint), self._of_samples)


# Views of rows of channels with the channels elsewhere


View: TypeAlias = coda.ReshapeOp | coda.TransposeOp


@dataclass(frozen=True)
class ChannelView:
    """The views (B x C x S1 x ..., or any order of the positions) of rows (B x T1 x ... x C)."""

    rows: SSAValue
    views: tuple[View, ...]
    """From the rows on."""

    @staticmethod
    def of(value: SSAValue, shapes: SymbolicShapes) -> ChannelView | None:
        """Return the view of rows of channels that `value`, with the channels in dimension 1, is.

        A tensor without positions (M x C) has its channels in the columns.
        """
        has_positions, axis, views = len(shape_of(value)) > 2, 1, list[View]()
        while isinstance(view := value.owner, View):
            before = _axis_before(view, axis, shapes, has_positions=has_positions)
            if before is None:
                break
            value, axis = view.x, before
            views.append(view)
        is_last = axis == len(shape_of(value)) - 1
        return ChannelView(value, tuple(reversed(views))) if is_last else None

    def applied_to(self, rows: SSAValue, insert: OpInserter) -> SSAValue:
        """Apply the same views to other rows of the same shape."""
        value = rows
        for view in self.views:
            value = insert.again(view, [value], shape_of(view.result), element_type_of(rows))
            value.name_hint = rows.name_hint
        return value


def _axis_before(
    view: View, axis: int, shapes: SymbolicShapes, *, has_positions: bool
) -> int | None:
    """Return the dimension of the channels before `view`, if it only moves or splits positions."""
    if isinstance(view, coda.TransposeOp):
        return view.permutation[axis] if has_positions and view.permutation[0] == 0 else None
    before, after = shapes.dims(view.x), shapes.dims(view.result)
    if has_positions and (min(len(before), len(after)) < 3 or before[0] != after[0]):
        return None
    if axis == len(after) - 1:
        return len(before) - 1 if before[-1:] == after[-1:] else None
    return 1 if axis == 1 and before[1] == after[1] else None
