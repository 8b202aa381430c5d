"""Views: what reshapes, transposes and slices make of the dimensions of a tensor.

A reshape splits dimensions into factors and joins others: (T x B x 3·E) to (T x B·heads x E/heads).
Each dimension of a view is a list of such factors of the dimensions of its base. Heads of a
projection, for example, step through its columns, which are its last dimension.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.passes.support.index_values import literal
from coda_ir.passes.support.matching import widens
from coda_ir.symbolic_shapes import Dim, Dims, SymbolicShapes
from coda_ir.symbolic_size import SymbolicSize

ViewOp: TypeAlias = coda.ReshapeOp | coda.TransposeOp | coda.SliceOp


@dataclass(frozen=True, order=True)
class Factor:
    """`extent` steps of a distance, in elements, along a dimension of the base.

    Factors are ordered as they are in memory, if the base is contiguous.
    """

    axis: int
    """The dimension, counted from the end: that of the columns is -1."""
    behind: int
    """The distance with its sign changed: the outermost factor of a dimension comes first."""
    extent: Dim


Factors: TypeAlias = tuple[Factor, ...]
"""A dimension of a view; one without a factor has one element."""

ONE = SymbolicSize.constant(1)


class Columns(NamedTuple):
    """`extent` columns of the base that are `step` apart."""

    step: int
    extent: int

    @staticmethod
    def of(dim: Factors) -> Columns | None:
        """Return the columns that a dimension of a view is; None if it is something else."""
        match dim:
            case ():
                return Columns(0, 1)
            case (Factor(-1, behind, int() as extent),):
                return Columns(-behind, extent)
            case _:
                return None


@dataclass(frozen=True)
class View:
    """Dimensions made of factors of the dimensions of a base, each of them once."""

    base: SSAValue
    extents: Dims
    """The dimensions of the base."""
    starts: tuple[int, ...]
    """The first element of each dimension of the base."""
    dims: tuple[Factors, ...]

    @staticmethod
    def whole(base: SSAValue, extents: Dims) -> View:
        """Return the view of a tensor that changes nothing."""
        axes = range(-len(extents), 0)
        factors = (
            () if n == 1 else (Factor(a, -1, n),) for a, n in zip(axes, extents, strict=True)
        )
        return View(base, extents, (0,) * len(extents), tuple(factors))

    @staticmethod
    def of(value: SSAValue, shapes: SymbolicShapes) -> View:
        """Return the view that `value` is of ranges of the farthest tensor, at least of itself."""
        return _farthest(sources(value), shapes, lambda view: view.covered is not None)

    @staticmethod
    def of_columns(value: SSAValue, shapes: SymbolicShapes, *, widened: bool = False) -> View:
        """Return the view that `value` is of the columns of the farthest tensor, at least of
        itself.

        With `widened`, conversions to wider types, which are exact, may be in between.
        """
        return _farthest(sources(value, widened=widened), shapes, View._has_whole_rows)

    def with_columns(self, extent: int) -> View:
        """Return the view with `extent` adjacent columns as its last dimension."""
        return replace(self, dims=(*self.dims[:-1], (Factor(-1, -1, extent),)))

    def readers(self, value: SSAValue, shapes: SymbolicShapes) -> list[View] | None:
        """Return, for a tensor that is this view, the views of it that operators other than views
        read; None where one is not a view of ranges.
        """
        found = list[View]()
        for use in value.uses:
            reader = use.operation
            if not isinstance(reader, ViewOp):
                found.append(self)
                continue
            after = self.after(reader, shapes)
            if after is None or after.covered is None:
                return None
            inner = after.readers(reader.result, shapes)
            if inner is None:
                return None
            found += inner
        return found

    @property
    def offset(self) -> int:
        """The first column of the base."""
        return self.starts[-1] if self.starts else 0

    @property
    def order(self) -> Factors:
        """The factors in the order of the view."""
        return tuple(chain.from_iterable(self.dims))

    @property
    def rows(self) -> Factors:
        """The factors of all dimensions of the base but the last, in the order of the view."""
        return tuple(factor for factor in self.order if factor.axis < -1)

    @property
    def rows_of_base(self) -> Factors:
        """The dimensions of the base but the last, and those of extent 1."""
        return View.whole(self.base, self.extents).rows

    @property
    def covered(self) -> list[SymbolicSize] | None:
        """The extents of the view's ranges of the base; None if elements between are left out."""
        found = [ONE for _ in self.extents]
        for factor in sorted(self.order, reverse=True):
            if found[factor.axis] != SymbolicSize.constant(-factor.behind):
                return None
            found[factor.axis] *= SymbolicSize.of(factor.extent)
        return found

    def _has_whole_rows(self) -> bool:
        """Return whether each dimension is one of the rows of the base or columns."""
        are_single = all(len(factors) < 2 for factors in self.dims)
        has_columns = all(isinstance(extent, int) for extent in self.extents[-1:])
        return are_single and has_columns and {*self.rows} == {*self.rows_of_base}

    def after(self, op: Operation, shapes: SymbolicShapes) -> View | None:
        """Return the view that `op` makes of this one; None where factors cannot describe it."""
        match op:
            case coda.CastOp():
                return self
            case coda.ReshapeOp():
                dims = _regrouped(self.order, shapes.dims(op.result))
                return None if dims is None else replace(self, dims=dims)
            case coda.TransposeOp():
                return replace(self, dims=tuple(self.dims[axis] for axis in op.permutation))
            case _:
                taken = taken_by(op)
                return None if taken is None else self._sliced(taken, shape_of(op.results[0]))

    def _sliced(self, taken: Taken, shape: tuple[int, ...]) -> View | None:
        """Return a part of a dimension that is one factor; None for an empty part."""
        dim, start, step = taken
        if len(self.dims[dim]) != 1 or shape[dim] < 1:
            return self if (start, shape[dim]) == (0, 1) and not self.dims[dim] else None
        (factor,) = self.dims[dim]
        if isinstance(factor.extent, str):
            return None
        starts, dims = list(self.starts), list(self.dims)
        starts[factor.axis] -= start * factor.behind
        part = Factor(factor.axis, factor.behind * step, shape[dim])
        dims[dim] = (part,) if shape[dim] > 1 else ()
        return replace(self, starts=tuple(starts), dims=tuple(dims))

    def steps(self, dims: Dims) -> list[Step]:
        """Return the slices, a reshape, a transpose and a reshape that make the view, which is of
        ranges and has the dimensions `dims`, of its base; without those that do nothing.
        """
        covered = self.covered
        assert covered is not None
        ranges = enumerate(zip(self.starts, covered, self.extents, strict=True))
        steps: list[Step] = [
            Step(axis, first, int(extent))
            for axis, (first, extent, whole) in ranges
            if extent != SymbolicSize.of(whole)
        ]
        current: Dims = tuple(map(_dim, covered))
        if list(self.order) != sorted(self.order):
            groups = self._groups()
            split = sorted(groups)
            wanted = tuple(extent_of(group) for group in split)
            if current != wanted:
                steps.append(Step(dims=wanted))
            steps.append(Step(order=tuple(map(split.index, groups))))
            current = tuple(extent_of(group) for group in groups)
        return [*steps, *([] if current == dims else [Step(dims=dims)])]

    def _groups(self) -> list[Factors]:
        """Return the factors of each dimension; those that the base has side by side together."""
        places = {factor: place for place, factor in enumerate(sorted(self.order))}
        groups: list[Factors] = []
        for factors in filter(None, self.dims):
            groups.append(factors[:1])
            for before, factor in pairwise(factors):
                if places[factor] == places[before] + 1:
                    groups[-1] += (factor,)
                else:
                    groups.append((factor,))
        return groups


