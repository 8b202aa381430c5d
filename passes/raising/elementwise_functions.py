"""Elementwise functions of PyTorch that have properties, or are made of several operators.

The capture decomposes others (`frontends/torch/capture.py`).
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.passes.raising.elementwise_call import ElementwiseCall
from coda_ir.passes.support.index_values import Argument

Maker: TypeAlias = Callable[[ElementwiseCall], "Operation | None"]
"""Makes the operator with the result of a call; None where a condition does not hold."""


def _with_numbers(
    call: ElementwiseCall, **defaults: float | None
) -> tuple[SSAValue, list[float]] | None:
    """Return the operand, in the type of the result, and the numbers after it.

    None where the result is no float, or an argument is no number.
    """
    x = call.operand(call.arguments[0], call.element_type)
    numbers = [call.argument(at, name, of) for at, (name, of) in enumerate(defaults.items(), 1)]
    known = [float(number) for number in numbers if isinstance(number, int | float)]
    is_known = len(known) == len(numbers) and call.options.keys() <= defaults.keys()
    return (x, known) if x is not None and is_known and is_float(call.element_type) else None


def _number(call: ElementwiseCall, number: float, like: SSAValue) -> SSAValue:
    return call.insert(coda.ConstantOp(float(number), element_type_of(like)))


def _function(operator: type[coda.RealFunction]) -> Maker:
    """Make a function of the numbers of a call, whose other arguments are those of the operator."""
    fixed = {name: float(number) for name, number in operator.ATEN_OPTIONS.items()}

    def make(call: ElementwiseCall) -> Operation | None:
        found = _with_numbers(call, **operator.NUMBERS, **fixed)
        if found is None:
            return None
        x, numbers = found
        own = numbers[: len(operator.NUMBERS)]
        return operator(x, *own) if numbers == [*own, *fixed.values()] else None  # pyright: ignore

    return make


def _pow(call: ElementwiseCall) -> Operation | None:
    """Raise a constant, finite power of x other than 0."""
    found = _with_numbers(call, exponent=None)
    if found is None:
        return None
    x, (exponent,) = found
    match exponent:
        case 2:
            return coda.MulOp(x, x)
        case 3:
            return coda.MulOp(call.insert(coda.MulOp(x, x)), x)
        case 0.5:
            return coda.SqrtOp(x)
        case -0.5:
            return coda.RsqrtOp(x)
        case _:
            return coda.PowOp(x, exponent) if exponent and isfinite(exponent) else None


def _reciprocal(call: ElementwiseCall) -> Operation | None:
    found = _with_numbers(call)
    return None if found is None else coda.DivOp(_number(call, 1, found[0]), found[0])


def _gelu(call: ElementwiseCall) -> Operation | None:
    x, approximate = call.arguments[0], call.options.get("approximate", "none")
    is_known = isinstance(x, SSAValue) and isinstance(approximate, str)
    return coda.GeluOp(x, approximate) if is_known else None  # pyright: ignore


def _clamp(call: ElementwiseCall) -> Operation | None:
    """Raise a clamp between numbers or tensors, one of which may be left out."""
    return _limited(call, call.argument(1, "min"), call.argument(2, "max"))


def _clamp_max(call: ElementwiseCall) -> Operation | None:
    return _limited(call, None, call.argument(1, "max"))


def _limited(call: ElementwiseCall, *bounds: Argument | str | None) -> Operation | None:
    """Return x not below the first bound and not above the second one; where they are equal, x has
    the gradient. That of two tensors is shared by both.
    """
    element = call.element_type
    last, x = None, call.operand(call.arguments[0], element)
    for bound, operator in zip(bounds, (coda.MaximumOp, coda.MinimumOp), strict=True):
        if bound is None:
            continue
        x = x if last is None else call.insert(last)
        limit = call.operand(bound, element, rounds_numbers=True)
        if x is None or limit is None:
            return None
        last = operator(x, limit)
        if not isinstance(limit.owner, coda.ConstantOp):
            relation = "ge" if operator is coda.MaximumOp else "le"
            is_inside = call.insert(coda.CompareOp(x, limit, relation))
            last = coda.WhereOp(is_inside, x, call.insert(last))
    return last


FUNCTIONS: Mapping[str, Maker] = {
    **{
        str(operator.ATEN): _function(operator)
        for operator in coda.REAL_FUNCTIONS.values()
        if operator.ATEN is not None and (operator.NUMBERS or operator.ATEN_OPTIONS)
    },
    "pow.Tensor_Scalar": _pow,
    "reciprocal.default": _reciprocal,
    "gelu.default": _gelu,
    **dict.fromkeys(("clamp.default", "clamp.Tensor"), _clamp),
    **dict.fromkeys(("clamp_min.default", "clamp_min.Tensor"), _clamp),
    **dict.fromkeys(("clamp_max.default", "clamp_max.Tensor"), _clamp_max),
}
"""Operators by overload of ATen."""
