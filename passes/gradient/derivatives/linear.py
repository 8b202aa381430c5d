"""Derivatives of the linear maps: three GEMMs where the forward has one."""

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule
from coda_ir.remarks import Remark, emit_remark


def _linear(op: coda.LinearOp, adjoint: Adjoint) -> None:
    """y = x·Wᵀ + b: dx = dy·W, dW = dyᵀ·x, db = the sum of dy over the rows."""
    adjoint.give(op.bias, adjoint.dy)
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    adjoint.give(op.x, coda.MatmulOp(dy, op.weight))
    adjoint.give(op.weight, coda.WeightGradientOp(dy, op.x))


def _matmul(op: coda.MatmulOp, adjoint: Adjoint) -> None:
    """y = x·W: dx = dy·Wᵀ, dW = xᵀ·dy."""
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    adjoint.give(op.x, coda.LinearOp(dy, op.weight))
    adjoint.give(op.weight, coda.WeightGradientOp(op.x, dy))


def _weight_gradient(op: coda.WeightGradientOp, adjoint: Adjoint) -> None:
    """G = dyᵀ·x: the gradient of dy is x·Gᵀ', that of x is dy·G', with G' the gradient of G."""
    gradient: SSAValue = adjoint.cast(adjoint.dy, element_type_of(op.x))
    adjoint.give(op.dy, coda.LinearOp(op.x, gradient))
    adjoint.give(op.x, coda.MatmulOp(op.dy, gradient))


def _quantized(op: coda.QuantizedLinearOp, adjoint: Adjoint) -> None:
    """y = Q(x)·Q(W)ᵀ: dx = Q(dy)·Q(Wᵀ)ᵀ, with scales along N, and dW = dyᵀ·x, or with
    `quantized_gradient` Q(dyᵀ)·Q(xᵀ)ᵀ, with scales along the rows of x. Straight through Q, whose
    derivative is 0 or undefined (arXiv 1308.3432).
    """
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    if adjoint.wants(op.x):
        transposed = adjoint.insert(coda.TransposeOp(op.weight, (1, 0)))
        back = coda.QuantizedLinearOp(dy, transposed, op.blocks, op.quantized_gradient)
        adjoint.give(op.x, back)
    if adjoint.wants(op.weight):
        type = element_type_of(op.weight)
        if op.quantized_gradient is not None and _has_known_rows(op):
            columns = (_columns(value, adjoint) for value in (dy, op.x))
            gradient = coda.QuantizedLinearOp(
                *columns, op.blocks, op.quantized_gradient, element_type=type
            )
        else:
            gradient = coda.WeightGradientOp(dy, op.x, element_type=type)
        adjoint.give(op.weight, gradient)


def _columns(value: SSAValue, adjoint: Adjoint) -> SSAValue:
    """Return the columns of `value` (... x N) as rows (N x M)."""
    *rows, n = shape_of(value)
    matrix = adjoint.insert(coda.ReshapeOp(value, (prod(rows), n)))
    return adjoint.insert(coda.TransposeOp(matrix, (1, 0)))


def _has_known_rows(op: coda.QuantizedLinearOp) -> bool:
    """Return whether the number of rows of x is known to be aligned; otherwise emit a remark."""
    if DYNAMIC_INDEX not in shape_of(op.x)[:-1]:
        return True
    emit_remark(
        Remark(
            "missed",
            "derive-gradient",
            op.name,
            op.location,
            f"the gradient of the weight multiplies {element_type_of(op.x)}, not float8",
            condition="the number of rows of x is known",
            suggestion="state its dimensions by numbers or constants",
        )
    )
    return False


def _grouped(op: coda.GroupedLinearMap, adjoint: Adjoint) -> None:
    """y = x·Wᵀ + b by group: dx = dy·W, and over the rows of each group dW = dyᵀ·x, db = dyᵀ·1."""
    is_linear = isinstance(op, coda.GroupedLinearOp)
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    back = coda.GroupedMatmulOp if is_linear else coda.GroupedLinearOp
    adjoint.give(op.x, back(dy, op.weight, op.offsets))
    left, right = (dy, op.x) if is_linear else (op.x, dy)
    type = element_type_of(op.weight)
    gradient = coda.GroupedWeightGradientOp(left, right, op.offsets, element_type=type)
    adjoint.give(op.weight, gradient)
    if op.bias is not None and adjoint.wants(op.bias):
        column = adjoint.insert(coda.SliceOp(dy, 1, 0, 1))
        ones = adjoint.broadcast(adjoint.constant(1, dy), column)
        gradient = coda.GroupedWeightGradientOp(dy, ones, op.offsets)
        adjoint.give(op.bias, coda.ReshapeOp(adjoint.insert(gradient), shape_of(op.bias)))


def _grouped_weight_gradient(op: coda.GroupedWeightGradientOp, adjoint: Adjoint) -> None:
    """G = dyᵀ·x by group: the gradient of dy is x·G'ᵀ, that of x is dy·G', by group."""
    gradient = adjoint.cast(adjoint.dy, element_type_of(op.x))
    adjoint.give(op.dy, coda.GroupedLinearOp(op.x, gradient, op.offsets))
    adjoint.give(op.x, coda.GroupedMatmulOp(op.dy, gradient, op.offsets))


LINEAR_RULES: dict[type, Rule] = {
    coda.LinearOp: _linear,
    coda.MatmulOp: _matmul,
    coda.WeightGradientOp: _weight_gradient,
    coda.QuantizedLinearOp: _quantized,
    coda.GroupedLinearOp: _grouped,
    coda.GroupedMatmulOp: _grouped,
    coda.GroupedWeightGradientOp: _grouped_weight_gradient,
}
