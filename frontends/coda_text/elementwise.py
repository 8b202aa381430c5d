"""Elementwise operators on tensors and numbers, and conversions of element types."""

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import FloorDivideOp, RemainderOp, RoundOp
from coda_ir.dialects.coda.shapes import broadcast_shapes, is_float8
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.remedies import broadcast_remedy, conversion
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    FLOAT_TYPES,
    MAX_INTEGER,
    RANGES,
    Dims,
    Number,
    PartialValue,
    Range,
    TensorValue,
    Value,
    describe,
    format_dims,
    is_number,
    with_ones,
)
from coda_ir.symbolic_size import SymbolicSize

Maker: TypeAlias = Callable[[SSAValue, SSAValue], Operation]

BINARY: dict[str, type[coda.BinaryOp]] = {
    "+": coda.AddOp,
    "-": coda.SubOp,
    "*": coda.MulOp,
    "/": coda.DivOp,
    "//": FloorDivideOp,
    **coda.FUNCTIONS_OF_TWO,
}
UNARY = coda.REAL_FUNCTIONS
COMPARISONS = coda.CompareOp.RELATIONS
SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
"""Comparisons as infix operators."""
INFIX = (*BINARY, *SIGNS)
NUMBER_UNARY: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "erf": math.erf,
    "exp": math.exp,
    "expm1": math.expm1,
    "floor": math.floor,
    "log": math.log,
    "log1p": math.log1p,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "tanh": math.tanh,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "maximum": max,
    "minimum": min,
}
"""Functions of numbers by operator."""

NARROW = ("bf16", "f16")
MAX_POWER = 16
"""The largest exponent for which x is multiplied with itself."""


def unary(call: Invocation) -> Value:
    """A unary operator; of a number it is computed here."""
    value = call.value("x")
    if isinstance(value, int | float) and is_number(value) and call.name in NUMBER_UNARY:
        return number_unary(call.name, value)
    return applied(UNARY[call.name], call)


def applied(operator: type[coda.UnaryOp], call: Invocation) -> TensorValue:
    """A unary operator of the tensor `x` and of numbers."""
    x = call.tensor("x")
    _expect_elements(call.name, "x", x, operator.ELEMENTS)
    defaults = operator.NUMBERS.items()
    return call.make(operator, x, *(float(call.number(name, each or 0)) for name, each in defaults))


def negation(call: Invocation) -> TensorValue:
    return applied(coda.NegOp, call)


def clamp(call: Invocation) -> TensorValue:
    """x between two numbers, one of which may be left out."""
    x = call.tensor("x")
    _expect_elements(call.name, "x", x, coda.MaximumOp.ELEMENTS)
    if not call.given("min") and not call.given("max"):
        raise Mistake("clamp: neither min nor max is given", "write clamp(x, min=0.0)", "E0401")
    for bound, operator in (("min", "maximum"), ("max", "minimum")):
        if call.given(bound):
            number = call.number(bound, 0)
            if not x.type.is_float and not isinstance(number, int):
                raise call.wrong(bound, "expected an integer", "convert x: cast($x, f32)", "E0508")
            x = _combined(call, call.name, BINARY[operator], x, number)
    return x


def power(call: Invocation) -> TensorValue:
    """x to a power; one that is a whole number or half of one is made of products and roots."""
    x, exponent = call.float_tensor("x"), call.number("exponent", 1)
    if not exponent:
        raise Mistake("pow: exponent is 0, expected another number", argument="exponent")
    whole, half = divmod(abs(exponent), 1)
    if half not in (0, 0.5) or whole > MAX_POWER:
        return call.make(coda.PowOp, x, float(exponent))
    factors = [x] * int(whole)
    if half:
        root = coda.RsqrtOp if exponent == -0.5 else coda.SqrtOp
        factors.append(call.make(root, x))
    result = reduce(partial(call.make, coda.MulOp), factors)
    if exponent > 0 or exponent == -0.5:
        return result
    return call.make(coda.DivOp, call.emit_number(1, x.type.element), result)


def number_unary(name: str, value: Number) -> Number:
    """Raises Mistake where the function is not defined."""
    try:
        return NUMBER_UNARY[name](value)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise Mistake(
            f"{name} of the number {value} is not defined",
            "the result must be a finite real number",
            argument="x",
        ) from error


def number_binary(operator: str, left: Number, right: Number) -> Number:
    """Arithmetic on numbers. Raises Mistake for a division by zero or an overflow."""
    try:
        result: Number = ARITHMETIC[operator](left, right)
    except ZeroDivisionError as error:
        raise Mistake(f"division of {left} by zero", "the divisor must not be 0") from error
    except OverflowError as error:
        raise _too_large(operator, left, right) from error
    if not abs(result) < (MAX_INTEGER if isinstance(result, int) else math.inf):
        raise _too_large(operator, left, right)
    return result