def sources(value: SSAValue, *, widened: bool = False) -> Iterator[SSAValue]:
    """Yield `value` and the tensors of which it may be a view, the farthest one last."""
    yield value
    while isinstance(op := value.owner, Operation) and (
        isinstance(op, ViewOp) or taken_by(op) is not None or (widened and widens(op))
    ):
        value = op.operands[0]
        yield value


def _farthest(
    values: Iterable[SSAValue], shapes: SymbolicShapes, fits: Callable[[View], bool]
) -> View:
    """Return the view of the farthest of `values` that the first is, such that all steps fit."""
    base, *views = reversed([*values])
    view = View.whole(base, shapes.dims(base))
    for value in views:
        assert isinstance(value.owner, Operation)
        after = view.after(value.owner, shapes)
        if after is None or not fits(after):
            after = View.whole(value, shapes.dims(value))
        view = after
    return view


class Taken(NamedTuple):
    """Elements of a dimension: each `step`-th from `start` on."""

    dim: int
    start: int
    step: int


def taken_by(op: Operation) -> Taken | None:
    """Return the elements that a slice takes; None if the first is unknown or from the end."""
    if isinstance(op, coda.SliceOp):
        dim, start, _ = op.range
        return Taken(dim, start, 1)
    if not isinstance(op, CallOp) or op.callee.data != "aten.slice.Tensor":
        return None
    call = op.template.call
    given = [0 if ast.unparse(node) == "None" else literal(node) for node in call.args[1:]]
    dim, start, _, step = (*given, *(0, 0, 0, 1)[len(given) :])
    if call.keywords or not isinstance(dim, int) or not isinstance(step, int):
        return None
    rank = len(shape_of(op.inputs[0]))
    return Taken(dim % rank, start, step) if isinstance(start, int) and start >= 0 else None


