"""The column ranges of a GEMM as Python values, which passes edit and backends read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, TensorType, f32, f64, i32
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import IRDLOperation

from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    element_type_of,
    is_narrow_integer,
    shape_of,
    stores_floats,
    tensor_type,
)
from coda_ir.dialects.gemm.attrs import (
    Layout,
    PairingAttr,
    PortKind,
    ResultKind,
    ResultPortAttr,
    SegmentAttr,
)

DimT = TypeVar("DimT")


class Port(NamedTuple):
    """An operand of an epilogue, and its indexing."""

    kind: PortKind
    value: SSAValue


class Result(NamedTuple):
    """A result of an epilogue: its port and its tensor type."""

    port: ResultPortAttr
    type: AnyTensor

    @property
    def samples(self) -> int:
        """The number of leading sample dimensions if rows of a sample are added up, else 0."""
        is_col = self.port.kind.data == ResultKind.PARTIAL_COL
        return len(self.type.get_shape()) - 2 if is_col else 0


@dataclass
class Segment:
    """One column range of a GEMM (or, without weights, the domain of a `gemm.map`).

    The block of `body` takes the accumulators (one, or two in pair mode), then the arguments
    of the ports in order, and yields the values of the results in order.
    """

    weights: list[SSAValue]
    ports: list[Port]
    results: list[Result]
    body: Region
    layout: Layout = Layout.NK
    pairing: PairingAttr | None = None
    outputs: Sequence[SSAValue] = field(default=())
    """The results of the operation this segment was read from."""
    more_weights: list[list[SSAValue]] = field(default_factory=list[list[SSAValue]])
    """The weights of the further inputs of the GEMM, alike in number and columns."""
    scales: Sequence[SSAValue] = field(default=())
    """The scales of blocks of each weight; empty where the GEMM has none."""
    zeros: Sequence[SSAValue] = field(default=())
    """The zero points of each quantized weight; empty where they have none."""
    is_stored_by_row: bool = False
    """True if no box holds the rows that a tile stores: each row has a separate place."""

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def terms(self) -> list[list[SSAValue]]:
        """The weights that multiply each input; the products are added."""
        return [self.weights, *self.more_weights]

    @property
    def accumulator_count(self) -> int:
        if not self.weights:
            return 0
        return 2 if self.pairing else 1

    @property
    def accumulators(self) -> Sequence[BlockArgument]:
        return self.block.args[: self.accumulator_count]

    def weight_columns(self, index: int) -> int:
        """Return N of one weight, or `DYNAMIC_INDEX`; of a packed one, that of its scales."""
        is_packed = self.scales and element_type_of(self.weights[index]) == i32
        value = self.scales[index] if is_packed else self.weights[index]
        return shape_of(value)[-2 if self.layout == Layout.NK else -1]

    @property
    def columns(self) -> int:
        """N of the segment, all weights together, or `DYNAMIC_INDEX`."""
        extents = [self.weight_columns(i) for i in range(len(self.weights))]
        return DYNAMIC_INDEX if DYNAMIC_INDEX in extents else sum(extents)

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The shape of the domain of a `gemm.map`: of the first tile result, or else of the first
        tile port, or of the first number that is overwritten; None where there is none of them.
        """
        shapes = [r.type.get_shape() for r in self.results if r.port.kind.data == ResultKind.TILE]
        shapes += [shape_of(value) for kind, value in self.ports if kind == PortKind.TILE]
        shapes += [shape_of(value) for value in self._overwritten]
        return shapes[0] if shapes else None

    @property
    def domain_value(self) -> SSAValue:
        """The tensor that has this shape."""
        outputs = zip(self.results, self.outputs, strict=True)
        tiles = [output for result, output in outputs if result.port.kind.data == ResultKind.TILE]
        tiles += [value for kind, value in self.ports if kind == PortKind.TILE]
        return [*tiles, *self._overwritten][0]

    @property
    def _overwritten(self) -> list[SSAValue]:
        """The operands in whose memory results are stored."""
        named = [r.port.index for r in self.results if r.port.kind.data == ResultKind.ACCUMULATE]
        return [self.ports[i.data].value for i in named if isinstance(i, IntAttr)]

    @property
    def group_size(self) -> int | None:
        """G of the pairing `halves, G`, the segment's N for `halves`, None otherwise."""
        if self.pairing is None or self.pairing.is_adjacent:
            return None
        return self.pairing.group_size or self.columns

    @property
    def has_neighbours(self) -> bool:
        """True if a pair's columns are adjacent: no TMA box holds every other column of K x N."""
        is_adjacent = self.pairing is not None and self.pairing.is_adjacent
        return is_adjacent and self.layout == Layout.KN

    def port_arity(self, kind: PortKind) -> int:
        """Return the number of a port's region arguments: two if each column of a pair has one."""
        return 2 if self.pairing and kind.has_columns and not kind.is_half else 1

    def port_args(self, index: int) -> Sequence[BlockArgument]:
        """Return the region arguments of port `index`."""
        start = self.accumulator_count + sum(
            self.port_arity(port.kind) for port in self.ports[:index]
        )
        return self.block.args[start : start + self.port_arity(self.ports[index].kind)]

    def result_arity(self, port: ResultPortAttr) -> int:
        """Return the number of yielded values of a result."""
        return 2 if self.pairing and port.kind.data.is_per_column else 1

    def is_stored_transposed(self, port: ResultPortAttr) -> bool:
        """Return whether the tile of a result is stored as N x M."""
        if port.kind.data == ResultKind.ACCUMULATE and isinstance(port.index, IntAttr):
            return self.ports[port.index.data].kind == PortKind.TILE_T
        return port.kind.data == ResultKind.TILE_T

    def yielded(self, index: int) -> Sequence[SSAValue]:
        """Return the yielded values of result `index`."""
        assert self.block.last_op is not None
        return self.block.last_op.operands[self._span(index)]

    def _span(self, index: int) -> slice:
        """Return the position of the yielded values of result `index` among all of them."""
        start = sum(self.result_arity(r.port) for r in self.results[:index])
        return slice(start, start + self.result_arity(self.results[index].port))

    # Editing: the segment must own its body (see FusedOp.take_segments).

    def add_port(self, kind: PortKind, value: SSAValue) -> Sequence[BlockArgument]:
        """Return the arguments of the port (kind, value), which is added if it does not exist."""
        for index, port in enumerate(self.ports):
            if port == (kind, value):
                return self.port_args(index)
        self.ports.append(Port(kind, value))
        for _ in range(self.port_arity(kind)):
            argument = self.block.insert_arg(
                region_type(element_type_of(value)), len(self.block.args)
            )
            argument.name_hint = value.name_hint
        return self.port_args(len(self.ports) - 1)

    def remove_port(self, index: int) -> None:
        """Remove port `index`, whose arguments have no uses and which no result names."""
        for argument in reversed(self.port_args(index)):
            self.block.erase_arg(argument)
        del self.ports[index]
        for number, (port, type) in enumerate(self.results):
            if isinstance(port.index, IntAttr) and port.index.data > index:
                self.results[number] = Result(port.renumbered(port.index.data - 1), type)

    def add_result(self, port: ResultPortAttr, type: AnyTensor, values: Sequence[SSAValue]) -> int:
        """Append a result that yields `values`; returns its index."""
        assert len(values) == self.result_arity(port)
        self.results.append(Result(port, type))
        self._set_yielded([*self._all_yielded(), *values])
        return len(self.results) - 1

    def set_yielded(self, index: int, values: Sequence[SSAValue]) -> None:
        """Replace the values that result `index` yields."""
        operands = self._all_yielded()
        operands[self._span(index)] = values
        self._set_yielded(operands)

    def remove_result(self, index: int) -> None:
        operands = self._all_yielded()
        del operands[self._span(index)]
        del self.results[index]
        self._set_yielded(operands)

    def append_code(self, part: Segment, values: dict[SSAValue, SSAValue]) -> None:
        """Append the code of another segment. `values` maps its arguments, and gets its results."""
        assert self.block.last_op is not None
        for op in part.block.ops:
            if op is not part.block.last_op:
                self.block.insert_op_before(op.clone(values), self.block.last_op)

    def _all_yielded(self) -> list[SSAValue]:
        assert self.block.last_op is not None
        return list(self.block.last_op.operands)

    def _set_yielded(self, values: Sequence[SSAValue]) -> None:
        assert self.block.last_op is not None
        self.block.last_op.operands = values


