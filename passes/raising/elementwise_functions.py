"""Elementwise functions of PyTorch that have properties, or consist of several operators."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.passes.raising.elementwise_call import ElementwiseCall
from coda_ir.passes.support.index_values import Argument

Maker: TypeAlias = Callable[[ElementwiseCall], "Operation | None"]
"""Makes the operator with the result of a call; None where a condition does not hold."""


def _with_arguments(
    call: ElementwiseCall, **defaults: float | str | None
) -> tuple[SSAValue, list[Any]] | None:
    """Return the operand, in the type of the result, and the arguments after it.

    None where the result is no float, or an argument is no number; strings have a string as
    default.
    """
    x = call.operand(call.arguments[0], call.element_type)
    values = [call.argument(at, name, of) for at, (name, of) in enumerate(defaults.items(), 1)]
    kinds = [str if isinstance(default, str) else (int, float) for default in defaults.values()]
    is_known = all(map(isinstance, values, kinds)) and call.options.keys() <= defaults.keys()
    if x is None or not is_known or not is_float(call.element_type):
        return None
    return x, [float(value) if isinstance(value, int) else value for value in values]


def _number(call: ElementwiseCall, number: float, like: SSAValue) -> SSAValue:
    return call.insert(coda.ConstantOp(float(number), element_type_of(like)))


def _function(overload: str) -> Maker:
    """Make the function of the numbers of a call whose other arguments are those of the call. An
    argument that is left out is that of the first function of an overload.
    """
    operators = [op for op in coda.REAL_FUNCTIONS.values() if overload == op.ATEN]
    defaults = {**operators[0].NUMBERS, **operators[0].ATEN_OPTIONS}

    def make(call: ElementwiseCall) -> Operation | None:
        found = _with_arguments(call, **defaults)
        for operator in operators if found else ():
            x, given = found
            numbers = given[: len(operator.NUMBERS)]
            if given == [*numbers, *operator.ATEN_OPTIONS.values()]:
                return operator(x, *numbers)  # pyright: ignore
        return None

    return make


def _pow(call: ElementwiseCall) -> Operation | None:
    """Raise a constant, finite power of x other than 0."""
    found = _with_arguments(call, exponent=None)
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
    found = _with_arguments(call)
    return None if found is None else coda.DivOp(_number(call, 1, found[0]), found[0])


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
        operator.ATEN: _function(operator.ATEN)
        for operator in coda.REAL_FUNCTIONS.values()
        if operator.ATEN is not None and (operator.NUMBERS or operator.ATEN_OPTIONS)
    },
    "pow.Tensor_Scalar": _pow,
    "reciprocal.default": _reciprocal,
    **dict.fromkeys(("clamp.default", "clamp.Tensor"), _clamp),
    **dict.fromkeys(("clamp_min.default", "clamp_min.Tensor"), _clamp),
    **dict.fromkeys(("clamp_max.default", "clamp_max.Tensor"), _clamp_max),
}
"""Operators by overload of ATen."""
