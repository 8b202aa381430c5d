"""Pointwise kernels: an epilogue region over a domain of M x N elements, without a GEMM."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList, Moved, Pitch
from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.gemm_names import segment_features
from coda_ir.backends.triton.gemm_segment import SegmentEmitter
from coda_ir.backends.triton.host_values import ROW_COUNT
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import emitted, next_power_of_2
from coda_ir.backends.triton.names import LocalNames, NameAllocator
from coda_ir.backends.triton.ports import (
    ColumnIndex,
    RowIndex,
    load_port,
    partial_extents,
    table_index,
)
from coda_ir.backends.triton.segment_results import IDENTITY
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects import gemm
from coda_ir.dialects.coda import ShiftOp
from coda_ir.dialects.coda.shapes import element_bytes, shape_of
from coda_ir.dialects.gemm.tiling import ColumnRange, group_sizes, map_columns
from coda_ir.remarks import format_location
from coda_ir.storage import is_transposed_matrix

TILE_ELEMENTS = 2048
ELEMENTS_OF_A_WARP = TILE_ELEMENTS // 4
"""Twice as many in tiles whose rows are columns in memory, and four times as many with reductions,
which cross warps there. (H200, 16384 x 11008 to float8 by columns of 128: 146 us with four warps,
177 with eight.)"""
LEAST_GROUP = 128
"""Columns that share an element of a port from which on they are those of a tile, so that a row of
it takes one. (H200, 4096 x 11008 divided by scales of 128: 34 us, and 53 in tiles of 512.)"""
ROWS_OF_COLUMNS, COLUMNS_OF_COLUMNS = 64, 128
"""A tile of a matrix whose rows are columns in memory, so that both have neighbours."""
ELEMENTS_OF_COLUMNS = ROWS_OF_COLUMNS * 256
"""Its elements, at most: fewer rows where a tile has all columns of a large group."""
COLUMNS_OF_OTHER_ROWS = 128
"""Columns of a tile that reads rows before or after its own, at most: most of these are its own,
too. (H100, a causal convolution over 4 of 8192 rows of 5376 columns: 79 us, 97 with 512 columns of
4 rows, 61 for a copy.)"""
ROWS_OF_A_SUM, TILES_OF_A_SUM = 64, 32
"""Rows that a program combines for each number of a `partial_col`, so that the partials are small
beside the tensors that the kernel reads, in at most that many tiles."""
PROGRAMS_OF_A_SUM = 512
"""Programs that share known rows, at least: a few for each multiprocessor of a large GPU."""
STAGES_OF_A_SUM = 4
"""Stages of that loop, at most: the next tiles are copied to shared memory meanwhile."""
BYTES_OF_STAGES = 128 * 1024
"""Shared memory of these stages, at most: a kernel that loads many tensors has fewer."""


@dataclass
class MapSegment(gemm.DomainSegment):
    """The domain of a map, whose region takes the ports only."""

    order: gemm.OrderAttr | None = None
    is_flat: bool = False
    """True if the domain is taken as one column of M * N elements, since N is dynamic."""

    def reads_places(self) -> bool:
        """Return whether a port is indexed by the row or column of an element of a flat domain."""
        return self.is_flat and any(kind not in _ELEMENTS for kind, _ in self.ports)


_ELEMENTS = (gemm.PortKind.TILE, gemm.PortKind.SCALAR)
"""Ports that do not depend on the row and the column of an element in a flat domain."""


@dataclass(frozen=True)
class MapTiling:
    """Tiles of a map: `block_m` rows by the lanes of `columns`, and `steps` tiles per program."""

    block_m: int
    columns: ColumnRange
    steps: int = 1

    @property
    def rows(self) -> int:
        """The rows of a program."""
        return self.block_m * self.steps


def lower_map(op: gemm.MapOp) -> MapSegment:
    """Return the segment of `op` over its domain."""
    segment = op.segment()
    columns = (segment.domain or (1,))[-1]
    if columns == DYNAMIC_INDEX:
        _expect_tiles(op, segment)
    lowered = over_domain(segment, columns)
    lowered.order = op.order
    return lowered


def over_domain(segment: gemm.Segment, columns: int) -> MapSegment:
    """Return `segment`, without weights, over `columns` columns; over one if dynamic."""
    return MapSegment(
        weights=[],
        ports=segment.ports,
        results=segment.results,
        body=segment.body,
        pairing=segment.pairing,
        outputs=segment.outputs,
        domain_columns=1 if columns == DYNAMIC_INDEX else columns,
        is_flat=columns == DYNAMIC_INDEX,
    )


def _expect_tiles(op: gemm.MapOp, segment: gemm.Segment) -> None:
    kinds = [result.port.kind.data for result in segment.results]
    refused = [f"{kind.value} result" for kind in kinds if kind != gemm.ResultKind.TILE]
    refused += [f"{kind.value} port" for kind, _ in segment.ports if kind.combiner is not None]
    if refused:
        raise LoweringError(
            f"{format_location(op.location)}: the {refused[0]} of a pointwise kernel is over a "
            "symbolic number of columns",
            "give the last dimension as a number or a const",
        )


def map_tiling(segment: MapSegment) -> MapTiling:
    """Choose wide tiles for long rows, tall ones for short rows."""
    columns = map_columns(segment, segment.columns, segment.order)
    block_m = max(1, TILE_ELEMENTS // columns.lanes)
    if _loads_columns(segment):
        lanes = max(min(columns.lanes, COLUMNS_OF_COLUMNS), columns.padded_group)
        block_m = max(1, min(ROWS_OF_COLUMNS, ELEMENTS_OF_COLUMNS // lanes))
        columns = columns if segment.order is not None else replace(columns, lanes=lanes)
    elif (group := _group_of_ports(segment)) and segment.order is None:
        columns = replace(columns, lanes=max(min(columns.lanes, group), columns.padded_group))
        block_m = max(1, TILE_ELEMENTS // columns.lanes)
    elif _reads_other_rows(segment):
        columns = replace(columns, lanes=min(columns.lanes, COLUMNS_OF_OTHER_ROWS))
        block_m = TILE_ELEMENTS // columns.lanes
    for port in segment.ports:
        if port.kind.combiner is not None:
            # The tile holds the partials of its rows, too.
            block_m = max(1, min(block_m, TILE_ELEMENTS // partial_extents(port)[2]))
    known = _known_rows(segment)
    if segment.order is not None:
        block_m = segment.order["rows"]
    elif known is not None:
        block_m = min(block_m, next_power_of_2(known))
    return MapTiling(block_m, columns, _steps(segment, columns, block_m))


def _steps(segment: MapSegment, columns: ColumnRange, block_m: int) -> int:
    """Return the tiles that each program takes: several where it adds up rows, so that there are
    enough programs, and all rows of a program are of one sample.
    """
    if not _combines_rows(segment):
        return 1
    rows, steps = _known_rows(segment), min(TILES_OF_A_SUM, ROWS_OF_A_SUM // block_m)
    if rows is not None:
        steps = min(steps, rows * columns.tiles // (block_m * PROGRAMS_OF_A_SUM))
    while steps > 1 and not _are_of_one_sample(segment, block_m * steps):
        steps -= 1
    return max(1, steps)


def _are_of_one_sample(segment: MapSegment, rows: int) -> bool:
    """Return whether every run of `rows` rows that starts at a multiple of `rows` lies within one
    sample, for each sum over the rows of a sample.
    """
    extents = (segment.domain or (DYNAMIC_INDEX,))[:-1]
    lengths = [extents[result.samples :] for result in segment.results if result.samples]
    return all(DYNAMIC_INDEX not in each and prod(each) % rows == 0 for each in lengths)


def _known_rows(segment: MapSegment) -> int | None:
    """Return the number of rows of the domain; None if it is known only at launch."""
    rows = (segment.domain or (DYNAMIC_INDEX,))[:-1]
    return None if segment.is_flat or DYNAMIC_INDEX in rows else prod(rows)


def _loads_columns(segment: MapSegment) -> bool:
    """Return whether the rows of a tensor are columns in memory."""
    return any(
        kind == gemm.PortKind.TILE and is_transposed_matrix(value) for kind, value in segment.ports
    )


def _group_of_ports(segment: MapSegment) -> int | None:
    """Return the columns that share an element of the ports in groups; None if they are few, or if
    each tile stores partials of its rows.
    """
    widths = [shape_of(value)[-1] for kind, value in segment.ports if kind == gemm.PortKind.GROUP]
    found = min((segment.columns // width for width in widths if width > 1), default=0)
    kinds = {result.port.kind.data for result in segment.results}
    is_tile = found >= LEAST_GROUP and found == next_power_of_2(found)
    is_free = segment.pairing is None and gemm.ResultKind.PARTIAL_ROW not in kinds
    return found if is_tile and is_free else None


def _reads_other_rows(segment: MapSegment) -> bool:
    """Return whether a tile reads rows around its own, and combines no columns or rows."""
    kinds = {result.port.kind.data for result in segment.results}
    is_shifted = any(isinstance(value.owner, ShiftOp) for _, value in segment.ports)
    is_plain = kinds == {gemm.ResultKind.TILE} and max(group_sizes(segment), default=1) == 1
    return is_shifted and is_plain and segment.order is None


def _warps(segment: MapSegment, tiling: MapTiling) -> int:
    of_a_warp = ELEMENTS_OF_A_WARP
    if _loads_columns(segment):
        of_a_warp *= 4 if max(group_sizes(segment), default=1) > 1 else 2
    return max(4, min(16, tiling.block_m * tiling.columns.lanes // of_a_warp))


def _combines_rows(segment: MapSegment) -> bool:
    """Return whether there are column sums (or maxima) over all rows in any order."""
    combiners = {
        result.port.combiner
        for result in segment.results
        if result.port.kind.data == gemm.ResultKind.PARTIAL_COL
    }
    return (
        segment.order is None
        and bool(combiners)
        and gemm.CombinerAttr(gemm.Combiner.LSE) not in combiners
    )


@dataclass
class _MapEmitter(SegmentEmitter):
    """Emits the statements of tiles without accumulators: one, or several below each other."""

    tiling: MapTiling = field(kw_only=True)
    is_flat: bool = False
    """True if ports have the row and the column of an element, M * N of which are rows."""

    def _emit_main_loop(self) -> list[str]:
        return []

    def emit(self, tile: str) -> list[str]:
        """Emit the statements for the columns of program number `tile`, for all of its rows."""
        if self.tiling.steps == 1:
            places = self._place_lines() if self.is_flat else []
            return [*_row_lines("tile_m"), *places, *super().emit(tile)]
        self.totals: list[str] = []
        self.stores: list[str] = []
        self.tile = self.program_tile = self._tile_number(tile)
        self._set_columns(self.columns.lanes)
        before, self.lines = self.lines, _row_lines(f"(tile_m * {self.tiling.steps} + step)")
        self._emit_tile([])
        return [*before, *self.totals, self._loop(), *indented(self.lines), *self.stores]

    def _loop(self) -> str:
        """Return the head of the loop over tiles, which reads ahead if a tile takes few registers
        and has few operands: not a whole row, nor pairs of columns with what rotates them.
        """
        steps = self.tiling.steps
        if self.tiling.block_m == 1 or self.is_pair:
            return f"for step in range({steps}):"
        bytes = sum(map(self._bytes, self.segment.ports))
        stages = max(1, min(STAGES_OF_A_SUM, BYTES_OF_STAGES // max(1, bytes)))
        return f"for step in tl.range({steps}, num_stages={stages}):"

    def _bytes(self, port: gemm.Port) -> int:
        """Return the bytes that a tile loads for a port: for most, of each of its elements."""
        rows, lanes = self.tiling.block_m, self.tiling.columns.lanes
        if port.kind in (gemm.PortKind.SCALAR, gemm.PortKind.COL):
            lanes = 1
        elif port.kind == gemm.PortKind.ROW:
            rows = 1
        elif port.kind.combiner is not None:
            lanes = partial_extents(port)[2]
        return rows * lanes * element_bytes(port.value.type)

    def _by_row(self, vector: str) -> str:
        """Return the combined partials of each row. That of a tile of one row is a number, which
        has no layout: Triton may convert that of a vector after it has the size of the row.
        """
        if self.tiling.block_m > 1:
            return vector
        return f"tl.broadcast_to(tl.sum({vector}, 0), (1,))"

    def _place_lines(self) -> list[str]:
        """Return the statements for the row and the column of each element of a flat domain."""
        domain = self.arguments.domain
        assert domain is not None
        self.count = self.arguments.add("N", "i32", self.arguments.place(domain).shape(-1))
        return [
            "place = tl.minimum(rows, M - 1)",
            f"domain_row = place // {self.count}",
            f"domain_column = place % {self.count}",
        ]

    def _load_port(self, hint: str, port: gemm.Port, columns: ColumnIndex) -> str:
        if not self.is_flat or port.kind in _ELEMENTS:
            return super()._load_port(hint, port, columns)
        rows = RowIndex("domain_row", "domain_row")
        columns = ColumnIndex("domain_column", DYNAMIC_INDEX, None, "[:, None]", self.count)
        place = table_index(port, columns, self.arguments, rows)
        index = None if place is None else self._let(f"{hint}_index", place)
        value = load_port(port, columns, self.arguments, index=index, rows=rows)
        return self._let(hint, value)

    def _store_partial_col(
        self, index: int, pointer: str, columns: ColumnIndex, value: str
    ) -> None:
        if self.tiling.steps == 1:
            super()._store_partial_col(index, pointer, columns, value)
            return
        # Each thread combines its elements; threads of a column combine once, after the last tile.
        total, combiner = self.names.fresh("total"), self._combiner(index)
        shape, identity = f"(BLOCK_M, {self.columns.lanes})", IDENTITY[combiner]
        self.totals.append(f"{total} = tl.full({shape}, {identity}, tl.float32)")
        masked = f"tl.where(row_mask[:, None], {value}, {identity})"
        if combiner == gemm.Combiner.MAX:
            self.lines.append(f"{total} = maximum({total}, {masked})")
        else:
            self.lines.append(f"{total} += {masked}")
        combined = self._reduce(index, total, 0, None)
        address = f"{pointer} + tile_m.to(tl.int64) * {columns.extent} + {columns.name}"
        mask = "" if columns.mask is None else f", mask={columns.mask}"
        self.stores.append(f"tl.store({address}, {combined}{mask})")


def emit_map(
    op: Operation,
    segment: MapSegment,
    names: NameAllocator,
    hint: str | None = None,
    pitches: Mapping[SSAValue, Pitch] | None = None,
    moved: Mapping[SSAValue, Moved] | None = None,
) -> EmittedKernel:
    """Emit the kernel of `segment`, whose ports are operands of `op` and whose outputs its results.

    All tensors are dense but for those in `pitches`, which has the elements between the starts of
    their rows, and those whose elements are `moved`; row ports have N elements, and M is the number
    of rows of the domain.
    """
    name = names.fresh(hint or _map_name(segment))
    pitches, moved, domain = pitches or {}, moved or {}, segment.domain_value
    arguments = ArgumentList(
        op, LocalNames(), pitches=pitches, moved=moved, domain=domain, has_positions=True
    )
    emitter, tiling = _emitter(segment, arguments), map_tiling(segment)
    tiles = tiling.columns.tiles
    launch = Launch.of(op)
    lines = [*_prologue(segment, tiling), *emitter.emit("tile_n")]
    lines = [*launch.wait_and_start_next(), *lines]
    parameters = (*arguments.arguments, KernelArgument("M", "i32", ROW_COUNT))
    grid = ROW_COUNT.ceiling(tiling.rows)
    width = tiling.columns.lanes * (2 if segment.pairing else 1)
    summary = f"pointwise over M x {segment.columns}, tiles of {tiling.block_m} x {width}"
    return emitted(
        name,
        parameters,
        lines,
        summary=summary,
        grid=grid if tiles == 1 else grid * tiles,
        launch=launch,
        num_warps=_warps(segment, tiling),
    )


def _emitter(segment: MapSegment, arguments: ArgumentList) -> _MapEmitter:
    tiling = map_tiling(segment)
    return _MapEmitter(
        segment=segment,
        columns=tiling.columns,
        first_partial=0,
        segment_partials=tiling.columns.tiles,
        arguments=arguments,
        main_loop=None,
        names=arguments.names,
        is_ordered=segment.order is not None,
        tiling=tiling,
        is_flat=segment.reads_places(),
    )


def _prologue(segment: MapSegment, tiling: MapTiling) -> list[str]:
    """Emit the statements that find the tile of a program.

    The rows of wide tensors are less than 2^31. Where each element is a row, they are counted in
    the type of M: 64 bits if there are more. So are the columns of longer rows.
    """
    tiles, tile_m, tile_n = tiling.columns.tiles, "tl.program_id(0)", "0"
    if tiles > 1:
        tile_m, tile_n = f"tl.program_id(0) // {tiles}", f"tl.program_id(0) % {tiles}"
        if segment.columns >= 2**31:
            tile_n = f"({tile_n}).to(tl.int64)"
    elif segment.columns == 1:
        tile_m = "tl.program_id(0).to(M.dtype)"
    block = f"BLOCK_M: tl.constexpr = {tiling.block_m}"
    return [block, f"tile_m = {tile_m}", f"tile_n = {tile_n}"]


def _row_lines(tile: str) -> list[str]:
    """Return the statements for the rows of tile number `tile`."""
    return [
        f"rows = {tile} * BLOCK_M + tl.arange(0, BLOCK_M)",
        "row_mask = rows < M",
        "# Rows past the end repeat the last one, so that loads need no mask.",
        "row = tl.minimum(rows, M - 1).to(tl.int64)",
    ]


def _map_name(segment: gemm.Segment) -> str:
    features = segment_features(segment)
    if not features:
        features = [
            op.name.split(".")[-1].removesuffix("f")
            for op in segment.block.ops
            if op.name not in ("arith.constant", "gemm.yield")
        ]
    return "_".join(["map", *dict.fromkeys(features or ["copy"])])[:60]
