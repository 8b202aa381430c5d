"""The derivative of every operator of the block level, by family.

A rule maps the gradients of an operator's results to those of its operands (`Adjoint`). Integer
operands have no gradient. For some other operands no gradient is implemented; `refusal` gives the
reason, which is reported if the gradient is requested.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float8, shape_of, stores_floats
from coda_ir.dialects.torch import CallOp, VjpOp
from coda_ir.passes.gradient.derivatives.adjoint import Rule
from coda_ir.passes.gradient.derivatives.block import BLOCK_RULES, expose_lse
from coda_ir.passes.gradient.derivatives.elementwise import ELEMENTWISE_RULES
from coda_ir.passes.gradient.derivatives.linear import LINEAR_RULES
from coda_ir.passes.gradient.derivatives.norms import NORM_RULES, REDUCTION_RULES
from coda_ir.passes.gradient.derivatives.shape import SHAPE_RULES
from coda_ir.passes.gradient.derivatives.torch import (
    TORCH_RULES,
    differentiable_inputs,
    expose_attention,
    expose_dropout,
    expose_indices,
    refusal_of_call,
)

RULES: dict[type, Rule] = {
    **ELEMENTWISE_RULES,
    **LINEAR_RULES,
    **NORM_RULES,
    **REDUCTION_RULES,
    **SHAPE_RULES,
    **BLOCK_RULES,
    **TORCH_RULES,
}

_SECOND = "it is itself a derivative, and second derivatives are not supported"

_LOGICAL = [
    op
    for op in coda.ELEMENTWISE_OPS
    if op.ELEMENTS == coda.Elements.BOOLEANS or issubclass(op, coda.Predicate)
]

NOT_DIFFERENTIATED: dict[type, str] = {
    coda.ActivationGradOp: _SECOND,
    coda.AttentionGradOp: _SECOND,
    coda.BarrierOp: "it orders the operators of a backward",
    coda.CrossEntropyGradOp: _SECOND,
    coda.MaximumGradOp: _SECOND,
    coda.DetachOp: "it stops gradients",
    **dict.fromkeys((coda.CompareOp, *_LOGICAL), "its result is a truth value"),
    **dict.fromkeys((coda.PositionsOp, coda.ExtentOp), "its result is an integer"),
    coda.ScaledLinearOp: "float8 is too narrow for gradients, and so are its scales",
    coda.LowBitLinearOp: "its weight is packed for sums over K, and the gradient sums over N: "
    "dequantize the weight in training",
    **dict.fromkeys((coda.OneHotOp, coda.GroupOrderOp), "its results are integers"),
    coda.SelectiveScanGradOp: _SECOND,
    coda.SSDGradOp: _SECOND,
    coda.DeltaRuleGradOp: _SECOND,
    VjpOp: _SECOND,
}
"""The reasons why operators of the block level have no rule."""

_LENT_SHAPES = (
    *(coda.BroadcastOp, coda.PadOp, coda.EmbeddingGradOp),
    *(coda.PositionsOp, coda.ExtentOp),
)
"""Operators that read only the shape of an operand `like`."""


def expose_saved(block: Block) -> None:
    """Make operators also return what their derivatives need of the forward: the elements that
    dropout kept, the positions of the largest elements, and the logsumexp of attention scores and
    of logits.
    """
    expose_attention(block)
    expose_dropout(block)
    expose_indices(block)
    expose_lse(block)


def differentiable_operands(op: Operation) -> Sequence[int]:
    """Return the numbers of the float operands on whose elements the results of `op` depend."""
    if isinstance(op, CallOp):
        return differentiable_inputs(op)
    if isinstance(op, coda.DetachOp):
        return ()
    read = list(op.operands)
    if isinstance(op, _LENT_SHAPES) and op.like is not None:
        read.pop()
    return [i for i, value in enumerate(read) if stores_floats(element_type_of(value))]


def is_constant_operand(op: Operation, operand: int) -> bool:
    """Return whether an operand is a constant unless its gradient is asked for: a rotary table."""
    return isinstance(op, coda.RopeOp) and operand > 0


def refusal(op: Operation, operand: int) -> str | None:
    """Return the reason why `op` has no derivative for operand number `operand`, if so."""
    if any(is_float8(element_type_of(value)) for value in (op.operands[operand], *op.results)):
        return "float8 is too narrow for gradients; x + detach(y - x) passes them straight through"
    if type(op) not in RULES:
        is_block_level = op.name.startswith("coda.")
        level = "it has no rule" if is_block_level else "it is not an operator of the block level"
        return NOT_DIFFERENTIATED.get(type(op), level)
    if isinstance(op, CallOp):
        return refusal_of_call(op)
    returns_lse = isinstance(op, coda.AttentionOp | coda.CrossEntropyOp)
    if returns_lse and any(result.uses for result in op.results[1:]):
        return "the logsumexp that it returns is used, and has no derivative"
    if _splits_columns(op) and shape_of(op.operands[0])[-1] == DYNAMIC_INDEX:
        return "it splits its columns, and their number is unknown"
    return None


def _splits_columns(op: Operation) -> bool:
    return isinstance(op, coda.GluOp) or (isinstance(op, coda.RMSNormOp) and op.group is not None)
