"""Views of the columns of a tensor: addressing by reshapes, transposes and slices.

A view has dimensions that are dimensions of rows of its base, or that step through its columns:
heads of a projection are a reshape and a transpose, the halves of a head slices of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.index_values import literal
from coda_ir.passes.support.matching import widens
from coda_ir.symbolic_shapes import Dim, SymbolicShapes


@dataclass(frozen=True)
class RowAxis:
    """Dimension `index` of the base, one before its columns."""

    index: int
    extent: Dim


@dataclass(frozen=True)
class ColumnAxis:
    """`extent` columns that are `stride` apart. One of extent 1 stands for nothing."""

    stride: int
    extent: int


Axis = RowAxis | ColumnAxis

ONE = ColumnAxis(0, 1)
"""A dimension of extent 1, which addresses nothing."""


@dataclass(frozen=True)
class ColumnView:
    """Element (i, j, ...) is the element of `base` at `offset` plus the steps of the axes."""

    base: SSAValue
    axes: tuple[Axis, ...]
    offset: int = 0

    @staticmethod
    def of(value: SSAValue, shapes: SymbolicShapes, *, widened: bool = False) -> ColumnView:
        """Return the view that `value` is of the farthest tensor, at least of itself.

        With `widened`, conversions to wider types, which are exact, may be in between.
        """
        chain = [value]
        while isinstance(operand := _viewed(chain[-1], widened=widened), SSAValue):
            chain.append(operand)
        view = _whole(chain.pop(), shapes)
        for step in reversed(chain):
            view = (view and _step(view, step, shapes)) or _whole(step, shapes)
        # A value whose last dimension is no number is a view of nothing but itself.
        return view or ColumnView(value, ())


def _whole(value: SSAValue, shapes: SymbolicShapes) -> ColumnView | None:
    *rows, columns = shapes.dims(value) or (1,)
    if not isinstance(columns, int):
        return None
    axes: list[Axis] = [
        ONE if extent == 1 else RowAxis(index, extent) for index, extent in enumerate(rows)
    ]
    return ColumnView(value, (*axes, _column_axis(1, columns)))


def _column_axis(stride: int, extent: int) -> ColumnAxis:
    return ONE if extent == 1 else ColumnAxis(stride, extent)


def _viewed(value: SSAValue, *, widened: bool) -> SSAValue | None:
    """Return the tensor of which `value` is a view."""
    match value.owner:
        case coda.CastOp() as op if widened and widens(op):
            return op.operand
        case coda.ReshapeOp() | coda.TransposeOp() | coda.SliceOp() as op:
            return op.x
        case CallOp() as op if op.callee.data == "aten.slice.Tensor":
            return op.inputs[0]
        case _:
            return None


def _step(view: ColumnView, value: SSAValue, shapes: SymbolicShapes) -> ColumnView | None:
    """Return the view that `value` is, given the view of its operand; None if it is none."""
    match value.owner:
        case coda.CastOp():
            return view
        case coda.ReshapeOp():
            axes = _reshaped(view.axes, shapes.dims(value))
            return None if axes is None else replace(view, axes=axes)
        case coda.TransposeOp() as op:
            return replace(view, axes=tuple(view.axes[axis] for axis in op.permutation))
        case coda.SliceOp() as op:
            dim, start, stop = op.range
            return _sliced(view, dim, start, stop - start, 1)
        case CallOp() as op:
            return _strided(view, op)
        case _:
            return None


def _sliced(view: ColumnView, dim: int, start: int, extent: int, step: int) -> ColumnView | None:
    axis = view.axes[dim]
    if axis == ONE:
        return view if (start, extent) == (0, 1) else None
    if not isinstance(axis, ColumnAxis) or extent < 1:
        return None
    axes = list(view.axes)
    axes[dim] = _column_axis(axis.stride * step, extent)
    return ColumnView(view.base, tuple(axes), view.offset + axis.stride * start)


def _strided(view: ColumnView, op: CallOp) -> ColumnView | None:
    """Return the view of a slice with a step, such as every other column."""
    numbers = [literal(node) for node in op.template.call.args[1:]]
    if op.template.call.keywords or len(numbers) != 4:
        return None
    dim, start, _, step = numbers
    if not isinstance(dim, int) or not isinstance(start, int) or not isinstance(step, int):
        return None
    dim %= len(view.axes)
    return _sliced(view, dim, start, shape_of(op.outputs[0])[dim], step) if start >= 0 else None


def _reshaped(axes: Sequence[Axis], dims: Sequence[Dim]) -> tuple[Axis, ...] | None:
    """Return the axes of a reshape to `dims`: columns may be split and joined, rows stay."""
    pending = [axis for axis in axes if axis != ONE]
    found: list[Axis] = []
    for dim in dims:
        if dim == 1:
            found.append(ONE)
            continue
        if not pending:
            return None
        axis = pending.pop(0)
        if isinstance(axis, ColumnAxis) and isinstance(dim, int):
            while axis.extent < dim and pending and (joined := _joined(axis, pending[0])):
                axis = joined
                pending.pop(0)
            if axis.extent % dim:
                return None
            inner = axis.extent // dim
            if inner > 1:
                pending.insert(0, ColumnAxis(axis.stride, inner))
            found.append(ColumnAxis(axis.stride * inner, dim))
        elif isinstance(axis, RowAxis) and axis.extent == dim:
            found.append(axis)
        else:
            return None
    return None if pending else tuple(found)


def _joined(outer: ColumnAxis, inner: Axis) -> ColumnAxis | None:
    """Join two axes, if the inner one continues in each step of the outer one."""
    if not isinstance(inner, ColumnAxis) or outer.stride != inner.stride * inner.extent:
        return None
    return ColumnAxis(inner.stride, outer.extent * inner.extent)


def start_of(op: Operation, dim: int) -> int | None:
    """Return the first of the contiguous elements of dimension `dim` that `op` takes.

    None for another operator, another dimension, steps, and a call that does not start at 0.
    """
    match op:
        case coda.SliceOp():
            sliced, start, _ = op.range
            return start if sliced == dim else None
        case CallOp() if op.callee.data == "aten.slice.Tensor":
            symbols = dict.fromkeys(op.template.symbols, 0)
            positional, named = op.template.evaluate(op.inputs, symbols, {})
            given: dict[str, Any] = {"dim": 0, "start": None, "step": 1}
            names = ("self", "dim", "start", "end", "step")
            given |= dict(zip(names, positional, strict=False)) | named
            is_range = given["dim"] % len(shape_of(op.inputs[0])) == dim and given["step"] == 1
            return 0 if is_range and given["start"] in (None, 0) else None
        case _:
            return None
