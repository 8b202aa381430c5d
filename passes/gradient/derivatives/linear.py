"""Derivatives of the linear maps: three GEMMs where the forward has one."""

from __future__ import annotations

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule


def _linear(op: coda.LinearOp, adjoint: Adjoint) -> None:
    """y = x·Wᵀ + b: dx = dy·W, dW = dyᵀ·x, db = the sum of dy over the rows."""
    if op.bias is not None and adjoint.wants(op.bias):
        adjoint.give(op.bias, adjoint.dy)
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    if adjoint.wants(op.x):
        adjoint.give(op.x, adjoint.insert(coda.MatmulOp(dy, op.weight)))
    if adjoint.wants(op.weight):
        adjoint.give(op.weight, adjoint.insert(coda.WeightGradientOp(dy, op.x)))


def _matmul(op: coda.MatmulOp, adjoint: Adjoint) -> None:
    """y = x·W: dx = dy·Wᵀ, dW = xᵀ·dy."""
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    if adjoint.wants(op.x):
        adjoint.give(op.x, adjoint.insert(coda.LinearOp(dy, op.weight)))
    if adjoint.wants(op.weight):
        adjoint.give(op.weight, adjoint.insert(coda.WeightGradientOp(op.x, dy)))


def _weight_gradient(op: coda.WeightGradientOp, adjoint: Adjoint) -> None:
    """G = dyᵀ·x: the gradient of dy is x·Gᵀ', that of x is dy·G', with G' the gradient of G."""
    gradient: SSAValue = adjoint.cast(adjoint.dy, element_type_of(op.x))
    if adjoint.wants(op.dy):
        adjoint.give(op.dy, adjoint.insert(coda.LinearOp(op.x, gradient)))
    if adjoint.wants(op.x):
        adjoint.give(op.x, adjoint.insert(coda.MatmulOp(op.dy, gradient)))


LINEAR_RULES: dict[type, Rule] = {
    coda.LinearOp: _linear,
    coda.MatmulOp: _matmul,
    coda.WeightGradientOp: _weight_gradient,
}
