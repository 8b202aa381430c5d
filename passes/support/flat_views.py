"""Views that einsum makes around a product: reshapes and transposes, many of extents of 1."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of

View: TypeAlias = coda.ReshapeOp | coda.TransposeOp

Strides: TypeAlias = list[tuple[int, int]]
"""The extents, but for 1, that a dimension has in a dense tensor, and the stride of each."""


def before_views(value: SSAValue) -> SSAValue:
    """The tensor that `value` is a view of."""
    while isinstance(view := value.owner, View):
        value = view.x
    return value


def is_argument(value: SSAValue) -> bool:
    """Return whether a value is an argument of its function, or a view or a cast of one."""
    value = before_views(value)
    while isinstance(cast := value.owner, coda.CastOp):
        value = before_views(cast.operand)
    return isinstance(value, BlockArgument)


def keeps_order(view: View) -> bool:
    """Return whether the elements of a view come in the order of its operand."""
    if isinstance(view, coda.ReshapeOp):
        return True
    moved = [axis for axis in view.permutation if shape_of(view.x)[axis] != 1]
    return moved == sorted(moved)


def rows_before(x: SSAValue) -> SSAValue:
    """The first tensor of at least two dimensions whose rows are those of `x`, in order."""
    columns, found = shape_of(x)[-1], x
    while isinstance(view := x.owner, View) and keeps_order(view):
        x = view.x
        if shape_of(x)[-1] == columns != DYNAMIC_INDEX and len(shape_of(x)) > 1:
            found = x
    return found


def is_transposed_view(matrix: SSAValue) -> bool | None:
    """Return whether a matrix (1 x K x N) has the elements of the tensor before its views by
    columns; false where it has them by rows, None where the order is another.
    """
    source = before_views(matrix)
    dims = _strides(matrix, source)
    if dims is None:
        return None
    _, k, n = shape_of(matrix)
    for is_transposed, strides in ((False, (n, 1)), (True, (1, k))):
        expected = [[(e, s)] if e != 1 else [] for e, s in zip((k, n), strides, strict=True)]
        if [_merged(dim) for dim in dims[1:]] == expected:
            return is_transposed
    return None


def _strides(value: SSAValue, source: SSAValue) -> list[Strides] | None:
    """The strides of each dimension of a view of `source`; None where extents are not known, or
    where a reshape cuts them other than in whole parts.
    """
    shape = shape_of(source)
    if DYNAMIC_INDEX in shape or 0 in shape:
        return None
    dims: list[Strides] | None = [[(e, prod(shape[i + 1 :]))] for i, e in enumerate(shape)]
    views: list[View] = []
    while value is not source and isinstance(view := value.owner, View):
        views.append(view)
        value = view.x
    for view in reversed(views):
        if isinstance(view, coda.TransposeOp):
            dims = [dims[axis] for axis in view.permutation]
        else:
            dims = _regrouped([part for dim in dims for part in dim], shape_of(view.result))
        if dims is None:
            return None
    return dims


def _regrouped(parts: Strides, shape: Sequence[int]) -> list[Strides] | None:
    """Parts of dimensions, in order, as those of other extents."""
    pending = [part for part in reversed(parts) if part[0] != 1]
    dims: list[Strides] = []
    for extent in shape:
        dim: Strides = []
        while extent > 1:
            size, stride = pending.pop()
            if size % extent and extent % size:
                return None
            taken = min(size, extent)
            dim.append((taken, stride * (size // taken)))
            if size > taken:
                pending.append((size // taken, stride))
            extent //= taken
        dims.append(dim)
    return dims


def _merged(dim: Strides) -> Strides:
    """Parts of a dimension; those whose elements follow one another as one."""
    merged: Strides = []
    for size, stride in dim:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            size *= merged.pop()[0]
        merged.append((size, stride))
    return merged
