"""Conversions of element types: how they round, and what becomes of numbers that do not fit."""

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import RoundOp
from coda_ir.dialects.coda.shapes import is_float8
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.elementwise import combined, compared, expect_in_range, selected
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    FLOAT_TYPES,
    RANGES,
    Number,
    Range,
    TensorValue,
    describe,
    is_number,
)
from coda_ir.symbolic_size import SymbolicSize

ROUNDINGS = ("nearest_even", "toward_zero")

LARGEST = {"f16": 65504.0, "f8e4m3": 448.0, "f8e5m2": 57344.0}
"""The largest finite numbers of the floats that float32 exceeds."""


def cast(call: Invocation) -> TensorValue:
    """The elements in another type, rounded and clamped to its range where the call says so."""
    element, number = call.element_type("dtype"), call.value("x")
    assert element is not None, "dtype is required"
    if isinstance(number, int | float) and is_number(number):
        return _constant(call, number, element)
    if isinstance(number, SymbolicSize):
        if element == "bool":
            raise Mistake(f"cast: x is {describe(number)}, which cannot be converted to {element}")
        return call.emit_number(number, element)
    x = call.tensor("x")
    if is_float8(ELEMENT_TYPES[x.type.element]) and element in RANGES:
        x = _converted(call, x, "f32")
    if call.given("rounding"):
        x = _rounded(call, x, element)
    if call.flag("saturate"):
        x = _saturated(call, x, element)
    return _converted(call, x, element)


def _converted(call: Invocation, x: TensorValue, element: str) -> TensorValue:
    if element == x.type.element:
        return x
    return call.emit(coda.CastOp(x.ssa, ELEMENT_TYPES[element]), x.dims)


def _constant(call: Invocation, number: Number, element: str) -> TensorValue:
    """A tensor of one element and no dimension."""
    if element not in FLOAT_TYPES and (element == "bool" or not isinstance(number, int)):
        raise Mistake(f"cast: x is {describe(number)}, which cannot be converted to {element}")
    expect_in_range(call.name, number, element)
    return call.emit_number(number, element)


def _rounded(call: Invocation, x: TensorValue, element: str) -> TensorValue:
    """`x` as what a conversion, which truncates to integers, rounds as it is stated."""
    rounding, to_integer = call.choice("rounding", ROUNDINGS[0], ROUNDINGS), element in RANGES
    if not x.type.is_float or element == "bool":
        raise Mistake(
            f"cast: x is {x.type}, which a cast to {element} does not round",
            "leave rounding out",
            argument="rounding",
        )
    if rounding == "toward_zero" and not to_integer:
        raise Mistake(
            f'cast: rounding is "{rounding}", but {element} takes the nearest number, the even '
            "one at a tie",
            "leave rounding out, or cast to an integer",
            argument="rounding",
        )
    is_needed = rounding == "nearest_even" and to_integer
    return call.emit(RoundOp(x.ssa), x.dims) if is_needed else x


def _saturated(call: Invocation, x: TensorValue, element: str) -> TensorValue:
    """`x` as what a conversion makes the nearest number of `element` of; NaN becomes 0."""
    target, given = RANGES.get(element), RANGES.get(x.type.element)
    if element in LARGEST:
        largest = LARGEST[element]
        wide = x if x.type.is_float else _converted(call, x, "f32")
        return _clamped(call, wide, -largest, largest)
    if target is None:
        raise Mistake(
            f"cast: saturate is given for {element}, expected an integer type, "
            f"{', '.join(LARGEST)}",
            "leave it out",
            argument="saturate",
        )
    if x.type.element == "bool":
        return x
    if given is not None:
        return _narrowed(call, x, given, target)
    if target.bits < 32:
        return _number_or_zero(call, x, _clamped(call, x, target.least, target.largest))
    return _saturated_wide(call, x, element, target)


def _clamped(call: Invocation, x: TensorValue, least: Number, largest: Number) -> TensorValue:
    return combined(call, "minimum", combined(call, "maximum", x, least), largest)


def _narrowed(call: Invocation, x: TensorValue, given: Range, target: Range) -> TensorValue:
    """Integers in the range `given`, clamped where `target` ends before."""
    if given.least < target.least:
        x = combined(call, "maximum", x, target.least)
    return x if given.largest <= target.largest else combined(call, "minimum", x, target.largest)


def _number_or_zero(call: Invocation, x: TensorValue, value: TensorValue) -> TensorValue:
    return selected(call, compared(call, "eq", x, x), value, 0)


def _saturated_wide(call: Invocation, x: TensorValue, element: str, target: Range) -> TensorValue:
    """`x` as an integer of a type whose largest number is between those of floats."""
    if x.type.element != "f64":
        x = _converted(call, x, "f32")
    bound = float(target.largest + 1)
    least = combined(call, "maximum", x, float(target.least))
    inside = selected(call, compared(call, "lt", least, bound), least, 0)
    integer = _converted(call, inside, element)
    return selected(call, compared(call, "ge", x, bound), target.largest, integer)
