"""The strategy on the sizes of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from coda_ir.reduction.strategy import Edit, Strategy


class ShrinkExtents(Strategy):
    """Replaces a static extent everywhere by a smaller one: 4096 -> 1, 2, 4, 8, ...

    Alone, or with its multiples in proportion, so that reshapes of heads keep to verify; in
    types alone, or also in numbers such as the ends of slices.
    """

    title: ClassVar[str] = "shrink extents"
    combines: ClassVar[bool] = False

    def edits(self) -> list[Edit]:
        return [
            partial(_apply, Substitution(extent, smaller, multiples, numbers), self.module)
            for extent in sorted(static_extents(self.module), reverse=True)
            for smaller in powers_below(extent)
            for multiples in (False, True)
            for numbers in (False, True)
        ]


def static_extents(module: ModuleOp) -> set[int]:
    """The extents above 1 of the tensors in a module."""
    extents: set[int] = set()
    for op in module.walk():
        for value in _defined_values(op):
            if isa(value.type, TensorType[Attribute]):
                extents.update(value.type.get_shape())
    return {extent for extent in extents if extent > 1}


def powers_below(extent: int) -> list[int]:
    """1, 2, 4, ... below `extent`."""
    return [1 << i for i in range(extent.bit_length()) if 1 << i < extent]


@dataclass(frozen=True)
class Substitution:
    """A smaller number in place of an extent."""

    extent: int
    smaller: int
    multiples: bool
    """True if multiples of the extent shrink in proportion."""
    numbers: bool
    """True if integers outside of types are extents, too."""

    def of(self, attribute: Attribute, *, is_dims: bool = False) -> Attribute:
        """`attribute` with smaller extents. Raises VerifyException where that makes no sense."""
        match attribute:
            case TensorType():
                shape = [self._number(extent) for extent in attribute.get_shape()]
                return TensorType(attribute.element_type, shape, attribute.encoding)
            case ArrayAttr():
                return ArrayAttr([self.of(each, is_dims=is_dims) for each in attribute])
            case DictionaryAttr():
                return DictionaryAttr(
                    {k: self.of(v, is_dims=k == "coda.dims") for k, v in attribute.data.items()}
                )
            case IntegerAttr() if is_dims or self.numbers:
                return IntegerAttr(self._number(attribute.value.data), attribute.type)
            case IntAttr() if self.numbers:
                return IntAttr(self._number(attribute.data))
            case StringAttr() | IntegerAttr():
                return attribute
            case ParametrizedAttribute():
                return type(attribute).new([self.of(each) for each in attribute.parameters])
            case _:
                return attribute

    def _number(self, number: int) -> int:
        if number == self.extent:
            return self.smaller
        if self.multiples and number > 0 and number % self.extent == 0:
            return number // self.extent * self.smaller
        return number


def _apply(substitution: Substitution, module: ModuleOp) -> bool:
    for op in module.walk():
        for values in (op.properties, op.attributes):
            for name, attribute in values.items():
                values[name] = substitution.of(attribute, is_dims=name == "coda.dims")
        for value in _defined_values(op):
            type = substitution.of(value.type)
            if type != value.type:
                Rewriter.replace_value_with_new_type(value, type)
    return True


def _defined_values(op: Operation) -> list[SSAValue]:
    """The results of an operator and the arguments of its blocks."""
    arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
    return [*op.results, *arguments]
