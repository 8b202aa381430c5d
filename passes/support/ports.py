"""Ports: how a tensor enters an epilogue over a given domain, and which tensor is loaded."""

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import Port, PortKind, Segment
from coda_ir.dialects.gemm.tables import port_kind, serves_samples
from coda_ir.storage import repeats

_CHEAP = (PortKind.ROW, PortKind.COL, PortKind.SCALAR)


def is_per_element(value: SSAValue, domain: Sequence[int]) -> bool:
    """Return whether an epilogue over `domain` loads `value` element by element."""
    shape = shape_of(value)
    kind = port_kind(shape, domain)
    return kind not in _CHEAP and not (kind == PortKind.TABLE and serves_samples(shape))


def is_per_sample(shape: Sequence[int], domain: Sequence[int]) -> bool:
    """Return whether each row of a table of `shape` serves a sample: B x 1 x N beside B x T x N."""
    return port_kind(shape, domain) == PortKind.TABLE and serves_samples(shape)


class Repetition(NamedTuple):
    """Columns of `source` repeat: each of them side by side (`group`), or all in turn (`table`)."""

    kind: PortKind
    source: SSAValue
    """(... x H x 1) or (... x 1 x G), for H groups of G columns."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the source as an operand of a kernel: (... x H) or (... x G)."""
        *rows, groups, group = shape_of(self.source)
        return (*rows, groups if self.kind == PortKind.GROUP else group)


def repetition_of(value: SSAValue) -> Repetition | None:
    """Return the tensor whose columns `value` repeats: within groups, or for every group."""
    if not isinstance(value.owner, coda.ReshapeOp) or not repeats(op := value.owner.x.owner):
        return None
    source, shape = op.operands[0], shape_of(value.owner.x)
    if len(shape) < 2 or shape_of(value) != (*shape[:-2], shape[-2] * shape[-1]):
        return None
    if shape_of(source) == (*shape[:-1], 1):
        return Repetition(PortKind.GROUP, source)
    is_table = shape_of(source) == (*shape[:-2], 1, shape[-1])
    return Repetition(PortKind.TABLE, source) if is_table else None


def repeated_group(value: SSAValue) -> SSAValue | None:
    """Return the tensor with one element per group (... x H) that `value` repeats for columns."""
    repeated = repetition_of(value)
    if repeated is None or repeated.kind != PortKind.GROUP:
        return None
    source = repeated.source.owner
    if isinstance(source, coda.ReshapeOp) and shape_of(source.x) == repeated.shape:
        return source.x
    return None


def move_columns(segments: Sequence[Segment], ids: SSAValue, kind: PortKind) -> list[Segment]:
    """Make ports of `kind` load the elements that `coda.index` selects by `ids`, from all rows."""
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
    names_rows = index.ids is ids and index.given["dim"] == 0
    return Port(kind, index.x) if is_column and names_rows else port
