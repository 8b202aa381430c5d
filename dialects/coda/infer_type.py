"""The base class of operators whose result types follow from their operands and properties."""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import OptPropertyDef, PropertyDef, VarResultDef, base, result_def

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_dim,
    expect_element_type,
    expect_shape,
    format_shape,
    shape_of,
    static_shape,
    wrong_shape,
)

Extents: TypeAlias = tuple[Any, ...]
"""Numbers, where `DYNAMIC_INDEX` is an open one, or symbols."""
Rule: TypeAlias = Callable[..., Sequence[Extents]]
"""The extents of results from those of operands, and from properties by name."""
Operand: TypeAlias = SSAValue | Operation | Sequence[SSAValue | Operation] | None
"""The argument for one definition of operands: a value, none, or several."""
Given: TypeAlias = Attribute | int | float | str | Sequence[int] | None
"""The value of a property in Python; None and False leave an optional one out."""

OPEN = "?"
"""An extent that a rule cannot express."""


def like_first(x: Extents, *_: Extents, **__: object) -> list[Extents]:
    """Return the rule of an operator whose result has the shape of its first operand."""
    return [x]


def columns_to_one(x: Extents, *_: Extents, **__: object) -> list[Extents]:
    """Return the rule of an operator that reduces each row to one or two elements."""
    return [(*x[:-1], 1)] * 2


class InferTypesOp(CodaOp, ABC):
    """An operator with one rule for its result types, like MLIR's `InferTypeOpInterface`.

    The constructor, the verifier and symbolic shapes (`coda_ir.shape_rules`) follow from it.
    """

    infer = cast(Rule, like_first)
    """The extents of the results from those of the operands, and from the properties by name."""
    RESULT_ELEMENTS: ClassVar[Sequence[Attribute | int | None]] = (0,)
    """The element type of each result, or the number of an operand with it; None if given."""

    def __init__(
        self,
        *given: Operand | Given,
        element_type: Attribute | None = None,
        results: int | None = None,
        **named: Operand | Given,
    ):
        """Build the operator from its operands, and then its properties, in the order of the
        definitions; the last ones may also be given by name.

        `element_type` is that of results that state it (see `default_element_type`). `results` is
        their number, by default without the optional ones. A negative `dim` counts from the back.
        """
        of = self.get_irdl_definition()
        count = len(of.operands)
        missing = [named.pop(name, None) for name, _ in of.operands[len(given) :]]
        operands = [*given[:count], *missing]
        segments = [_values(cast(Operand, each)) for each in operands]
        values = [value for segment in segments for value in segment]
        stated = cast(dict[str, Given], named)
        stated |= self._in_order(cast(Sequence[Given], given[count:]), stated)
        dim = stated.get("dim")
        if isinstance(dim, int) and dim < 0:
            stated["dim"] = dim + len(shape_of(values[0]))
        properties = {
            name: _attribute(stated[name], definition)
            for name, definition in of.properties.items()
            if name in stated
        }
        numbers = {name: _value(each) for name, each in properties.items() if each is not None}
        plain = sum(not isinstance(each, VarResultDef) for _, each in of.results)
        extents = type(self).infer(*map(shape_of, values), **numbers)[: results or plain]
        default = element_type or self.default_element_type(values[0])
        types = [
            TensorType(element or default, static_shape(each))
            for element, each in zip(self._elements(values), extents, strict=False)
        ]
        super().__init__(
            operands=segments,
            properties=properties,
            result_types=[*types[:plain], types[plain:]] if plain < len(of.results) else types,
        )

    @classmethod
    def _in_order(cls, given: Sequence[Given], named: Mapping[str, Given]) -> Mapping[str, Given]:
        """Return properties by name: those in the order of definitions, and those in `named`."""
        names = list(cls.get_irdl_definition().properties)
        assert len(given) <= len(names), f"{cls.name} has no {len(given)} properties"
        in_order, others = dict(zip(names, given, strict=False)), names[len(given) :]
        assert set(others) >= named.keys(), f"{cls.name} takes no {sorted(named.keys() - others)}"
        return in_order

    @classmethod
    def default_element_type(cls, x: SSAValue) -> Attribute:
        """Return the default element type of results for the first operand."""
        return element_type_of(x)

    def _elements(self, operands: Sequence[SSAValue]) -> Sequence[Attribute | None]:
        """Return the element types of the results, None for one that must be stated."""
        return [
            element_type_of(operands[each]) if isinstance(each, int) else each
            for each in self.RESULT_ELEMENTS
        ]

    @property
    def given(self) -> dict[str, Any]:
        """The values of the properties by name."""
        return {name: _value(attribute) for name, attribute in self.properties.items()}

    def result_extents(self, operands: Sequence[Extents]) -> Sequence[Extents]:
        """Return the extents of the results, given those of the operands."""
        return type(self).infer(*operands, **self.given)[: len(self.results)]

    def check(self) -> None:
        """Raise unless operands and properties fit together."""

    def verify_(self) -> None:
        if "dim" in self.properties and self.operands:
            expect_dim(self.given["dim"], len(shape_of(self.operands[0])))
        self.check()
        extents = self.result_extents([shape_of(value) for value in self.operands])
        elements = self._elements(self.operands)
        names = [name for name, _ in self.get_irdl_definition().results]
        for number, result in enumerate(self.results):
            what = f"result {names[min(number, len(names) - 1)]}" if number else "result"
            inferred, stated = static_shape(extents[number]), shape_of(result)
            expect_shape(what, result, inferred)
            if any(pair == (1, DYNAMIC_INDEX) for pair in zip(inferred, stated, strict=True)):
                # Operators that broadcast this dimension are recognized by their types.
                raise wrong_shape(what, stated, format_shape(inferred))
            element = elements[number]
            if element is not None:
                expect_element_type(what, result, element)


