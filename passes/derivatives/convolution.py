"""The derivative of convolutions, which needs nothing that they computed."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CONVOLUTION_GRAD, CallOp
from coda_ir.passes.derivatives.adjoint import Adjoint

_PARAMETERS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_DEFAULTS: dict[str, Any] = {
    **{"bias": None, "groups": 1},
    **{"stride": [1], "padding": [0], "dilation": [1]},
}
_CONVOLUTIONS = {f"aten.conv{dims}d.default": dims for dims in (1, 2, 3)}


def give_convolution(op: CallOp, adjoint: Adjoint) -> bool:
    """Give the inputs of a convolution their gradients, by one call; False for another `op`.

    PyTorch's own derivative would run the convolution again. That of samples without a batch and
    of arguments that are not numbers is left to it.
    """
    dims = _CONVOLUTIONS.get(op.callee.data)
    if dims is None or op.template.symbols or len(shape_of(op.inputs[0])) != dims + 2:
        return False
    positional, named = op.template.evaluate(op.inputs, {}, {})
    given = {**_DEFAULTS, **dict(zip(_PARAMETERS, positional, strict=False)), **named}
    operands = [given[name] for name in _PARAMETERS[:3]]
    channels = shape_of(given["weight"])[0]
    dy = adjoint.d_results[0]
    if dy is None or channels == DYNAMIC_INDEX:
        return False
    wanted = [adjoint.wants(operand) for operand in operands]
    numbers = [_of_each(given[name], dims) for name in _PARAMETERS[3:6]]
    bias = "None" if given["bias"] is None else f"[{channels}]"
    text = f"{{0}}, {{1}}, {{2}}, {bias}, {', '.join(map(str, numbers))}, False, {[0] * dims}, "
    positions = [position for position, is_wanted in enumerate(wanted) if is_wanted]
    back = CallOp(
        CONVOLUTION_GRAD,
        [dy, given["input"], given["weight"]],
        f"{text}{given['groups']}, {wanted}",
        [operands[position].type for position in positions],
        positions=positions,
    )
    adjoint.insert(back)
    for position, gradient in zip(positions, back.outputs, strict=True):
        adjoint.give(operands[position], gradient)
    return True


def _of_each(numbers: list[int], dims: int) -> list[int]:
    """A number for each dimension; one stands for all."""
    return numbers * dims if len(numbers) == 1 else numbers
