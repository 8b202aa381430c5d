"""Tensors whose columns repeat those of a smaller tensor, which a kernel loads in their place."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import PortKind
from coda_ir.dialects.torch import CallOp


class Repetition(NamedTuple):
    """Columns of `source` repeat: each of them side by side (`group`), or all in turn (`table`)."""

    kind: PortKind
    source: SSAValue
    """(... x H x 1) or (... x 1 x G), for H groups of G columns."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The source as an operand of a kernel: (... x H) or (... x G)."""
        *rows, groups, group = shape_of(self.source)
        return (*rows, groups if self.kind == PortKind.GROUP else group)


def repetition_of(value: SSAValue) -> Repetition | None:
    """The tensor whose columns `value` repeats: a broadcast along groups or along their columns."""
    if not isinstance(value.owner, coda.ReshapeOp):
        return None
    source, shape = _expanded(value.owner.x), shape_of(value.owner.x)
    if source is None or len(shape) < 2 or shape_of(value) != (*shape[:-2], shape[-2] * shape[-1]):
        return None
    if shape_of(source) == (*shape[:-1], 1):
        return Repetition(PortKind.GROUP, source)
    is_table = shape_of(source) == (*shape[:-2], 1, shape[-1])
    return Repetition(PortKind.TABLE, source) if is_table else None


def _expanded(value: SSAValue) -> SSAValue | None:
    """The tensor that `value` repeats along some of its dimensions."""
    match value.owner:
        case coda.BroadcastOp() as op:
            return op.x
        case CallOp() as op if op.callee.data == "aten.expand.default":
            return op.inputs[0]
        case _:
            return None
