"""Parts of other tensors that kernels read in place: ranges of columns, positions of dimensions,
permuted rows, shifted rows, and single columns as rows and tiles.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.backends.triton.argument_list import Moved, Pitch, RowRuns
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.dialects.coda import (
    EmbeddingOp,
    LayerNormOp,
    NormStatsOp,
    ReduceOp,
    ReshapeOp,
    RMSNormOp,
    ShiftOp,
    SliceOp,
    SoftmaxOp,
    TransposeOp,
)
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm import (
    AttentionDqOp,
    AttentionSumOp,
    FusedAttentionOp,
    FusedOp,
    PortKind,
    Segment,
)
from coda_ir.storage import (
    ALIGNMENT,
    is_looked_up_where_read,
    is_shifted_where_read,
    is_turned,
    overwritten,
)
from coda_ir.symbolic_shapes import Dims
from coda_ir.symbolic_size import SymbolicSize

MIN_ROW_BYTES = 32
"""Bytes of the rows that kernels read in another order, at least: GPUs move as many at a time."""


def row_pitches(
    host: HostProgram, segment: Segment, expanded: Collection[SSAValue] = ()
) -> dict[SSAValue, Pitch]:
    """The tiles and tables of a segment that are such ranges, and the elements between the starts
    of their rows; for tiles whose rows are permuted, where they start.

    Operands in `expanded` are none: the host broadcasts them to the domain, into a dense tensor.
    """
    tiles = {
        value
        for kind, value in segment.ports
        if kind == PortKind.TILE and shape_of(value)[-1:] == (segment.columns,)
    }
    others = {value for kind, value in segment.ports if kind != PortKind.TILE}
    found = {
        x: pitch_of(host, x) if x in tiles and x not in others else row_pitch(host, x)
        for x in _ranges([segment], tiles, expanded)
    }
    return {x: pitch for x, pitch in found.items() if pitch is not None}


def port_pitches(host: HostProgram, op: FusedOp) -> dict[SSAValue, int]:
    """The tiles and tables that a GEMM loads and that are such ranges, with the elements between
    the starts of their rows.
    """
    segments = op.segments()
    kinds = (PortKind.TILE, PortKind.HALF_TILE)
    tiles = {x for segment in segments for kind, x in segment.ports if kind in kinds}
    return _pitches(host, segments, tiles, [*op.inputs, *op.weights])


def moved_operands(segment: Segment, expanded: Collection[SSAValue] = ()) -> dict[SSAValue, Moved]:
    """The tiles of a segment that are shifted rows or the columns of another tensor, the tiles and
    tables that are looked up, and the tiles and rows of which each element is one of several in a
    dimension that ends another tensor.
    """
    found: dict[SSAValue, Moved] = {}
    for kind, value in segment.ports:
        if value in expanded:
            continue
        op = value.owner
        if kind == PortKind.TILE and isinstance(op, ShiftOp) and is_shifted_where_read(op):
            found[value] = Moved(op.x, shift=op.distance)
        if isinstance(op, EmbeddingOp) and is_looked_up_where_read(op):
            found[value] = Moved(op.table, ids=op.ids)
        if kind == PortKind.TILE and is_turned(value):
            assert isinstance(op, TransposeOp)
            found[value] = Moved(op.x, is_turned=True)
        is_tile = kind == PortKind.TILE and shape_of(value)[-1:] == (segment.columns,)
        column = _column(value) if is_tile or kind == PortKind.ROW else None
        if column is not None:
            found[value] = column
    others = {value for kind, value in segment.ports if kind not in (PortKind.TILE, PortKind.ROW)}
    return {
        value: moved
        for value, moved in found.items()
        if value not in others or moved.ids is not None
    }


def _column(value: SSAValue) -> Moved | None:
    """Return where the elements of `value` are, if it is one of several columns: that of a tap, or
    a position of a cached window.
    """
    reshape = value.owner
    part = reshape.x.owner if isinstance(reshape, ReshapeOp) else None
    if not isinstance(part, SliceOp):
        return None
    (dim, start, stop), (*outer, last) = part.range, shape_of(part.x)
    if dim != len(outer) or stop - start != 1 or last == DYNAMIC_INDEX:
        return None
    is_same = [n for n in outer if n != 1] == [n for n in shape_of(value) if n != 1]
    return Moved(part.x, stride=last, offset=start) if is_same else None


RowOp: TypeAlias = RMSNormOp | LayerNormOp | NormStatsOp | SoftmaxOp | ReduceOp
"""An operator whose programs own whole rows of x."""


def operand_pitches(host: HostProgram, op: RowOp) -> dict[SSAValue, Pitch]:
    """The operands of an operator on rows that are parts of other tensors, with the elements
    between the starts of their rows: x, and parameters of one row for each sample.
    """
    is_whole = not isinstance(op, RMSNormOp) or op.group is None
    others = [value for value in op.operands[1:] if value is not op.x]
    tables = [value for value in others if len(shape_of(value)) > 1]
    read = [op.x, *tables] if is_whole and op.x not in op.operands[1:] else tables
    pitches = {
        value: pitch_of(host, value) if value is op.x and is_whole else row_pitch(host, value)
        for value in read
    }
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


def head_pitches(
    host: HostProgram, op: AttentionSumOp, others: Collection[SSAValue]
) -> dict[SSAValue, Pitch]:
    """The operands with heads that are parts of other tensors, or have the rows of a batch in
    another order, which descriptors of boxes address; epilogues read `others`.
    """
    assert op.schedule is not None
    is_tma = op.schedule.mainloop == "tma"
    gradients = () if isinstance(op, FusedAttentionOp) else (op.d_out,)
    outputs = (op.stored,) if isinstance(op, AttentionDqOp) else ()
    pitches: dict[SSAValue, Pitch] = {}
    for value in (op.q, op.k, op.v, *gradients, *outputs):
        pitch = pitch_of(host, value)
        is_turned = isinstance(pitch, RowRuns)
        is_read = pitch is not None and (value in (op.q, op.k, op.v) or is_turned)
        if is_read and not (is_turned and (not is_tma or value in others)):
            pitches[value] = pitch
    return pitches


def row_pitch(host: HostProgram, value: SSAValue) -> int | None:
    """The elements between the starts of the rows of `value`, a part of a dense tensor; None where
    they are not aligned or not one number apart, and where it is no part.
    """
    pitch = pitch_of(host, value)
    return pitch if isinstance(pitch, int) else None


def pitch_of(host: HostProgram, value: SSAValue) -> Pitch | None:
    """The elements between the starts of the rows of `value`, a part of a dense tensor or one with
    permuted rows, or where they start; None where they are not aligned, and where it is neither.
    """
    steps, base = list[ReshapeOp | SliceOp | TransposeOp](), value
    while isinstance(op := base.owner, ReshapeOp | SliceOp | TransposeOp):
        steps.insert(0, op)
        base = op.x
    if not any(isinstance(op, SliceOp | TransposeOp) for op in steps):
        return None
    place: _Place | None = _Place.dense(host.dims(base))
    for op in steps:
        dims = host.dims(op.result)
        if isinstance(op, SliceOp):
            dim, start, _ = op.range
            place = place.part(dim, start, dims)
        elif isinstance(op, TransposeOp):
            place = place.permuted(op.permutation)
        else:
            place = place.reshaped(dims)
        if place is None:
            return None
    pitch, bytes = place.pitch, element_bytes(value.type)
    if pitch is None or not _are_aligned(pitch, bytes) or not place.starts_at_multiple_of(bytes):
        return None
    if isinstance(pitch, RowRuns) and shape_of(value)[-1] * bytes < MIN_ROW_BYTES:
        return None
    if isinstance(base, BlockArgument):
        host.operand(base)
    return pitch if isinstance(base, BlockArgument) or host.is_dense(base) else None


@dataclass(frozen=True)
class _Place:
    """The place of the elements of a tensor in memory: its extents, the elements between neighbours
    along each dimension, and the element with which it starts.
    """

    dims: tuple[SymbolicSize, ...]
    strides: tuple[SymbolicSize, ...]
    start: SymbolicSize

    @staticmethod
    def dense(dims: Dims) -> "_Place":
        strides = [SymbolicSize.product(dims[axis + 1 :]) for axis in range(len(dims))]
        return _Place(_sizes(dims), tuple(strides), SymbolicSize())

    def part(self, dim: int, start: int, dims: Dims) -> "_Place":
        """Return the place of a slice with extents `dims`."""
        return _Place(_sizes(dims), self.strides, self.start + self.strides[dim] * start)

    def permuted(self, order: Sequence[int]) -> "_Place":
        """Return the place of a transposition."""
        dims, strides = ([numbers[axis] for axis in order] for numbers in (self.dims, self.strides))
        return _Place(tuple(dims), tuple(strides), self.start)

    def reshaped(self, dims: Dims) -> "_Place | None":
        """Return the place of the same elements as `dims`; None where that takes a copy."""
        runs, strides = self._runs(), list[SymbolicSize]()
        count, run = _ONE, runs.pop() if runs else (_ONE, _ONE)
        for dim in reversed(_sizes(dims)):
            if count == run[0] and dim != _ONE:
                if not runs:
                    return None
                count, run = _ONE, runs.pop()
            strides.insert(0, count * run[1])
            count = count * dim
        return None if runs or count != run[0] else _Place(_sizes(dims), tuple(strides), self.start)

    def _runs(self, end: int | None = None) -> list[tuple[SymbolicSize, SymbolicSize]]:
        """Return the extents and strides of runs of dimensions, up to `end`, that are one."""
        runs: list[tuple[SymbolicSize, SymbolicSize]] = []
        for dim, stride in zip(self.dims[:end], self.strides, strict=False):
            if dim == _ONE:
                continue
            if runs and runs[-1][1] == dim * stride:
                runs[-1] = runs[-1][0] * dim, stride
            else:
                runs.append((dim, stride))
        return runs

    @property
    def pitch(self) -> Pitch | None:
        """The elements between the starts of rows, whose elements are side by side, or where the
        rows start; None where that is not known.
        """
        rows = self._runs(-1)[::-1]
        extents, strides = [extent for extent, _ in rows[:-1]], [stride for _, stride in rows]
        is_row = bool(self.dims) and self.strides[-1] == _ONE
        if not rows or not is_row or any(size.symbols for size in (*extents, *strides)):
            return None
        runs = RowRuns(tuple(map(int, extents)), tuple(map(int, strides)))
        return runs if extents else runs.strides[0]

    def starts_at_multiple_of(self, bytes: int) -> bool:
        return all(factor * bytes % ALIGNMENT == 0 for _, factor in self.start.terms)


def _are_aligned(pitch: Pitch, bytes: int) -> bool:
    strides = pitch.strides if isinstance(pitch, RowRuns) else (pitch,)
    return all(stride * bytes % ALIGNMENT == 0 for stride in strides)


_ONE = SymbolicSize.constant(1)


def _sizes(dims: Dims) -> tuple[SymbolicSize, ...]:
    return tuple(map(SymbolicSize.of, dims))


def _pitches(
    host: HostProgram,
    segments: Sequence[Segment],
    tiles: Collection[SSAValue],
    dense: Collection[SSAValue],
) -> dict[SSAValue, int]:
    """The pitches of the values in `tiles` and of tables, but for those that are in `dense` or that
    another port takes, too.
    """
    found = {x: row_pitch(host, x) for x in _ranges(segments, tiles, dense)}
    return {x: pitch for x, pitch in found.items() if pitch is not None}


def _ranges(
    segments: Sequence[Segment], tiles: Collection[SSAValue], dense: Collection[SSAValue]
) -> list[SSAValue]:
    """The operands that may be ranges."""
    ports = [port for segment in segments for port in segment.ports]
    not_ranges = {*dense, *(overwritten(out) for segment in segments for out in segment.outputs)}
    not_ranges |= {x for kind, x in ports if not kind.is_table and x not in tiles}
    return [x for _, x in ports if x not in not_ranges]