def read_segments(
    attrs: Sequence[SegmentAttr],
    weights: Sequence[SSAValue],
    ports: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    bodies: Sequence[Region],
    inputs: int = 1,
    scales: Sequence[SSAValue] = (),
    zeros: Sequence[SSAValue] = (),
    *,
    is_stored_by_row: bool = False,
) -> list[Segment]:
    """Return the segments described by `attrs`, which partition the flat operands and results."""
    segments: list[Segment] = []
    w = p = r = s = 0
    for attr, body in zip(attrs, bodies, strict=True):
        own = outputs[r : r + len(attr.results)]
        count = attr.weights.data
        terms = [list(weights[w + i * count : w + (i + 1) * count]) for i in range(inputs)]
        loaded, stored = (
            zip(attr.ports, ports[p:], strict=False),
            zip(attr.results, own, strict=True),
        )
        segments.append(
            Segment(
                weights=terms[0],
                ports=[Port(kind.data, value) for kind, value in loaded],
                results=[Result(port, tensor_type(value)) for port, value in stored],
                body=body,
                layout=attr.layout.data,
                pairing=attr.pairing if isinstance(attr.pairing, PairingAttr) else None,
                outputs=own,
                more_weights=terms[1:],
                scales=scales[s : s + count],
                zeros=zeros[s : s + count],
                is_stored_by_row=is_stored_by_row,
            )
        )
        w, p, r = w + inputs * count, p + len(attr.ports), r + len(attr.results)
        s += count
    return segments


