"""Elementwise operators on tensors and numbers: infix, unary, maximum and minimum."""

from __future__ import annotations

import math
from collections.abc import Callable

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    MAX_INTEGER,
    Number,
    PartialValue,
    TensorValue,
    Value,
    broadcast,
    describe,
    is_number,
)
from coda_ir.symbolic_size import SymbolicSize

BINARY: dict[str, type[coda.BinaryOp]] = {
    "+": coda.AddOp,
    "-": coda.SubOp,
    "*": coda.MulOp,
    "/": coda.DivOp,
    "maximum": coda.MaximumOp,
    "minimum": coda.MinimumOp,
}
UNARY: dict[str, type[coda.UnaryOp]] = {
    "abs": coda.AbsOp,
    "exp": coda.ExpOp,
    "log": coda.LogOp,
    "sqrt": coda.SqrtOp,
    "rsqrt": coda.RsqrtOp,
    "tanh": coda.TanhOp,
    "sigmoid": coda.SigmoidOp,
    "silu": coda.SiluOp,
    "relu": coda.ReluOp,
    "relu2": coda.Relu2Op,
    "detach": coda.DetachOp,
}
NUMBER_UNARY: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "tanh": math.tanh,
}


def unary(call: Invocation) -> Value:
    """A unary operator; of a number it is computed here."""
    value = call.value("x")
    if isinstance(value, int | float) and is_number(value) and call.name in NUMBER_UNARY:
        return number_unary(call.name, value)
    x = call.float_tensor("x")
    return call.emit(UNARY[call.name](x.ssa), x.dims)


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
        result = _compute(operator, left, right)
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


def _compute(operator: str, left: Number, right: Number) -> Number:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "//":
            return left // right
        case "maximum":
            return max(left, right)
        case _:
            return min(left, right)


def binary(call: Invocation, operator: str, left: Value, right: Value) -> Value:
    """`left operator right` with broadcasting; a number takes the element type of the other."""
    for name, value in (("a", left), ("b", right)):
        _expect_operand(operator, name, value)
    pattern = left if isinstance(left, TensorValue) else right
    assert isinstance(pattern, TensorValue), "numbers are folded before"
    a, b = _operand(call, left, pattern), _operand(call, right, pattern)
    if a.type.element != b.type.element:
        raise Mistake(
            f"the operands of {operator} are {a.type} and {b.type}: their element types differ",
            f"convert one of them, as in cast(y, {a.type.element})",
        )
    dims = broadcast(a.dims, b.dims)
    if dims is None:
        raise Mistake(
            f"the operands of {operator} are {a.type} and {b.type}: their shapes do not broadcast",
            _broadcast_remedy(a, b),
        )
    return call.emit(BINARY[operator](a.ssa, b.ssa), dims)


def _expect_operand(operator: str, name: str, value: Value) -> None:
    match value:
        case TensorValue() if value.type.is_float:
            return
        case TensorValue():
            raise Mistake(
                f"an operand of {operator} is {value.type}, expected floating-point elements",
                "convert it: cast(..., f32)",
                argument=name,
            )
        case PartialValue():
            raise Mistake(
                f"an operand of {operator} is {describe(value)}, which is complete per tile only",
                "combine it first: finalize(...)",
                argument=name,
            )
        case SymbolicSize():
            raise Mistake(
                f"an operand of {operator} is {describe(value)}, which is known at run time only",
                "use a const, or the reduction mean(x)",
                argument=name,
            )
        case _ if is_number(value):
            return
        case _:
            raise Mistake(
                f"an operand of {operator} is {describe(value)}, expected a tensor or a number",
                argument=name,
            )


def _operand(call: Invocation, value: Value, pattern: TensorValue) -> TensorValue:
    """`value`, or the constant of the element type of `pattern` that a number stands for."""
    if isinstance(value, TensorValue):
        return value
    assert isinstance(value, int | float)
    constant = coda.ConstantOp(float(value), ELEMENT_TYPES[pattern.type.element])
    return call.emit(constant, ())


def _broadcast_remedy(a: TensorValue, b: TensorValue) -> str:
    pairs = list(zip(reversed(a.dims), reversed(b.dims), strict=False))
    for position, (x, y) in enumerate(pairs, 1):
        if x != y and 1 not in (x, y):
            return (
                f"dimension {-position} is {x} on the left and {y} on the right; "
                "extents must be equal or 1"
            )
    return "extents must be equal or 1"
