"""Derivatives of calls of PyTorch: PyTorch's own."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp, VjpOp
from coda_ir.passes.derivatives.adjoint import Adjoint, Rule

_DROPOUTS = ("aten.dropout.default", "aten.native_dropout.default")

_SHAPE_ONLY = re.compile(r"aten\.(\w+_like|new_(empty|full|ones|zeros)|bernoulli)\.\w+")
"""Calls that take the shape and type of a tensor, or chances: nothing to differentiate."""

_OF_ELEMENTS = re.compile(r"aten\.(clamp|where|view_as|expand_as|reshape_as)\w*\.\w+")


def _call(op: CallOp, adjoint: Adjoint) -> None:
    """The vector-Jacobian product of the call, which computes the call again."""
    if op.callee.data in _DROPOUTS:
        _give_dropout(op, adjoint)
        return
    positions = op.picks or tuple(range(len(op.outputs)))
    pairs = zip(positions, adjoint.d_results, strict=True)
    known = {position: gradient for position, gradient in pairs if gradient is not None}
    wrt = [number for number in differentiable_inputs(op) if adjoint.wants(op.inputs[number])]
    vjp = VjpOp(
        op.callee.data,
        op.inputs,
        list(known.values()),
        op.arguments.data,
        of=list(known),
        wrt=wrt,
    )
    adjoint.insert(vjp)
    for number, gradient in zip(wrt, vjp.d_inputs, strict=True):
        adjoint.give(op.inputs[number], gradient)


def differentiable_inputs(op: CallOp) -> list[int]:
    """The numbers of the inputs on whose elements, floats, the results of the call depend."""
    name = op.callee.data
    if _SHAPE_ONLY.fullmatch(name) and not _OF_ELEMENTS.fullmatch(name):
        return []
    valued = op.template.valued_operands
    return [
        number
        for number, value in enumerate(op.inputs)
        if number in valued and is_float(element_type_of(value))
    ]


def refusal_of_call(op: CallOp) -> str | None:
    """Why a call has no derivative."""
    if op.random is not None and op.callee.data not in _DROPOUTS:
        return "it draws random numbers, and would draw others when it is computed again"
    if op.callee.data.startswith("prims."):
        return "PyTorch does not differentiate its primitives"
    return None


def expose_dropout(block: Block) -> None:
    """Let every dropout in training also return which elements it kept, for its derivative.

    aten.dropout(x)  ->  aten.native_dropout(x), whose second result has a use in the backward.
    """
    for op in list(block.ops):
        if not isinstance(op, CallOp) or op.callee.data not in _DROPOUTS or len(op.outputs) > 1:
            continue
        (x,) = op.inputs
        probability, training = _dropout_of(op)
        call = CallOp(
            "aten.native_dropout.default",
            [x],
            f"{{0}}, {probability}, {training}",
            [x.type, TensorType(i1, shape_of(x))],
            random=True,
        )
        call.location = op.location
        call.outputs[0].name_hint = op.outputs[0].name_hint
        Rewriter.insert_op(call, InsertPoint.before(op))
        op.outputs[0].replace_all_uses_with(call.outputs[0])
        Rewriter.erase_op(op)


def _dropout_of(op: CallOp) -> tuple[float, bool]:
    """The probability of a dropout, and whether it is in training."""
    numbers: list[Any] = op.template.evaluate([None], {}, {})[0]
    return float(numbers[1]), bool(numbers[2])


def _give_dropout(op: CallOp, adjoint: Adjoint) -> None:
    """dx = dy ⊙ kept / (1 − p)."""
    probability, training = _dropout_of(op)
    scale = 1 / (1 - probability) if training and probability < 1 else 1.0
    dy = adjoint.d_results[0]
    assert dy is not None
    inputs: list[SSAValue] = [dy, op.outputs[1]]
    arguments = f"{{0}}, {{1}}, {scale!r}"
    back = CallOp("aten.native_dropout_backward.default", inputs, arguments, [dy.type])
    adjoint.give(op.inputs[0], adjoint.insert(back))


TORCH_RULES: dict[type, Rule] = {CallOp: _call}
