"""Convolutions, as PyTorch calls, and their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp

_TENSORS = ("input", "weight", "bias")
_STEPS = ("stride", "padding", "dilation")
PARAMETERS = {
    **{
        f"aten.conv{dims}d.{overload}": (*_TENSORS, *_STEPS, "groups")
        for dims in (1, 2, 3)
        for overload in ("default", "padding")
    },
    "aten.convolution.default": (*_TENSORS, *_STEPS, "transposed", "output_padding", "groups"),
}
"""The parameters of each overload, in order."""

_DEFAULTS: dict[str, Any] = {
    **{"bias": None, "groups": 1, "transposed": False},
    **{"stride": [1], "padding": [0], "dilation": [1]},
}


def arguments_by_name(
    callee: str, given: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all arguments of a call of the overload `callee`, with defaults for omitted ones."""
    return {**_DEFAULTS, **dict(zip(PARAMETERS[callee], given, strict=False)), **named}


@dataclass(frozen=True)
class Convolution:
    """A convolution (B x C x S1 x ... -> B x O x T1 x ...) with arguments that are numbers."""

    input: SSAValue
    weight: SSAValue
    """O x C / groups x K1 x ..."""
    bias: SSAValue | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @staticmethod
    def of(op: Operation) -> Convolution | None:
        """Return the convolution that `op` calls; None for another operator, a transposed one,
        samples without a batch, the padding `same`, arguments that are not numbers, and a weight of
        unknown extents.
        """
        if isinstance(op, coda.ConvolutionOp):
            stride, padding, dilation = (tuple(op.given[name]) for name in _STEPS)
            groups = op.given["groups"]
            return Convolution(op.x, op.weight, op.bias, stride, padding, dilation, groups)
        if not isinstance(op, CallOp) or op.callee.data not in PARAMETERS or op.template.symbols:
            return None
        given = arguments_by_name(op.callee.data, *op.template.evaluate(op.inputs, {}, {}))
        x, weight, bias = (given[name] for name in _TENSORS)
        rank, extents = len(shape_of(x)), shape_of(weight)
        if given["transposed"] or rank != len(extents) or DYNAMIC_INDEX in extents:
            return None
        if isinstance(given["padding"], str):
            if given["padding"] != "valid":
                return None
            given["padding"] = [0]
        steps = (tuple(given[name]) for name in _STEPS)
        stride, padding, dilation = (
            each * (rank - 2) if len(each) == 1 else each for each in steps
        )
        return Convolution(x, weight, bias, stride, padding, dilation, given["groups"])

    @property
    def kernel(self) -> tuple[int, ...]:
        """The extents of a window."""
        return shape_of(self.weight)[2:]

    @property
    def channels(self) -> int:
        """The number of channels of the result."""
        return shape_of(self.weight)[0]
