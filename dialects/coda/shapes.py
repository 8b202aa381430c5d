"""Shape and element-type rules shared by the verifiers of the block level."""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    FixedBitwidthType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    TensorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.symbolic_size import SymbolicSize

AnyTensor: TypeAlias = TensorType[Attribute]
Extent = TypeVar("Extent")
"""A number, or in front ends a size that may be symbolic."""

FLOAT_TYPES = (BFloat16Type, Float16Type, Float32Type, Float64Type)
FLOAT8_TYPES = (Float8E4M3FNType, Float8E5M2Type)
"""Floats that only products compute with."""

# The functions below compare classes, which have no subclasses: `isinstance` asks an abstract base
# class, which takes ten times as long, and passes call them for every operand of every operator.
_FLOATS, _FLOATS8 = frozenset(FLOAT_TYPES), frozenset(FLOAT8_TYPES)
_IN_FLOAT32 = (_FLOATS | _FLOATS8) - {Float64Type}


def tensor_type(value: SSAValue) -> AnyTensor:
    """Return the type of a value that is known to be a tensor."""
    # Not `isa`: it builds a constraint per call, which dominated the time of large programs.
    type = cast(AnyTensor, value.type)
    assert isinstance(type, TensorType), f"expected a tensor, got {type}"
    return type