def _too_large(operator: str, left: Number, right: Number) -> Mistake:
    limit = "integers have 64 bits, floats are finite"
    return Mistake(f"{operator} of {left} and {right} is too large", limit)


def combined(call: Invocation, operator: str, left: Value, right: Value) -> TensorValue:
    """`left operator right` with broadcasting; a number takes the element type of the other."""
    return _combined(call, operator, BINARY[operator], left, right)


def binary_call(call: Invocation) -> TensorValue:
    """The binary operator that `call` names, on the arguments `a` and `b`."""
    make = BINARY[call.name]
    if make in (FloorDivideOp, RemainderOp):
        _expect_divisor(call.value("a"), call.value("b"))
    return _of_two(call, make, make.ELEMENTS)


def _expect_divisor(a: Value | None, b: Value | None) -> None:
    """Raises Mistake for the division of integers by the number 0."""
    is_zero = isinstance(b, int | float) and is_number(b) and not b
    if is_zero and isinstance(a, TensorValue) and a.type.element in RANGES:
        message = f"division of {a.type} by zero"
        raise Mistake(message, "the divisor of integers must not be 0", argument="b")


def infix(call: Invocation) -> TensorValue:
    """The infix operator that `call` names, on `a` and `b`."""
    if call.name not in SIGNS:
        return binary_call(call)
    return _of_two(call, _comparison(SIGNS[call.name]), coda.CompareOp.ELEMENTS)


def compare(call: Invocation) -> TensorValue:
    """The truth values of a comparison."""
    return _of_two(call, _comparison(call.name), coda.CompareOp.ELEMENTS)


def compared(call: Invocation, relation: str, left: Value, right: Value) -> TensorValue:
    """The truth values of `relation`, one of `COMPARISONS`."""
    return _combined(call, relation, _comparison(relation), left, right)


def _comparison(relation: str) -> Maker:
    return lambda a, b: coda.CompareOp(a, b, relation)


def selection(call: Invocation) -> TensorValue:
    """The function that `call` names, of a truth value and the arguments `a` and `b`."""
    condition, operator = call.tensor("condition"), coda.SELECTIONS[call.name]
    _expect_elements(call.name, "condition", condition, coda.Elements.BOOLEANS)
    return _of_two(call, partial(operator, condition.ssa), operator.ELEMENTS, condition.dims)


def selected(call: Invocation, condition: TensorValue, left: Value, right: Value) -> TensorValue:
    """`left` where the condition holds, else `right`; one of both may be a number."""
    make = partial(coda.WhereOp, condition.ssa)
    return _combined(call, "where", make, left, right, condition.dims)


def _of_two(call: Invocation, make: Maker, elements: coda.Elements, dims: Dims = ()) -> TensorValue:
    """An operator on the arguments `a` and `b`, at least one of which is a tensor."""
    a, b = call.value("a"), call.value("b")
    assert a is not None and b is not None, "both are required"
    for name, value in (("a", a), ("b", b)):
        _expect_operand(call.name, name, value, elements)
    if not isinstance(a, TensorValue) and not isinstance(b, TensorValue):
        raise Mistake(
            f"{call.name}: a is {describe(a)} and b is {describe(b)}, expected a tensor",
            "$a // $b divides sizes" if call.name == "/" else "write cast($a, f32)",
            "E0508",
            argument="a",
        )
    return _combined(call, call.name, make, a, b, dims)


def _combined(
    call: Invocation, operator: str, make: Maker, left: Value, right: Value, dims: Dims = ()
) -> TensorValue:
    """`make(left, right)` broadcast with `dims`; a number takes the element type of the other."""
    pattern = left if isinstance(left, TensorValue) else right
    assert isinstance(pattern, TensorValue), "numbers are folded before"
    if pattern.type.element in NARROW and SymbolicSize in map(type, (left, right)):
        # A size is no number of a narrow type: the operator computes in f32, as in PyTorch.
        wide = _converted(call, pattern, "f32")
        sides = (wide, right) if pattern is left else (left, wide)
        result = _combined(call, operator, make, *sides, dims)
        if result.type.element == "bool":
            return result
        return _converted(call, result, pattern.type.element)
    a = _operand(call, operator, left, pattern, "$b")
    b = _operand(call, operator, right, pattern, "$a")
    if a.type.element != b.type.element:
        raise Mistake(
            f"the operands of {operator} are {a.type} and {b.type}: their element types differ",
            f"convert one of them, as in {conversion(a, b)}",
            "E0501",
        )
    common = broadcast_shapes(a.dims, b.dims)
    if common is None:
        raise Mistake(
            f"the operands of {operator} are {a.type} and {b.type}: their shapes do not broadcast",
            broadcast_remedy(a, b),
            "E0502",
        )
    shape = broadcast_shapes(common, dims)
    if shape is None:
        aligned = with_ones(dims, common)
        raise Mistake(
            f"{operator}: condition has the shape {format_dims(dims)}, which does not broadcast "
            f"with {format_dims(common)}",
            None if aligned is None else f"write reshape($condition, {format_dims(aligned)})",
            argument="condition",
            code="E0502",
        )
    return call.emit(make(a.ssa, b.ssa), shape)


