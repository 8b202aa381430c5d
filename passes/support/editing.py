"""Editing of epilogues: those of `gemm.fused`, `gemm.map` and of the backward of attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    element_bytes,
    element_type_of,
    shape_of,
    tensor_type,
)
from coda_ir.dialects.gemm import (
    AttentionSumOp,
    FusedOp,
    MapOp,
    PairingAttr,
    PortKind,
    ResultKind,
    ResultPortAttr,
    ScalarBuilder,
    Segment,
    YieldOp,
    numerics_mode,
)
from coda_ir.dialects.gemm.scalar_code import emit_scalar, is_pointwise, is_widening_cast
from coda_ir.dialects.gemm.tables import port_kind, serves_samples
from coda_ir.passes.support.order import BlockOrder
from coda_ir.passes.support.ports import is_per_element, repeated_group, repetition_of
from coda_ir.remarks import fuse_locations

EpilogueOp: TypeAlias = FusedOp | MapOp | AttentionSumOp


@dataclass(frozen=True)
class Site:
    """A result of an epilogue with one value per element or pair, where consumers are fused."""

    op: EpilogueOp
    segment: int
    result: int
    is_half: bool
    """True if the result has one value per pair instead of one per column."""

    @staticmethod
    def of(value: SSAValue, *, or_transposed: bool = False) -> Site | None:
        """Return the site that defines `value`; None if it is no tile or half result, nor,
        `or_transposed`, a tile that is stored so, or its rows are not those of the epilogue.
        """
        op, place = value.owner, _place(value)
        if place is None or not isinstance(op, FusedOp | MapOp) or is_scattered(op):
            return None
        segment, result, kind = place
        is_site = kind in (ResultKind.TILE, ResultKind.HALF)
        is_site |= or_transposed and kind == ResultKind.TILE_T
        return Site(op, segment, result, kind == ResultKind.HALF) if is_site else None

    def holds(self, value: SSAValue) -> bool:
        """Return whether the epilogue holds `value` beside this result, column by column: a result,
        or one with an element for each group of columns, which `value` repeats.
        """
        if value.owner is self.op:
            other = Site.of(value)
            return other is not None and (other.segment, other.is_half) == (
                self.segment,
                self.is_half,
            )
        group = repeated_group(value)
        if group is None or group.owner is not self.op:
            return False
        place = _place(group)
        is_beside = place is not None and place[::2] == (self.segment, ResultKind.GROUP)
        # In pairs, groups of columns are those of the half.
        return is_beside and self.is_half == bool(self.op.segments()[self.segment].pairing)


def _place(value: SSAValue) -> tuple[int, int, ResultKind] | None:
    """Return the segment that computes a result of an epilogue, its number there and its kind."""
    op = value.owner
    if not isinstance(value, OpResult) or not isinstance(op, FusedOp | MapOp):
        return None
    segments = op.segment_attrs.data if isinstance(op, FusedOp) else (op.segment_attr,)
    index = value.index
    for number, segment in enumerate(segments):
        if index < len(segment.results):
            return number, index, segment.results.data[index].kind.data
        index -= len(segment.results)
    return None


def insert_map(
    order: BlockOrder,
    before: Operation,
    location: LocationAttr,
    tiles: Sequence[SSAValue] = (),
    pairing: PairingAttr | None = None,
) -> Site:
    """Insert a kernel that loads `tiles` and computes nothing yet; return its epilogue."""
    block = Block()
    block.add_op(YieldOp())
    segment = Segment([], [], [], Region(block), pairing=pairing)
    for tile in tiles:
        segment.add_port(PortKind.TILE, tile)
    kernel = MapOp(segment)
    kernel.location = location
    order.insert_before(kernel, before)
    return Site(kernel, 0, 0, is_half=False)


def is_scattered(op: Operation) -> bool:
    """Return whether a kernel stores its results in other rows than it computes them in."""
    return isinstance(op, FusedOp) and op.scatter is not None


def leaf_operands(op: Operation, domain: Sequence[int]) -> list[SSAValue]:
    """Return the tensors that the scalar code of `op` reads; cheap operands are recomputed."""
    repeated = dict.fromkeys(recomputation(op, domain))
    operands = dict.fromkeys(value for inner in repeated for value in inner.operands)
    return [
        value
        for value in operands
        if value.owner not in repeated and not isinstance(value.owner, coda.ConstantOp)
    ]


def recomputation(op: Operation, domain: Sequence[int]) -> list[Operation]:
    """Return `op` and what the epilogue recomputes for it, each after its operands."""

    def inner(op: Operation) -> list[Operation]:
        repeated = (recomputed(value, domain) for value in op.operands)
        return [each for each in repeated if each is not None]

    return operands_first(op, inner)


def operands_first(
    op: Operation, inner: Callable[[Operation], Sequence[Operation]]
) -> list[Operation]:
    """Return `op` and everything that `inner` returns for an operator, each after its operands.

    An explicit stack, because chains may be longer than Python's recursion limit.
    """
    order: dict[Operation, None] = {}
    pending = [(op, False)]
    while pending:
        current, operands_done = pending.pop()
        if current in order:
            continue
        if operands_done:
            order[current] = None
            continue
        pending.append((current, True))
        pending.extend((each, False) for each in reversed(inner(current)))
    return list(order)


def recomputed(value: SSAValue, domain: Sequence[int]) -> Operation | None:
    """Return the pointwise operator that defines `value`, if the epilogue recomputes it instead of
    loading its result.

    Worth it for a widening cast (the narrow operand is loaded), for what does not vary by row
    (`1 + w` for a norm weight), or within a sample if nothing else stores it, for the outer
    product of a column and a row, which would fill a whole tile, or a table that nothing else
    stores, for what is made of positions alone, and for a tile scaled or shifted by row, column and
    sample, such as a norm whose statistics are known (the tile is loaded instead).
    """
    op = value.owner
    if not isinstance(op, Operation) or not is_pointwise(op) or len(domain) < 2:
        return None
    shape = shape_of(value)
    kind = port_kind(shape, domain)
    is_by_column = kind in (PortKind.ROW, PortKind.SCALAR)
    if kind == PortKind.TABLE and (serves_samples(shape) or _is_of_smaller_tensors(op)):
        is_by_column = not _is_stored_anyway(value)
    if is_by_column or is_widening_cast(op) or is_of_numbers(op):
        return op
    if kind != PortKind.TILE:
        return None
    tiles = _tiles(op, domain)
    return op if not tiles or _scaled_tile(op, domain, tiles) is not None else None


def _is_stored_anyway(value: SSAValue) -> bool:
    """Return whether anything but pointwise code reads `value`."""
    return not all(is_pointwise(use.operation) for use in value.uses)


def is_left_to_readers(op: Operation) -> bool:
    """Return whether every reader of the pointwise `op` prefers to recompute it, because its
    operands are loaded anyway and have no more bytes.
    """
    value = op.results[0]
    shape = shape_of(value)
    readers = [use.operation for use in value.uses]
    if is_widening_cast(op):
        return all(map(is_pointwise, readers))
    if not readers or not all(is_pointwise(r) and shape_of(r.results[0]) == shape for r in readers):
        return False
    if len(shape) < 2 or port_kind(shape, shape) != PortKind.TILE:
        return False
    tile = _scaled_tile(op, shape, _tiles(op, shape))
    return tile is not None and (isinstance(tile.owner, Block) or tile.has_more_than_one_use())


def is_of_numbers(op: Operation) -> bool:
    """Return whether a few pointwise operators compute `op` of positions, extents and constants."""
    return _are_few(op, is_pointwise, lambda value: not _is_in_code(value))


def _is_of_smaller_tensors(op: Operation) -> bool:
    """Return whether a few simple operators compute `op` from tensors that it repeats: a mask from
    the numbers of rows and columns, or biases from distances and the slope of each head.
    """
    shape = shape_of(op.results[0])
    return _are_few(op, lambda op: isinstance(op, _SIMPLE), lambda v: shape_of(v) == shape)


def _are_few(
    op: Operation, is_recomputed: Callable[[object], bool], is_inner: Callable[[SSAValue], bool]
) -> bool:
    """Return whether `op`, and the operators that compute its operands from where `is_inner` no
    longer holds, are a few that `is_recomputed` accepts.
    """
    pending: list[object] = [op]
    for _ in range(MAX_RECOMPUTED):
        if not pending:
            return True
        current = pending.pop()
        if not isinstance(current, Operation) or not is_recomputed(current):
            return False
        pending += [value.owner for value in current.operands if is_inner(value)]
    return not pending


def _is_in_code(value: SSAValue) -> bool:
    return isinstance(value.owner, coda.ConstantOp) or coda.is_of_extents(value)


MAX_RECOMPUTED = 8
"""Operators that a norm whose statistics are known consists of, at most."""


def _tiles(op: Operation, domain: Sequence[int]) -> list[SSAValue]:
    """Return the operands that an epilogue would load element by element."""
    return [value for value in op.operands if is_per_element(value, domain)]


_AFFINE = (coda.MulOp, coda.DivOp, coda.AddOp, coda.SubOp, coda.CastOp, coda.StoredOp)
_SIMPLE = (*_AFFINE, coda.CompareOp, coda.LogicalNotOp, coda.LogicalAndOp, coda.LogicalOrOp)


def _scaled_tile(
    op: Operation, domain: Sequence[int], tiles: Sequence[SSAValue]
) -> SSAValue | None:
    """Return the stored tile that `op` with these `_tiles`, as the last of a few operators, scales,
    shifts or rounds; None if its elements have more bytes than those of `op`.
    """
    bytes_of_result = element_bytes(op.results[0].type)
    tile: SSAValue | None = None
    for _ in range(MAX_RECOMPUTED):
        is_scaled = len(tiles) == 1 and type(op) in _AFFINE
        divides_by_tile = isinstance(op, coda.DivOp) and op.rhs in tiles
        if not is_scaled or divides_by_tile or port_kind(shape_of(tiles[0]), domain) is None:
            is_shared = tile is not None and tile.has_more_than_one_use()
            return tile if is_shared and element_bytes(tile.type) <= bytes_of_result else None
        (tile,) = tiles
        if not isinstance(tile.owner, Operation) or not is_pointwise(tile.owner):
            return tile if element_bytes(tile.type) <= bytes_of_result else None
        op = tile.owner
        tiles = _tiles(op, domain)
    return None


@dataclass
class EpilogueEditor:
    """Takes an epilogue operator apart, owns its regions, and builds the changed one."""

    op: EpilogueOp
    order: BlockOrder
    segments: list[Segment] = field(init=False)
    locations: list[LocationAttr] = field(init=False)

    def __post_init__(self) -> None:
        self.mode = numerics_mode(self.op)
        self.segments = self.op.segments()
        self.locations = [self.op.location]
        self._origins: list[list[SSAValue | None]] = [list(s.outputs) for s in self.segments]
        self._recomputed: dict[tuple[SSAValue, int, tuple[int, ...], bool], Sequence[SSAValue]] = {}
        for segment in self.segments:
            self.op.detach_region(segment.body)

    def builder(
        self, segment: int, location: LocationAttr, *, at_start: bool = False
    ) -> ScalarBuilder:
        """Return a builder in the region of a segment, for an operator at `location`."""
        self.locations.append(location)
        block = self.segments[segment].block
        return ScalarBuilder(block, location, self.mode, at_start=at_start)

    def add_result(
        self, segment: int, port: ResultPortAttr, type: AnyTensor, values: Sequence[SSAValue]
    ) -> int:
        self._origins[segment].append(None)
        return self.segments[segment].add_result(port, type, values)

    def remove_result(self, segment: int, index: int) -> None:
        del self._origins[segment][index]
        self.segments[segment].remove_result(index)

    def adopt(self, segment: int, index: int, value: SSAValue) -> None:
        """Let a new result take over the uses of `value` when the edit is committed."""
        self._origins[segment][index] = value

    def lanes(
        self, op: Operation, segment: int, domain: Sequence[int], *, half: bool
    ) -> list[SSAValue]:
        """Return the scalar code of `op`: one value, or two for the columns of a pair. `half` says
        whether `op` consumes one value per pair.
        """
        part = self.segments[segment]
        count = 2 if part.pairing and not half else 1
        operands = [self.lanes_of(v, segment, domain, half=half) for v in op.operands]
        builder = ScalarBuilder(part.block, op.location, self.mode)
        lanes = [
            emit_scalar(builder, op, [values[lane] for values in operands]) for lane in range(count)
        ]
        for value in lanes:
            if value.name_hint is None:
                value.name_hint = op.results[0].name_hint
        return lanes

    def lanes_of(
        self, value: SSAValue, segment: int, domain: Sequence[int], *, half: bool
    ) -> Sequence[SSAValue]:
        """Return the elements of `value` in the region: one value, or two for the columns of a
        pair.

        `value` broadcasts to `domain`; where the domain has fewer columns than the segment, it
        repeats along the columns.
        """
        part = self.segments[segment]
        count = 2 if part.pairing and not half else 1
        if value in self._origins[segment]:
            return part.yielded(self._origins[segment].index(value))
        if isinstance(value.owner, coda.ConstantOp):
            builder = ScalarBuilder(part.block, value.owner.location)
            return [builder.number(value.owner.number, element_type_of(value))] * count
        place = (segment, tuple(domain), half)
        if (value, *place) in self._recomputed:
            return self._recomputed[value, *place]
        inner = recomputed(value, domain)
        if inner is not None:
            for op in recomputation(inner, domain):
                if (op.results[0], *place) not in self._recomputed:
                    lanes = self.lanes(op, segment, domain, half=half)
                    self._recomputed[op.results[0], *place] = lanes
            return self._recomputed[value, *place]
        group = repeated_group(value)
        if group in self._origins[segment]:
            return list(part.yielded(self._origins[segment].index(group))) * count
        kind = port_kind(shape_of(value), domain)
        assert kind is not None, "legality was checked before"
        repeated = repetition_of(value)
        if self._repeats(segment, domain, half):
            kind = PortKind.TABLE if kind == PortKind.ROW else kind
        elif repeated is not None:
            kind, value = repeated.kind, self.view(repeated.source, repeated.shape)
        args = part.add_port(kind.halved() if half else kind, value)
        return args if len(args) == count else [args[0]] * count

    def elements_of_groups(
        self, value: SSAValue, segment: int, *, half: bool
    ) -> Sequence[SSAValue]:
        """Return the elements of `value` (... x H x 1), one for each of H groups of columns."""
        kind = PortKind.GROUP.halved() if half else PortKind.GROUP
        return self.segments[segment].add_port(kind, self.view(value, shape_of(value)[:-1]))

    def view(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Insert a view of a tensor that a kernel loads, before the operator."""
        if isinstance(value.owner, coda.ReshapeOp) and shape_of(value.owner.x) == shape:
            return value.owner.x
        view = coda.ReshapeOp(value, shape)
        view.location, view.result.name_hint = self.op.location, value.name_hint
        self.order.insert_before(view, self.op)
        return view.result

    def _repeats(self, segment: int, domain: Sequence[int], half: bool) -> bool:
        part = self.segments[segment]
        columns = part.columns if part.weights else part.domain[-1] if part.domain else None
        return columns is not None and domain[-1] != (columns // 2 if half else columns)

    def commit(self) -> EpilogueOp:
        """Replace the old operator by the changed one, without results that nothing uses."""
        self._drop_unused()
        location = fuse_locations(*self.locations)
        new: EpilogueOp = self.op.with_segments(self.segments)
        if isinstance(self.op, AttentionSumOp) and isinstance(new, AttentionSumOp):
            self.op.replace_own_results(new)
        new.location = location
        outputs = iter(new.outputs)
        for origins in self._origins:
            for origin in origins:
                output = next(outputs)
                if origin is not None:
                    origin.replace_all_uses_with(output)
        self.order.replace(self.op, new)
        return new

    def commit_and_locate(self, segment: int, indices: Sequence[int]) -> list[SSAValue]:
        """Commit, and return the values of new results by their index before the commit."""
        ports = [self.segments[segment].results[index] for index in indices]
        new = self.commit()
        part = new.segments()[segment]
        by_identity = {
            id(result): value
            for result, value in zip(self.segments[segment].results, part.outputs, strict=True)
        }
        return [by_identity[id(port)] for port in ports]

    def _drop_unused(self) -> None:
        for number, origins in enumerate(self._origins):
            for index in reversed(range(len(origins))):
                origin = origins[index]
                is_unused = origin is not None and not origin.uses and len(origins) > 1
                if is_unused and not self._tells_domain(number, index):
                    self.remove_result(number, index)

    def _tells_domain(self, number: int, index: int) -> bool:
        """Return whether a result of a map is its only tile, and so determines its domain."""
        segment = self.segments[number]
        tiles = [result.port.kind.data == ResultKind.TILE for result in segment.results]
        has_tile_port = any(port.kind == PortKind.TILE for port in segment.ports)
        is_map = isinstance(self.op, MapOp)
        return is_map and not has_tile_port and tiles[index] and sum(tiles) == 1


def fuse_consumer(site: Site, op: Operation, order: BlockOrder) -> EpilogueOp:
    """Fuse the pointwise operator `op` into the epilogue that defines one of its operands."""
    editor = EpilogueEditor(site.op, order)
    editor.locations.append(op.location)
    lanes = editor.lanes(op, site.segment, shape_of(op.results[0]), half=site.is_half)
    return replace_by_result(editor, op, site.segment, lanes, half=site.is_half)


def replace_by_result(
    editor: EpilogueEditor,
    op: Operation,
    segment: int,
    values: Sequence[SSAValue],
    *,
    half: bool = False,
) -> EpilogueOp:
    """Commit the edit with `values` as a new tile, or half, in the place of `op`'s result."""
    port = ResultPortAttr.half() if half else ResultPortAttr.tile()
    index = editor.add_result(segment, port, tensor_type(op.results[0]), values)
    editor.adopt(segment, index, op.results[0])
    op.operands = ()
    new = editor.commit()
    editor.order.erase(op)
    return new