class NamedExtent(int):
    """A dynamic extent in terms of symbols: it is equal to no number, and to no other size."""

    size: SymbolicSize

    def __new__(cls, size: SymbolicSize) -> "NamedExtent":
        extent = super().__new__(cls, DYNAMIC_INDEX)
        extent.size = size
        return extent

    def __eq__(self, other: object) -> bool:
        is_other_size = isinstance(other, NamedExtent) and self.size != other.size
        return super().__eq__(other) and not is_other_size

    __hash__ = int.__hash__


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a tensor value; dynamic dimensions are `DYNAMIC_INDEX`."""
    # Not `get_shape`: its generator takes twice as long.
    return tuple([extent.data for extent in tensor_type(value).shape.data])


def static_shape(extents: Iterable[object]) -> tuple[int, ...]:
    """Return the shape of a type of these extents; symbols are `DYNAMIC_INDEX`."""
    return tuple(extent if isinstance(extent, int) else DYNAMIC_INDEX for extent in extents)


def element_type_of(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


def element_bytes(type: Attribute) -> int:
    """Return the bytes of an element of a tensor or element type (1 for i1), or raise TypeError."""
    if type.__class__ is TensorType:
        type = cast(AnyTensor, type).element_type
    if type.__class__ is IndexType:
        return 8
    if not isinstance(type, FixedBitwidthType):
        raise TypeError(f"an element of type {type} has no size in bytes")
    return max(1, type.bitwidth // 8)


def is_float(type: Attribute) -> bool:
    """Return whether operators compute with elements of `type`, a float type."""
    return type.__class__ in _FLOATS


def stores_floats(type: Attribute) -> bool:
    """Return whether elements of `type` are floats, including types without arithmetic."""
    return is_float(type) or is_float8(type)


def is_float8(type: Attribute) -> bool:
    return type.__class__ in _FLOATS8


def is_eight_bits(type: Attribute) -> bool:
    """Return whether `type` is a float or integer of 8 bits, which 16-bit floats hold exactly."""
    return is_float8(type) or (isinstance(type, IntegerType) and type.bitwidth == 8)


def multiplies(x: Attribute, weight: Attribute) -> bool:
    """Return whether a linear layer supports elements of these types: equal floats, two float8, or
    weights of 8 bits, which are converted to the type of x.
    """
    if is_float8(x):
        return is_float8(weight)
    is_exact = is_eight_bits(weight) and computes_in_float32(x)
    return is_float(x) and (weight == x or is_exact)


def product_type(x: Attribute) -> Attribute:
    """Return the default result type of a linear layer: that of x, but f32 for float8."""
    return f32 if is_float8(x) else x


def computes_in_float32(type: Attribute) -> bool:
    """Return whether float32 can represent every value of `type`: all float types but f64."""
    return type.__class__ in _IN_FLOAT32


def is_narrow_integer(type: Attribute) -> bool:
    """Return whether `type` is an integer type of 8 or 16 bits, which is computed in 32."""
    return isinstance(type, IntegerType) and 1 < type.bitwidth < 32


def float_type(type: Attribute) -> AnyFloat:
    """Return `type`, known to be one of the supported floating-point types."""
    assert stores_floats(type), f"expected a float type, got {type}"
    return cast(AnyFloat, type)


def dims_agree(a: object, b: object) -> bool:
    """Return whether two extents can be equal: they are, or one is dynamic and has no name."""
    return a == b or any(each == DYNAMIC_INDEX and not _is_named(each) for each in (a, b))


def _is_named(extent: object) -> bool:
    return isinstance(extent, NamedExtent)


def shapes_agree(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) == len(b) and all(map(dims_agree, a, b))


def may_divide(divisor: int, extent: int) -> bool:
    """Return whether an extent can be a multiple of another one."""
    if isinstance(extent, NamedExtent) and (divisor != DYNAMIC_INDEX or _is_named(divisor)):
        by = divisor.size if isinstance(divisor, NamedExtent) else divisor
        return extent.size.divided(by) is not None
    if DYNAMIC_INDEX in (divisor, extent):
        return dims_agree(divisor, extent)
    return extent == divisor or (divisor != 0 and extent % divisor == 0)


def quotient(extent: int, divisor: int) -> int:
    """Return an extent divided by a number, dynamic if it is."""
    if isinstance(extent, NamedExtent):
        exact = extent.size.divided(divisor)
        return DYNAMIC_INDEX if exact is None else NamedExtent(exact)
    return DYNAMIC_INDEX if extent == DYNAMIC_INDEX else extent // divisor


def ceiling(extent: int, divisor: int) -> int:
    """Return the number of blocks of `divisor` elements that cover an extent, perhaps dynamic."""
    return DYNAMIC_INDEX if extent == DYNAMIC_INDEX else -(-extent // divisor)


def broadcast_shapes(a: Sequence[Extent], b: Sequence[Extent]) -> tuple[Extent | int, ...] | None:
    """Return the NumPy broadcast of two shapes, or None if they do not fit.

    A dynamic extent, or a symbol, is never a broadcast 1: broadcasting is visible in the types.
    """
    rank = max(len(a), len(b))
    padded_a = (1,) * (rank - len(a)) + tuple(a)
    padded_b = (1,) * (rank - len(b)) + tuple(b)
    result: list[Extent | int] = []
    for x, y in zip(padded_a, padded_b, strict=True):
        if x == 1 or y == 1:
            result.append(y if x == 1 else x)
        elif dims_agree(x, y):
            result.append(y if x == DYNAMIC_INDEX else x)
        else:
            return None
    return tuple(result)


def format_shape(shape: Sequence[int]) -> str:
    """Return a text such as `?x8`, or `[B, T, 8]` if extents have names."""
    extents = list(map(format_extent, shape))
    is_named = any(map(_is_named, shape))
    return f"[{', '.join(extents)}]" if is_named else "x".join(extents) or "scalar"


def format_extent(extent: int) -> str:
    if isinstance(extent, NamedExtent):
        return str(extent.size)
    return "?" if extent == DYNAMIC_INDEX else str(extent)


def wrong_shape(what: str, shape: Sequence[int], expected: str) -> VerifyException:
    """Return the error that a value has another shape than expected."""
    return VerifyException(f"{what} has shape {format_shape(shape)}, expected {expected}")


def wrong_type(what: str, value: SSAValue, expected: str) -> VerifyException:
    """Return the error that `value` has other elements than expected."""
    return VerifyException(f"{what} has element type {element_type_of(value)}, expected {expected}")


def wrong_property(name: str, value: object, expected: str) -> VerifyException:
    """Return the error that a property has another value than expected."""
    return VerifyException(f"property {name} is {value}, expected {expected}")


def expect_shape(what: str, value: SSAValue, expected: Sequence[int]) -> None:
    """Raise unless `value` has a shape that agrees with `expected`."""
    actual = shape_of(value)
    if not shapes_agree(actual, expected):
        raise wrong_shape(what, actual, format_shape(expected))


def expect_element_type(what: str, value: SSAValue, expected: Attribute) -> None:
    actual = element_type_of(value)
    if actual != expected:
        raise wrong_type(what, value, str(expected))


def expect_tensor(
    what: str, value: SSAValue, shape: Sequence[int], element_type: Attribute
) -> None:
    """Raise unless `value` has a shape that agrees with `shape`, and elements of `element_type`."""
    expect_shape(what, value, shape)
    expect_element_type(what, value, element_type)


def expect_like(what: str, value: SSAValue, other: SSAValue) -> None:
    """Raise unless `value` has the shape and the element type of `other`."""
    expect_tensor(what, value, shape_of(other), element_type_of(other))


def expect_one_of(what: str, name: str, known: Collection[str]) -> None:
    """Raise unless the property `what` is one of the `known` names."""
    if name not in known:
        raise wrong_property(what, f'"{name}"', f"one of {', '.join(known)}")


def expect_factor(what: str, weight: SSAValue, x: SSAValue) -> None:
    """Raise unless a linear map has elements of the types of `x` and `weight`."""
    actual, type = element_type_of(weight), element_type_of(x)
    if not multiplies(type, actual):
        expected = f"{type}, or a type of 8 bits" if computes_in_float32(type) else f"{type}"
        expected = "a float8 type" if is_float8(type) else expected
        raise wrong_type(what, weight, expected)


def expect_rank_at_least(what: str, value: SSAValue, rank: int) -> None:
    actual = len(shape_of(value))
    if actual < rank:
        raise VerifyException(f"{what} has rank {actual}, expected at least {rank}")


def is_integer_tensor(value: SSAValue) -> bool:
    element = element_type_of(value)
    return isinstance(element, IntegerType) and element != i1


def expect_integers(what: str, value: SSAValue) -> None:
    if not is_integer_tensor(value):
        raise wrong_type(what, value, "i32 or i64")


def expect_floats(what: str, value: SSAValue) -> None:
    if not is_float(element_type_of(value)):
        raise wrong_type(what, value, "a float type")


def expect_dim(dim: int, rank: int) -> None:
    if not 0 <= dim < rank:
        raise wrong_property("dim", dim, f"0 to {rank - 1}")


def expect_wide_element_type(what: str, value: SSAValue, x: SSAValue) -> None:
    """Raise unless the elements of `value` have the type of x's, or f32 where that is wider."""
    is_float32 = isinstance(element_type_of(value), Float32Type)
    if not (is_float32 and computes_in_float32(element_type_of(x))):
        expect_element_type(what, value, element_type_of(x))


