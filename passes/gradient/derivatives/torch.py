"""Derivatives of PyTorch calls by PyTorch."""

import re
from typing import Any

from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.dialects.coda import LibraryCallOp, OneHotOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, stores_floats
from coda_ir.dialects.torch import (
    FUSED_ATTENTION,
    AttentionCall,
    CallOp,
    VjpOp,
    fused_attention_call,
    fused_attention_grad_call,
)
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule
from coda_ir.passes.gradient.derivatives.calls import give_call, give_convolution

_DROPOUTS = ("aten.dropout.default", "aten.native_dropout.default")

_COPY = "aten.copy.default"
"""The second operand with the shape and the type of the first one."""

_SPARSE = {"aten.embedding.default": 4, "aten._embedding_bag.default": 5}
"""The places of the arguments that ask for sparse gradients."""

_SHAPE_ONLY = re.compile(r"aten\.(\w+_like|new_(empty|full|ones|zeros)|bernoulli)\.\w+")
"""Calls that take the shape and type of a tensor, or chances: nothing to differentiate."""

_OF_ELEMENTS = re.compile(r"aten\.(clamp|where|view_as|expand_as|reshape_as)\w*\.\w+")

_BATCH_NORM = re.compile(r"aten\.\w*batch_norm\w*\.default")
"""Calls whose arguments 3 and 4 are running statistics, which have no gradient."""


def _call(op: CallOp, adjoint: Adjoint) -> None:
    """Differentiate by a rule for the call, else like any call."""
    if op.callee.data in _DROPOUTS:
        _give_dropout(op, adjoint)
        return
    if op.callee.data == FUSED_ATTENTION:
        _give_attention(op, adjoint)
        return
    if op.callee.data == _COPY:
        (dy,) = adjoint.d_results
        assert dy is not None
        adjoint.give(op.inputs[1], dy)
        return
    _library_call(op, adjoint)


def _library_call(op: CallOp | LibraryCallOp, adjoint: Adjoint) -> None:
    """Differentiate by a rule for the overload, else by PyTorch."""
    if not give_convolution(op, adjoint) and not give_call(op, adjoint):
        _vjp(op, adjoint)


def _vjp(op: CallOp | LibraryCallOp, adjoint: Adjoint) -> None:
    """Differentiate by a vector-Jacobian product, which runs the call again."""
    positions = op.picks or tuple(range(len(op.outputs)))
    pairs = zip(positions, adjoint.d_results, strict=True)
    known = {position: gradient for position, gradient in pairs if gradient is not None}
    inputs, arguments = op.inputs, op.arguments.data
    if isinstance(op, LibraryCallOp):
        # A tensor that is passed twice is one input.
        inputs = list(dict.fromkeys(op.inputs))
        arguments = op.template.render([f"{{{inputs.index(x)}}}" for x in op.inputs], {})
    wrt = [number for number, value in enumerate(inputs) if adjoint.wants(value)]
    if isinstance(op, CallOp):
        wrt = [number for number in differentiable_inputs(op) if number in wrt]
    vjp = VjpOp(op.callee.data, inputs, list(known.values()), arguments, of=list(known), wrt=wrt)
    adjoint.insert(vjp)
    for number, gradient in zip(wrt, vjp.d_inputs, strict=True):
        adjoint.give(inputs[number], gradient)


def differentiable_inputs(op: CallOp) -> list[int]:
    """Return the numbers of the float inputs on whose elements the results of the call depend."""
    name = op.callee.data
    if _SHAPE_ONLY.fullmatch(name) and not _OF_ELEMENTS.fullmatch(name):
        return []
    valued = op.template.valued_operands - ({0} if name == _COPY else set[int]())
    if _BATCH_NORM.fullmatch(name):
        valued -= set(op.template.evaluate(range(len(op.inputs)), {}, {})[0][3:5])
    return [
        number
        for number, value in enumerate(op.inputs)
        if number in valued and stores_floats(element_type_of(value))
    ]


def refusal_of_call(op: CallOp) -> str | None:
    """Return the reason why a call has no derivative."""
    if op.random is not None and op.callee.data not in _DROPOUTS:
        return "it draws random numbers, and would draw different ones if it were recomputed"
    if op.callee.data.startswith("prims."):
        return "PyTorch does not differentiate its primitives"
    if op.callee.data.startswith("aten.as_strided_scatter"):
        return "PyTorch's derivative of the replaced operators is wrong"
    sparse = _SPARSE.get(op.callee.data)
    if sparse is not None and any(op.template.evaluate(op.inputs, {}, {})[0][sparse : sparse + 1]):
        return "the gradient of its table is sparse"
    return None


def expose_dropout(block: Block) -> None:
    """Make every dropout in training also return which elements it kept, for its derivative.

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
        _replace(op, call)


def _replace(op: Operation, call: CallOp) -> None:
    """Replace a call by one with more results, of which the first is that of `op`."""
    call.location = op.location
    Rewriter.insert_op(call, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(call.outputs[0])
    Rewriter.erase_op(op)


def _dropout_of(op: CallOp) -> tuple[float, bool]:
    """Return the probability of a dropout, and whether it is in training."""
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
    adjoint.give(op.inputs[0], back)


_WITH_INDICES = ("aten.topk.default", "aten.sort.default", "aten.max.dim", "aten.min.dim")


def expose_indices(block: Block) -> None:
    """Make calls that find the largest elements also return their positions, for the derivative."""
    for op in list(block.ops):
        if not isinstance(op, CallOp) or op.callee.data not in _WITH_INDICES or op.picks != (0,):
            continue
        values = op.outputs[0]
        places = TensorType(i64, shape_of(values))
        call = CallOp(op.callee.data, op.inputs, op.arguments.data, [values.type, places])
        call.attributes.update(op.attributes)
        _replace(op, call)


def expose_attention(block: Block) -> None:
    """Make PyTorch's attention also return the logsumexp of its scores, so that its derivative
    computes no softmax.

    Attention with dropout draws random numbers, and that of fewer dimensions has no kernels.
    """
    for op in list(block.ops):
        found = AttentionCall.of(op) if isinstance(op, CallOp) else None
        if found is None or any(len(shape_of(x)) != 4 for x in (found.q, found.k, found.v)):
            continue
        call = fused_attention_call(found)
        name = op.results[0].name_hint
        call.outputs[1].name_hint = f"{name}_lse" if name else "lse"
        _replace(op, call)


def _give_attention(op: CallOp, adjoint: Adjoint) -> None:
    dy = adjoint.d_results[0]
    assert dy is not None
    wants_mask = len(op.inputs) > 3 and adjoint.wants(op.inputs[3])
    back = fused_attention_grad_call(op, dy, wants_mask=wants_mask)
    adjoint.insert(back)
    for value, gradient in zip(op.inputs, back.outputs, strict=False):
        adjoint.give(value, gradient)


TORCH_RULES: dict[type, Rule] = {
    CallOp: _call,
    **{op: _library_call for op in LibraryCallOp.operators() if op is not OneHotOp},
}
