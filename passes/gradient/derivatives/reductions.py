"""Derivatives of the reductions and of broadcasting."""

from __future__ import annotations

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.torch import VjpOp
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule, wide_type


def _reduce(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """A sum hands dy to every element of the row, a mean its share; for the others see below."""
    match op.kind.data:
        case "sum":
            adjoint.give(op.x, adjoint.broadcast(adjoint.dy, op.x))
        case "mean":
            share = adjoint.over_columns(adjoint.dy, op.x)
            adjoint.give(op.x, adjoint.broadcast(share, op.x))
        case "max":
            _give_maximum(op, adjoint)
        case kind:
            assert kind == "lse", f"no derivative of the reduction {kind}"
            _give_lse(op, adjoint)


def _give_maximum(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """dy to the largest element; in equal shares where there are several, as `torch.amax`.

    Left to PyTorch, which finds the elements again: where rounding points move, x is not bit by
    bit what the maximum was taken of, and no element might be equal to it.
    """
    dy = adjoint.cast(adjoint.dy, element_type_of(op.x))
    vjp = VjpOp("aten.amax.default", [op.x], [dy], "{0}, [-1], True", of=[0], wrt=[0])
    adjoint.give(op.x, adjoint.insert(vjp))


def _give_lse(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """exp(x − y) · dy: the softmax."""
    type = wide_type(op.x)
    shifted = adjoint.sub(adjoint.cast(op.x, type), adjoint.cast(op.result, type))
    share = adjoint.insert(coda.ExpOp(shifted))
    adjoint.give(op.x, adjoint.mul(share, adjoint.cast(adjoint.dy, type)))


def _sum_to(op: coda.SumToOp, adjoint: Adjoint) -> None:
    adjoint.give(op.x, adjoint.broadcast(adjoint.dy, op.x))


def _broadcast(op: coda.BroadcastOp, adjoint: Adjoint) -> None:
    # `give` sums over what was repeated.
    adjoint.give(op.x, adjoint.dy)


REDUCTION_RULES: dict[type, Rule] = {
    coda.ReduceOp: _reduce,
    coda.SumToOp: _sum_to,
    coda.BroadcastOp: _broadcast,
}
