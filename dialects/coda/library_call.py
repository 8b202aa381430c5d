"""The base class of operators that run as one call of PyTorch."""

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
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_dim,
    expect_element_type,
    expect_shape,
    is_float,
    shape_of,
)
from coda_ir.dialects.template import ArgumentTemplate

Extents: TypeAlias = tuple[Any, ...]
"""Numbers, where `DYNAMIC_INDEX` is an open one, or symbols."""
Given: TypeAlias = "int | float | Sequence[int]"
"""The value of a property in Python."""


class LibraryCallOp(CodaOp, ABC):
    """An operator that runs as a call of an overload of ATen.

    The class states what everything else follows from: types and symbols of the results, the call
    that the reference, float64 and the emitted module make, and which calls of PyTorch the pass
    `raise-library-calls` replaces by it.
    """

    ATEN: ClassVar[str]
    """The overload, without its namespace."""
    PARAMETERS: ClassVar[tuple[str, ...]]
    """The parameters of the overload in order, by the names of operands and properties here."""
    FIXED: ClassVar[Mapping[str, object]] = {}
    """Parameters of the overload that have one value here."""
    RULE: ClassVar[Callable[..., Sequence[Extents]]]
    """The extents of the results from those of the operands, and from the properties by name."""
    ELEMENTS: ClassVar[Sequence[Attribute | None]] = (None,)
    """The element type of each result; None for that of the first operand."""
    FUSES_IF: ClassVar[str]
    """The condition under which an epilogue could compute it, which does not hold."""
    REMEDY: ClassVar[str | None] = None
    """What fuses instead, where that may be all that a program needs."""

    traits = traits_def(Pure())

    def __init__(self, *operands: SSAValue | Operation, **given: Given):
        """Build the operator; a negative `dim` counts from the back."""
        self._build([[operand] for operand in operands], **given)

    def _build(self, segments: Sequence[Sequence[SSAValue | Operation]], **given: Given) -> None:
        """Infer the results; `segments` are the operands of each definition."""
        segments = [[SSAValue.get(value) for value in segment] for segment in segments]
        values = [cast(SSAValue, value) for segment in segments for value in segment]
        dim = given.get("dim")
        if isinstance(dim, int) and dim < 0:
            given["dim"] = dim + len(shape_of(values[0]))
        extents = type(self).RULE(*map(shape_of, values), **given)
        elements = [element or element_type_of(values[0]) for element in self.ELEMENTS]
        super().__init__(
            operands=segments,
            properties={name: _attribute(value) for name, value in given.items()},
            result_types=[
                TensorType(element, static_extents(each))
                for element, each in zip(elements, extents, strict=True)
            ],
        )

    # The parts of a call of PyTorch, as `torch.CallOp` has them.

    @property
    def callee(self) -> StringAttr:
        """The full name of the overload."""
        return StringAttr(f"aten.{self.ATEN}")

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The tensors among the arguments."""
        return self.operands

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """All results of the overload."""
        return self.results

    @property
    def picks(self) -> None:
        """None: the results are all those of the overload."""
        return None

    @property
    def arguments(self) -> StringAttr:
        """The arguments of the call as text: `{0}, 1, {1}`."""
        return StringAttr(", ".join(map(self.argument, self.PARAMETERS)))

    @property
    def template(self) -> ArgumentTemplate:
        """The arguments of the call as data."""
        return ArgumentTemplate.parse(self.arguments.data)

    def argument(self, name: str) -> str:
        """The text of one argument: an operand by its number, or the value of a property."""
        if name in self.FIXED:
            return repr(self.FIXED[name])
        value = getattr(self, name)
        return self.tensor(value) if isinstance(value, SSAValue) else repr(_value(value))

    def tensor(self, value: SSAValue) -> str:
        """The text of an operand as an argument."""
        return f"{{{list(self.operands).index(value)}}}"

    @property
    def given(self) -> dict[str, Any]:
        """The values of the properties by name."""
        return {name: _value(attribute) for name, attribute in self.properties.items()}

    @property
    def index(self) -> "tuple[int, SSAValue, int] | None":
        """The number of the operand of integers, and the dimension of a value whose elements they
        name; None where there is no such operand.
        """
        return None

    def result_extents(self, operands: Sequence[Extents]) -> Sequence[Extents]:
        """The extents of the results from those of the operands."""
        return type(self).RULE(*operands, **self.given)

    def check(self) -> None:
        """Raise unless operands and properties fit together."""

    def verify_(self) -> None:
        if "dim" in self.properties:
            expect_dim(self.given["dim"], len(shape_of(self.operands[0])))
        self.check()
        extents = self.result_extents([shape_of(value) for value in self.operands])
        first = element_type_of(self.operands[0])
        for number, result in enumerate(self.results):
            what = f"result {number}" if len(self.results) > 1 else "result"
            expect_shape(what, result, static_extents(extents[number]))
            expect_element_type(what, result, self.ELEMENTS[number] or first)


def static_extents(extents: Extents) -> tuple[int, ...]:
    """The extents of a type, in which symbols are open."""
    return tuple(extent if isinstance(extent, int) else DYNAMIC_INDEX for extent in extents)


def _attribute(value: Given) -> Attribute:
    match value:
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, 64)
        case float():
            return FloatAttr(value, 64)
        case _:
            return ArrayAttr(IntegerAttr(item, 64) for item in value)


def _value(attribute: Attribute | None) -> Any:
    match attribute:
        case IntegerAttr():
            number = attribute.value.data
            return bool(number) if attribute.type == i1 else number
        case FloatAttr():
            return attribute.value.data
        case ArrayAttr():
            return [_value(item) for item in cast(ArrayAttr[Attribute], attribute)]
        case _:
            return None


def expect_floats(what: str, value: SSAValue) -> None:
    if not is_float(element_type_of(value)):
        raise VerifyException(
            f"{what} has element type {element_type_of(value)}, expected a float type"
        )


def expect_other_dims(what: str, value: SSAValue, x: SSAValue, dim: int) -> None:
    """Raise unless `value` has the extents of x in all dimensions but `dim`."""
    shape = list(shape_of(x))
    if len(shape_of(value)) == len(shape):
        shape[dim] = shape_of(value)[dim]
    expect_shape(what, value, shape)


def expect_count(name: str, value: int, extent: int, what: str) -> None:
    if value < 1 or (extent != DYNAMIC_INDEX and value > extent):
        limit = "1 or more" if extent == DYNAMIC_INDEX else f"1 to {extent}"
        raise VerifyException(f"property {name} is {value}, expected {limit}, the {what}")


def replaced(x: Extents, dim: int, *extents: Any) -> Extents:
    """The extents `x` with others in place of that of `dim`."""
    return (*x[:dim], *extents, *x[dim + 1 :])


def expect_rank(what: str, value: SSAValue, rank: int) -> None:
    """Raise unless `value` has `rank` dimensions."""
    if len(shape_of(value)) != rank:
        raise VerifyException(f"{what} has rank {len(shape_of(value))}, expected {rank}")
