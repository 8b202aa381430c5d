"""`gemm.fused` as one Triton kernel: `emit_gemm`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import Moved
from coda_ir.backends.triton.gemm_emitter import GemmEmitter
from coda_ir.backends.triton.gemm_names import docstring, summary_of
from coda_ir.backends.triton.gemm_segment import SegmentEmitter
from coda_ir.backends.triton.host_values import HostValue
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.kernel_text import emitted
from coda_ir.backends.triton.mainloop import PointerMainLoop, TmaMainLoop
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.one_row_main_loop import OneRowMainLoop
from coda_ir.backends.triton.quantized_main_loop import QuantizedMainLoop
from coda_ir.backends.triton.split_k import SplitK
from coda_ir.backends.triton.warp_specialized.kernel import emit_warp_specialized
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, ScheduleAttr
from coda_ir.remarks import format_location


def emit_gemm(
    op: FusedOp,
    names: NameAllocator,
    pitches: Mapping[SSAValue, int] | None = None,
    moved: Mapping[SSAValue, Moved] | None = None,
) -> EmittedKernel:
    """Emit the kernel of a scheduled `gemm.fused`; `names` are the function names of the module.

    One program computes one tile: BLOCK_M rows of BLOCK_N accumulator columns of one segment.
    `pitches` has the elements between starts of rows of operands that are not dense, `moved` the
    rows of epilogues whose elements are some numbers apart. Raises CodaError without a schedule,
    for a dynamic N or K, and for float64.
    """
    schedule = _schedule_of(op)
    if schedule.is_warp_specialized:
        return emit_warp_specialized(op, schedule, names, pitches or {}, moved or {})
    return _GemmEmitter(op, schedule, names, pitches or {}, moved or {}).emit()


def _schedule_of(op: FusedOp) -> ScheduleAttr:
    where = format_location(op.location)
    if op.schedule is None:
        raise LoweringError(f"{where}: gemm.fused has no schedule", "run the pass 'schedule' first")
    if not computes_in_float32(element_type_of(op.x)):
        raise LoweringError(
            f"{where}: the triton backend multiplies f32, f16, bf16 and float8, "
            f"not {element_type_of(op.x)}",
            "convert the operands, or use the reference target",
        )
    if any(shape_of(x)[-1] == DYNAMIC_INDEX for x in op.inputs):
        what = "M" if op.is_transposed else "K"
        raise LoweringError(
            f"{where}: gemm.fused has a dynamic {what}", "give x a static last dimension"
        )
    return op.schedule


class _GemmEmitter(GemmEmitter):
    @cached_property
    def main_loop(self) -> TmaMainLoop | PointerMainLoop:
        loop = TmaMainLoop if self.schedule.mainloop == "tma" else PointerMainLoop
        loop = OneRowMainLoop if self.schedule.has_one_row else loop
        loop = loop if self.op.quantized is None else QuantizedMainLoop
        return loop(self.op, self.schedule, self.arguments, self.groups, self.ragged)

    @cached_property
    def split(self) -> SplitK | None:
        bm, bn, _ = self.schedule.tile
        return SplitK.of(self.schedule, self.arguments, bm * bn)

    def emit(self) -> EmittedKernel:
        body = [*self._wait(), *self._emit_prologue(), *self._emit_segments()]
        summary = summary_of(self.op, self.schedule)
        shared = () if self.split is None else self.split.parameters
        arguments = (*self.arguments.arguments, *shared, self.extent)
        kernel = emitted(
            self.name,
            arguments,
            body,
            summary=summary,
            docstring=docstring(self.op, summary),
            grid=self._grid(),
            launch=self.launch,
            num_warps=self.schedule.warps.data,
            num_stages=self.schedule.stages.data + self.main_loop.stages_of_ids,
        )
        registers = self.main_loop.registers
        return replace(
            kernel,
            runs_without_rows=self.op.is_transposed,
            registers=registers,
            imports=kernel.imports | self.main_loop.IMPORTS,
            shared_tiles=None if self.split is None else self.split.shared_tiles(self.tiles),
        )

    def _wait(self) -> list[str]:
        """Return the statements before the first access to memory, unless the loop has them."""
        if self.main_loop.waits:
            return []
        wait = self.launch.wait_and_start_next if self._is_short else self.launch.wait
        return wait()

    @property
    def _is_short(self) -> bool:
        """True if the next kernel may begin at once, and read weights ahead."""
        return self.schedule.has_one_row

    def _grid(self) -> HostValue:
        return self.tiles if self.split is None else self.tiles * self.split.programs

    def _emit_prologue(self) -> list[str]:
        bm, _, bk = self.schedule.tile
        program = "tl.program_id(0)" if self.split is None else "tile"
        return [
            *self.constant_extents,
            f"BLOCK_M: tl.constexpr = {bm}",
            f"BLOCK_K: tl.constexpr = {bk}",
            *([] if self.split is None else self.split.prologue()),
            self.tile_of(program, self.device_tiles("BLOCK_M")),
            *self._rows(bm),
            *self._scattered_rows(),
            *self.main_loop.prologue(),
        ]

    def _rows(self, bm: int) -> list[str]:
        """Return the statements that define the rows of a tile."""
        if self.groups is not None:
            return self.groups.rows()
        if self.ragged is not None:
            return self.ragged.statements(bm)
        return [
            "rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)",
            "row_mask = rows < M",
            *self._clamped_rows(bm),
        ]

    def _scattered_rows(self) -> list[str]:
        """Return the statement for the rows in which results are stored, if they differ."""
        if self.op.scatter is None:
            return []
        ids = self.arguments.operand(self.op.scatter, "ids")
        return [f"scattered = tl.load({ids} + row).to(tl.int64)"]

    def _clamped_rows(self, bm: int) -> list[str]:
        """Return rows clamped to existing ones, for loads without a mask."""
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
        bodies: list[list[str]] = []
        for segment, columns, start, first_partial in self.numbered_ranges():
            emitter = SegmentEmitter(
                segment=segment,
                columns=columns,
                first_partial=first_partial,
                segment_partials=self.partials_of(segment),
                arguments=self.arguments,
                main_loop=self.main_loop,
                names=self.names.branch(),
                is_ordered=self.op.order is not None,
                stored_row="row" if self.op.scatter is None else "scattered",
                is_dependent=self.launch.is_dependent and not self._is_short,
                split=self.split,
            )
            bodies.append(emitter.emit(f"tile_n - {start}" if start else "tile_n"))
        return self.branches(bodies, spaced=True)
