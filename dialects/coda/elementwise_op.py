"""Base classes of elementwise operators: broadcasting and element types."""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, TypeAlias, TypeVar

from xdsl.dialects.builtin import FloatAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import Extents, InferTypeOp
from coda_ir.dialects.coda.shapes import (
    broadcast_shapes,
    element_type_of,
    expect_element_type,
    format_shape,
    is_float,
    is_float8,
    wrong_type,
)

Scalar: TypeAlias = Callable[..., Operation]
"""An operator of regions, made of its operands."""

Formula: TypeAlias = Callable[..., Any]
"""A `Term` made of another one, and of numbers."""


class Elements(Enum):
    """The element types that an operator accepts, as messages name them."""

    FLOATS = "floats"
    NUMBERS = "numbers"
    BOOLEANS = "booleans"
    ANY = "floats, integers or booleans"

    def includes(self, type: Attribute) -> bool:
        """Return whether an operand may have elements of `type`."""
        if is_float8(type):
            return False
        if self in (Elements.FLOATS, Elements.ANY):
            return is_float(type) or self == Elements.ANY
        return (type == i1) == (self == Elements.BOOLEANS)


class ElementwiseOp(InferTypeOp, ABC):
    """An operator that maps elements to elements, after broadcasting its operands.

    Operands and result have one element type unless an operator says otherwise.
    """

    ATEN: ClassVar[str | None] = None
    """The overload of ATen that computes it of operands and `NUMBERS`; None if there is none."""
    NUMBERS: ClassVar[Mapping[str, float | None]] = {}
    """The properties that are numbers, in the order of the arguments of `ATEN` and of `.coda`, with
    their defaults; None where each call states the number."""
    ATEN_OPTIONS: ClassVar[Mapping[str, str | float]] = {}
    """The other arguments of `ATEN` that make it this operator."""
    ALIASES: ClassVar[tuple[str, ...]] = ()
    """Further overloads of ATen that are this operator on elements of `ELEMENTS`."""
    SCALAR: ClassVar[Scalar | None] = None
    """The operator of regions that computes `ATEN` of floats or truth values; None for several."""
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS
    """The element types of the operands."""
    JUMPS: ClassVar[bool] = False
    """True if a rounding of an operand may change the result by more than a rounding."""
    OF_POSITIVE: ClassVar[bool] = False
    """True of a function that is smooth for positive numbers, and infinite or NaN for others."""
    ZERO_AT_ZERO: ClassVar[bool] = False
    """True if the result is 0 where all operands are."""
    COSTLY: ClassVar[bool] = False
    """True of a function that estimates count: an exponential or an error function."""
    GATES: ClassVar[bool] = False
    """True of a function that `coda.glu` applies to gates, with code in `gemm/scalars.py`."""
    FORMULA: ClassVar[Formula | None] = None
    """Computes the result of a `Term` for the operand, and of `NUMBERS`. Without `ATEN`, PyTorch
    computes each of its operators on its own."""

    @classmethod
    def infer(cls, *operands: Extents, **_: object) -> list[Extents]:
        """Return the common shape of operands. Raises VerifyException if they do not broadcast."""
        shape: tuple[int, ...] = ()
        for index, operand in enumerate(operands):
            merged = broadcast_shapes(shape, operand)
            if merged is None:
                raise VerifyException(
                    f"{cls.name}: operand {index} of shape {format_shape(operand)} "
                    f"does not broadcast with shape {format_shape(shape)}"
                )
            shape = merged
        return [shape]

    def check(self) -> None:
        first, *others = self.elements_of_one_type
        for value in (first, *others):
            if not self.ELEMENTS.includes(element_type_of(value)):
                raise wrong_type("an operand", value, self.ELEMENTS.value)
        for index, operand in enumerate(others, 1):
            expect_element_type(f"operand {index}", operand, element_type_of(first))

    @property
    def numbers(self) -> list[float]:
        """The values of `NUMBERS`."""
        values = [self.properties[name] for name in self.NUMBERS]
        return [value.value.data for value in values if isinstance(value, FloatAttr)]

    @property
    def elements_of_one_type(self) -> Sequence[SSAValue]:
        """The operands that must have the same element type, one of `ELEMENTS`."""
        return self.operands


class UnaryOp(ElementwiseOp, ABC):
    operand = operand_def(TensorType)


class RealFunction(UnaryOp, ABC):
    """A function of one real number, whose properties are numbers; `.coda` calls it by its name."""


class Predicate(RealFunction, ABC):
    """A function of one real number that gives a truth value."""

    RESULT_ELEMENTS: ClassVar = (i1,)


class BinaryOp(ElementwiseOp, ABC):
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    @property
    def pairs(self) -> tuple[tuple[SSAValue, SSAValue], ...]:
        """The operands in both orders, for an operator that is commutative."""
        return (self.lhs, self.rhs), (self.rhs, self.lhs)


class FunctionOfTwo(BinaryOp, ABC):
    """A function of two elements without properties; `.coda` calls it by its name."""


class Selection(ElementwiseOp, ABC):
    """A function of a truth value and of two elements; `.coda` calls it by its name."""

    RESULT_ELEMENTS: ClassVar = (1,)

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    @property
    def elements_of_one_type(self) -> Sequence[SSAValue]:
        return (self.lhs, self.rhs)

    def check(self) -> None:
        super().check()
        expect_element_type("operand 0", self.condition, i1)


ELEMENTWISE_OPS: list[type[ElementwiseOp]] = []
"""All of them."""

OpT = TypeVar("OpT", bound=ElementwiseOp)


def elementwise(
    aten: str | None = None,
    scalar: Scalar | None = None,
    *,
    options: Mapping[str, str | float] | None = None,
    numbers: Mapping[str, float | None] | None = None,
    aliases: tuple[str, ...] = (),
    elements: Elements | None = None,
    jumps: bool = False,
    of_positive: bool = False,
    zero_at_zero: bool = False,
    costly: bool = False,
    gates: bool = False,
    formula: Formula | None = None,
) -> Callable[[type[OpT]], type[OpT]]:
    """Define an elementwise operator; without `elements`, it takes those of its base class."""

    def define(cls: type[OpT]) -> type[OpT]:
        op = irdl_op_definition(cls)
        op.ATEN, op.SCALAR, op.ATEN_OPTIONS, op.NUMBERS = aten, scalar, options or {}, numbers or {}
        op.ALIASES, op.ELEMENTS = aliases, elements or cls.ELEMENTS
        op.JUMPS, op.OF_POSITIVE, op.ZERO_AT_ZERO = jumps, of_positive, zero_at_zero
        op.COSTLY, op.GATES, op.FORMULA = costly, gates, formula
        ELEMENTWISE_OPS.append(op)
        return op

    return define
