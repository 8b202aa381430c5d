"""The kernels of attention and of its backward, with their epilogues: `emit_attention_sums`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList, Layout, Pitch, RowRuns
from coda_ir.backends.triton.gemm_names import segment_features
from coda_ir.backends.triton.gemm_segment import SegmentEmitter
from coda_ir.backends.triton.host_values import HostValue, constant, joined
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import PITCH, emitted
from coda_ir.backends.triton.mainloop import TENSOR_DESCRIPTOR
from coda_ir.backends.triton.names import LocalNames, NameAllocator
from coda_ir.backends.triton.ports import ColumnIndex
from coda_ir.backends.triton.split_k import SplitK
from coda_ir.backends.triton.warp_specialized.gluon import IMPORTS, Box, Layouts, translated
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import (
    AttentionDkvOp,
    AttentionDmaskOp,
    AttentionDqOp,
    AttentionGradSumOp,
    AttentionSumOp,
    FusedAttentionOp,
    ScheduleAttr,
)
from coda_ir.dialects.gemm.heads import HeadParts, SumSegment, head_parts
from coda_ir.dialects.gemm.tiling import ColumnRange, group_sizes
from coda_ir.remarks import format_location
from coda_ir.storage import has_transposed_rows

WIDEST_WINDOW = 2**30
"""The number of positions of windows that hide nothing; sums of it and positions fit in int32."""

ALIGNED_NUMBERS = 4
"""The float32 numbers in 16 bytes: rows that TMA loads start at multiples of them."""


@dataclass(kw_only=True)
class _SumEmitter(SegmentEmitter):
    """Emits the epilogue of computed sums, for the columns of one head."""

    head: HeadParts
    layout: str | None
    """In Gluon, the layout of the sums."""

    def emit_sums(self, sums: list[str]) -> list[str]:
        """Emit the statements for `sums`: `a_parts` has the parts of a head of the sums `a`."""
        self.tile = self.program_tile = "head"
        parts = [(part, lanes) for part, lanes in enumerate(self.head[1:]) if lanes]
        values = [f"{name}_parts[{part}]" for part, _ in parts for name in sums]
        before: list[str] = []
        if self.split is not None:
            columns = [lanes for _, lanes in parts for _ in sums]
            before = self.split.publish(values, columns)
            values = self.split.sums(columns)
            if self.layout is not None:
                values = [f"tl.set_auto_layout({value}, {self.layout})" for value in values]
        for part, lanes in parts:
            of_part = values[part * len(sums) : (part + 1) * len(sums)]
            self._emit_part_of_head(part, lanes, sums, of_part)
        return self.lines if self.split is None else [*before, *indented(self.lines)]

    def _emit_part_of_head(
        self, part: int, lanes: int, sums: list[str], values: Sequence[str]
    ) -> None:
        """Emit the epilogue of one part, given the values of its sums."""
        self.part = part
        self.columns = replace(self.columns, lanes=lanes // (2 if self.is_pair else 1))
        # A port has other columns in each part.
        self.port_values.clear()
        named = [self._let(name, value) for name, value in zip(sums, values, strict=True)]
        self._set_columns(self.columns.lanes)
        self._emit_tile([each for name in named for each in self._accumulators_of(name)])

    def _emit_lane_columns(self, lanes: int, prefix: str) -> ColumnIndex:
        head = self.head
        if head.is_whole:
            return super()._emit_lane_columns(lanes, prefix)
        first = self.part * head.first
        column = f"{first} + tl.arange(0, {lanes})" if first else f"tl.arange(0, {lanes})"
        name = self._let(f"{prefix}column", f"head * {head.columns} + {column}")
        extent = self.columns.extent
        if first + lanes <= head.columns:
            return ColumnIndex(name, extent, None)
        mask = self._let(f"{prefix}column_mask", f"{column} < {head.columns}")
        self.lines.append(f"{name} = {name} % {extent}")
        return ColumnIndex(name, extent, mask)

    def _neighbour_columns(self) -> ColumnIndex | None:
        """Return None in Gluon, where rows have one layout, that of tiles with half of the columns;
        Triton 3.6 aborts where it has to infer the layout of a tile that is split.
        """
        return None if self.layout is not None else super()._neighbour_columns()

    def _accumulators_of(self, total: str) -> list[str]:
        """Return `total`, or in pair mode its first and its second columns."""
        pairing = self.segment.pairing
        if pairing is None:
            return [total]
        helper = "column_neighbours" if pairing.is_adjacent else "column_halves"
        names = [self.names.fresh(f"{total}_{which}") for which in ("first", "second")]
        self.lines.append(f"{', '.join(names)} = {helper}({total})")
        return names


def emit_attention_sums(
    op: AttentionSumOp, names: NameAllocator, pitches: Mapping[SSAValue, Pitch] | None = None
) -> EmittedKernel:
    """Emit the kernel of a scheduled `gemm.attention`, `gemm.attention_dq`, `gemm.attention_dkv` or
    `gemm.attention_dmask`.

    One program computes a tile: BM rows of one head, or BM rows and BN columns of the mask.
    `pitches` has the elements between the starts of the rows of those operands that are ranges of
    columns, or where the rows of permuted ones start. Raises CodaError without a schedule.
    """
    if op.schedule is None:
        raise LoweringError(
            f"{format_location(op.location)}: {op.name} has no schedule",
            "run the pass 'schedule' first",
        )
    kind = _MaskKernel if isinstance(op, AttentionDmaskOp) else _Kernel
    return kind(op, op.schedule, names, pitches or {}).emit()


@dataclass(frozen=True)
class _Tensor:
    """An operand, and the number of its rows that are loaded at a time."""

    name: str
    value: SSAValue
    rows: int | None
    """None of numbers of queries, which are no rows of heads."""
    parts: HeadParts
    """Those of its heads."""


_FUNCTIONS: Mapping[type[AttentionSumOp], str] = {
    FusedAttentionOp: "o_of_tile",
    AttentionDqOp: "dq_of_tile",
    AttentionDkvOp: "dkv_of_tile",
    AttentionDmaskOp: "dmask_of_tile",
}
"""The device functions of the sums."""


class _Kernel:
    def __init__(
        self,
        op: AttentionSumOp,
        schedule: ScheduleAttr,
        names: NameAllocator,
        pitches: Mapping[SSAValue, Pitch],
    ):
        self.op, self.schedule, self.pitches = op, schedule, pitches
        self.is_of_queries = not isinstance(op, AttentionDkvOp)
        self.name = names.fresh(self._title())
        self.arguments = ArgumentList(op, LocalNames(), pitches=pitches, domain=op.rows_of)
        self.layouts = Layouts() if schedule.mainloop == "wgmma" else None
        """Those of boxes, in Gluon."""
        mask = "row_mask" if self.layouts is None else "sum_mask"
        sums = schedule.block_m.data * self._columns_of_sums()
        self.split = SplitK.of(schedule, self.arguments, sums, mask)

    @property
    def is_tma(self) -> bool:
        return self.schedule.loads_boxes_of_heads

    @property
    def has_boxes_of_numbers(self) -> bool:
        """Return whether TMA loads numbers of queries.

        By pointers, each thread of a tile of products copies the numbers of all of its columns.
        """
        return self.is_tma and isinstance(self.op, AttentionDkvOp) and not self.op.adds_mask

    def _sums(self) -> str:
        return _FUNCTIONS[type(self.op)]

    def _columns_of_sums(self) -> int:
        """Return the columns of all sums of a tile."""
        return len(self.op.SUMS) * self.op.parts.lanes

    def _title(self) -> str:
        features = [name for name in segment_features(self.op.segment()) if name != "tile"]
        return "_".join([self.op.name.removeprefix("gemm."), *dict.fromkeys(features)])[:60]

    def emit(self) -> EmittedKernel:
        lines = [*self._constants(), *self._place(), *self._call(), *self._epilogue()]
        bm, bn, _ = self.schedule.tile
        rows, steps = ("queries", "keys") if self.is_of_queries else ("keys", "queries")
        what = " and ".join(self.op.SUMS) or "Gradient of the mask"
        summary = f"{what} of attention: {bm} {rows} of a head, {bn} {steps} at a time"
        shared = () if self.split is None else self.split.parameters
        parameters = (*self.arguments.arguments, *shared, *self._extents())
        tiles = self._tiles()
        kernel = emitted(
            self.name,
            parameters,
            lines,
            summary=summary,
            grid=tiles if self.split is None else tiles * self.split.programs,
            num_warps=self.schedule.warps.data,
            num_stages=self.schedule.stages.data,
        )
        if self.split is not None:
            kernel = replace(kernel, shared_tiles=self.split.shared_tiles(tiles))
        if self.layouts is not None:
            constants, source = self.layouts.constants(), translated(kernel.source)
            return replace(
                kernel, source=source, imports=IMPORTS, constants=constants, language="gluon"
            )
        return replace(kernel, imports=TENSOR_DESCRIPTOR) if self.is_tma else kernel

    # Extents

    def _tiles(self) -> HostValue:
        """Return the number of tiles."""
        blocks = self._extent_of(self.op.rows_of).ceiling(self.schedule.block_m.data)
        return blocks * self._batches() * self.op.tile_heads

    def _batches(self) -> HostValue:
        """Return the number of batches."""
        q = self.op.q
        return self.arguments.place(q).shape(0) if len(shape_of(q)) == 3 else constant(1)

    def _extent_of(self, value: SSAValue) -> HostValue:
        """Return the rows of a tensor of heads."""
        return self.arguments.place(value).shape(len(shape_of(value)) - 2)

    def _rows(self) -> str:
        """Return the rows of the sums, in the kernel."""
        return "T" if self.is_of_queries else "S"

    def _extents(self) -> list[KernelArgument]:
        keys, (*_, of_keys) = self._extent_of(self.op.k), self.op.mask_dims
        return [
            KernelArgument("BATCHES", "i32", self._batches()),
            KernelArgument("T", "i32", self._extent_of(self.op.q)),
            KernelArgument("S", "i32", keys),
            *([KernelArgument(PITCH, "i32", keys)] if of_keys or not self.op.SUMS else []),
        ]

    # The body

    def _constants(self) -> list[str]:
        op, (bm, bn, _), head_dim = self.op, self.schedule.tile, self.op.parts.columns
        window = 0 if op.window is None else min(op.window.value.data, WIDEST_WINDOW)
        scale = head_dim**-0.5 if op.scale is None else op.scale.value.data
        values = {
            "BLOCK_M": bm,
            "BLOCK_N": bn,
            "SCALE": scale,
            "SOFTCAP": 0.0 if op.softcap is None else abs(op.softcap.value.data),
            "FAST_CAP": self.is_tma and isinstance(element_type_of(op.q), BFloat16Type),
            "CAUSAL": bool(op.causal.value.data),
            "WINDOW": window,
        }
        return [f"{name}: tl.constexpr = {value!r}" for name, value in values.items()]

    def _place(self) -> list[str]:
        """Emit the statements that find the tile of a program, blocks with the most steps first."""
        heads, group = self.op.tile_heads, self.schedule.group_m.data
        is_last_first = self.is_of_queries and self.op.causal.value.data
        block = "blocks - 1 - turn" if is_last_first else "turn"
        tile = "tl.program_id(0)" if self.split is None else "tile"
        return [
            *([] if self.split is None else self.split.prologue()),
            f"blocks = tl.cdiv({self._rows()}, BLOCK_M)",
            f"of_batch, turn = tile_of_heads({tile}, blocks, BATCHES * {heads}, {group})",
            f"batch, head, block = of_batch // {heads}, of_batch % {heads}, {block}",
            "start = block * BLOCK_M",
        ]

    def _tensors(self) -> list[_Tensor]:
        """Return the operands before the ports by their roles; one tensor may have several."""
        op, (bm, bn, _) = self.op, self.schedule.tile
        queries, keys = (bm, bn) if self.is_of_queries else (bn, bm)
        inputs = [
            _Tensor("q", op.q, queries, op.parts),
            _Tensor("k", op.k, keys, op.parts),
            _Tensor("v", op.v, keys, op.value_parts),
        ]
        if not isinstance(op, AttentionGradSumOp):
            return inputs
        is_dq = isinstance(op, AttentionDqOp)
        stored = ("out", op.stored, queries) if is_dq else ("moment", op.stored, None)
        before = [
            _Tensor("d_out", op.d_out, queries, op.value_parts),
            _Tensor(*stored, op.value_parts),
            _Tensor("lse", op.lse, None, op.parts),
        ]
        return [*before, *inputs]

    def _call(self) -> list[str]:
        """Emit the call that computes the sums of the tile."""
        op, tensors = self.op, self._tensors()
        arguments = [self._argument(tensor) for tensor in tensors]
        if isinstance(op, AttentionDqOp):
            arguments.insert(3, self.arguments.output(op.moment, "moment"))
        if isinstance(op, FusedAttentionOp):
            arguments.insert(0, self.arguments.output(op.lse, "lse"))
        of_heads = [tensor.value for tensor in tensors if tensor.rows is not None]
        steps = ["0" if self.is_tma else str(self._pitch(x)) for x in of_heads]
        if isinstance(op, AttentionDkvOp):
            steps.append("0" if self.has_boxes_of_numbers else "1")
        pitches = ", ".join(steps)
        first, shared = self._heads_of_queries()
        hidden = self._mask()
        if isinstance(op, FusedAttentionOp):
            hidden += f", {self._sinks(op)}"
        loads, stages = [f"({pitches})", f"{op.mask_dims}", f"{op.adds_mask}"], ""
        if self.layouts is not None:
            hidden, loads, stages = "", [], f" {self.schedule.stages.data},"
        if isinstance(op, AttentionDqOp):
            stages += f" {op.exact_moment is not None},"
        sums = ", ".join(f"{name}_parts" for name in self._names())
        extents = [op.heads, shared, tuple(op.parts), tuple(op.value_parts), *loads]
        return [
            f"{sums} = {self._sums()}(",
            *(f"    {argument}," for argument in (*arguments, *([hidden] if hidden else []))),
            f"    batch, head, start, T, S,{first}",
            f"    {', '.join(map(str, extents))},",
            f"    SCALE, SOFTCAP, FAST_CAP, CAUSAL, WINDOW, BLOCK_M, BLOCK_N,{stages}",
            ")",
        ]

    def _heads_of_queries(self) -> tuple[str, int]:
        """Return the argument for a tile's first query head, and the number of its query heads."""
        shared = self.op.shared_heads
        if self.is_of_queries:
            return "", shared
        if self.split is None:
            return f" head * {shared},", shared
        count = shared // self.split.programs
        return f" head * {shared} + split * {count},", count

    def _names(self) -> list[str]:
        """Return the variables of the sums."""
        return [name.lower() for name in self.op.SUMS]

    def _pitch(self, value: SSAValue) -> Pitch:
        """Return the number of elements from one row to the next, or where rows start."""
        return self.pitches.get(value, shape_of(value)[-1])

    def _mask(self) -> str:
        """Return the parameters of the mask, if any: its pointer, and the length of a row."""
        mask = self.op.mask
        if mask is None:
            return "None"
        pointer, (*_, of_keys) = self.arguments.operand(mask, "mask"), self.op.mask_dims
        return f"({pointer}, {PITCH if of_keys else 1})"

    def _sinks(self, op: FusedAttentionOp) -> str:
        return "None" if op.sinks is None else self.arguments.operand(op.sinks, "sinks")

    def _argument(self, tensor: _Tensor) -> str:
        """Return the parameters of a tensor: for each part of a head a descriptor or a pointer."""
        if tensor.rows is None:
            return self._numbers_argument(tensor)
        lanes = [each for each in tensor.parts[1:] if each]
        names = [self._part_argument(tensor, tensor.rows, each) for each in lanes]
        return f"({', '.join(names)}{',' * (len(names) == 1)})"

    def _numbers_argument(self, tensor: _Tensor) -> str:
        if not self.has_boxes_of_numbers:
            return self.arguments.operand(tensor.value, tensor.name)
        queries, box = self._extent_of(self.op.q), (1, self.schedule.block_n.data)
        extents = (self._batches() * self.op.heads, queries)
        strides = (queries.ceiling(ALIGNED_NUMBERS) * ALIGNED_NUMBERS, 1)
        return self.arguments.descriptor(
            tensor.value,
            extents,
            box,
            tensor.name,
            strides=strides,
            copy="aligned_rows",
            layout=self._layout(tensor.value, box),
        )

    def _layout(self, value: SSAValue, box: Box) -> Layout | None:
        return None if self.layouts is None else self.layouts.of(element_type_of(value), box)

    def _part_argument(self, tensor: _Tensor, rows: int, lanes: int) -> str:
        value, columns = tensor.value, tensor.parts.columns
        if not self.is_tma:
            return self.arguments.operand(value, tensor.name)
        extent, pitch = self._extent_of(value), self._pitch(value)
        if isinstance(pitch, RowRuns):
            pitch, batch = pitch.strides
        else:
            batch = extent * pitch
        box = (1, 1, rows, lanes)
        return self.arguments.descriptor(
            value,
            (self._batches(), shape_of(value)[-1] // columns, extent, columns),
            box,
            tensor.name,
            strides=(batch, columns, pitch, 1),
            layout=self._layout(value, box),
        )

    def _epilogue(self) -> list[str]:
        extent, names = self._rows(), self._names()
        # Results whose rows are transposed have those of a batch BATCHES rows apart.
        is_transposed = any(map(has_transposed_rows, self.op.outputs))
        place = "{} * BATCHES + batch" if is_transposed else f"batch * {extent} + {{}}"
        epilogues = [
            line
            for numbers, segment in self.op.epilogues()
            for line in self._emitter(segment).emit_sums([names[number] for number in numbers])
        ]
        return [
            "",
            "number = start + tl.arange(0, BLOCK_M)",
            f"row_mask = number < {extent}",
            # In Gluon, a mask has one layout, and epilogues of pairs have another one than sums.
            f"sum_mask = start + tl.arange(0, BLOCK_M) < {extent}",
            f"rows = {place.format('number')}",
            "# Rows past the end repeat the last one, so that loads need no mask.",
            f"row = ({place.format(f'tl.minimum(number, {extent} - 1)')}).to(tl.int64)",
            "tile_m = batch * blocks + block",
            *epilogues,
        ]

    def _emitter(self, segment: SumSegment) -> _SumEmitter:
        paired = 2 if segment.pairing else 1
        head = head_parts(segment.columns // self.op.tile_heads)
        lanes, warps = min(self.op.parts.first, self.op.value_parts.first), self.schedule.warps.data
        group = max(1, max(group_sizes(segment), default=1) // paired)
        columns = ColumnRange((), 0, segment.columns // paired, head.first // paired, group)
        return _SumEmitter(
            segment=segment,
            columns=columns,
            first_partial=0,
            segment_partials=columns.tiles,
            arguments=self.arguments,
            main_loop=None,
            names=self.arguments.names,
            split=self.split,
            head=head,
            layout=None if self.layouts is None else f"epilogue_layout({lanes}, {warps})",
        )


class _MaskKernel(_Kernel):
    """The kernel of the gradient for a mask: a program stores BM rows and BN columns of it."""

    def _tiles(self) -> HostValue:
        of_batches, *_ = self.op.mask_dims
        (bm, bn, _), op = self.schedule.tile, self.op
        columns = joined("(", self._extent_of(op.k).ceiling(bn), ")")
        blocks = self._extent_of(op.q).ceiling(bm) * columns
        blocks *= self._heads_of_mask()
        return blocks * self._batches() if of_batches else blocks

    def _columns_of_sums(self) -> int:
        return self.schedule.block_n.data

    def _place(self) -> list[str]:
        tile = "tl.program_id(0)" if self.split is None else "tile"
        return [
            *([] if self.split is None else self.split.prologue()),
            "columns = tl.cdiv(S, BLOCK_N)",
            "blocks = tl.cdiv(T, BLOCK_M) * columns",
            f"of_mask, turn = {tile} // blocks, {tile} % blocks",
            f"batch, head = of_mask // {self._heads_of_mask()}, of_mask % {self._heads_of_mask()}",
            "start, at = turn // columns * BLOCK_M, turn % columns * BLOCK_N",
        ]

    def _heads_of_mask(self) -> int:
        return self.op.heads if self.op.mask_dims[1] else 1

    def _names(self) -> list[str]:
        return ["d_mask"]

    def _heads_of_queries(self) -> tuple[str, int]:
        split = "0, BATCHES, 1" if self.split is None else "split, BATCHES, SPLIT_K"
        return f" at, {split},", self.op.shared_heads

    def _epilogue(self) -> list[str]:
        pointer = self.arguments.output(self.op.results[0], "d_mask")
        place = f"batch, head, start, T, S, at, {self._heads_of_mask()}"
        if self.split is None:
            return [f"store_dmask(({pointer}, {PITCH}), d_mask_parts, {place}, CAUSAL, WINDOW)"]
        columns = [self.schedule.block_n.data]
        (total,) = self.split.sums(columns)
        return [
            "row_mask = start + tl.arange(0, BLOCK_M) < T",
            *self.split.publish(["d_mask_parts"], columns),
            f"    d_mask = {total}",
            f"    store_dmask(({pointer}, {PITCH}), d_mask, {place}, CAUSAL, WINDOW)",
        ]
