"""Derivatives of the reductions and of broadcasting."""

from __future__ import annotations

from coda_ir.dialects import coda
from coda_ir.passes.derivatives.adjoint import Adjoint, Rule


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
    """dy to the largest element; in equal shares where there are several, as `torch.amax`."""
    x = adjoint.widened(op.x)
    largest = adjoint.widened(op.result)
    one = adjoint.constant(1.0, x)
    # One half where x is the largest element, 0 elsewhere.
    chosen = adjoint.insert(coda.MaximumGradOp(x, largest, one), "chosen")
    share = adjoint.div(adjoint.widened(adjoint.dy), adjoint.sum_of(chosen))
    adjoint.give(op.x, adjoint.mul(chosen, share))


def _give_lse(op: coda.ReduceOp, adjoint: Adjoint) -> None:
    """exp(x − y) · dy: the softmax."""
    shifted = adjoint.sub(adjoint.widened(op.x), adjoint.widened(op.result))
    share = adjoint.insert(coda.ExpOp(shifted))
    adjoint.give(op.x, adjoint.mul(share, adjoint.widened(adjoint.dy)))


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