def _expect_operand(operator: str, name: str, value: Value, elements: coda.Elements) -> None:
    match value:
        case TensorValue():
            _expect_elements(operator, name, value, elements)
        case PartialValue():
            raise Mistake(
                f"an operand of {operator} is {describe(value)}, which is complete per tile only",
                f"combine it first: finalize(${name})",
                "E0301",
                argument=name,
            )
        case SymbolicSize() if elements != coda.Elements.BOOLEANS:
            return
        case bool() if elements in (coda.Elements.BOOLEANS, coda.Elements.ANY):
            return
        case _ if is_number(value) and elements != coda.Elements.BOOLEANS:
            return
        case _:
            raise Mistake(
                f"an operand of {operator} is {describe(value)}, expected a tensor or a number",
                argument=name,
                code="E0508",
            )


_EXPECTED = {
    coda.Elements.FLOATS: ("floating-point elements", "convert it: cast({}, f32)"),
    coda.Elements.NUMBERS: ("numbers", "convert it: cast({}, f32)"),
    coda.Elements.BOOLEANS: ("bool elements", "compare it: ne({}, 0)"),
}


def _expect_elements(operator: str, name: str, value: TensorValue, elements: coda.Elements) -> None:
    type = ELEMENT_TYPES[value.type.element]
    if is_float8(type):
        raise Mistake(
            f"an operand of {operator} is {value.type}, but float8 is for storage",
            f"convert it first: cast(${name}, f32)",
            "E0501",
            argument=name,
        )
    if not elements.includes(type):
        expected, remedy = _EXPECTED[elements]
        raise Mistake(
            f"an operand of {operator} is {value.type}, expected {expected}",
            remedy.format(f"${name}"),
            "E0501",
            argument=name,
        )


def _operand(
    call: Invocation, operator: str, value: Value, pattern: TensorValue, other: str
) -> TensorValue:
    """`value`, or the number as a constant like `pattern`, which remedies call `other`."""
    if isinstance(value, TensorValue):
        return value
    assert isinstance(value, int | float | SymbolicSize)
    element = pattern.type.element
    is_whole = isinstance(value, int | SymbolicSize)
    fits = is_whole and (element == "bool") == isinstance(value, bool)
    if not fits and not pattern.type.is_float:
        raise Mistake(
            f"an operand of {operator} is {describe(value)}, but the other one is {pattern.type}",
            f"convert the tensor, as in cast({other}, f32)",
            "E0501",
        )
    if not isinstance(value, SymbolicSize):
        expect_in_range(operator, value, element)
    return call.emit_number(value, element)


def expect_in_range(operator: str, number: Number, element: str) -> None:
    """Raise Mistake for an integer that `element` does not hold."""
    range = RANGES.get(element)
    if range is not None and not range.least <= number <= range.largest:
        raise Mistake(
            f"an operand of {operator} is {describe(number)}, which {element} cannot represent",
            f"{element} holds {range.least} to {range.largest}",
            "E0501",
        )


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
            raise Mistake(
                f"cast: x is {describe(number)}, which cannot be converted to {element}",
                code="E0501",
            )
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
    return x if element == x.type.element else call.make(coda.CastOp, x, ELEMENT_TYPES[element])


def _constant(call: Invocation, number: Number, element: str) -> TensorValue:
    """A tensor of one element and no dimension."""
    if element not in FLOAT_TYPES and (element == "bool" or not isinstance(number, int)):
        raise Mistake(
            f"cast: x is {describe(number)}, which cannot be converted to {element}", code="E0501"
        )
    expect_in_range(call.name, number, element)
    return call.emit_number(number, element)


def _rounded(call: Invocation, x: TensorValue, element: str) -> TensorValue:
    """`x` as what a conversion, which truncates to integers, rounds as it is stated."""
    rounding, to_integer = call.choice("rounding", ROUNDINGS[0], ROUNDINGS), element in RANGES
    if not x.type.is_float or element == "bool":
        raise Mistake(
            f"cast: x is {x.type}, which a cast to {element} does not round",
            "leave rounding out",
            "E0501",
            argument="rounding",
        )
    if rounding == "toward_zero" and not to_integer:
        raise Mistake(
            f'cast: rounding is "{rounding}", but {element} takes the nearest number, the even '
            "one at a tie",
            "leave rounding out, or cast to an integer",
            "E0501",
            argument="rounding",
        )
    is_needed = rounding == "nearest_even" and to_integer
    return call.make(RoundOp, x) if is_needed else x


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
            "E0501",
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
    """`value`, and 0 where `x` is NaN."""
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
