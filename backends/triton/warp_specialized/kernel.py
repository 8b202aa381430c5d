"""`gemm.fused` as a persistent, warp-specialized kernel: `emit_warp_specialized`."""

from collections.abc import Mapping, Sequence
from textwrap import wrap

from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import Moved
from coda_ir.backends.triton.dependent_launch import start_next_kernel
from coda_ir.backends.triton.gemm_emitter import GemmEmitter
from coda_ir.backends.triton.gemm_names import docstring, summary_of
from coda_ir.backends.triton.host_values import joined, nth_operand
from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    KernelArgument,
    call,
    definition,
    indented,
    with_final_names,
)
from coda_ir.backends.triton.kernel_text import signature
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.syntax import names_in, without_unused
from coda_ir.backends.triton.warp_specialized.gluon import IMPORTS, translated
from coda_ir.backends.triton.warp_specialized.loads import (
    COPY_WARPS,
    BoxDescriptors,
    Depths,
    LoadEmitter,
    scaled_columns,
)
from coda_ir.backends.triton.warp_specialized.memory import TURNS, SharedMemory
from coda_ir.backends.triton.warp_specialized.row_tiles import RowTiles
from coda_ir.backends.triton.warp_specialized.segment import Ahead, GroupSegmentEmitter
from coda_ir.backends.triton.warp_specialized.tile_moves import MOVED, protocol_of
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda import BlocksAttr
from coda_ir.dialects.coda.shapes import element_type_of, is_float8, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr, Segment, promotes_sums
from coda_ir.dialects.gemm.buffers import Staging
from coda_ir.dialects.gemm.tiling import ColumnCuts, ColumnRange
from coda_ir.dialects.gemm.warp_specialized import staging
from coda_ir.remarks import format_location

FLOAT8_DEPTH = 32
"""K of an instruction that multiplies float8, 32 bytes of a row; that of others is 16."""

COMPUTE_REGISTERS, MOVE_REGISTERS = 240, 24
"""The registers of a thread of a second group that computes, and of the warps that use TMA; the
first group gets the rest."""


COPY_REGISTERS = 88
"""Registers of a thread in the loading warps, if these copy gathered rows themselves."""


def emit_warp_specialized(
    op: FusedOp,
    schedule: ScheduleAttr,
    names: NameAllocator,
    pitches: Mapping[SSAValue, int],
    moved: Mapping[SSAValue, Moved],
) -> EmittedKernel:
    """Emit the kernel of `op`; `names` are the function names of the module, `pitches` and `moved`
    those of `emit_gemm`.

    Raises CodaError where `op` cannot run so (see `coda_ir.dialects.gemm.warp_specialized`).
    """
    where = format_location(op.location)
    try:
        found = staging(ColumnCuts(op), schedule)
    except ValueError as error:
        raise LoweringError(f"{where}: gemm.fused: {error}") from error
    if isinstance(found, str):
        raise LoweringError(
            f"{where}: gemm.fused cannot run warp-specialized: {found}",
            "schedule it with the tma or the pointer main loop",
        )
    return with_final_names(_Emitter(op, schedule, found, names, pitches, moved).emit())