class InferTypeOp(InferTypesOp, ABC):
    """An operator with one rule for its result type. One with more results states them all, since
    xDSL puts the results of a class before those of its base.
    """

    result = result_def(TensorType)


class StatedShapeOp(CodaOp, ABC):
    """An operator on x whose constructor states the shape of the result, which does not follow from
    the operands. Another tensor `like` may have extents that are known only at run time.
    """

    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        shape: Sequence[int],
        like: SSAValue | Operation | None = None,
        *,
        element_type: Attribute | None = None,
        **properties: Given,
    ):
        """Build the operator; without `element_type`, the result has that of x."""
        of, x = self.get_irdl_definition(), SSAValue.get(x)
        super().__init__(
            operands=[x, _values(like)][: len(of.operands)],
            properties={n: _attribute(each, of.properties[n]) for n, each in properties.items()},
            result_types=[TensorType(element_type or element_type_of(x), shape)],
        )


# What rules are made of.


def replaced(x: Extents, dim: int, *extents: Any) -> Extents:
    """Return the extents `x` with others in place of that of `dim`."""
    return (*x[:dim], *extents, *x[dim + 1 :])


def total(extents: Sequence[Any]) -> Any:
    """Return the sum of extents, dynamic if one of them is; `?N + 4` for symbols."""
    if len(extents) == 1:
        return extents[0]
    if DYNAMIC_INDEX in extents:
        return OPEN
    if all(isinstance(extent, int) for extent in extents):
        return sum(extents)
    return OPEN + " + ".join(map(str, extents))


# Operands and properties as they are given.


def _values(operand: Operand) -> Sequence[SSAValue]:
    if operand is None:
        return ()
    if isinstance(operand, SSAValue | Operation):
        return (SSAValue.get(operand),)
    return [SSAValue.get(value) for value in operand]


_FLOAT = base(FloatAttr)


def _attribute(value: Given, definition: PropertyDef) -> Attribute | None:
    match value:
        case None:
            return None
        case Attribute():
            return value
        case bool() if isinstance(definition, OptPropertyDef):
            return UnitAttr() if value else None
        case bool():
            return BoolAttr.from_bool(value)
        case int() if definition.constr != _FLOAT:
            return IntegerAttr(value, 64)
        case int() | float():
            return FloatAttr(value, 64)
        case str():
            return StringAttr(value)
        case _:
            return ArrayAttr(IntegerAttr(item, 64) for item in value)


def _value(attribute: Attribute) -> Any:
    match attribute:
        case IntegerAttr():
            number = attribute.value.data
            return bool(number) if attribute.type == i1 else number
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case UnitAttr():
            return True
        case ArrayAttr():
            return [_value(item) for item in attribute]
        case _:
            return attribute
