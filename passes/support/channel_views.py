"""Views of rows of channels with the channels elsewhere, as operators of images read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.passes.support.function_pass import OpInserter
from coda_ir.symbolic_shapes import SymbolicShapes

View: TypeAlias = coda.ReshapeOp | coda.TransposeOp


@dataclass(frozen=True)
class ChannelView:
    """The views (B x C x S1 x ..., or any order of the positions) of rows (B x T1 x ... x C)."""

    rows: SSAValue
    views: tuple[View, ...]
    """From the rows on."""

    @staticmethod
    def of(value: SSAValue, shapes: SymbolicShapes) -> ChannelView | None:
        """The view that `value`, with the channels in dimension 1, is of rows of channels.

        A tensor without positions (M x C) has its channels in the columns.
        """
        has_positions, axis, views = len(shape_of(value)) > 2, 1, list[View]()
        while isinstance(view := value.owner, View):
            before = _axis_before(view, axis, shapes, has_positions=has_positions)
            if before is None:
                break
            value, axis = view.x, before
            views.append(view)
        is_last = axis == len(shape_of(value)) - 1
        return ChannelView(value, tuple(reversed(views))) if is_last else None

    def applied_to(self, rows: SSAValue, insert: OpInserter) -> SSAValue:
        """The same views of other rows of the same shape."""
        value = rows
        for view in self.views:
            again = type(view).create(
                operands=[value],
                properties=view.properties,
                attributes=view.attributes,
                result_types=[TensorType(element_type_of(rows), shape_of(view.result))],
            )
            value = insert.insert(again, rows.name_hint)
        return value


def _axis_before(
    view: View, axis: int, shapes: SymbolicShapes, *, has_positions: bool
) -> int | None:
    """The dimension of the channels before `view`; None where it does more than move or split
    positions."""
    if isinstance(view, coda.TransposeOp):
        return view.permutation[axis] if has_positions and view.permutation[0] == 0 else None
    before, after = shapes.dims(view.x), shapes.dims(view.result)
    if has_positions and (min(len(before), len(after)) < 3 or before[0] != after[0]):
        return None
    if axis == len(after) - 1:
        return len(before) - 1 if before[-1:] == after[-1:] else None
    return 1 if axis == 1 and before[1] == after[1] else None
