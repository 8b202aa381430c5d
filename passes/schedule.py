"""Pass `schedule`: how each GEMM is computed, from a static cost model."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, ResultKind, ScheduleAttr, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange, column_ranges, group_sizes
from coda_ir.dialects.gemm.tma import tma_obstacle
from coda_ir.remarks import Remark, emit_remark, enclosing_function, format_location


@dataclass(frozen=True)
class GpuLimits:
    """What a tile has to fit in."""

    shared_memory: int
    """Bytes of shared memory (AMD: LDS) of one program."""
    stages: int
    buffers_per_stage: float
    """Tiles in shared memory per pipeline stage: Triton needs one less than stages on AMD."""
    largest_tile: int
    """Accumulator elements."""
    processors: int
    """Programs that run at a time: streaming multiprocessors, compute units."""


_LIMITS = {
    "portable": GpuLimits(64 * 1024, 3, 2 / 3, 128 * 128, 108),
    "sm_80": GpuLimits(163 * 1024, 3, 1, 128 * 128, 108),
    "sm_90": GpuLimits(227 * 1024, 3, 1, 128 * 256, 132),
    "gfx942": GpuLimits(64 * 1024, 2, 1 / 2, 128 * 128, 304),
    "interpreter": GpuLimits(2**30, 1, 1, 64 * 64, 1),
}
"""`portable` fits all of them; `interpreter` cuts small tensors into several tiles."""

TMA_TARGETS = ("sm_90",)

_LOAD_COST = 20.0
"""Cost of loading one row or column of a tile, relative to computing it: an H100's ratio."""

_STEP_COST = 4.0
"""Cost of one step of the main loop, relative to computing one column of the operands' depth."""