def start_of(op: Operation, dim: int) -> int | None:
    """Return the first of the contiguous elements of dimension `dim` that a slice takes."""
    taken = taken_by(op)
    return taken.start if taken is not None and (taken.dim, taken.step) == (dim, 1) else None


@dataclass(frozen=True)
class Step:
    """A slice of a dimension, a transpose or a reshape."""

    axis: int = 0
    start: int = 0
    extent: Dim = 0
    order: tuple[int, ...] = ()
    dims: Dims = ()

    def insert(self, x: SSAValue, insert: OpInserter) -> SSAValue:
        """Apply the step to `x`."""
        if self.order:
            return insert.insert(coda.TransposeOp(x, self.order), x.name_hint)
        if not self.extent:
            return insert.reshape(x, self.dims)
        assert isinstance(self.extent, int)
        part = coda.SliceOp(x, self.axis, self.start, self.start + self.extent)
        return insert.insert(part, x.name_hint)


def insert_steps(steps: Iterable[Step], value: SSAValue, insert: OpInserter) -> SSAValue:
    """Apply steps to a tensor."""
    for step in steps:
        value = step.insert(value, insert)
    return value


def extent_of(factors: Factors) -> Dim:
    """Return the extent of a dimension of some factors."""
    return _dim(SymbolicSize.product(factor.extent for factor in factors))


def _dim(size: SymbolicSize) -> Dim:
    """Return an extent, as a number where it is known."""
    return str(size) if size.symbols else int(size)


def _regrouped(factors: Factors, dims: Dims) -> tuple[Factors, ...] | None:
    """Regroup factors, in order, to other dimensions; None where these cut them in parts."""
    pending = _joined(factors)[::-1]
    found: list[Factors] = []
    for dim in dims:
        factors = () if dim == 1 else _taken(pending, dim)
        if factors is None:
            return None
        found.append(factors)
    return None if pending else tuple(found)


def _joined(factors: Factors) -> list[Factor]:
    """Join factors of which one continues in each step of the one before."""
    found = list[Factor]()
    for factor in factors:
        outer, extent = found[-1] if found else None, factor.extent
        if outer and outer.axis == factor.axis and outer.behind == factor.behind * extent:
            factor = replace(found.pop(), behind=factor.behind, extent=extent_of((outer, factor)))
        found.append(factor)
    return found


def _taken(pending: list[Factor], dim: Dim) -> Factors | None:
    """Take as many factors off the end of a list as make up `dim`."""
    left, taken = SymbolicSize.of(dim), list[Factor]()
    while pending and left != ONE:
        factor = pending.pop()
        extent = SymbolicSize.of(factor.extent)
        rest = left.divided(extent)
        if rest is None:
            inner = extent.divided(left)
            if inner is None or inner.symbols or int(inner) == 0:
                return None
            pending.append(replace(factor, extent=int(inner)))
            factor = Factor(factor.axis, factor.behind * int(inner), _dim(left))
            rest = ONE
        taken.append(factor)
        left = rest
    return tuple(taken) if left == ONE else None
