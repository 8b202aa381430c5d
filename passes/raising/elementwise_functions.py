"""Elementwise functions of PyTorch that have properties, or are made of several operators."""

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.passes.raising.elementwise_call import ElementwiseCall
from coda_ir.passes.support.index_values import Argument

Maker: TypeAlias = Callable[[ElementwiseCall], "Operation | None"]
"""Makes the operator with the result of a call; None where a condition does not hold."""


def _with_numbers(
    call: ElementwiseCall, **defaults: float | None
) -> tuple[SSAValue, list[float]] | None:
    """Return the operand, in the type of the result, and the numbers behind it.

    None where the result is no float, or an argument is no number.
    """
    x = call.operand(call.arguments[0], call.element_type)
    numbers = [call.argument(at, name, of) for at, (name, of) in enumerate(defaults.items(), 1)]
    known = [float(number) for number in numbers if isinstance(number, int | float)]
    is_known = len(known) == len(numbers) and call.options.keys() <= defaults.keys()
    return (x, known) if x is not None and is_known and is_float(call.element_type) else None


def _in_wide_floats(
    call: ElementwiseCall, x: SSAValue, make: Callable[[SSAValue], Operation]
) -> Operation:
    """Return `make`(x), computed in float32 at least and rounded once, like PyTorch's kernels."""
    narrow, wide = call.element_type, call.computing_type
    if wide == narrow:
        return make(x)
    return coda.CastOp(call.insert(make(call.insert(coda.CastOp(x, wide)))), narrow)


def _number(call: ElementwiseCall, number: float, like: SSAValue) -> SSAValue:
    return call.insert(coda.ConstantOp(float(number), element_type_of(like)))


def _scaled(
    call: ElementwiseCall,
    x: SSAValue,
    before: float,
    make: Callable[[SSAValue], Operation],
    after: float,
) -> Operation:
    """Return `make`(before · x) · after."""

    def scaled(value: SSAValue) -> Operation:
        if before != 1:
            value = call.insert(coda.MulOp(value, _number(call, before, value)))
        made = call.insert(make(value))
        return coda.MulOp(made, _number(call, after, made))

    return _in_wide_floats(call, x, scaled)


def _softplus(call: ElementwiseCall) -> Operation | None:
    """Raise softplus(beta · x) / beta, which is x where beta · x is above a threshold of 20."""
    found = _with_numbers(call, beta=1, threshold=20)
    if found is None:
        return None
    x, (beta, threshold) = found
    if not beta or threshold != 20:
        return None
    if beta == 1:
        return elementwise.SoftplusOp(x)
    return _scaled(call, x, beta, elementwise.SoftplusOp, 1 / beta)


def _elu(call: ElementwiseCall) -> Operation | None:
    """Raise scale · elu(x), as in SELU, whose exponential is that of x times a positive number."""
    found = _with_numbers(call, alpha=1, scale=1, input_scale=1)
    if found is None:
        return None
    return _scaled_elu(call, found[0], *found[1])


def _scaled_elu(
    call: ElementwiseCall, x: SSAValue, alpha: float, scale: float, within: float
) -> Operation | None:
    if within <= 0:
        return None
    if scale == 1 == within:
        return coda.EluOp(x, alpha)
    return _scaled(call, x, within, lambda wide: coda.EluOp(wide, alpha * within), scale / within)


def _celu(call: ElementwiseCall) -> Operation | None:
    """Raise celu(x, alpha), the continuous ELU: alpha · elu(x / alpha), or x where x is above 0
    and the quotient may overflow.
    """
    found = _with_numbers(call, alpha=1)
    if found is None or found[1][0] <= 0:
        return None
    x, (alpha,) = found
    scaled = _scaled_elu(call, x, alpha, 1, 1 / alpha)
    if scaled is None or alpha >= 1:
        return scaled
    is_above = call.insert(coda.CompareOp(x, _number(call, 0, x), "gt"))
    return coda.WhereOp(is_above, x, call.insert(scaled))


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


def _leaky_relu(call: ElementwiseCall) -> Operation | None:
    """Raise relu(x) + slope · min(x, 0), whose derivative at 0 is the slope, as PyTorch's."""
    found = _with_numbers(call, negative_slope=0.01)
    if found is None:
        return None
    x, (slope,) = found

    def leaky(x: SSAValue) -> Operation:
        below = call.insert(coda.MinimumOp(x, _number(call, 0, x)))
        scaled = call.insert(coda.MulOp(below, _number(call, slope, x)))
        return coda.AddOp(call.insert(coda.ReluOp(x)), scaled)

    return _in_wide_floats(call, x, leaky)


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


def _hardtanh(call: ElementwiseCall) -> Operation | None:
    """Raise a clamp between numbers whose derivative at both bounds is 0."""
    found = _with_numbers(call, min_val=-1.0, max_val=1.0)
    if found is None:
        return None
    x, (low, high) = found
    limited = coda.ReluOp(x) if low == 0 else _replaced(call, x, "le", low)
    return _replaced(call, call.insert(limited), "ge", high)


def _replaced(call: ElementwiseCall, x: SSAValue, relation: str, bound: float) -> Operation:
    """Return x with `bound` in place of the elements that satisfy a relation to it, where the
    derivative is 0; NaN satisfies none.
    """
    limit = _number(call, bound, x)
    is_outside = call.insert(coda.CompareOp(x, limit, relation))
    return coda.WhereOp(is_outside, limit, x)


def _hard_sigmoid(call: ElementwiseCall, *, times_x: bool = False) -> Operation | None:
    """Raise min(relu(x + 3), 6) / 6, times x if it is hardswish."""
    found = _with_numbers(call)

    def hard(x: SSAValue) -> Operation:
        shifted = call.insert(coda.AddOp(x, _number(call, 3, x)))
        value = call.insert(_replaced(call, call.insert(coda.ReluOp(shifted)), "ge", 6))
        if times_x:
            value = call.insert(coda.MulOp(x, value))
        return coda.DivOp(value, _number(call, 6, x))

    return None if found is None else _in_wide_floats(call, found[0], hard)


FUNCTIONS: Mapping[str, Maker] = {
    "softplus.default": _softplus,
    "elu.default": _elu,
    "celu.default": _celu,
    "pow.Tensor_Scalar": _pow,
    "reciprocal.default": _reciprocal,
    "gelu.default": _gelu,
    "leaky_relu.default": _leaky_relu,
    "hardtanh.default": _hardtanh,
    "hardsigmoid.default": _hard_sigmoid,
    "hardswish.default": partial(_hard_sigmoid, times_x=True),
    **dict.fromkeys(("clamp.default", "clamp.Tensor"), _clamp),
    **dict.fromkeys(("clamp_min.default", "clamp_min.Tensor"), _clamp),
    **dict.fromkeys(("clamp_max.default", "clamp_max.Tensor"), _clamp_max),
}
"""Operators by overload of ATen."""
