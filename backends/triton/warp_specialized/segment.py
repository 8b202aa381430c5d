"""The epilogue of one column range in Gluon, subtile after subtile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.gemm_segment import SegmentEmitter
from coda_ir.backends.triton.host_values import ROW_COUNT
from coda_ir.backends.triton.kernel import call, definition, indented
from coda_ir.backends.triton.ports import ColumnIndex, partial_extents, rounded
from coda_ir.backends.triton.result_places import place_of_column
from coda_ir.backends.triton.segment_results import IDENTITY
from coda_ir.backends.triton.syntax import names_in, without_unused
from coda_ir.backends.triton.warp_specialized.loads import BoxDescriptors
from coda_ir.backends.triton.warp_specialized.memory import buffers_name, exchanged_name
from coda_ir.backends.triton.warp_specialized.subtile_order import SubtileOrder, subtile_order
from coda_ir.backends.triton.warp_specialized.tile_moves import BoxMove, Protocol, TileMoves
from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.gemm.buffers import (
    TILE_PORTS,
    BufferShape,
    aligned_bytes,
    buffer_bytes,
    buffer_of,
    is_exchanged,
    moves_of,
    stored_buffer,
)
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.tiling import is_heavy
from coda_ir.storage import overwritten, place_of

_OF_A_TILE = ("rows", "row", "tile", "tile_n", "M", "row_group")
"""The names that loads of a subtile may depend on, beside parameters of the kernel."""


MAX_AHEAD = 32
"""Registers of a thread for operands of the next subtile, beside those of a subtile."""


@dataclass(frozen=True)
class Ahead:
    """A device function that loads the ports of a subtile ahead, in an earlier subtile."""

    name: str
    loaded: Sequence[str]
    """The names of the results."""
    body: Sequence[str]
    parameters: Sequence[str]
    """Names of the kernel that it uses."""

    def call(self, subtile: str) -> str:
        return f"{self.name}({', '.join([*self.parameters, subtile, 'LAYOUT'])})"

    def source(self) -> list[str]:
        parameters = [*self.parameters, "subtile: tl.constexpr", "LAYOUT: tl.constexpr"]
        body = [
            '"""Load the operands of a subtile that vary by column."""',
            *self.body,
            f"return ({', '.join(self.loaded)},)",
        ]
        return ["@triton.jit", *definition(self.name, parameters), *indented(body)]


@dataclass
class GroupSegmentEmitter(SegmentEmitter):
    """Emits the epilogue of a group of warps on the accumulators of a tile.

    In scope are `acc`, `tile_m`, `first_row`, `M`, with several groups the constant `GROUP` and,
    where tiles move, what `TileMoves` counts.
    """

    schedule: gemm.ScheduleAttr = field(kw_only=True)
    protocol: Protocol = field(kw_only=True)
    descriptors: BoxDescriptors = field(kw_only=True)
    end: str = field(kw_only=True)
    """The name of the row after the last one that a tile may have."""
    ahead_name: str = field(kw_only=True)
    """The name of the device function that loads ports ahead of their subtile."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows = self.schedule.group_rows
        is_whole = len(self.schedule.pieces) == 1
        self.split_function = "split_columns" if is_whole else "split_pieces"
        """The device function that gives the subtiles of accumulators."""
        moves = moves_of(self.segment, self.columns, self.rows)
        self.order = SubtileOrder(moves.subtiles, moves.subtiles)
        if not is_heavy(self.segment):
            self.order = subtile_order(self.segment, self.columns, moves)
        self.moves = replace(moves, order=self.order.numbers)
        self.tile_moves = TileMoves(self.protocol, self.moves, self.order)
        self.turns: dict[BufferShape, int] = {}
        """The number of results of a subtile so far that rotate through buffers of a shape."""
        self.ahead: Ahead | None = None
        """The loader of the ports of a subtile that vary by column, except tiles."""
        self.loaded_ahead: dict[str, tuple[list[str], str]] = {}
        """The statements that load such a port, and how its elements become float32, by name."""
        self.scattered: dict[int, tuple[str, list[str]]] = {}
        """The rows where results are stored by vectors of this size: name and statement."""
        self.taken: list[str] = []
        """The statements that take these ports, where several subtiles share them."""
        self.lane_columns = ColumnIndex("subtile", self.columns.extent, None)

    def emit_with(self, products: Sequence[str], tile: str) -> list[str]:
        """Emit the statements for tile number `tile`, whose main loop is `products`.

        What the first subtile needs is asked for before the main loop, which hides that.
        """
        self.program_tile = tile if tile.isidentifier() else f"({tile})"
        pieces, whole = self.columns.subtiles * self.segment.accumulator_count, "acc"
        if self.segment.has_neighbours:
            pieces, whole = self.columns.subtiles, "split_neighbours(acc)[0]"
        self.lines += [
            f"LAYOUT: tl.constexpr = {self.split_function}({whole}, {pieces})[0].type.layout",
            f"rows = first_row + tl.arange(0, {self.rows}, tl.SliceLayout(1, LAYOUT))",
            f"row_mask = rows < {self.end}",
            "# Rows past the end repeat the last one, so that loads need no mask.",
            f"row = tl.minimum(rows, {self.end} - 1).to(tl.int64)",
        ]
        # What these ports are loaded with does not depend on the columns of a subtile.
        self.accumulator_columns = [self.lane_columns] * self.segment.accumulator_count
        self._load_partials()
        self._load_ports(with_columns=False, combine=False)
        before, self.lines = self.lines, []
        subtiles = self._emit_subtiles()
        self._load_ports(with_columns=False)
        split, self.lines = self.lines, []
        self._emit_subtile(subtiles)
        loop = self._loop_over_subtiles()
        loop += self.tile_moves.count_loads()
        if self.ahead is not None:
            before.append(f"ahead = {self.ahead.call('0')}")
        before += [line for _, lines in self.scattered.values() for line in lines]
        return [*before, *products, *split, *loop]

    def _emit_subtiles(self) -> list[str]:
        """Return the names of the accumulators' subtiles."""
        names = self._accumulator_names()
        sources = ["acc"]
        if len(names) == 2:
            sources = [self.names.fresh(f"{half}_half") for half in ("first", "second")]
            how = "split_columns(acc, 2)"
            if self.segment.has_neighbours:
                how = "split_neighbours(acc)"
            self.lines.append(f"{', '.join(sources)} = {how}")
        return [
            self._let(
                f"{name}_subtiles", f"{self.split_function}({source}, {self.columns.subtiles})"
            )
            for name, source in zip(names, sources, strict=True)
        ]

    def _load_ports(self, *, with_columns: bool, combine: bool = True) -> None:
        if not with_columns:
            super()._load_ports(with_columns=False, combine=combine)
            return
        before = list(self.lines)
        super()._load_ports(with_columns=True)
        self.lines += self.tile_moves.ask_for_buffers()
        if not self.loaded_ahead:
            return
        loads = [line for lines, _ in self.loaded_ahead.values() for line in lines]
        returned = f"return {', '.join(self.loaded_ahead)}"
        body = without_unused([*before, *loads, returned])[:-1]
        used = names_in(body)
        names = (*_OF_A_TILE, *(argument.name for argument in self.arguments.arguments))
        self.ahead = Ahead(
            self.ahead_name, [*self.loaded_ahead], body, [name for name in names if name in used]
        )
        taken = self._take_ahead(self.ahead)
        if self.order.repeats > 1:
            self.taken = taken
        else:
            self.lines[len(before) : len(before)] = taken

    def _loop_over_subtiles(self) -> list[str]:
        lines = super()._loop_over_subtiles()
        start, end = len(self.before_subtiles), len(lines) - len(self.after_subtiles)
        lines[start:end] = self.order.loops(self.taken, lines[start + 1 : end])
        return lines

    def _take_ahead(self, ahead: Ahead) -> list[str]:
        """Take the ports that were loaded ahead, and request those of the next subtile."""
        taken = [f"{name} = ahead[{index}]" for index, name in enumerate(ahead.loaded)]
        last, place = self.order.period - 1, self.order.place
        further = [f"    ahead = {ahead.call(f'{place} + 1')}"]
        further = [f"if {place} < {last}:", *further] if last else []
        extended = [
            f"{name} = {name}{extension}"
            for name, (_, extension) in self.loaded_ahead.items()
            if extension
        ]
        return [*taken, *further, *extended]

    def _emit_subtile(self, accumulators: Sequence[str]) -> None:
        self.tile = "subtile_index"
        self.lines.append(
            f"subtile_index = {self.program_tile} * {self.columns.subtiles} + subtile"
        )
        self._set_columns(self.columns.lanes)
        self._emit_tile(
            [
                self._let(name, f"{subtiles}[subtile]")
                for name, subtiles in zip(self._accumulator_names(), accumulators, strict=True)
            ]
        )
        if not self.tile_moves.is_written:
            self.lines += self.tile_moves.hand_over()

    # Text

    def _lane_numbers(self, lanes: int) -> str:
        return f"tl.arange(0, {lanes}, tl.SliceLayout(0, LAYOUT))"

    def _full_row_vector(self, value: str) -> str:
        return f"tl.full(({self.rows},), {value}, tl.float32, tl.SliceLayout(1, LAYOUT))"

    def _whole(self, value: SSAValue, text: str) -> str:
        shape = f"({self.rows}, {self.columns.lanes})"
        if isinstance(value.owner, Operation) and value.owner.name == "arith.constant":
            return f"tl.full({shape}, {text}, tl.float32, LAYOUT)"
        if self.extents[value] == (True, True):
            return text
        return f"({text} + tl.zeros({shape}, tl.float32, LAYOUT))"

    def _is_tile(self, columns: int) -> bool:
        return False

    def _element_of_groups(self, columns: int, value: str) -> str:
        return value

    def _group_reduce(self, op: gemm.GroupReduceOp, value: str) -> str:
        return f"tl.convert_layout({super()._group_reduce(op, value)}, LAYOUT)"

    def _partials(self, port: gemm.Port) -> str:
        pointer = self.arguments.operand(port.value, port.kind.value)
        combiner, tiles, width = partial_extents(port)
        # Four threads share a row, and each has two neighbours of it at least.
        extents = f"{self.schedule.tile_warps}, {self.rows}, {tiles}, {max(width, 8)}"
        place = f"{pointer}, first_row, {self.end}"
        return f"group_partials({place}, {extents}, {IDENTITY[combiner]})"

    def _by_row(self, vector: str) -> str:
        return f"tl.convert_layout({vector}, tl.SliceLayout(1, LAYOUT))"

    # Tiles through buffers

    def _first_column(self, columns: ColumnIndex) -> Callable[[str], str]:
        """Return the first of consecutive columns of a subtile, as an expression of its number."""
        is_second = self.is_pair and columns is self.accumulator_columns[1]
        is_of_lanes = columns is self.lane_columns or not self.is_pair

        def first(subtile: str) -> str:
            start = f"{subtile} * {self.columns.lanes}"
            if is_of_lanes:
                return f"{self.columns.offset} + {start}" if self.columns.offset else start
            return self._place_in_group(start, is_second=is_second)

        return first

    def _first_place(self, columns: ColumnIndex, port: gemm.ResultPortAttr) -> Callable[[str], str]:
        """Return where the first of a subtile's columns is stored, in the row of its tensor."""
        first, place = self._first_column(columns), port.place
        if not isinstance(place, PlaceAttr) or self.segment.is_stored_transposed(port):
            return first
        return lambda subtile: place_of_column(place, f"({first(subtile)})")

    def _place_in_group(self, start: str, *, is_second: bool) -> str:
        """Return the column of pair `start`: of its first or second half."""
        group = self.segment.group_size
        assert group is not None, "neighbouring columns are not consecutive in their tensor"
        half = group // 2
        if group != self.segment.columns:
            start = f"{start} // {half} * {group} + {start} % {half}"
        return f"{start} + {half}" if is_second else start

    def _load_port(self, hint: str, port: gemm.Port, columns: ColumnIndex) -> str:
        if port.kind not in TILE_PORTS:
            return self._load_ahead(hint, port, columns)
        is_transposed = port.kind == gemm.PortKind.TILE_T
        element = element_type_of(port.value)
        shape = buffer_of(self.columns, self.rows, element, transposed=is_transposed)
        moves, number = self.tile_moves, len(self.tile_moves.loads)
        buffer = f"port{number}_buffers.index({moves.place_of_loads})"
        descriptor = self._descriptor(port.value, shape, port.kind.value, transposed=is_transposed)
        column = self._first_column(columns)
        moves.loads.append(BoxMove(descriptor, column, buffer, is_transposed, buffer_bytes(shape)))
        if number == 0:
            self.lines.append(moves.wait_for_loads())
        buffer += ".permute((1, 0))" if is_transposed else ""
        extended = "" if isinstance(element, Float32Type) else ".to(tl.float32)"
        return self._let(hint, f"{buffer}.load(LAYOUT){extended}")

    def _load_neighbours(self, args: Sequence[SSAValue], port: gemm.Port) -> bool:
        """Load the columns of a pair one by one: subtiles have a layout in which neither moves."""
        return False

    def _load_ahead(self, hint: str, port: gemm.Port, columns: ColumnIndex) -> str:
        """Load ports that vary by column ahead of subtiles, unconverted: conversions would wait."""
        if not port.kind.has_columns or not self.has_room_ahead:
            return super()._load_port(hint, port, columns)
        before, self.lines = self.lines, []
        name = super()._load_port(hint, port, columns)
        lines, self.lines = self.lines, before
        extension = ".to(tl.float32)" if lines[-1].endswith(".to(tl.float32)") else ""
        lines[-1] = lines[-1].removesuffix(extension)
        self.loaded_ahead[name] = lines, extension
        return name

    @property
    def has_room_ahead(self) -> bool:
        """True if there are registers for the ports of the next subtile."""
        if is_heavy(self.segment):
            return False
        # Four threads share the columns of a subtile.
        taken = sum(
            self.columns.lanes // 4 * element_bytes(element_type_of(port.value)) // 4
            for index, port in enumerate(self.segment.ports)
            if port.kind.has_columns and port.kind not in TILE_PORTS
            for _ in self.segment.port_args(index)
        )
        return self.order.period == 1 or taken <= MAX_AHEAD

    def _descriptor(
        self,
        value: SSAValue,
        buffer: BufferShape,
        default: str,
        *,
        transposed: bool,
        bounded: bool = False,
    ) -> str:
        """Return the descriptor of an operand or a result that moves through buffers."""
        op = self.arguments.op
        # The rows of a transposed x are those that its products sum over.
        is_matrix = transposed or (isinstance(op, gemm.FusedOp) and op.is_transposed)
        rows = prod(shape_of(value)[:-1]) if is_matrix else ROW_COUNT
        place, columns = place_of(value), shape_of(value)[-1]
        if transposed and place is not None:
            return self.descriptors.placed(value, place, buffer[:2], default)
        extents = (rows, columns if place is None else place.pitch(columns))
        if bounded:
            return self.descriptors.bounded(value, extents[1], buffer[:2], default)
        return self.descriptors.matrix(value, extents, buffer[:2], default)

    def _store_tile(
        self, pointer: str, place: str, columns: ColumnIndex, value: str, output: SSAValue
    ) -> None:
        port = self._port_of(output)
        is_transposed = self.segment.is_stored_transposed(port)
        shape, joined = stored_buffer(self.segment, self.columns, self.rows, output, port)
        value = rounded(value, element_type_of(output))
        if is_exchanged(self.segment, output, port):
            self._store_rows(pointer, columns, value, shape, port)
            return
        if joined > 1:
            held = self.names.fresh("held")
            self.lines += self._hold(held, value, self.order.begins_holding(joined))
            value = self._joined(held, self.order.held(joined))
        if is_transposed:
            value = f"tl.permute({value}, (1, 0))"
        existing = overwritten(output)
        stored = output if existing is None else existing
        is_bounded = not is_transposed and self.end != "M"
        descriptor = self._descriptor(
            stored, shape, "tile", transposed=is_transposed, bounded=is_bounded
        )
        buffer = self._buffer_of_store(shape, joined)
        column = self._first_place(columns, port)
        size, place_of_box = buffer_bytes(shape), place_of(output)
        end = self.end if is_bounded else None
        box = BoxMove(descriptor, column, buffer, is_transposed, size, joined, place_of_box, end)
        self.lines += self.tile_moves.write(box, value)
        if self.tile_moves.is_written:
            self.lines += self.tile_moves.hand_over()

    def _store_rows(
        self,
        pointer: str,
        columns: ColumnIndex,
        value: str,
        shape: BufferShape,
        port: gemm.ResultPortAttr,
    ) -> None:
        """Store a subtile of a result whose rows are not aligned, or not those of a box."""
        buffer = (
            f"{exchanged_name(self.protocol.staging, shape)}.index({self.protocol.of_group(1)})"
        )
        first_column, pitch = self._first_column(columns)("subtile_index"), columns.extent
        options: list[str] = []
        if isinstance(port.place, PlaceAttr):
            pitch, rows = port.place.pitch(columns.extent), port.place.rows(columns.extent)
            options = [
                f"PITCH={pitch}",
                f"place={self._first_place(columns, port)('subtile_index')}",
            ]
            if rows is not None:
                offset, run, period = rows
                options = [f"RUN={run}", f"PERIOD={period}", f"OFFSET={offset}"]
        op = self.arguments.op
        vector = aligned_bytes(shape[2], gcd(pitch, columns.extent)) // element_bytes(shape[2])
        if isinstance(op, gemm.FusedOp) and op.scatter is not None:
            ids = self.arguments.operand(op.scatter, "ids")
            options.append(f"scattered={self._scattered_rows(ids, vector)}")
        extents = (self.end, str(columns.extent), str(vector), str(self.schedule.tile_warps))
        arguments = (pointer, buffer, value, "first_row", first_column, *extents, *options)
        self.lines += call("store_rows", arguments)

    def _scattered_rows(self, ids: str, vector: int) -> str:
        """Return the rows where those of a tile are stored, which are loaded before the main loop:
        each subtile would wait for them.
        """
        if vector not in self.scattered:
            extents = (self.rows, self.columns.lanes, vector, self.schedule.tile_warps)
            arguments = (ids, "first_row", self.end, *map(str, extents))
            name = self.names.fresh("scattered")
            self.scattered[vector] = name, call(f"{name} = scattered_rows", arguments)
        return self.scattered[vector][0]

    def _store_groups(self, columns: int, pointer: str, element: str) -> None:
        groups = self._groups(columns)
        count, before = self.columns.lanes // groups.lanes, self.columns.offset // groups.elements
        first = f"subtile_index * {count}" + (f" + {before}" if before else "")
        end = before + self.columns.extent // groups.elements
        per_row = self.segment.columns // columns
        extents = (self.end, str(end), str(per_row), str(count))
        arguments = (pointer, element, "first_row", first, *extents)
        self.lines += call("store_groups", arguments)

    @staticmethod
    def _hold(held: str, value: str, begins: str) -> list[str]:
        """Hold a subtile of a result until all subtiles that are stored together exist."""
        return [
            f"if {begins}:",
            f"    {held} = ({value},)",
            "else:",
            f"    {held} = {held} + ({value},)",
        ]

    def _joined(self, held: str, subtiles: Sequence[str]) -> str:
        if len(subtiles) == 1:
            return f"{held}[{subtiles[0]}]"
        half = len(subtiles) // 2
        first, second = self._joined(held, subtiles[:half]), self._joined(held, subtiles[half:])
        return f"join_columns({first}, {second})"

    def _buffer_of_store(self, shape: BufferShape, joined: int) -> str:
        """Return the buffer of the next result of a subtile, or of this many subtiles."""
        moves = self.tile_moves
        load = self.tile_moves.staging.in_place(self.moves).get(len(moves.stores))
        if load is not None:
            return f"port{load}_buffers.index({moves.place_of_loads})"
        count, before = self.tile_moves.staging.stores[shape], self.turns.get(shape, 0)
        self.turns[shape] = before + 1
        per_subtile = self.tile_moves.staging.shapes_by_turns(self.moves).count(shape)
        box = self.order.box(joined)
        position = f"{per_subtile} * {box}" if per_subtile > 1 else box
        number = f"({position} + {before}) % {count}" if before else f"{position} % {count}"
        buffer = self.protocol.of_group(count, "" if count == 1 else number)
        return f"{buffers_name(self.tile_moves.staging, shape)}.index({buffer})"
