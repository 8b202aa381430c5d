"""The configurations of a GEMM that its registers, its shared memory and its groups allow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type

from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.one_row_tiles import tiles_of_one_row
from coda_ir.cost_model.workload import Tile, Workload, total_depth
from coda_ir.dialects.coda.shapes import is_float8
from coda_ir.dialects.gemm import (
    FusedOp,
    ResultKind,
    ScheduleAttr,
    Segment,
    is_power_of_two,
)
from coda_ir.dialects.gemm.buffers import Staging
from coda_ir.dialects.gemm.tiling import ColumnCuts, ColumnRange, group_sizes
from coda_ir.dialects.gemm.warp_specialized import WARPS, staging, tile_obstacle

SPLITS = (2, 3, 4, 6, 8, 12, 16, 32, 64)
"""The numbers of programs that are considered for the K of a tile, beside one."""

FEW_SPLITS, MAX_SUMS = 16, 16384
"""More than FEW_SPLITS programs share a tile only if it has at most MAX_SUMS sums in all of them,
which the last one loads at the same time."""

MAX_WAVES = 2
"""Programs for each processor that K is split for."""

MIN_STEPS = 4
"""Steps of the main loop that are left to each program of a tile."""

WAVES_OF_PARTS, STEPS_OF_PARTS = 8, 32
"""The same for deep products of float32 in parts, whose last wave may take longer than the sums. On
an H200, 768 x 3072 x 8192 took 1013 us in 144 tiles of 128 x 128 and 756 in tiles of 64 x 64."""

FEW_ROWS = 256
"""Rows with which the multiplications of a GEMM take about as long as reading its weights."""

ONE_ROW = "one_row"
"""The main loop for tiles of a single row."""

ROW_WAVES, ROW_STEPS, ROW_SPLITS = 24, 2, 8
"""MAX_WAVES and MIN_STEPS for programs of `one_row`, of which a processor has many at a time, and
the most of a tile, twice as many of a single warp. In four bits, 4096 columns of 11008 took 13.3 us
by 16 such programs on an H100, and 14.9 by 4 of four warps."""

SPECIALIZED, SPLIT = "warp_specialized", "split_rows"
"""The main loop with tiles of 192 columns, and what it is for promoted sums."""

PING_PONG, TILES_IN_TURNS = "ping_pong", ((128, 128, 64), (64, 256, 64))
"""The main loop that hides epilogues; four warps have accumulators for its tiles."""

IN_PARTS = "three_parts"
"""The main loop for float32 on tensor cores."""

TILES_IN_PARTS: Sequence[Tile] = (
    *((128, 128, 64), (128, 128, 32), (64, 128, 32), (128, 64, 32)),
    *((64, 64, 32), (64, 64, 64), (32, 64, 64), (16, 64, 64)),
)
"""Its tiles: as large as registers hold sums, products and parts for, and deep if registers allow.
On an H200, 512 x 768 x 768 took 19.3 us in tiles of 64 x 64 x 64, 24.4 with 32 of K, 23.2 in tiles
of 32 x 64, 25.9 of 16 x 64, and 34.6 of 64 x 128. In tiles of 64 x 256, 8192 x 1024 x 1024 took 461
us, and 198 in tiles of 128 x 128.
"""

TILES_OF_LONG_STEPS = ((64, 64), (128, 64), (64, 128))
"""Tiles in steps of 128 elements of 16 bits, for GEMMs with at most one for each processor. On an
H200, 512 x 768 x 3072, 512 x 768 x 768, 512 x 1024 x 4096 and 1024 x 768 x 3072 with two operands
took 7.8, 4.1, 10.2 and 11.4 us in these, by cuBLAS 7.8, 3.9, 9.8 and 9.4 without the operands, and
in tiles in steps of 64 with three stages 11.3, 4.7, 14.7 and 14.1 at best."""

MAX_STAGES = 6
"""Stages of a pipeline, beyond which nothing is gained."""

EPILOGUE_BYTES = 36 * 1024
"""Shared memory for two tiles of 128 x 64 in 16 bits, barriers and sums. Epilogues use what three
stages of 128 x 256 x 64 leave, and a fourth stage gained nothing on an H100."""

SMALL_ROWS = 32
"""Rows of tiles that are there for few rows: they read weights and hardly multiply."""


@dataclass(frozen=True)
class Space:
    """The configurations to consider; `None` leaves the choice to the model."""

    main_loops: tuple[str, ...] = ("pointer",)
    """In the order of preference where they cost the same."""
    tile: Tile | None = None
    """The only tile, which then has to be legal but not to fit."""
    warps: int | None = None
    stages: tuple[int, ...] = ()
    """Empty for that of the device."""
    group_m: tuple[int, ...] = (8,)
    split_k: tuple[int, ...] = ()
    """Programs for the K of a tile; empty for 1 and what uses processors that have no tile."""
    rows_of_tiles: tuple[int, ...] = (128, 64, 32, 16)
    columns_of_tiles: tuple[int, ...] = (256, 192, 128, 64, 32, 16)
    all_warps: bool = False
    """True if each tile is considered with 4 and with 8 warps."""


@dataclass(frozen=True)
class Configuration:
    """A schedule of an operator, with the resources of a processor that it uses."""

    schedule: ScheduleAttr
    ranges: tuple[ColumnRange, ...]
    stage_bytes: int
    """The bytes of the tiles of both operands of one step."""
    has_single_step: bool = False
    """True if a term of several has a single step, whose tiles lie beside the stages of others."""

    @staticmethod
    def of(cuts: ColumnCuts, schedule: ScheduleAttr, workload: Workload) -> Configuration:
        """Raises ValueError where the tile cannot hold the groups or keep the order of a GEMM."""
        ranges = [columns for _, cut in cuts.under(schedule) for columns in cut]
        bm, bn, bk = schedule.tile
        # Weights of 8 bits that float32 multiplies take as many registers as others.
        bytes = bm * workload.element_bytes + bn * (4 if workload.is_f32 else workload.weight_bytes)
        has_single_step = len(workload.depths) > 1 and min(workload.depths) <= bk
        return Configuration(schedule, tuple(ranges), round(bytes * bk), has_single_step)

    @property
    def programs(self) -> int:
        """The number of programs in one row of tiles."""
        return sum(columns.programs for columns in self.ranges)

    @property
    def is_padded(self) -> bool:
        """True if lanes of a tile have no column of their group."""
        return any(columns.is_padded for columns in self.ranges)

    @property
    def accumulators(self) -> int:
        """The number of accumulators per thread."""
        return self.schedule.accumulators

    def shared_memory(self, device: Device) -> int:
        """Return the bytes of the main loop: of its pipeline, and of steps without one."""
        buffers = self.schedule.stages.data * device.buffers_per_stage
        return round((buffers + self.has_single_step) * self.stage_bytes)

    def fits(self, cuts: ColumnCuts, device: Device) -> bool:
        bm, bn, _ = self.schedule.tile
        # The accumulators of a thread that the epilogue works on at a time.
        elements = self.accumulators // min(columns.subtiles for columns in self.ranges)
        return (
            bm * bn <= device.largest_tile
            and self.shared_memory(device) <= device.shared_memory
            and self.accumulators <= _most_accumulators(cuts, self.schedule)
            and elements <= self._most_elements(cuts)
        )

    def _most_elements(self, cuts: ColumnCuts) -> int:
        """Return the most elements of an epilogue: all of them if groups fill the tile of a thread
        that has more registers, because its products were added in pieces, or beside parts.
        """
        is_split = self.schedule.is_warp_specialized and cuts.promotes_sums
        if is_split or self.schedule.multiplies_parts:
            return self.accumulators
        return _most_epilogue_elements(cuts)


def configurations(
    cuts: ColumnCuts, space: Space, device: Device, workload: Workload
) -> Iterator[Configuration]:
    """Return the configurations that fit, with the main loop `pointer` or the only one that they
    are for; the ranking replaces it.

    Raises ValueError for a tile that the caller gave and that is not legal, and for a `split_k`.
    """
    yield from _in_turns(cuts, space, device, workload)
    yield from _in_parts(cuts, space, device, workload)
    for tile, warps in _tiles(cuts, space, device, workload):
        for stages, group_m in product(_stages(tile, space, device, workload), space.group_m):
            is_special = _is_specialized(tile, stages, space, device, workload)
            if SPECIALIZED in space.main_loops and tile[0] * tile[1] > 128 * 128:
                is_special |= _holds_products(cuts)
            loop = SPECIALIZED if is_special else "pointer" if tile[0] > 1 else ONE_ROW
            schedule = ScheduleAttr.get(loop, tile, warps=warps, stages=stages, group_m=group_m)
            if is_special and space.tile is None and tile_obstacle(cuts, schedule) is not None:
                continue
            try:
                found = Configuration.of(cuts, schedule, workload)
            except ValueError:
                if space.tile is not None:
                    raise
                # Fewer stages may be for a main loop with other boxes.
                continue
            if space.tile is None and not found.fits(cuts, device):
                continue
            for split_k in space.split_k or _splits(cuts.op, found, device, workload):
                # An order that is stated does not let programs share a tile.
                if split_k > 1:
                    found = Configuration.of(cuts, schedule.with_split(split_k), workload)
                yield found


def _in_turns(
    cuts: ColumnCuts, space: Space, device: Device, workload: Workload
) -> Iterator[Configuration]:
    """Yield the configurations of `ping_pong`, where the space leaves the tile open and has this
    main loop or `warp_specialized`: with the most stages that fit, or those of the space.
    """
    is_wanted = SPECIALIZED in space.main_loops or PING_PONG in space.main_loops
    is_open = space.tile is None and space.warps in (None, WARPS) and 1 in (space.split_k or (1,))
    if not is_wanted or not is_open:
        return
    for tile, group_m in product(TILES_IN_TURNS, space.group_m):
        if tile[0] not in space.rows_of_tiles or tile[1] not in space.columns_of_tiles:
            continue
        for stages in space.stages or range(MAX_STAGES, device.stages - 1, -1):
            schedule = ScheduleAttr.get(
                PING_PONG, tile, warps=WARPS, stages=stages, group_m=group_m
            )
            found = _with_tiles_ahead(cuts, schedule, workload)
            if found is not None and found.fits(cuts, device):
                yield found
                if not space.stages:
                    break


def _in_parts(
    cuts: ColumnCuts, space: Space, device: Device, workload: Workload
) -> Iterator[Configuration]:
    """Yield the configurations of `three_parts` for float32, where the space leaves the tile open
    and has this main loop or `warp_specialized`.
    """
    is_wanted = SPECIALIZED in space.main_loops or IN_PARTS in space.main_loops
    if not (is_wanted and space.tile is None and device.has_tma and _is_f32(cuts)):
        return
    k = total_depth(cuts.op)
    for tile, group_m in product(TILES_IN_PARTS, space.group_m):
        warps = 8 if tile[0] * tile[1] >= 128 * 128 else 4
        is_open = tile[0] in space.rows_of_tiles and tile[1] in space.columns_of_tiles
        if not is_open or space.warps not in (None, warps) or tile[2] > 2 * k > 0:
            continue
        for stages in space.stages or (device.stages,):
            schedule = ScheduleAttr.get(IN_PARTS, tile, warps=warps, stages=stages, group_m=group_m)
            try:
                found = Configuration.of(cuts, schedule, workload)
            except ValueError:
                continue
            if found.fits(cuts, device):
                for split_k in space.split_k or _splits(cuts.op, found, device, workload):
                    yield Configuration.of(cuts, schedule.with_split(split_k), workload)


def _with_tiles_ahead(
    cuts: ColumnCuts, schedule: ScheduleAttr, workload: Workload
) -> Configuration | None:
    """Return the configuration of a warp-specialized schedule if its stages leave room to load
    tiles of the epilogue ahead; else None.
    """
    try:
        staged = staging(cuts, schedule)
        found = Configuration.of(cuts, schedule, workload)
    except ValueError:
        return None
    is_ahead = isinstance(staged, Staging) and (not staged.loads or staged.depth > 1)
    return found if is_ahead else None


def _splits(op: FusedOp, found: Configuration, device: Device, workload: Workload) -> Iterator[int]:
    """Yield how many programs may share the K of a tile, to use processors that would be idle."""
    yield 1
    has_parts = op.has_ragged_depth or op.summed_rows > 1
    if op.order is not None or has_parts or not workload.has_known_rows:
        return
    bm, bn, bk = found.schedule.tile
    tiles = workload.tiles(bm) * found.programs
    is_row = found.schedule.has_one_row
    # Each thread loads more words at a time for several columns.
    tiles *= max(1, found.schedule.accumulators) if is_row else 1
    waves, steps = (ROW_WAVES, ROW_STEPS) if is_row else (MAX_WAVES, MIN_STEPS)
    waves = 1 if _has_long_steps(found.schedule.tile, workload) else waves
    for split_k in SPLITS:
        is_useful = tiles * split_k <= waves * device.processors
        is_wide = found.schedule.warps.data > 1 and tiles > 1
        most = ROW_SPLITS if is_wide else 2 * ROW_SPLITS
        is_useful &= not is_row or split_k <= most
        is_useful &= split_k <= FEW_SPLITS or split_k * bm * bn <= MAX_SUMS
        if found.schedule.multiplies_parts and workload.depth >= split_k * bk * STEPS_OF_PARTS:
            is_useful = tiles * split_k <= WAVES_OF_PARTS * device.processors
        if is_useful and workload.depth >= split_k * bk * steps:
            yield split_k


def _stages(tile: Tile, space: Space, device: Device, workload: Workload) -> Collection[int]:
    """Return the stages to try: more if tiles are small and few, to keep loads in flight."""
    if space.stages:
        return space.stages
    if tile[0] == 1:
        return (1,)
    if tile[0] <= SMALL_ROWS and device.stages > 2 and _has_few_rows(workload):
        return (device.stages, device.stages + 2)
    if SPECIALIZED not in space.main_loops:
        return (device.stages,)
    if _has_long_steps(tile, workload):
        return (device.stages + 2, device.stages + 1)
    # As many as leave room for tiles of the epilogue.
    stage = workload.element_bytes * (tile[0] + tile[1]) * tile[2]
    fitting = min(MAX_STAGES, (device.shared_memory - EPILOGUE_BYTES) // stage)
    return sorted({max(fitting, device.stages), device.stages}, reverse=True)


def _has_long_steps(tile: Tile, workload: Workload) -> bool:
    return tile[0] > SMALL_ROWS and tile[2] * workload.element_bytes == 256


def _is_specialized(
    tile: Tile, stages: int, space: Space, device: Device, workload: Workload
) -> bool:
    """Return whether only one main loop has such tiles, or that many stages for them."""
    is_deep = not space.stages and stages > device.stages and tile[0] > SMALL_ROWS
    is_deep = is_deep and not _has_long_steps(tile, workload)
    return is_deep or not is_power_of_two(tile[1])


def _are_few(bm: int, bn: int, device: Device, workload: Workload) -> bool:
    """Return whether there is at most one tile for each processor, and K has several long steps."""
    tiles = workload.tiles(bm) * ceil(workload.columns / bn)
    is_known = workload.has_known_rows and workload.depth >= 128 * MIN_STEPS
    return is_known and tiles <= device.processors


def _has_few_rows(workload: Workload) -> bool:
    """Return whether time may be the reading of weights."""
    return workload.has_known_rows and workload.rows_of_group <= FEW_ROWS


def _tiles(
    cuts: ColumnCuts, space: Space, device: Device, workload: Workload
) -> Iterator[tuple[Tile, int]]:
    if space.tile is not None:
        tiles: Sequence[Tile] = [space.tile]
    elif cuts.op.is_numbered:
        tiles = tiles_of_one_row(cuts, device, workload)
    else:
        is_any = SPECIALIZED in space.main_loops
        columns = [bn for bn in space.columns_of_tiles if is_any or is_power_of_two(bn)]
        shapes = [*product(space.rows_of_tiles, columns)]
        depths = _depths(cuts, device)
        tiles = [(bm, bn, bk) for bm, bn in shapes for bk in depths]
        tiles += tiles_of_one_row(cuts, device, workload)
        if _has_few_rows(workload) and max(depths) == 64 and device.stages > 1:
            tiles += [(bm, bn, 128) for bm, bn, _ in tiles if 1 < bm <= SMALL_ROWS]
        if is_any and device.has_tma and max(depths) == 64:
            long = [shape for shape in TILES_OF_LONG_STEPS if shape in shapes]
            tiles += [(*shape, 128) for shape in long if _are_few(*shape, device, workload)]
    for tile in dict.fromkeys(tiles):
        usual = _warps(tile[0], tile[1], cuts)
        if space.warps is not None:
            yield tile, space.warps
        else:
            other = 12 - usual if usual > 1 else 4
            yield from ((tile, w) for w in ((usual, other) if space.all_warps else (usual,)))


def _depths(cuts: ColumnCuts, device: Device) -> Sequence[int]:
    """Return values of BK: 128 or 64 bytes of a row, fewer if K is small or registers are few."""
    op = cuts.op
    if op.order is not None:
        return (op.order["depth"],)
    k = total_depth(op)
    if op.blocks is not None:
        k = op.blocks.depth.data if k == DYNAMIC_INDEX else min(k, op.blocks.depth.data)
    padded_k = 64 if k == DYNAMIC_INDEX else max(16, 1 << (k - 1).bit_length())
    if is_float8(cuts.element):
        # Tensor cores multiply 32 of them at once.
        return max(32, min(128, padded_k)), max(32, min(64, padded_k))
    if device.name == "interpreter" or not _is_f32(cuts):
        return min(64, padded_k), min(32, padded_k)
    return (16,) if _most_epilogue_elements(cuts) < 32 else (min(32, padded_k),)


def _warps(bm: int, bn: int, cuts: ColumnCuts) -> int:
    """Return the number of warps: tensor cores work on 64 to 128 accumulators per thread; float32
    is computed without them.
    """
    quantized = cuts.op.quantized
    if bm == 1 and quantized is not None and quantized.has_words_along_k:
        return 1
    return 8 if bm * bn >= (64 * 64 if _is_f32(cuts) else 128 * 128) else 4


def _most_accumulators(cuts: ColumnCuts, schedule: ScheduleAttr) -> int:
    """Return the most accumulators per thread. Registers also hold the operands of float32
    products, the products of float8 before they are added, and the values of reductions over
    groups.
    """
    if schedule.has_one_row:
        return 128
    if schedule.multiplies_parts:
        return 64
    if _is_f32(cuts):
        return _most_epilogue_elements(cuts)
    if _holds_products(cuts):
        return 128 if schedule.is_warp_specialized else 64
    return 64 if cuts.groups else 128


def _holds_products(cuts: ColumnCuts) -> bool:
    """Return whether all products of a step, or all of a tile that is reduced over groups, are in
    registers beside their sums, but for the main loop that multiplies a tile in pieces.
    """
    is_light = not cuts.groups and all(part.pairing for part in cuts.segments)
    return cuts.promotes_sums and not is_light


def _most_epilogue_elements(cuts: ColumnCuts) -> int:
    """Return the most accumulators per thread in an epilogue, beyond which ptxas spills."""
    if not _is_f32(cuts):
        return 64
    return 16 if any(_is_heavy(segment) for segment in cuts.segments) else 32


def _is_heavy(segment: Segment) -> bool:
    """Return whether an epilogue holds pairs of columns until both are stored, or a whole group."""
    stores_pairs = segment.pairing is not None and any(
        result.port.kind.data == ResultKind.TILE for result in segment.results
    )
    return stores_pairs or bool(group_sizes(segment))


def _is_f32(cuts: ColumnCuts) -> bool:
    return isinstance(cuts.element, Float32Type)
