"""Pass `split-group-norm`: a GroupNorm becomes sums of columns, and a scale and shift of samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import (
    check_cancellation,
    check_norm_input,
    name_of,
    static_columns,
)
from coda_ir.passes.support.norms import OpInserter, replace_value

_STAYS = "the norm runs as PyTorch's group_norm"


@dataclass(frozen=True)
class SplitGroupNormPass(FunctionPass):
    """GN(x) = x ⊙ scale + shift, with one row of each for each sample, from sums of columns of x.

        %t = coda.transpose %x                     %s = coda.sum_to %x      : (B x 1 x C)
        %n = coda.group_norm %t, %w, %b      ->    %q = coda.sum_to %x · %x : (B x 1 x C)
        %y = coda.transpose %n                     %m, %v = %s/T, %q/T − (%s/T)²
                                                   %mean = the mean of %m in each group of columns
                                                   %var = that of %v + (%m − %mean)²
                                                   %scale = rsqrt(%var + eps) · %w
                                                   %y = %x · %scale + (%b − %mean · %scale)

    The sums are partials of the kernel that computes x (`split-reductions`), one small kernel
    combines groups of columns (`fuse-groups`), and scale and shift are tables for the pointwise
    code that follows. Without positions, the norm is code on groups of columns alone, which the
    epilogue that computes x can hold. Derivatives follow from those of the operators.

    Legal iff the channels of x are the columns of a kernel of this function, and the difference
    %v costs less accuracy than rounding x does: not in float32, nor in the mode eager-exact. The
    mode deterministic has no sums by sample in tiles.
    """

    name: ClassVar[str] = "split-group-norm"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not isinstance(op, coda.GroupNormOp):
                continue
            x = _channels_last(op)
            verdict = _NOT_COLUMNS if x is None else _check(op, x)
            if verdict is not None:
                rewriter.missed(op, verdict)
            elif x is not None:
                rewriter.passed(op, "split into sums of columns, and a scale and shift of samples")
                _split(op, x, rewriter)


_NOT_COLUMNS = Refusal(
    "the channels are columns: the norm reads a transpose of rows of channels",
    f"{_STAYS}: its input has the channels before the positions",
)


def _channels_last(op: coda.GroupNormOp) -> SSAValue | None:
    """The tensor (B x T1 x ... x C) that `op` reads with its channels in dimension 1, under
    whatever shape of the positions."""
    value = op.x
    if len(shape_of(value)) == 2:
        return value
    if isinstance(value.owner, coda.ReshapeOp) and _splits_positions(value.owner):
        value = value.owner.x
    view = value.owner
    if isinstance(view, coda.TransposeOp) and view.permutation == _channels_first(view.x):
        return view.x
    return None


def _channels_first(rows: SSAValue) -> tuple[int, ...]:
    """The permutation that moves the channels behind the samples."""
    rank = len(shape_of(rows))
    return (0, rank - 1, *range(1, rank - 1))


def _splits_positions(view: coda.ReshapeOp) -> bool:
    """Return whether a reshape keeps samples and channels, and can be stated again."""
    before, after = shape_of(view.x), shape_of(view.result)
    return len(before) > 2 and before[:2] == after[:2] and after.count(DYNAMIC_INDEX) < 2


def _check(op: coda.GroupNormOp, x: SSAValue) -> Refusal | None:
    refusal = check_norm_input(op, x)
    if refusal is not None:
        return refusal
    if not computes_in_float32(element_type_of(x)):
        return Refusal("float32 holds every value", f"{_STAYS}: it computes in f64")
    columns = static_columns(x)
    if isinstance(columns, Refusal):
        return columns
    return None if len(shape_of(x)) == 2 else _check_sums(op)


def _check_sums(op: coda.GroupNormOp) -> Refusal | None:
    if numerics_mode(op) == NumericsMode.DETERMINISTIC:
        return Refusal(
            "the order of the rows in a sum does not depend on the tiles that the rows are in",
            f"{_STAYS}: the rows of a sample may begin within a tile, and the mode is deterministic",
        )
    return check_cancellation(op)


def _split(op: coda.GroupNormOp, x: SSAValue, rewriter: FunctionRewriter) -> None:
    insert = OpInserter(rewriter, op, op.location)
    mean, rstd = _Statistics(insert, op, x).of_channels()
    wide = insert.cast(x, f32)
    scale = rstd if op.weight is None else insert.mul(rstd, insert.cast(op.weight, f32), "scale")
    shift = insert.mul(mean, scale, "shift")
    if op.bias is None:
        value = insert.sub(insert.mul(wide, scale), shift)
    else:
        shift = insert.sub(insert.cast(op.bias, f32), shift)
        shift.name_hint = "shift"
        value = insert.add(insert.mul(wide, scale), shift)
    normed = insert.cast(value, element_type_of(x))
    replace_value(op, _as_read(insert, op, normed))
    rewriter.order.erase(op)


def _as_read(insert: OpInserter, op: coda.GroupNormOp, rows: SSAValue) -> SSAValue:
    """The normalized `rows` as the result of `op` was: with the channels in dimension 1."""
    if len(shape_of(rows)) == 2:
        return rows
    view = insert.insert(coda.TransposeOp(rows, _channels_first(rows)), rows.name_hint)
    if isinstance(op.x.owner, coda.ReshapeOp):
        view = insert.insert(coda.ReshapeOp(view, shape_of(op.x)), rows.name_hint)
    return view


@dataclass(frozen=True)
class _Statistics:
    """Writes the mean and the reciprocal deviation of each group, for each of its channels."""

    insert: OpInserter
    op: coda.GroupNormOp
    x: SSAValue

    def of_channels(self) -> tuple[SSAValue, SSAValue]:
        """The mean and rstd of the groups, as (B x 1 x ... x C)."""
        insert = self.insert
        if len(shape_of(self.x)) == 2:
            mean, variance = self._in_groups(insert.cast(self.x, f32)), None
        else:
            mean, variance = self._over_positions()
        group_mean = self._mean_of_group(mean, "mean")
        if group_mean is not mean:
            distance = insert.sub(mean, group_mean)
            square = insert.mul(distance, distance)
            spread = square if variance is None else insert.add(variance, square)
            variance = self._mean_of_group(spread, "variance")
        assert variance is not None, "one position of one channel is not normalized"
        eps = insert.insert(coda.ConstantOp(self.op.eps.value.data, f32))
        rstd = insert.insert(coda.RsqrtOp(insert.add(variance, eps)), "rstd")
        return self._as_columns(group_mean), self._as_columns(rstd)

    @property
    def _sums_shape(self) -> tuple[int, ...]:
        """(B x 1 x ... x C)."""
        batch, *positions, channels = shape_of(self.x)
        return (batch, *(1 for _ in positions), channels)

    @property
    def _group(self) -> int:
        """The channels of a group."""
        return shape_of(self.x)[-1] // self.op.groups.value.data

    def _over_positions(self) -> tuple[SSAValue, SSAValue]:
        """The mean and the variance of each channel over its positions, in groups."""
        insert = self.insert
        wide = insert.cast(self.x, f32)
        mean, square = (self._mean(value) for value in (self.x, insert.mul(wide, wide)))
        difference = insert.sub(square, insert.mul(mean, mean))
        zero = insert.insert(coda.ConstantOp(0.0, f32))
        return mean, insert.insert(coda.MaximumOp(difference, zero))

    def _mean(self, value: SSAValue) -> SSAValue:
        """The mean of each channel over the positions."""
        total = self.insert.insert(coda.SumToOp(value, self._sums_shape, result_element_type=f32))
        total = self._in_groups(total)
        positions = shape_of(self.x)[1:-1]
        if DYNAMIC_INDEX not in positions:
            share = self.insert.insert(coda.ConstantOp(1 / prod(positions), f32))
            return self.insert.mul(total, share)
        return self.insert.insert(coda.DivOp(total, self._count()))

    def _count(self) -> SSAValue:
        """The number of positions, where it is known in a call only."""
        sizes = [f"size({{0}}, {axis})" for axis in range(1, len(shape_of(self.x)) - 1)]
        arguments = f"[], {' * '.join(sizes)}, dtype=torch.float32, device=device"
        call = CallOp("aten.full.default", [self.x], arguments, [TensorType(f32, ())])
        return self.insert.insert(call, "positions")

    # Groups of columns

    def _in_groups(self, value: SSAValue) -> SSAValue:
        """(... x C) as (... x groups x C / groups)."""
        groups, group = self.op.groups.value.data, self._group
        if 1 in (groups, group):
            return value
        shape = (*shape_of(value)[:-1], groups, group)
        return self.insert.insert(coda.ReshapeOp(value, shape))

    def _mean_of_group(self, value: SSAValue, name: str) -> SSAValue:
        if self._group == 1:
            return value
        return self.insert.insert(coda.ReduceOp(value, "mean"), name)

    def _as_columns(self, value: SSAValue) -> SSAValue:
        """A number of each group, for each of its columns."""
        groups, group = self.op.groups.value.data, self._group
        if group == 1:
            return value
        name = value.name_hint
        value = self.insert.insert(coda.BroadcastOp(value, (*shape_of(value)[:-1], group)), name)
        if groups == 1:
            return value
        return self.insert.insert(coda.ReshapeOp(value, self._sums_shape), name)
