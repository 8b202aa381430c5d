"""Columns of rows in another order, which epilogues load by the numbers of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import Port, PortKind, Segment


def move_columns(segments: Sequence[Segment], ids: SSAValue, kind: PortKind) -> list[Segment]:
    """Have ports of `kind` load the elements that `coda.index` selects by `ids`, from all rows."""
    for segment in segments:
        segment.ports = [_moved(port, ids, kind) for port in segment.ports]
    return list(segments)


def _moved(port: Port, ids: SSAValue, kind: PortKind) -> Port:
    index = port.value.owner
    while isinstance(index, coda.ReshapeOp):
        index = index.x.owner
    if port.kind != PortKind.COL or not isinstance(index, coda.IndexOp):
        return port
    is_column = shape_of(index.x)[1:] in ((), (1,))
    return Port(kind, index.x) if is_column and _names_rows(index, ids) else port


def _names_rows(index: coda.IndexOp, ids: SSAValue) -> bool:
    return index.ids is ids and index.given["dim"] == 0
