"""`gemm.fused` as one Triton kernel: `emit_gemm`."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, BFloat16Type, Float16Type, Float32Type

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.gemm_names import (
    docstring,
    gemm_kernel_name,
    range_comment,
    summary_of,
    tile_condition,
)
from coda_ir.backends.triton.gemm_segment import SegmentEmitter
from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    KernelArgument,
    SharedTiles,
    ceiling,
    definition,
    indented,
    with_final_names,
)
from coda_ir.backends.triton.mainloop import MainLoop, PointerMainLoop, TmaMainLoop
from coda_ir.backends.triton.names import LocalNames, NameAllocator
from coda_ir.backends.triton.ports import ArgumentList
from coda_ir.backends.triton.split_k import SplitK
from coda_ir.backends.triton.term_loops import PointerTermLoop, TmaTermLoop, depth_argument
from coda_ir.backends.triton.warp_specialized.kernel import emit_warp_specialized
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange, column_ranges
from coda_ir.remarks import format_location


def emit_gemm(op: FusedOp, names: NameAllocator) -> EmittedKernel:
    """The kernel of a scheduled `gemm.fused`; `names` are the function names of the module.

    One program computes one tile: BLOCK_M rows of BLOCK_N accumulator columns of one segment.
    Raises CodaError without a schedule, for a dynamic N or K, and for types other than float32,
    float16 and bfloat16.
    """
    schedule = _schedule_of(op)
    if schedule.is_warp_specialized:
        return emit_warp_specialized(op, schedule, names)
    return with_final_names(_GemmEmitter(op, schedule, names).emit())


def _schedule_of(op: FusedOp) -> ScheduleAttr:
    where = format_location(op.location)
    if op.schedule is None:
        raise CodaError(f"{where}: gemm.fused has no schedule", "run the pass 'schedule' first")
    if not isinstance(element_type_of(op.x), BFloat16Type | Float16Type | Float32Type):
        raise CodaError(
            f"{where}: the triton backend multiplies f32, f16 and bf16, "
            f"not {element_type_of(op.x)}",
            "convert the operands, or use the reference target",
        )
    if any(shape_of(x)[-1] == DYNAMIC_INDEX for x in op.inputs):
        what = "M" if op.is_transposed else "K"
        raise CodaError(
            f"{where}: gemm.fused has a dynamic {what}", "give x a static last dimension"
        )
    return op.schedule


def _has_plain_loop(op: FusedOp, schedule: ScheduleAttr) -> bool:
    """Whether a helper of the prelude has the loop: for one input, TMA only with N x K weights."""
    if len(op.inputs) > 1 or op.is_transposed or schedule.split_k.data > 1:
        return False
    layouts = {segment.layout for segment in op.segments()}
    return schedule.mainloop == "pointer" or layouts == {Layout.NK}


class _GemmEmitter:
    def __init__(self, op: FusedOp, schedule: ScheduleAttr, module_names: NameAllocator):
        self.op = op
        self.schedule = schedule
        self.is_plain = _has_plain_loop(op, schedule)
        self.name = module_names.fresh(gemm_kernel_name(op))
        self.names = LocalNames()
        self.helpers = {"grouped_tile"}
        self.launch = Launch.of(op)
        self.arguments = ArgumentList(op, self.names)
        self.main_loop = self._main_loop()
        self.split = SplitK.of(schedule, self.arguments)
        self.segments = op.segments()
        self.ranges = [self._ranges(segment) for segment in self.segments]

    def _main_loop(self) -> MainLoop:
        is_tma = self.schedule.mainloop == "tma"
        if not self.is_plain:
            loop = TmaTermLoop if is_tma else PointerTermLoop
            return loop(self.op, self.schedule, self.arguments, self.helpers)
        if is_tma:
            return TmaMainLoop(self.arguments, self.op.x, self.schedule, self.helpers)
        return PointerMainLoop(self.arguments, self.op.x, self.op.depth(0), self.helpers)

    def _ranges(self, segment: Segment) -> list[ColumnRange]:
        try:
            return column_ranges(segment, self.schedule, self.op.order)
        except ValueError as error:
            raise CodaError(f"{format_location(self.op.location)}: gemm.fused: {error}") from error

    @property
    def programs(self) -> int:
        """Programs of all segments in one row of tiles."""
        return sum(columns.programs for ranges in self.ranges for columns in ranges)

    def emit(self) -> EmittedKernel:
        body = [*self.launch.wait(self.helpers), *self._emit_prologue(), *self._emit_segments()]
        summary = summary_of(self.op, self.schedule)
        rows = depth_argument() if self.op.is_transposed else KernelArgument("M", "i32", "{rows}")
        shared = () if self.split is None else self.split.parameters
        arguments = (*self.arguments.arguments, *shared, rows)
        fixed = ", ".join(f'"{a.name}"' for a in arguments if a.type == "i32")
        lines = [
            f"@triton.jit(do_not_specialize=[{fixed}])",
            *definition(self.name, [argument.name for argument in arguments]),
            *indented(docstring(self.op, summary)),
            *indented(body),
        ]
        return EmittedKernel(
            name=self.name,
            source="\n".join(lines) + "\n",
            arguments=arguments,
            grid=self._grid(),
            runs_without_rows=self.op.is_transposed,
            helpers=frozenset(self.helpers),
            num_warps=self.schedule.warps.data,
            num_stages=self.schedule.stages.data,
            description=summary,
            imports=self.main_loop.imports | self.launch.imports,
            host_helpers=self.launch.host_helpers,
            is_dependent=self.launch.is_dependent,
            shared_tiles=self._shared_tiles(),
        )

    def _grid(self) -> str:
        return self._tiles() if self.split is None else f"{self._tiles()} * {self.split.programs}"

    def _tiles(self) -> str:
        """How many tiles there are: a template of the host's expression."""
        bm = self.schedule.block_m.data
        if self.op.is_transposed:
            return str(-(-self.op.row_shape[0] // bm) * self.programs)
        return f"{ceiling('{rows}', bm)} * {self.programs}"

    def _shared_tiles(self) -> SharedTiles | None:
        if self.split is None:
            return None
        return SharedTiles(self._tiles(), self.split.programs, self.split.elements)

    def _emit_prologue(self) -> list[str]:
        bm, _, bk = self.schedule.tile
        group_m = self.schedule.group_m.data
        tile = "tl.program_id(0)" if self.split is None else "tile"
        return [
            *self._extents(),
            f"BLOCK_M: tl.constexpr = {bm}",
            f"BLOCK_K: tl.constexpr = {bk}",
            *([] if self.split is None else self.split.prologue()),
            "tile_m, tile_n = grouped_tile("
            f"{tile}, tl.cdiv(M, BLOCK_M), {self.programs}, {group_m})",
            "rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)",
            "row_mask = rows < M",
            *self._clamped_rows(bm),
            *self.main_loop.prologue(),
        ]

    def _extents(self) -> list[str]:
        """The extents that all calls have in common."""
        if self.op.is_transposed:
            return [f"M: tl.constexpr = {self.op.row_shape[0]}"]
        return [f"K: tl.constexpr = {self.op.depth(0)}"] if self.is_plain else []

    def _clamped_rows(self, bm: int) -> list[str]:
        """Rows that exist, for loads without a mask."""
        if not self.op.is_transposed:
            return [
                "# Rows past the end repeat the last one, so that loads need no mask.",
                "row = tl.minimum(rows, M - 1).to(tl.int64)",
            ]
        if self.op.row_shape[0] % bm == 0:
            return ["row = rows.to(tl.int64)"]
        return [
            "# Rows past the end repeat others, in whole vectors, so that loads need no mask.",
            "row = (rows % M).to(tl.int64)",
        ]

    def _emit_segments(self) -> list[str]:
        lines: list[str] = []
        start = 0
        for segment, ranges in zip(self.segments, self.ranges, strict=True):
            first = 0
            segment_partials = sum(columns.partials for columns in ranges)
            for columns in ranges:
                emitter = SegmentEmitter(
                    segment=segment,
                    columns=columns,
                    first_partial=first,
                    segment_partials=segment_partials,
                    arguments=self.arguments,
                    main_loop=self.main_loop,
                    names=self.names.branch(),
                    helpers=self.helpers,
                    is_ordered=self.op.order is not None,
                    is_dependent=self.launch.is_dependent,
                    split=self.split,
                )
                tile = f"tile_n - {start}" if start else "tile_n"
                lines += self._branch(segment, columns, start, emitter.emit(tile))
                first += columns.partials
                start += columns.programs
        return lines

    def _branch(
        self, segment: Segment, columns: ColumnRange, start: int, body: list[str]
    ) -> list[str]:
        """The code of one column range, under its condition where there are several."""
        end = start + columns.programs
        comment = range_comment(segment, columns, start, self.programs)
        if columns.programs == self.programs:
            return ["", *body]
        return ["", comment, f"if {tile_condition(start, end, self.programs)}:", *indented(body)]
