"""The operators of the GEMM level (dialect `gemm`), scheduled or not.

Partials are per tile of the schedule, so that their values and their order of combination are
those of the kernels. Without a schedule a tile has 128 rows and 128 columns.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, f64
from xdsl.ir import SSAValue

from coda_ir.backends.reference.numerics import (
    Handlers,
    Numerics,
    place,
    product_of,
    rounded_and_rest,
    split_columns,
    vectors_of_rows,
)
from coda_ir.backends.reference.products import product, scaled_product
from coda_ir.backends.reference.region import Domain, evaluate_region, identity_of, reduce_last
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import AnyTensor, element_type_of, shape_of
from coda_ir.dialects.gemm.tiling import column_ranges

Tensors: TypeAlias = Sequence[torch.Tensor]

DEFAULT_BLOCK = 128
"""Rows, and columns, of a tile where there is no schedule."""


class Cut(NamedTuple):
    """Columns (or pairs) from `start` to `start + extent`, cut into tiles of `size`."""

    start: int
    extent: int
    size: int


class Tiling(NamedTuple):
    """Tiles over which partials are formed: rows per tile, and cuts of the columns (or pairs)."""

    rows: int
    columns: Sequence[Cut]
    is_ordered: bool = False
    """True if the sum of a tile is the tree of a stated order."""


def tiling_of(op: gemm.FusedOp, segment: gemm.Segment, domain: Domain) -> Tiling:
    """Return the tiling of a segment under the schedule of `op`; kernels use the same one.

    Raises CodaError where a tile of the schedule cannot hold the groups of the region.
    """
    if op.schedule is None:
        return default_tiling(domain) if op.order is None else stated_tiling(domain, op.order)
    try:
        ranges = column_ranges(segment, op.schedule, op.order)
    except ValueError as error:
        raise LoweringError(f"gemm.fused{place(op)}: {error}", "choose another tile") from error
    cuts = [Cut(r.offset, r.extent, r.per_partial) for r in ranges]
    return Tiling(op.schedule.block_m.data, cuts, op.order is not None)


def default_tiling(domain: Domain) -> Tiling:
    size = DEFAULT_BLOCK // domain.columns_per_element
    return Tiling(DEFAULT_BLOCK, [Cut(0, domain.columns, size)])


def stated_tiling(domain: Domain, order: gemm.OrderAttr) -> Tiling:
    size = order["columns"] // domain.columns_per_element
    return Tiling(order["rows"], [Cut(0, domain.columns, size)], True)


class Frame(NamedTuple):
    """The accumulator of a segment: its row dimensions, its columns, and how these form pairs."""

    rows: tuple[int, ...]
    columns: int
    pairs: tuple[torch.Tensor, torch.Tensor] | None
    """The first and the second column of every pair."""
    ends: torch.Tensor | None = None
    """The ends of the groups that the rows are in."""

    @property
    def m(self) -> int:
        return prod(self.rows)

    @property
    def domain(self) -> Domain:
        if self.pairs is None:
            return Domain(self.m, self.columns)
        return Domain(self.m, self.columns // 2, columns_per_element=2)

    def gather(self, value: torch.Tensor) -> list[torch.Tensor]:
        """Return `value`, which has N columns, or in pair mode its first and its second columns."""
        if self.pairs is None:
            return [value]
        return [value[:, columns] for columns in self.pairs]

    def scatter(self, values: Tensors) -> torch.Tensor:
        """The inverse of `gather`."""
        if self.pairs is None:
            return values[0]
        result = values[0].new_empty(values[0].shape[0], self.columns)
        for columns, value in zip(self.pairs, values, strict=True):
            result[:, columns] = value
        return result

    def restore_rows(self, value: torch.Tensor) -> torch.Tensor:
        """Restore the row dimensions of (M x ...)."""
        return value.reshape(*self.rows, *value.shape[1:])


def pair_columns(
    pairing: gemm.PairingAttr | None, columns: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the first and the second column of each pair of `columns` columns."""
    if pairing is None:
        return None
    pair = torch.arange(columns // 2)
    if pairing.is_adjacent:
        return 2 * pair, 2 * pair + 1
    group = pairing.group_size or columns
    first = pair // (group // 2) * group + pair % (group // 2)
    return first, first + group // 2


def fused(op: gemm.FusedOp, operands: Tensors, numerics: Numerics) -> Tensors:
    value_of = dict(zip(op.operands, operands, strict=True))
    rows = _row_extents(op, value_of)
    results: list[torch.Tensor] = []
    for segment in op.segments():
        inputs = [_elements(op, port, value_of) for port in segment.ports]
        multiply = product if op.blocks is None else scaled_product
        accumulator = multiply(op, segment, value_of, op.order, numerics)
        columns = accumulator.shape[-1]
        has_ends = op.groups is not None and not op.is_transposed and not op.is_numbered
        ends = value_of[op.groups] if op.groups is not None and has_ends else None
        frame = Frame(rows, columns, pair_columns(segment.pairing, columns), ends)
        tiling = tiling_of(op, segment, frame.domain)
        results += epilogue(segment, frame.gather(accumulator), inputs, frame, tiling, numerics)
    return results if op.scatter is None else _scattered(results, value_of[op.scatter])


def _elements(
    op: gemm.FusedOp, port: gemm.Port, value_of: Mapping[SSAValue, torch.Tensor]
) -> torch.Tensor:
    """Return the tensor of a port, with the rows that match those of the accumulator."""
    ids = op.rows_of_port(port.kind)
    value = value_of[port.value]
    return value if ids is None else value[value_of[ids].long()]


def _row_extents(
    op: gemm.FusedOp | gemm.LibraryOp, value_of: Mapping[SSAValue, torch.Tensor]
) -> tuple[int, ...]:
    """Return the extents of the accumulator's rows."""
    extents = tuple(value_of[op.x].shape)
    if isinstance(op, gemm.FusedOp) and op.is_numbered:
        return op.row_shape
    if op.is_transposed:
        return (*(() if op.groups is None else value_of[op.groups].shape), extents[-1])
    return extents[:-1] if op.gather is None else tuple(value_of[op.gather].shape)


def _scattered(results: Tensors, ids: torch.Tensor) -> list[torch.Tensor]:
    """Return the results with row m moved to row ids[m]."""
    return [torch.empty_like(result).index_copy(0, ids.long(), result) for result in results]


def library(op: gemm.LibraryOp, operands: Tensors, numerics: Numerics) -> Tensors:
    """Return the product, rounded once, to its stored type."""
    value_of = dict(zip(op.operands, operands, strict=True))
    rows = _row_extents(op, value_of)
    result = product(op, op.segment, value_of, None, numerics)
    if op.is_stored_transposed:
        return [result.T.reshape(result.shape[-1], *rows)]
    return [result.reshape(*rows, result.shape[-1])]


def map_(op: gemm.MapOp, operands: Tensors, numerics: Numerics) -> Tensors:
    segment = op.segment()
    shape = _map_shape(op, segment, operands)
    columns = shape[-1] if shape else 1
    frame = Frame(shape[:-1], columns, pair_columns(segment.pairing, columns))
    domain = frame.domain
    tiling = default_tiling(domain) if op.order is None else stated_tiling(domain, op.order)
    results = epilogue(segment, [], operands, frame, tiling, numerics)
    # A scalar is a domain of one element, but has no dimension.
    return results if shape else [result.reshape(()) for result in results]


def _map_shape(op: gemm.MapOp, segment: gemm.Segment, operands: Tensors) -> tuple[int, ...]:
    """Return the shape of the domain; ports supply dynamic extents."""
    ports = list(zip(segment.ports, operands, strict=True))
    for port, value in ports:
        if port.kind == gemm.PortKind.TILE:
            return tuple(value.shape)
    kinds = (gemm.ResultKind.TILE, gemm.ResultKind.ACCUMULATE)
    tiles = (r.type for r in segment.results if r.port.kind.data in kinds)
    shape = list(next(tiles).get_shape())
    for port, value in ports:
        known = list(value.shape)
        if port.kind == gemm.PortKind.COL:
            known = known if len(known) == len(shape) else [*known, 1]
            known[-1] = shape[-1]
        elif port.kind == gemm.PortKind.ROW:
            known = [*shape[:-1], *known]
        elif port.kind.combiner is not None:
            known[-1] = shape[-1]
        elif port.kind.is_table:
            known = _rows_of_table(port.value, known, shape)
        else:
            continue
        shape = [
            new if old == DYNAMIC_INDEX else old for old, new in zip(shape, known, strict=True)
        ]
    if DYNAMIC_INDEX in shape:
        raise LoweringError(f"gemm.map{place(op)}: no port determines the extents of the result")
    return tuple(shape)


def _rows_of_table(table: SSAValue, known: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Return `shape` with the row extents of a table, except where the table has 1, and with its
    columns if both extents are open.
    """
    *stated, columns = shape_of(table)
    pairs = zip(stated, known[:-1], strict=True)
    rows = [DYNAMIC_INDEX if extent == 1 else other for extent, other in pairs]
    is_open = columns == shape[-1] == DYNAMIC_INDEX
    last = known[-1] if is_open else shape[-1]
    return [*shape[: len(shape) - 1 - len(rows)], *rows, last]


def epilogue(
    segment: gemm.Segment,
    accumulators: Tensors,
    inputs: Tensors,
    frame: Frame,
    tiling: Tiling,
    numerics: Numerics,
) -> list[torch.Tensor]:
    """Compute the results of a segment from its accumulators and port operands."""
    arguments = list(accumulators)
    for port, value in zip(segment.ports, inputs, strict=True):
        arguments += _load_port(port, value, frame)
    yielded = evaluate_region(segment.block, arguments, frame.domain, numerics)
    results: list[torch.Tensor] = []
    for port, type in segment.results:
        count = segment.result_arity(port)
        own, yielded = yielded[:count], yielded[count:]
        if type.element_type == f64:
            own = [value.double() for value in own]
        value = _store_result(port, own, inputs, frame, tiling, type)
        results.append(_transposed(value, frame) if segment.is_stored_transposed(port) else value)
    return results


def _store_result(
    port: gemm.ResultPortAttr,
    values: Tensors,
    inputs: Tensors,
    frame: Frame,
    tiling: Tiling,
    type: AnyTensor,
) -> torch.Tensor:
    """Return the tensor of one result, given what the region yields for it."""
    kind = port.kind.data
    if isinstance(port.combiner, gemm.CombinerAttr):
        combiner = port.combiner.data
        if kind == gemm.ResultKind.PARTIAL_COL:
            return _partial_col(combiner, values, frame, tiling, len(type.get_shape()) - 2)
        return frame.restore_rows(_partial(combiner, values[0], tiling))
    if kind == gemm.ResultKind.SELECT:
        assert isinstance(port.index, IntAttr)
        index = inputs[port.index.data].reshape(-1)
        return _select(values[0], index).reshape(frame.rows)
    if kind == gemm.ResultKind.GROUP:
        elements = port.group_columns // frame.domain.columns_per_element
        return frame.restore_rows(values[0][:, ::elements])
    return frame.restore_rows(values[0] if kind == gemm.ResultKind.HALF else frame.scatter(values))


def _partial_col(
    combiner: gemm.Combiner, values: Tensors, frame: Frame, tiling: Tiling, samples: int
) -> torch.Tensor:
    """Combine each tile of rows; the first `samples` dimensions keep their rows apart."""
    kept, length = frame.rows[:samples], prod(frame.rows[samples:])
    by_column = frame.scatter(values).T.reshape(frame.columns, prod(kept), length)
    rows = tiling._replace(columns=[Cut(0, length, tiling.rows)])
    partial = _partial(combiner, by_column, rows).permute(1, 2, 0)
    return partial.reshape(*kept, *partial.shape[1:])


def _transposed(tile: torch.Tensor, frame: Frame) -> torch.Tensor:
    """Transpose a tile (... x N) to N x ...."""
    return tile.reshape(frame.m, frame.columns).T.reshape(frame.columns, *frame.rows)


def _load_port(port: gemm.Port, value: torch.Tensor, frame: Frame) -> list[torch.Tensor]:
    """Return the region arguments of a port: one, or one for each column of a pair."""
    kind, columns = port.kind, frame.domain.columns if port.kind.is_half else frame.columns
    match kind:
        case gemm.PortKind.COL | gemm.PortKind.GATHER_COL | gemm.PortKind.SCATTER_COL:
            return [value.reshape(frame.m, 1)]
        case gemm.PortKind.SCALAR:
            return [value.reshape(1, 1)]
        case gemm.PortKind.PARTIAL_ADD | gemm.PortKind.PARTIAL_MAX | gemm.PortKind.PARTIAL_LSE:
            assert kind.combiner is not None
            return [_combine_tiles(kind.combiner, value, None).reshape(frame.m, 1)]
        case gemm.PortKind.ROW | gemm.PortKind.HALF_ROW:
            value = value.reshape(1, columns)
        case gemm.PortKind.TILE | gemm.PortKind.HALF_TILE:
            value = value.reshape(frame.m, columns)
        case gemm.PortKind.GROUP_ROW | gemm.PortKind.HALF_GROUP_ROW:
            assert frame.ends is not None, "expected groups of rows"
            value = vectors_of_rows(value, frame.ends, frame.m)
        case gemm.PortKind.TILE_T:
            value = value.reshape(columns, frame.m).T
        case (
            gemm.PortKind.TABLE
            | gemm.PortKind.HALF_TABLE
            | gemm.PortKind.GROUP
            | gemm.PortKind.HALF_GROUP
        ):
            number, width = torch.arange(columns), value.shape[-1]
            column = number // (columns // width) if kind.is_group else number % width
            table = value[..., column]
            while table.dim() > len(frame.rows) + 1:
                table = table.squeeze(0)
            value = table.expand(*frame.rows, columns).reshape(frame.m, columns)
    return [value] if kind.is_half else frame.gather(value)


def _partial(combiner: gemm.Combiner, value: torch.Tensor, tiling: Tiling) -> torch.Tensor:
    """Combine the columns of each tile: (M x N) to (M x number of tiles)."""
    parts: list[torch.Tensor] = []
    for start, extent, size in tiling.columns:
        part = value.narrow(-1, start, extent)
        padded = F.pad(part, (0, -extent % size), value=identity_of(combiner))
        parts.append(reduce_last(combiner, split_columns(padded, size), ordered=tiling.is_ordered))
    return torch.cat(parts, -1)


def _select(value: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Select one element per row of (M x N) by M indices; 0 where the index is not a column."""
    index = index.long()
    inside = (index >= 0) & (index < value.shape[-1])
    chosen = value.gather(-1, torch.where(inside, index, 0)[:, None])[:, 0]
    return torch.where(inside, chosen, 0.0)


_COMBINE: dict[gemm.Combiner, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    gemm.Combiner.ADD: torch.add,
    gemm.Combiner.MAX: torch.maximum,
    gemm.Combiner.LSE: torch.logaddexp,
}


def finalize(op: gemm.FinalizeOp, operands: Tensors, numerics: Numerics) -> Tensors:
    partials, ports = operands[: len(op.partials)], operands[len(op.partials) :]
    by_row = op.axis.data == "row"
    kept = gemm.kept_dims(tuple(partials[0].shape), op.axis.data)
    # One row of the domain per result element, and a single column.
    domain = Domain(prod(kept), 1)
    arguments: list[torch.Tensor] = []
    for (combiner, stated), partial in zip(op.partial_list, partials, strict=True):
        tiles = partial if by_row else partial.transpose(-1, -2)
        combined = _combine_tiles(combiner, tiles, op.order)[:, None]
        is_wide = element_type_of(stated) == f64
        arguments += rounded_and_rest(combined, numerics) if is_wide else [combined]
    for port, value in zip(op.port_list, ports, strict=True):
        arguments.append(
            value.reshape(-1, 1) if port.kind == gemm.PortKind.COL else value.reshape(1, 1)
        )
    yielded = evaluate_region(op.body.block, arguments, domain, numerics)
    return [
        value.reshape(kept if len(shape_of(result)) == len(kept) else (*kept, 1))
        for value, result in zip(yielded, op.outputs, strict=True)
    ]


def _combine_tiles(
    combiner: gemm.Combiner, partial: torch.Tensor, order: gemm.OrderAttr | None
) -> torch.Tensor:
    """Combine the partials (..., T) of each row: tree after tree if an order is stated. Without
    tiles, as without rows, the result is the identity.
    """
    by_row = partial.reshape(prod(partial.shape[:-1]), partial.shape[-1])
    if by_row.shape[-1] == 0:
        return by_row.new_full(by_row.shape[:1], identity_of(combiner))
    if order is None:
        return reduce_last(combiner, by_row)
    trees = Tiling(1, [Cut(0, by_row.shape[-1], order["partials"])], is_ordered=True)
    tiles = _partial(combiner, by_row, trees).unbind(-1)
    total = tiles[0]
    for tile in tiles[1:]:
        total = _COMBINE[combiner](total, tile)
    return total


def pack_weight(op: gemm.PackWeightOp, operands: Tensors, numerics: Numerics) -> Tensors:
    weight, *vector = operands
    rows = weight if op.layout.data == gemm.Layout.NK else weight.T
    return [product_of(rows, vector[0]) if vector else rows.sum(1)]


def scale_weight(op: gemm.ScaleWeightOp, operands: Tensors, numerics: Numerics) -> Tensors:
    weight, vector = operands
    return [weight * (vector if op.layout.data == gemm.Layout.NK else vector[:, None])]


GEMM_HANDLERS: Handlers = {
    gemm.FusedOp: fused,
    gemm.MapOp: map_,
    gemm.FinalizeOp: finalize,
    gemm.LibraryOp: library,
    gemm.PackWeightOp: pack_weight,
    gemm.ScaleWeightOp: scale_weight,
}