def expect_row_parameter(what: str, value: SSAValue, x: SSAValue, extent: int) -> None:
    """Raise unless `value` is a vector of `extent` elements, of x's element type or a wider f32."""
    expect_shape(what, value, (extent,))
    expect_wide_element_type(what, value, x)


def serves_each_sample(table: Sequence[object], domain: Sequence[object]) -> bool:
    """Return whether a tensor has one row of columns for each sample of a tensor with the shape
    `domain`: B x 1 x N beside B x T x N, or one row for all samples.
    """
    if len(table) != len(domain) or len(table) < 2 or table[-1] != domain[-1]:
        return False
    rows = list(table[:-1])
    while rows and rows[-1] == 1:
        rows.pop()
    return len(rows) < len(table) - 1 and rows == list(domain[: len(rows)])


def expect_norm_parameter(what: str, value: SSAValue, x: SSAValue) -> None:
    """Raise unless `value` has one element for each column of x, or one for each column and sample;
    the elements have the type of x's, or f32 where that is wider.
    """
    if len(shape_of(value)) == 1:
        expect_row_parameter(what, value, x, shape_of(x)[-1])
        return
    if not serves_each_sample(shape_of(value), shape_of(x)):
        columns, samples = format_shape(shape_of(x)[-1:]), format_shape(shape_of(x))
        expected = f"{columns}, or one such row for each sample of {samples}"
        raise wrong_shape(what, shape_of(value), expected)
    expect_wide_element_type(what, value, x)


def verify_group(what: str, group: int, columns: int, unit: str = "columns") -> None:
    """Raise unless `columns` (if static) are whole groups of `group` columns."""
    if group < 1 or (columns != DYNAMIC_INDEX and columns % group):
        raise wrong_property(what, group, f"a divisor of the {format_extent(columns)} {unit}")


def optional_operand(value: SSAValue | Operation | None) -> list[SSAValue]:
    """Return the operands of an optional operand definition: none or one."""
    return [] if value is None else [SSAValue.get(value)]