@dataclass
class DomainSegment(Segment):
    """A segment without weights, over stated columns."""

    domain_columns: int = 1

    @property
    def columns(self) -> int:
        return self.domain_columns


class HasSegments(IRDLOperation, ABC):
    """An operator whose epilogues are read and edited as column ranges."""

    @abstractmethod
    def segments(self) -> list[Segment]:
        """The column ranges, for reading."""

    @abstractmethod
    def with_segments(self, segments: Sequence[Segment]) -> HasSegments:
        """Return the operator on the same inputs with other column ranges."""

    def take_segments(self) -> list[Segment]:
        """Return the column ranges with copies of their regions, for a changed operator."""
        segments = self.segments()
        for segment in segments:
            segment.body = segment.body.clone()
        return segments


def region_type(element_type: Attribute) -> Attribute:
    """Return the type of an element in regions: float32, or an integer of 32 bits or more."""
    if stores_floats(element_type):
        return f32
    return i32 if is_narrow_integer(element_type) else element_type


def partial_type(rows: Sequence[int], *, is_wide: bool = False) -> AnyTensor:
    """Return the type of a `partial_row`: one float32, or one float64, per row and tile of columns.

    A logsumexp has the magnitude of its operands. Where small differences of it count, as in a
    loss, float32 does not hold them.
    """
    return TensorType(f64 if is_wide else f32, (*rows, DYNAMIC_INDEX))


def partial_arguments(partials: Iterable[SSAValue]) -> list[Attribute]:
    """Return the types of a finalize's arguments: float64 is a float32 and its remainder."""
    types: list[Attribute] = []
    for partial in partials:
        types += [f32] * (2 if is_wide_partial(partial) else 1)
    return types


def is_wide_partial(partial: SSAValue) -> bool:
    """Return whether partials are float64."""
    return element_type_of(partial) == f64


def kept_dims(partial: Sequence[DimT], axis: str) -> tuple[DimT, ...]:
    """Return the dimensions of partials without that of the tiles: the last one by row, the one
    before the columns by column.
    """
    return (*partial[:-1],) if axis == "row" else (*partial[:-2], *partial[-1:])
