"""Derivatives of operators that move elements: their gradients move back."""

from collections.abc import Sequence
from itertools import accumulate

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint, Rule
from coda_ir.passes.support.permuted import inverse


def _reshape(op: coda.ReshapeOp, adjoint: Adjoint) -> None:
    padded = _padded_columns(op, adjoint)
    adjoint.give(op.x, adjoint.reshaped(adjoint.dy, op.x) if padded is None else padded)


def _padded_columns(op: coda.ReshapeOp, adjoint: Adjoint) -> SSAValue | None:
    """Return the gradient of x as a pad of columns, which `join_pads` joins with those of other
    slices of x; None where it is no reshape of such a pad.
    """
    pad, (*outer, columns) = adjoint.dy.owner, (1, *shape_of(op.x))
    if not isinstance(pad, coda.PadOp) or pad.like is not None or pad.after is not None:
        return None
    dim, start, _ = pad.range
    is_last = dim == len(shape_of(pad.result)) - 1 and columns == shape_of(pad.result)[dim]
    if not is_last or outer.count(DYNAMIC_INDEX) > 1:
        return None
    shape = (*outer[1:], shape_of(pad.x)[dim])
    part = adjoint.insert(coda.ReshapeOp(pad.x, shape))
    return adjoint.insert(coda.PadOp(part, len(shape) - 1, start, columns, value=pad.number))


def _transpose(op: coda.TransposeOp, adjoint: Adjoint) -> None:
    adjoint.give(op.x, coda.TransposeOp(adjoint.dy, inverse(op.permutation)))


def _slice(op: coda.SliceOp, adjoint: Adjoint) -> None:
    """Pad with zeros; neighbouring slices of one tensor are joined: see `join_pads`."""
    dim, start, _ = op.range
    extent = shape_of(op.x)[dim]
    like = op.x if extent == DYNAMIC_INDEX else None
    adjoint.give(op.x, coda.PadOp(adjoint.dy, dim, start, extent, like))


def _pad(op: coda.PadOp, adjoint: Adjoint) -> None:
    dim, start, _ = op.range
    if op.after is None:
        adjoint.give(op.x, coda.SliceOp(adjoint.dy, *op.range))
    else:
        extent = f"size({{1}}, {dim})"
        adjoint.give(op.x, _narrowed(adjoint.dy, [op.x], dim, str(start), extent))


def _shift(op: coda.ShiftOp, adjoint: Adjoint) -> None:
    adjoint.give(op.x, _shifted(adjoint.dy, -op.distance, adjoint))


def _shifted(dy: SSAValue, by: int, adjoint: Adjoint) -> SSAValue:
    """Shift `dy`. A factor of each column, and a rounding, follow the shift, so that all taps of a
    convolution shift the same tensor, which is stored once.
    """
    match dy.owner:
        case coda.CastOp() as cast if is_float(element_type_of(cast.operand)):
            return adjoint.cast(_shifted(cast.operand, by, adjoint), element_type_of(dy))
        case coda.MulOp() as product if len(shape_of(product.rhs)) == 1:
            return adjoint.mul(_shifted(product.lhs, by, adjoint), product.rhs)
        case _:
            return adjoint.insert(coda.ShiftOp(dy, by))


def _concat(op: coda.ConcatOp, adjoint: Adjoint) -> None:
    dim = op.dim.value.data
    extents = [shape_of(part)[dim] for part in op.parts]
    if DYNAMIC_INDEX in extents:
        _give_open_parts(op, adjoint)
        return
    starts = accumulate(extents, initial=0)
    for part, start, extent in zip(op.parts, starts, extents, strict=False):
        adjoint.give(part, coda.SliceOp(adjoint.dy, dim, start, start + extent))


def _give_open_parts(op: coda.ConcatOp, adjoint: Adjoint) -> None:
    """Give the parts of dy if extents are known only at run time."""
    dim = op.dim.value.data
    for index, part in enumerate(op.parts):
        before = [f"size({{{number}}}, {dim})" for number in range(1, index + 1)]
        extent = f"size({{{index + 1}}}, {dim})"
        start = " + ".join(before) or "0"
        shapes = op.parts[: index + 1]
        adjoint.give(part, _narrowed(adjoint.dy, shapes, dim, start, extent))


def _narrowed(
    dy: SSAValue, shapes: Sequence[SSAValue], dim: int, start: str, extent: str
) -> CallOp:
    """Return a call for the part of dy with the type of the last tensor of `shapes`.

    `start` and `extent` are expressions in the sizes of these tensors.
    """
    arguments = f"{{0}}, {dim}, {start}, {extent}"
    inputs, type = [dy, *shapes], shapes[-1].type
    return CallOp("aten.narrow.default", inputs, arguments, [type], view=True)


SHAPE_RULES: dict[type, Rule] = {
    coda.ReshapeOp: _reshape,
    coda.TransposeOp: _transpose,
    coda.SliceOp: _slice,
    coda.PadOp: _pad,
    coda.ShiftOp: _shift,
    coda.ConcatOp: _concat,
}