_IDLE_COST = 0.5
"""Cost of a processor that waits for the last wave, relative to a busy one: the others run faster
meanwhile. On an H200 16 x 44 tiles of 128 x 256 (5.3 waves) took 0.93 of the time of 16 x 88 tiles
of 128 x 128 (10.7 waves)."""


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Gives every `gemm.fused` without a schedule the cheapest one that fits.

        gemm.fused %x columns(...)
        ->  gemm.fused %x schedule<pointer, "128x256x64", warps = 8, ...> columns(...)

    The cost of a tile is the work on all its lanes, with columns or not, and the loads that its
    shape implies; where x is transposed, so that the number of tiles is known, the last wave of
    programs counts, too. A tile has to fit into the registers and the shared memory of
    `target` (portable, sm_80, sm_90, gfx942, interpreter). `tile`, `warps`, `stages` and `group_m`
    override the choice. `mainloop=tma` is taken where the operator allows it, else `pointer`, with
    a remark.
    """

    name: ClassVar[str] = "schedule"
    target: str = "portable"
    mainloop: str = "pointer"
    tile: str | None = None
    warps: int | None = None
    stages: int | None = None
    group_m: int = 8

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._check_options()
        choices: dict[Hashable, Choice] = {}
        for gemm in op.walk():
            if isinstance(gemm, FusedOp) and gemm.schedule is None:
                # The layers of a model repeat their GEMMs.
                key = _structure(gemm)
                if key not in choices:
                    choices[key] = self._choose(gemm)
                gemm.schedule = self._schedule(gemm, choices[key])

    def _check_options(self) -> None:
        if self.target not in _LIMITS:
            raise CodaError(
                f"schedule: unknown target '{self.target}'", f"use one of {', '.join(_LIMITS)}"
            )
        if self.mainloop not in ScheduleAttr.MAINLOOPS:
            raise CodaError(
                f"schedule: unknown main loop '{self.mainloop}'",
                f"use one of {', '.join(ScheduleAttr.MAINLOOPS)}",
            )
        if self.mainloop == "tma" and self.target not in TMA_TARGETS:
            raise CodaError(
                f"schedule: target {self.target} has no TMA", "use sm_90, or the pointer main loop"
            )

    def _choose(self, op: FusedOp) -> Choice:
        """The cheapest tile that fits. Raises CodaError where none does."""
        _check_static(op)
        choices = [choice for tile in self._tiles(op) if (choice := self._evaluate(op, *tile))]
        if not choices:
            raise CodaError(
                f"{format_location(op.location)}: schedule: no tile of gemm.fused "
                f"{'x'.join(map(str, self._shape(op)))} fits {self.target}",
                "the groups of gemm.group_reduce may be too wide",
            )
        return min(choices, key=lambda choice: choice.cost)

    def _schedule(self, op: FusedOp, choice: Choice) -> ScheduleAttr:
        schedule = choice.schedule
        obstacle = tma_obstacle(op, schedule) if self.mainloop == "tma" else None
        if self.mainloop == "tma" and obstacle is None:
            schedule = _with_mainloop(schedule, "tma")
        emit_remark(self._remark(op, choice, schedule, obstacle))
        return schedule

    @staticmethod
    def _shape(op: FusedOp) -> tuple[str, str, str]:
        n = sum(segment.columns for segment in op.segments())
        if op.is_transposed:
            return str(op.row_shape[0]), str(n), "K"
        return "M", str(n), str(_depth(op))

    def _tiles(self, op: FusedOp) -> Iterator[tuple[int, int, int, int]]:
        """BM, BN, BK and warps of the candidates."""
        if self.tile is not None:
            bm, bn, bk = _parse_tile(self.tile)
            yield bm, bn, bk, self.warps or _warps(bm, bn, op)
            return
        for bm in (128, 64, 32, 16):
            for bn in (256, 128, 64, 32, 16):
                warps = self.warps or _warps(bm, bn, op)
                for bk in _depths(op, self.target):
                    yield bm, bn, bk, warps

    def _evaluate(self, op: FusedOp, bm: int, bn: int, bk: int, warps: int) -> Choice | None:
        """The cost of a tile; None where it does not fit (a tile that the user gave has to)."""
        stages = self.stages or _LIMITS[self.target].stages
        schedule = ScheduleAttr.get(
            "pointer", (bm, bn, bk), warps=warps, stages=stages, group_m=self.group_m
        )
        try:
            ranges = [
                r for segment in op.segments() for r in column_ranges(segment, schedule, op.order)
            ]
        except ValueError as error:
            if self.tile is None:
                return None
            place = format_location(op.location)
            raise CodaError(f"{place}: schedule: {error}", "choose another tile") from error
        choice = Choice.of(op, schedule, ranges, _LIMITS[self.target].processors)
        return choice if self.tile is not None or self._fits(op, choice) else None

    def _fits(self, op: FusedOp, choice: Choice) -> bool:
        limits = _LIMITS[self.target]
        bm, bn, _ = choice.schedule.tile
        return (
            bm * bn <= limits.largest_tile
            and choice.shared_memory(limits) <= limits.shared_memory
            and choice.accumulators <= _accumulators(op)
            and choice.epilogue_elements <= _epilogue_elements(op)
        )

    def _remark(
        self, op: FusedOp, choice: Choice, schedule: ScheduleAttr, obstacle: str | None
    ) -> Remark:
        bm, bn, bk = schedule.tile
        programs = "1 program" if choice.programs == 1 else f"{choice.programs} programs"
        text = (
            f"{' x '.join(self._shape(op))} in tiles of {bm} x {bn} x {bk}, "
            f"{schedule.warps.data} warps, {schedule.stages.data} stages, {schedule.mainloop} main "
            f"loop: {programs} per row of tiles, {choice.waste:.0%} padding"
        )
        if obstacle is not None:
            text += f"; no TMA: {obstacle}"
        function = enclosing_function(op)
        return Remark("analysis", self.name, op.name, op.location, text, function=function)


@dataclass(frozen=True)
class Choice:
    """A schedule of an operator and what it costs."""

    schedule: ScheduleAttr
    programs: int
    cost: float
    waste: float
    """Share of the accumulators that have no column."""
    accumulators: int
    """Accumulator elements per thread."""
    epilogue_elements: int
    """Those that the epilogue works on at a time."""
    stage_bytes: int

    @staticmethod
    def of(
        op: FusedOp, schedule: ScheduleAttr, ranges: list[ColumnRange], processors: int
    ) -> Choice:
        bm, bn, bk = schedule.tile
        programs = sum(r.programs for r in ranges)
        columns = sum(segment.columns for segment in op.segments())
        work = _padded_rows(op, bm) * programs * bn / columns
        if op.is_transposed:
            tiles = -(-op.row_shape[0] // bm) * programs
            work *= 1 + _IDLE_COST * (-(-tiles // processors) * processors / tiles - 1)
        size = 4 if _is_f32(op) else 2
        accumulators = bm * bn // (32 * schedule.warps.data)
        return Choice(
            schedule=schedule,
            programs=programs,
            cost=work * (1 + _LOAD_COST * (1 / bm + 1 / bn) + _STEP_COST / bk),
            waste=1 - columns / (programs * bn),
            accumulators=accumulators,
            epilogue_elements=accumulators // min(r.parts for r in ranges),
            stage_bytes=(bm + bn) * bk * size,
        )

    def shared_memory(self, limits: GpuLimits) -> int:
        return round(self.schedule.stages.data * limits.buffers_per_stage * self.stage_bytes)


def _padded_rows(op: FusedOp, block: int) -> float:
    """Rows of all tiles over rows that exist, 1 where their number is not known."""
    if DYNAMIC_INDEX in op.row_shape:
        return 1.0
    rows = prod(op.row_shape)
    return -(-rows // block) * block / max(1, rows)


def _structure(op: FusedOp) -> Hashable:
    """Equal for operators between which a schedule does not distinguish."""
    number: dict[SSAValue, int] = {}
    structure: list[Hashable] = [value.type for value in (*op.operands, *op.results)]
    structure += op.properties.items()
    for body in op.bodies:
        for value in body.block.args:
            number[value] = len(number)
        for inner in body.block.ops:
            operands = tuple(number[operand] for operand in inner.operands)
            structure += [inner.name, operands, *inner.properties.items()]
            for value in inner.results:
                number[value] = len(number)
    return tuple(structure)


def _check_static(op: FusedOp) -> None:
    """Kernels are written for N and K, and M is any number; for M and N where x is transposed."""
    last = "M" if op.is_transposed else "K"
    extents = [(last, shape_of(x)[-1]) for x in op.inputs]
    for name, extent in [*extents, *(("N", part.columns) for part in op.segments())]:
        if extent == DYNAMIC_INDEX:
            raise CodaError(
                f"{format_location(op.location)}: schedule: {name} of gemm.fused is symbolic",
                "give the extents of weights as numbers or consts; only rows may be symbols",
            )


def _with_mainloop(schedule: ScheduleAttr, mainloop: str) -> ScheduleAttr:
    return ScheduleAttr.get(
        mainloop,
        schedule.tile,
        warps=schedule.warps.data,
        stages=schedule.stages.data,
        group_m=schedule.group_m.data,
    )


def _depth(op: FusedOp) -> int:
    """K of all inputs, or `DYNAMIC_INDEX`."""
    depths = [op.depth(index) for index in range(len(op.inputs))]
    return DYNAMIC_INDEX if DYNAMIC_INDEX in depths else sum(depths)


def _depths(op: FusedOp, target: str) -> Sequence[int]:
    """BK: 128 or 64 bytes of a row, less where K is small or registers are scarce."""
    if op.order is not None:
        return (op.order["depth"],)
    k = _depth(op)
    padded_k = 64 if k == DYNAMIC_INDEX else max(16, 1 << (k - 1).bit_length())
    if target == "interpreter" or not _is_f32(op):
        return min(64, padded_k), min(32, padded_k)
    return (16,) if _epilogue_elements(op) < 32 else (min(32, padded_k),)


def _warps(bm: int, bn: int, op: FusedOp) -> int:
    """Tensor cores work on 64 to 128 accumulators per thread; float32 is computed without them."""
    return 8 if bm * bn >= (64 * 64 if _is_f32(op) else 128 * 128) else 4


def _accumulators(op: FusedOp) -> int:
    """Accumulators per thread: in float32 the operands of the multiplication are in registers too,
    and a reduction over groups needs many.
    """
    if _is_f32(op):
        return _epilogue_elements(op)
    return 64 if any(group_sizes(segment) for segment in op.segments()) else 128


def _epilogue_elements(op: FusedOp) -> int:
    """Accumulators per thread in an epilogue: with more than this, ptxas spills."""
    if not _is_f32(op):
        return 64
    return 16 if any(_is_heavy(segment) for segment in op.segments()) else 32


def _is_heavy(segment: Segment) -> bool:
    """Whether an epilogue holds pairs of columns until both are stored, or a whole group."""
    stores_pairs = segment.pairing is not None and any(
        result.port.kind.data == ResultKind.TILE for result in segment.results
    )
    return stores_pairs or bool(group_sizes(segment))


def _is_f32(op: FusedOp) -> bool:
    return isinstance(element_type_of(op.x), Float32Type)


def _parse_tile(text: str) -> tuple[int, int, int]:
    extents = text.split("x")
    if len(extents) != 3 or not all(extent.isdigit() for extent in extents):
        raise CodaError(f"schedule: tile is '{text}'", 'write it as "128x256x64"')
    bm, bn, bk = map(int, extents)
    return bm, bn, bk
