"""The values of .coda expressions: tensors with symbolic shapes, numbers, tuples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, Signedness, TensorType as IRTensorType
from xdsl.ir import Attribute, Block, SSAValue

from coda_ir.dialects import element_types
from coda_ir.dialects.coda.shapes import AnyTensor, NamedExtent, is_float
from coda_ir.dialects.gemm import Combiner
from coda_ir.symbolic_size import SymbolicSize, as_size

Dim: TypeAlias = int | SymbolicSize
"""An extent: a number, or a polynomial in symbols that is not constant."""

Dims: TypeAlias = tuple[Dim, ...]

ELEMENT_TYPES: dict[str, Attribute] = {
    type.coda: type.attribute for type in element_types.ELEMENT_TYPES if type.coda
}
CODA_NAMES = {attribute: name for name, attribute in ELEMENT_TYPES.items()}
_IR_NAMES = re.compile(rf"\b({'|'.join(str(each) for each in CODA_NAMES)})\b")
FLOAT_TYPES = tuple(name for name, attribute in ELEMENT_TYPES.items() if is_float(attribute))
INDEX_TYPES = ("i32", "i64")


def with_coda_names(message: str) -> str:
    """Return a message of a verifier with the element types as .coda writes them."""
    names = {str(attribute): name for attribute, name in CODA_NAMES.items()}
    return _IR_NAMES.sub(lambda found: names[found[0]], message)


class Range(NamedTuple):
    """The range of an integer type."""

    bits: int
    least: int
    largest: int

    @staticmethod
    def of(type: IntegerType) -> Range:
        bits = type.bitwidth
        if type.signedness.data == Signedness.UNSIGNED:
            return Range(bits, 0, 2**bits - 1)
        return Range(bits, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


RANGES = {
    name: Range.of(cast(IntegerType, type))
    for name, type in ELEMENT_TYPES.items()
    if isinstance(type, IntegerType) and name != "bool"
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type of `ELEMENT_TYPES` and the extents."""

    element: str
    dims: Dims

    @property
    def is_float(self) -> bool:
        return self.element in FLOAT_TYPES

    def __str__(self) -> str:
        return f"{self.element}{format_dims(self.dims)}"


@dataclass(frozen=True, slots=True)
class TensorValue:
    type: TensorType
    ssa: SSAValue

    @property
    def dims(self) -> Dims:
        return self.type.dims


@dataclass(frozen=True, slots=True)
class PartialValue:
    """A reduction that is complete only per tile: `rows` are the extents that it keeps.

    `axis` is "row" for one partial per tile of columns, "col" for one per tile of rows.
    """

    axis: str
    combiner: Combiner
    kept: Dims
    ssa: SSAValue


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """An element inside of an epilogue: a float32 (or integer) value of the region."""

    ssa: SSAValue


@dataclass(frozen=True, slots=True)
class TupleValue:
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ListValue:
    """Sizes or axes in brackets."""

    items: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class ElementType:
    name: str


@dataclass(frozen=True, slots=True)
class Poison:
    """The value of an expression whose error was reported: it takes part in no other error."""


POISON = Poison()

MAX_INTEGER = 2**63
MAX_TERMS = 64
MAX_FACTORS = 16
SIZE_LIMITS = f"sizes have at most {MAX_TERMS} terms of {MAX_FACTORS} factors, and 64 bits"

Number: TypeAlias = int | float

Value: TypeAlias = (
    TensorValue
    | PartialValue
    | ScalarValue
    | TupleValue
    | ListValue
    | ElementType
    | SymbolicSize
    | int
    | float
    | bool
    | str
    | Poison
)


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_poisoned(value: Value) -> bool:
    """Return whether the value, or an item of it, is the result of a reported error."""
    if isinstance(value, TupleValue):
        return any(map(is_poisoned, value.items))
    return isinstance(value, Poison)


def describe(value: Value) -> str:
    """Return a description of a value, with its article, for messages."""
    match value:
        case TensorValue():
            return f"a tensor {value.type}"
        case PartialValue():
            return f"a partial_{value.axis}<{value.combiner.value}>"
        case ScalarValue():
            return f"an element of type {element_name(value.ssa.type)}"
        case TupleValue():
            return f"a tuple of {len(value.items)} values"
        case ListValue():
            return "a list of sizes"
        case ElementType():
            return f"the element type {value.name}"
        case SymbolicSize():
            return f"the size {value}"
        case bool():
            return str(value).lower()
        case str():
            return f'the string "{value}"'
        case Poison():
            return "an erroneous value"
        case _:
            return f"the number {value}"


@lru_cache(maxsize=4096)
def symbol(name: str) -> SymbolicSize:
    return SymbolicSize.product([name])


def simplified(size: SymbolicSize) -> Dim:
    """Return the number that a size without symbols is; otherwise the size."""
    return size if size.symbols else int(size)


def product_of(dims: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result if isinstance(result, int) else simplified(result)


def is_manageable(size: Dim) -> bool:
    """Return whether a size is small enough for arithmetic: products of sums grow exponentially."""
    if isinstance(size, int):
        return abs(size) < MAX_INTEGER
    return len(size.terms) <= MAX_TERMS and all(
        len(monomial) <= MAX_FACTORS and abs(coefficient) < MAX_INTEGER
        for monomial, coefficient in size.terms
    )


def divided(size: Dim, divisor: Dim) -> Dim | None:
    """Return `size` / `divisor` if it is exact for all sizes; None otherwise."""
    quotient = as_size(size).divided(divisor)
    return None if quotient is None else simplified(quotient)


def format_dims(dims: Sequence[Dim]) -> str:
    """Return a text such as `[4096, B, 2*B*T + 1]`."""
    return f"[{', '.join(map(str, dims))}]"


def extent(dim: Dim) -> int:
    """Return the extent in the IR, where all symbols are dynamic."""
    return dim if isinstance(dim, int) else DYNAMIC_INDEX


@lru_cache(maxsize=4096)
def ir_type(type: TensorType) -> AnyTensor:
    return IRTensorType(ELEMENT_TYPES[type.element], [extent(dim) for dim in type.dims])


def stand_in(type: TensorType) -> SSAValue:
    """Return a value of the IR whose extents have names, by which verifiers compare them."""
    dims = [dim if isinstance(dim, int) else NamedExtent(dim) for dim in type.dims]
    (value,) = Block(arg_types=[IRTensorType(ELEMENT_TYPES[type.element], dims)]).args
    return value


def element_name(attribute: Attribute) -> str:
    """Return the .coda name of an element type of the IR."""
    return CODA_NAMES[attribute]


def without_ones(dims: Dims) -> Dims:
    """Return the extents that are not 1."""
    return tuple(dim for dim in dims if dim != 1)


def with_ones(dims: Sequence[Dim], wider: Dims) -> Dims | None:
    """Return `dims` with a 1 for each dimension of `wider` that they lack; None for others."""
    rest = list(dims)
    aligned = [rest.pop() if rest[-1:] == [extent] else 1 for extent in reversed(wider)]
    return None if rest else tuple(reversed(aligned))
