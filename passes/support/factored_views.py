"""Factored views: what reshapes, transposes and slices make of the dimensions of a tensor.

A reshape splits dimensions into factors and joins others: (T x B x 3·E) to (T x B·heads x E/heads).
Each dimension of a view is a list of such factors of the dimensions of its base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.symbolic_shapes import Dim, Dims, SymbolicShapes
from coda_ir.symbolic_size import SymbolicSize

View: TypeAlias = coda.ReshapeOp | coda.TransposeOp | coda.SliceOp


@dataclass(frozen=True, order=True)
class Factor:
    """`extent` steps of a distance, in elements, along a dimension of the base.

    Factors are ordered as they are in memory, if the base is contiguous.
    """

    axis: int
    behind: int
    """The distance with its sign changed: the outermost factor of a dimension comes first."""
    extent: Dim


Factors: TypeAlias = tuple[Factor, ...]

ONE = SymbolicSize.constant(1)


@dataclass(frozen=True)
class FactoredView:
    """Dimensions made of the factors of ranges of the dimensions of a base, each of them once."""

    ranges: tuple[tuple[int, Dim], ...]
    """The first element and the extent of each dimension of the base."""
    dims: tuple[Factors, ...]
    """A dimension without a factor has one element."""

    @staticmethod
    def whole(dims: Dims) -> FactoredView:
        """Return the view of a tensor that changes nothing."""
        factors = (() if n == 1 else (Factor(axis, -1, n),) for axis, n in enumerate(dims))
        return FactoredView(tuple((0, n) for n in dims), tuple(factors))

    @staticmethod
    def of(value: SSAValue, shapes: SymbolicShapes) -> tuple[SSAValue, FactoredView, int]:
        """Return the farthest base of which factors describe `value`, the view, and the number of
        operators between them.
        """
        views = list[View]()
        base = value
        while isinstance(base.owner, View):
            views.append(base.owner)
            base = base.owner.x
        view, count = FactoredView.whole(shapes.dims(base)), 0
        for op in reversed(views):
            after, count = view.after(op, shapes), count + 1
            if after is None:
                base, count = op.result, 0
            view = after or FactoredView.whole(shapes.dims(base))
        return base, view, count

    def readers(self, value: SSAValue, shapes: SymbolicShapes) -> list[FactoredView] | None:
        """Return, for a tensor that is this view, the views of it that operators other than views
        read; None where factors cannot describe one.
        """
        found = list[FactoredView]()
        for use in value.uses:
            reader = use.operation
            if not isinstance(reader, View):
                found.append(self)
                continue
            after = self.after(reader, shapes)
            inner = None if after is None else after.readers(reader.result, shapes)
            if inner is None:
                return None
            found += inner
        return found

    @property
    def order(self) -> Factors:
        """The factors in the order of the view."""
        return tuple(chain.from_iterable(self.dims))

    @property
    def has_rows_in_order(self) -> bool:
        """True if the factors of all dimensions of the base but the last are in its order."""
        rows = [factor for factor in self.order if factor.axis < len(self.ranges) - 1]
        return rows == sorted(rows)

    def after(self, op: View, shapes: SymbolicShapes) -> FactoredView | None:
        """Return the view that `op` makes of this one; None where factors cannot describe it."""
        match op:
            case coda.ReshapeOp():
                dims = _regrouped(self.order, shapes.dims(op.result))
                return None if dims is None else replace(self, dims=dims)
            case coda.TransposeOp():
                return replace(self, dims=tuple(self.dims[axis] for axis in op.permutation))
            case coda.SliceOp():
                return self._sliced(*op.range)

    def _sliced(self, dim: int, start: int, stop: int) -> FactoredView | None:
        """Return a range of a dimension that is the outermost factor of one of the base; None for
        an empty range, which has no factors.
        """
        if len(self.dims[dim]) != 1 or start == stop:
            return self if (start, stop) == (0, 1) and not self.dims[dim] else None
        (factor,) = self.dims[dim]
        first, whole = self.ranges[factor.axis]
        if isinstance(factor.extent, str) or factor.extent * -factor.behind != whole:
            return None
        ranges, dims = list(self.ranges), list(self.dims)
        ranges[factor.axis] = first - start * factor.behind, (start - stop) * factor.behind
        dims[dim] = (replace(factor, extent=stop - start),) if stop - start > 1 else ()
        return FactoredView(tuple(ranges), tuple(dims))

    def steps(self, base: Dims, dims: Dims) -> list[Step]:
        """Return the slices, a reshape, a transpose and a reshape that make the view, with the
        dimensions `dims`, of a base with the dimensions `base`; without those that do nothing.
        """
        ranges = zip(self.ranges, base, strict=True)
        steps: list[Step] = [
            Step(axis, first, extent)
            for axis, ((first, extent), whole) in enumerate(ranges)
            if extent != whole
        ]
        current: Dims = tuple(extent for _, extent in self.ranges)
        if list(self.order) != sorted(self.order):
            groups = self._groups()
            split = sorted(groups)
            wanted = tuple(_extent(group) for group in split)
            if current != wanted:
                steps.append(Step(dims=wanted))
            steps.append(Step(order=tuple(map(split.index, groups))))
            current = tuple(_extent(group) for group in groups)
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
            shape = [n if isinstance(n, int) else DYNAMIC_INDEX for n in self.dims]
            view = coda.ReshapeOp(x, shape)
            if DYNAMIC_INDEX in shape:
                view.attributes["coda.dims"] = insert.rewriter.shapes.stated(self.dims)
            return insert.insert(view, x.name_hint)
        assert isinstance(self.extent, int)
        part = coda.SliceOp(x, self.axis, self.start, self.start + self.extent)
        return insert.insert(part, x.name_hint)


def insert_steps(steps: Iterable[Step], value: SSAValue, insert: OpInserter) -> SSAValue:
    """Apply steps to a tensor."""
    for step in steps:
        value = step.insert(value, insert)
    return value


def _extent(factors: Factors) -> Dim:
    """Return the extent of a dimension of some factors."""
    return _dim(SymbolicSize.product(factor.extent for factor in factors))


def _dim(size: SymbolicSize) -> Dim:
    """Return an extent, as a number where it is known."""
    return str(size) if size.symbols else int(size)


def _regrouped(factors: Factors, dims: Dims) -> tuple[Factors, ...] | None:
    """Regroup factors, in order, to other dimensions; None where these cut them in parts."""
    pending = list(reversed(factors))
    found: list[Factors] = []
    for dim in dims:
        factors = () if dim == 1 else _taken(pending, dim)
        if factors is None:
            return None
        found.append(factors)
    return None if pending else tuple(found)


def _taken(pending: list[Factor], dim: Dim) -> Factors | None:
    """Take as many factors off the end of a list as make up `dim`."""
    left, taken = SymbolicSize.of(dim), list[Factor]()
    while pending and left != ONE:
        factor = pending.pop()
        extent = SymbolicSize.of(factor.extent)
        rest = _quotient(left, extent)
        if rest is None:
            inner = _quotient(extent, left)
            if inner is None or inner.symbols:
                return None
            pending.append(replace(factor, extent=int(inner)))
            factor = Factor(factor.axis, factor.behind * int(inner), _dim(left))
            rest = ONE
        taken.append(factor)
        left = rest
    return tuple(taken) if left == ONE else None


def _quotient(size: SymbolicSize, other: SymbolicSize) -> SymbolicSize | None:
    """Divide products of numbers and symbols, and equal sizes; None if a remainder is possible."""
    if size == other:
        return ONE
    if len(size.terms) != 1 or len(other.terms) != 1:
        return None
    (symbols, number), (others, divisor) = *size.terms, *other.terms
    left = Counter(symbols)
    left.subtract(others)
    if min(left.values(), default=0) < 0 or number % divisor:
        return None
    return SymbolicSize.product((number // divisor, *left.elements()))
