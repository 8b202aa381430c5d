"""Summed products as factors with a label for each dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.passes.support.matching import unwidened

Label: TypeAlias = str
Labels: TypeAlias = tuple[tuple[Label, ...], ...]
"""For each dimension of a value, the labels whose indices make up its index; none of extent 1."""

SUMMED = "sum "


def is_summed(label: Label) -> bool:
    """Return whether a label belongs to a summed dimension."""
    return label.startswith(SUMMED)


@dataclass(frozen=True)
class Factor:
    """A tensor of a product."""

    value: SSAValue
    labels: Labels

    @property
    def names(self) -> frozenset[Label]:
        return frozenset(self.in_order)

    @property
    def in_order(self) -> list[Label]:
        """The labels in the order of the dimensions."""
        return [label for group in self.labels for label in group]

    def renamed(self, names: Mapping[Label, Label]) -> Factor:
        """Return the factor with other names for some labels."""
        labels = tuple(tuple(names.get(name, name) for name in group) for group in self.labels)
        return Factor(self.value, labels)


@dataclass
class Contraction:
    """The factors of values that multiply, broadcast, sum, reshape and transpose.

    Zeros behind the last index of a dimension are not a part of a factor: what they change lies
    behind the last index of results, or is a product with another zero.
    """

    extents: dict[Label, int]
    _fresh: Iterator[int] = field(default_factory=count)

    def named(self, value: SSAValue, *labels: Label) -> Labels | None:
        """Return labels for the dimensions of `value`, which get its extents or must have them."""
        shape = shape_of(value)
        if len(shape) != len(labels) or DYNAMIC_INDEX in shape:
            return None
        for label, extent in zip(labels, shape, strict=True):
            if self.extents.setdefault(label, extent) != extent:
                return None
        return self.visible(value, tuple((label,) for label in labels))

    def visible(self, value: SSAValue, labels: Labels) -> Labels:
        """Return `labels` without those of dimensions of extent 1."""
        return tuple(
            () if extent == 1 else tuple(name for name in group if self.extents[name] != 1)
            for extent, group in zip(shape_of(value), labels, strict=True)
        )

    def factors(self, value: SSAValue, labels: Labels) -> list[Factor]:
        """Return the factors of `value`."""
        value = unwidened(value)
        if isinstance(value.owner, coda.MulOp):
            sides = (value.owner.lhs, value.owner.rhs)
            return [factor for side in sides for factor in self.factors(side, _own(side, labels))]
        before = self._before(value, labels)
        return [Factor(value, labels)] if before is None else self.factors(*before)

    def _before(self, value: SSAValue, labels: Labels) -> tuple[SSAValue, Labels] | None:
        """Return the operand of an operator that only moves, sums or pads dimensions."""
        match value.owner:
            case coda.TransposeOp() as op:
                places = sorted(range(len(labels)), key=op.permutation.__getitem__)
                return op.x, tuple(labels[place] for place in places)
            case coda.ReshapeOp() as op:
                split = self._regrouped(shape_of(op.x), shape_of(value), labels)
                return None if split is None else (op.x, split)
            case coda.SumToOp() as op:
                return self._summed(op.x, value, labels)
            case coda.ReduceOp() as op if op.kind.data == "sum" and len(op.results) == 1:
                return self._summed(op.operands[0], value, labels)
            case coda.PadOp() as op if padding_behind(op) is not None:
                return op.x, labels
            case _:
                return None

    def _summed(self, x: SSAValue, value: SSAValue, labels: Labels) -> tuple[SSAValue, Labels]:
        """Give the summed dimensions labels of their own."""
        lead = len(shape_of(x)) - len(labels)
        after = (*(1 for _ in range(lead)), *shape_of(value))
        given = [*(() for _ in range(lead)), *labels]
        for axis, (extent, left) in enumerate(zip(shape_of(x), after, strict=True)):
            if extent != left:
                label = f"{SUMMED}{next(self._fresh)}"
                self.extents[label] = extent
                given[axis] = (label,)
        return x, tuple(given)

    def _regrouped(
        self, before: Sequence[int], after: Sequence[int], labels: Labels
    ) -> Labels | None:
        """Return the labels before a reshape that joins or splits dimensions."""
        if DYNAMIC_INDEX in (*before, *after):
            return None
        names = [name for group in labels for name in group]
        if prod(self.extents[name] for name in names) != prod(before):
            return self._unchanged(before, after, labels)
        found: list[tuple[Label, ...]] = []
        for extent in before:
            group: list[Label] = []
            while prod(self.extents[name] for name in group) < extent and names:
                group.append(names.pop(0))
            if prod(self.extents[name] for name in group) != extent:
                return None
            found.append(tuple(group))
        return None if names else tuple(found)

    def _unchanged(
        self, before: Sequence[int], after: Sequence[int], labels: Labels
    ) -> Labels | None:
        """Return the labels before a reshape that adds or drops dimensions of extent 1."""
        if [extent for extent in before if extent != 1] != [n for n in after if n != 1]:
            return None
        kept = iter(group for n, group in zip(after, labels, strict=True) if n != 1)
        return tuple(() if extent == 1 else next(kept) for extent in before)


def _own(side: SSAValue, labels: Labels) -> Labels:
    """Return the labels of an operand's own dimensions; none for one of extent 1, which is
    broadcast.
    """
    extents = shape_of(side)
    own = labels[len(labels) - len(extents) :]
    return tuple(() if n == 1 else group for n, group in zip(extents, own, strict=True))


def padding_behind(op: object) -> tuple[int, int] | None:
    """Return the dimension that `op` pads with zeros at its end, and their number."""
    added = op.added if isinstance(op, coda.PadOp) and not op.number else None
    if not isinstance(op, coda.PadOp) or added is None or added[0] or not added[1]:
        return None
    return op.dim.value.data, added[1]