class _Emitter(GemmEmitter):
    def __init__(
        self,
        op: FusedOp,
        schedule: ScheduleAttr,
        staged: Staging,
        module_names: NameAllocator,
        pitches: Mapping[SSAValue, int],
        moved: Mapping[SSAValue, Moved],
    ):
        super().__init__(op, schedule, module_names, pitches, moved)
        self.module_names = module_names
        self.ahead: list[Ahead] = []
        """Functions that load ports ahead of their subtile."""
        self.computing: list[GroupSegmentEmitter] = []
        """Emitters of the epilogue of each range, and then of the moves of its tiles."""
        self.load_name = module_names.fresh(f"{self.name}_load")
        self.compute_name = module_names.fresh(f"{self.name}_compute")
        self.move_name = module_names.fresh(f"{self.name}_move")
        self.how = "_in_pieces" if len(schedule.pieces) > 1 else ""
        """The suffix in the names of the device functions that multiply a tile."""
        if promotes_sums(op):
            self.how = "_promoted"
        self.descriptors = BoxDescriptors(self.arguments)
        self.depths = Depths(op, self.arguments)
        self.row_tiles = RowTiles(self.groups, self.ragged, schedule.block_m.data)
        self.loads = LoadEmitter(op, schedule, self.descriptors, self.depths, self.row_tiles)
        subtiles = [columns.subtiles for _, columns in self.ranges]
        self.protocol = protocol_of(staged, schedule.groups, subtiles)
        self.memory = self._shared_memory()

    def _shared_memory(self) -> SharedMemory:
        bm, _, bk = self.schedule.tile
        of_x, of_weights = map(element_type_of, (self.op.x, self.op.weights[0]))
        boxes = {"a_stages": ((bk, bm) if self.op.is_transposed else (bm, bk), of_x)}
        for name, columns in zip(("b_stages", "c_stages"), self.schedule.pieces, strict=False):
            box = (bk, columns) if self.has_column_stages else (columns, bk)
            boxes[name] = box, of_weights
        copiers = 32 * COPY_WARPS if self.loads.copies else 0
        return SharedMemory(self.schedule, self.protocol, boxes, self.descriptors.layouts, copiers)

    @property
    def has_column_stages(self) -> bool:
        """True if the stages of weights hold their columns side by side: as K x N."""
        return self.op.is_transposed or self.ranges[0][0].layout == Layout.KN

    @property
    def summary(self) -> str:
        how = self.schedule.mainloop.replace("_", "-")
        return f"{summary_of(self.op, self.schedule)}, {how}"

    def emit(self) -> EmittedKernel:
        bodies = self._emit_load(), without_unused(self._emit_compute()), self._emit_move()
        used = {name for body in bodies for name in names_in(body)}
        named = [argument for argument in self.arguments.arguments if argument.name in used]
        arguments = (*named, self.extent)
        group = ("GROUP: tl.constexpr",) if self.schedule.groups > 1 else ()
        load, compute, move = bodies
        sections = [
            self._function(self.load_name, load, arguments, ()),
            *("\n".join(ahead.source()) for ahead in self.ahead),
            self._function(self.compute_name, compute, arguments, group),
            *([self._function(self.move_name, move, arguments, group)] if move else []),
            self._entry(bodies, arguments),
        ]
        return EmittedKernel(
            name=self.name,
            source=translated("\n\n\n".join(sections)),
            arguments=arguments,
            grid=joined("programs(", self.tiles, ", ", nth_operand(0).member("device"), ")"),
            num_warps=self.schedule.tile_warps,
            num_stages=self.schedule.stages.data,
            description=self.summary,
            imports=IMPORTS | self.launch.imports,
            constants=self.descriptors.layouts.constants(),
            is_dependent=self.launch.is_dependent,
            language="gluon",
            runs_without_rows=self.op.is_transposed,
        )

    # Loading

    def _emit_load(self) -> list[str]:
        bodies = [
            self._numbered(start, self.loads.emit(segment, columns, self._tile(start)))
            for segment, columns, start, _ in self.numbered_ranges()
        ]
        return [
            '"""Load the operands of each tile, as many steps ahead as there are stages."""',
            *self._constants(),
            "step = 0",
            *self._tile_loop(self.branches(bodies), self.loads.before_ranges()),
            *(start_next_kernel() if self.launch.is_dependent else []),
        ]

    @staticmethod
    def _tile(start: int) -> str:
        """Return the number of a tile within the range that begins with tile `start`."""
        return "tile" if start else "tile_n"

    @staticmethod
    def _numbered(start: int, body: Sequence[str]) -> list[str]:
        """Return `body` after the statement that numbers a tile within a range."""
        return [f"tile = tile_n - {start}", *body] if start and body else [*body]

    def _constants(self) -> list[str]:
        return [
            f"STAGES: tl.constexpr = {self.schedule.stages.data}",
            f"STAGE_BYTES: tl.constexpr = {self.loads.box_bytes}",
        ]

    def _tile_loop(
        self, body: Sequence[str], before: Sequence[str] = (), *, alternate: bool = False
    ) -> list[str]:
        """Return the loop over all tiles of a program, or over every other one of `GROUP`: `before`
        and `body` for each of them that has rows.
        """
        first, distance = "tl.program_id(0)", "tl.num_programs(0)"
        if alternate:
            first, distance = f"{first} + GROUP * {distance}", f"2 * {distance}"
        tiles_m, tiles_n = self.device_tiles(str(self.schedule.block_m.data)), self.tiles_n
        count = tiles_m if self.groups is None else f"({tiles_m})"
        tile = self.tile_of(*self.row_tiles.numbered(tiles_m, tiles_n))
        return [
            *self.constant_extents,
            f"tiles = {count} * {tiles_n}",
            *self.row_tiles.before(),
            f"for program in range({first}, tiles, {distance}):",
            *indented(self.row_tiles.within(tile, [*before, *body], tiles_n)),
        ]

    # Computing

    def _emit_compute(self) -> list[str]:
        bodies: list[list[str]] = []
        rows, warps = self.schedule.group_rows, self.schedule.tile_warps
        depth = f", {FLOAT8_DEPTH}" if is_float8(element_type_of(self.op.x)) else ""
        zeros = [f"accumulators({warps}, {rows}, {n}{depth})" for n in self.schedule.pieces]
        accumulators = f"acc = {_tuple(zeros)}"
        shared = self._shared_products(accumulators)
        for segment, columns, start, first_partial in self.numbered_ranges():
            emitter = GroupSegmentEmitter(
                segment=segment,
                columns=columns,
                first_partial=first_partial,
                segment_partials=self.partials_of(segment),
                arguments=self.arguments,
                main_loop=None,
                names=self.names.branch(),
                schedule=self.schedule,
                protocol=self.protocol,
                descriptors=self.descriptors,
                end=self.row_tiles.end,
                ahead_name=self.module_names.fresh(f"{self.name}_ports"),
            )
            tile = self._tile(start)
            own = [] if shared else self._products(segment, columns, tile)
            body = [*([] if shared else [accumulators]), *emitter.emit_with(own, tile)]
            # Without numbers of tiles that nothing reads, ranges may have equal statements.
            bodies.append(without_unused(self._numbered(start, body)))
            self.computing.append(emitter)
            if emitter.ahead is not None:
                self.ahead.append(emitter.ahead)
        bk, before = self.schedule.block_k.data, [self._first_row, *shared]
        if self.ragged is not None:
            before.append(f"steps = tl.cdiv(end_k - first_k, {bk})")
        return [
            *self._before_tiles(),
            *self._tile_loop(self.branches(bodies), before, alternate=self.schedule.alternates),
        ]

    @property
    def _first_row(self) -> str:
        """The statement for the first row of a group of warps."""
        bm, rows = self.schedule.block_m.data, self.schedule.group_rows
        own = f" + {rows} * GROUP" if rows < bm else ""
        return f"first_row = {self.row_tiles.first}{own}"

    def _before_tiles(self) -> list[str]:
        steps = [] if self.ragged is not None else [self.depths.steps(self.schedule.block_k.data)]
        which = "every other tile" if self.schedule.alternates else "each tile"
        return [
            f'"""Compute {which}: products, then the epilogue."""',
            *(f"steps = {count}" for count in steps),
            *(["step = GROUP * steps", "turn = 0"] if self.schedule.alternates else ["step = 0"]),
            *(f"{counter} = 0" for counter in self.protocol.counters),
        ]

    def _shared_products(self, accumulators: str) -> list[str]:
        """Return the statements before all ranges that leave the accumulators of a tile in `acc`.

        There are none if K has several steps: each range then loads operands of its epilogue before
        its main loop, which hides that. The compiler unrolls a loop of one step. It then computes
        places in shared memory before the condition of a range; from those, ptxas 12.8, which is
        Triton 3.6's, computes others in one range only, and uses them in the next one as well.
        """
        (segment, columns), *others = self.ranges
        steps = self.depths.steps(self.schedule.block_k.data)
        if not others or self.ragged is not None or steps != "1" or self.op.x_scales is not None:
            return []
        return [accumulators, *self._products(segment, columns, "tile_n")]

    def _products(self, segment: Segment, columns: ColumnRange, tile: str) -> list[str]:
        """Return the statements that leave the accumulators of a tile in `acc`."""
        axes = (str(int(self.op.is_transposed)), str(int(self.has_column_stages)))
        a_stages, *b_stages = self.memory.boxes
        stages = (a_stages, _tuple(b_stages), "full", "empty")
        rows = (f"{self.schedule.group_rows} * GROUP",) if self.schedule.splits_rows else ()
        # What warps copy is seen by products after a fence.
        fence = ("IS_COPIED=True",) if self.loads.copies else ()
        arguments = ("acc", *stages, "step", "steps", *axes, *rows, *fence, *self._scales)
        products = [
            *self._weight_scales(segment, columns, tile),
            *call(f"acc, step = accumulate{self.how}", arguments),
            f"acc = finish{self.how}(acc, empty, step, steps)",
        ]
        if not self.schedule.alternates:
            return products
        return [
            # A group multiplies when the other has begun its last products.
            f"mbarrier.wait({TURNS}.index(GROUP), (turn & 1) ^ (1 - GROUP))",
            *products[:-1],
            f"mbarrier.arrive({TURNS}.index(1 - GROUP))",
            products[-1],
            "# Skip the steps of the other group.",
            "step += steps",
            "turn += 1",
        ]

    def _weight_scales(self, segment: Segment, columns: ColumnRange, tile: str) -> list[str]:
        """Return the statement for the place of the block scales of columns that share one."""
        op, blocks = self.op, self.op.blocks
        if not isinstance(blocks, BlocksAttr) or op.x_scales is None:
            return []
        places: list[str] = []
        for weight, first in scaled_columns(blocks, segment, columns, tile, self.schedule):
            pointer = self.arguments.operand(segment.scales[weight], "w_scales")
            last = segment.weight_columns(weight) - 1
            block = f"tl.minimum({first}, {last}) // {blocks.columns.data}"
            places.append(f"{pointer} + {block} * {shape_of(op.x_scales)[-1]}")
        if len(places) == 1:
            return [f"b_scales = ({places[0]},)"]
        return call("b_scales = ", places)

    @property
    def _scales(self) -> list[str]:
        """The arguments for block scales."""
        scales = self.op.x_scales
        if scales is None:
            return []
        x_scales = self.arguments.operand(scales, "x_scales")
        blocks = f"BLOCKS={shape_of(scales)[-1]}"
        return [f"a_scales={x_scales}", "b_scales=b_scales", "first_row=first_row", "M=M", blocks]

    # Moving

    def _emit_move(self) -> list[str]:
        bodies = [
            self._numbered(start, emitter.tile_moves.emit(emitter.program_tile))
            for emitter, (_, _, start, _) in zip(
                self.computing, self.numbered_ranges(), strict=True
            )
        ]
        if not any(bodies):
            return []
        has_stores = any(emitter.tile_moves.stores for emitter in self.computing)
        loop = self._tile_loop(
            self.branches(bodies), [self._first_row], alternate=self.schedule.alternates
        )
        return [
            '"""Load tiles that the epilogue needs, and store its results."""',
            f"{MOVED} = 0",
            *loop,
            *(["tma.store_wait(0)"] if has_stores else []),
        ]

    # Functions

    def _function(
        self,
        name: str,
        body: Sequence[str],
        arguments: Sequence[KernelArgument],
        more: Sequence[str],
    ) -> str:
        parameters = [*self._used(body, arguments), *more]
        return "\n".join(["@triton.jit", *definition(name, parameters), *indented(body)])

    def _used(self, body: Sequence[str], arguments: Sequence[KernelArgument]) -> list[str]:
        """Return a function's parameters: shared memory, then the kernel's that it names."""
        used = names_in(body)
        candidates = [*self.memory.names, *(argument.name for argument in arguments)]
        return [name for name in candidates if name in used]

    def _entry(self, bodies: Sequence[Sequence[str]], arguments: Sequence[KernelArgument]) -> str:
        load, compute, move = (self._used(body, arguments) for body in bodies)
        count = self.schedule.groups
        groups: list[list[str]] = [[str(group)] for group in range(count)] if count > 1 else [[]]
        # The first group runs in the warps of the kernel itself.
        others = len(groups) - 1
        movers = groups if bodies[2] else []
        partitions = [
            *((self.compute_name, [*compute, *group]) for group in groups),
            (self.load_name, load),
            *((self.move_name, [*move, *group]) for group in movers),
        ]
        loading = (COPY_WARPS, COPY_REGISTERS) if self.loads.copies else (1, MOVE_REGISTERS)
        warps = [self.schedule.tile_warps] * others + [loading[0]] + [1] * len(movers)
        registers = [COMPUTE_REGISTERS] * others + [loading[1]] + [MOVE_REGISTERS] * len(movers)
        body = [
            *docstring(self.op, self.summary),
            *self.memory.emit(),
            *self.launch.wait(),
            "tl.warp_specialize(",
            "    [",
            *indented([line for partition in partitions for line in _partition(*partition)], 2),
            "    ],",
            f"    {warps},",
            f"    {registers},",
            ")",
        ]
        return "\n".join([*signature(self.name, arguments), *indented(body), ""])


def _tuple(values: Sequence[str]) -> str:
    """Return one value unchanged, or several as a tuple."""
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _partition(function: str, arguments: Sequence[str]) -> list[str]:
    """Return the function that a group of warps runs, and its arguments."""
    line = f"({function}, ({', '.join(arguments)})),"
    if len(line) <= 84:
        return [line]
    names = wrap(", ".join(arguments) + ",", 80, break_long_words=False)
    return ["(", f"    {function},", "    (", *indented(names, 2), "    ),", "),"]
