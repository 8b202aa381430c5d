"""The code of one column range of a GEMM kernel: main loop, epilogue, stores."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList
from coda_ir.backends.triton.dependent_launch import start_next_kernel
from coda_ir.backends.triton.epilogue import RegionEmitter, stored_values
from coda_ir.backends.triton.kernel import indented
from coda_ir.backends.triton.mainloop import ColumnTile, MainLoop
from coda_ir.backends.triton.ports import (
    ROWS,
    ColumnIndex,
    load_port,
    mask_of,
    partial_extents,
    rounded,
    spread_extents,
    table_index,
    transposed_place,
)
from coda_ir.backends.triton.result_places import (
    Groups,
    in_copies,
    in_first_tile,
    in_run,
    is_in_range,
    owner_of_column,
    place_of_column,
    place_of_row,
)
from coda_ir.backends.triton.segment_columns import SegmentColumns
from coda_ir.backends.triton.split_k import SplitK
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import (
    Combiner,
    CombinerAttr,
    GroupReduceOp,
    Port,
    ResultKind,
    ResultPortAttr,
    is_wide_partial,
)
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.tiling import stores_rows
from coda_ir.storage import place_of

IDENTITY = {Combiner.ADD: "0.0", Combiner.MAX: 'float("-inf")', Combiner.LSE: 'float("-inf")'}
_REDUCTIONS = {Combiner.ADD: "tl.sum", Combiner.MAX: "reduce_max", Combiner.LSE: "reduce_lse"}
_TREES = {Combiner.ADD: "tree_sum", Combiner.MAX: "reduce_max", Combiner.LSE: "tree_lse"}


@dataclass(kw_only=True)
class SegmentEmitter(SegmentColumns):
    """Emits the statements of a column range of `segment`, whose tiles are numbered `tile`.

    In scope are `rows`, `row`, `row_mask`, `tile_m`, `BLOCK_M` and what the main loop needs.
    """

    first_partial: int
    """Partials over columns before those of the range."""
    segment_partials: int
    arguments: ArgumentList
    main_loop: MainLoop | None
    """None where the accumulators are there already."""
    is_ordered: bool = False
    """True if sums have a stated order, which `tl.sum` has not."""
    split: SplitK | None = None
    """How several programs share K; None where one has all of it."""
    stored_row: str = "row"
    """The rows in which tiles are stored."""
    is_dependent: bool = False
    """True if the next kernel may begin when the main loop is done."""
    partials: dict[Port, str] = field(default_factory=dict[Port, str])
    """The names of partials that are loaded already."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program_tile = ""
        """The number of the program's columns; `tile` is that of a part."""
        self.before_parts: list[str] = []
        self.after_parts: list[str] = []
        """What is combined over parts: its start, and what becomes of it."""
        self.port_values: dict[SSAValue, str] = {}
        """The names of the loaded ports, by region argument."""

    def emit(self, tile: str) -> list[str]:
        """Emit the statements for program number `tile` (an expression) of this range."""
        parts = self.columns.parts
        self.tile = self.program_tile = self._tile_number(tile)
        self._set_columns(self.columns.lanes * parts, "tile_" if parts > 1 else "")
        if self.split is None:
            self._load_partials()
        accumulators = self._emit_main_loop()
        if self.is_dependent:
            self.lines += start_next_kernel(self.helpers)
        if self.split is None:
            self._emit_parts_of(accumulators)
        else:
            self._emit_in_last_program(self.split, accumulators)
        return self.lines

    def _emit_in_last_program(self, split: SplitK, accumulators: Sequence[str]) -> None:
        """Emit the epilogue in the program of the tile that has the sums of all programs."""
        before = [*self.lines, *split.publish(accumulators, self.helpers)]
        self.lines = []
        columns = self.columns.lanes * self.columns.parts
        sums = split.sums(len(accumulators), columns, self.helpers)
        names = self._accumulator_variables("_tile" if self.columns.parts > 1 else "")
        self.lines += [f"{name} = {sum}" for name, sum in zip(names, sums, strict=True)]
        self._emit_parts_of(names)
        self.lines = [*before, *indented(self.lines)]

    def _emit_parts_of(self, accumulators: list[str]) -> None:
        """Emit the epilogue of the accumulators, part by part if there are several."""
        if self.columns.parts == 1:
            self._emit_tile(accumulators)
            return
        self._load_ports(with_columns=False)
        before, self.lines = self.lines, []
        self._emit_part(accumulators)
        self.lines = [*before, *self._loop_over_parts()]

    def _loop_over_parts(self) -> list[str]:
        """Emit the statements of a part, given in `lines`, for each part in turn."""
        loop = f"for part in tl.static_range({self.columns.parts}):"
        return [*self.before_parts, loop, *indented(self.lines), *self.after_parts]

    def _emit_part(self, accumulators: list[str]) -> None:
        """Emit part `part` of several tiles of the program."""
        parts = self.columns.parts
        self.helpers.add("column_part")
        self.tile = self._let("part_tile", f"{self.tile} * {parts} + part")
        self._set_columns(self.columns.lanes)
        self._emit_tile(
            [
                self._let(name, f"column_part({accumulator}, part, {parts})")
                for name, accumulator in zip(self._accumulator_names(), accumulators, strict=True)
            ]
        )

    def _accumulator_names(self) -> list[str]:
        """Return the name hints of the accumulators, made unique."""
        hints = [acc.name_hint or "acc" for acc in self.segment.accumulators]
        if len(hints) == 2 and hints[0] == hints[1]:
            return [f"{hints[0]}_first", f"{hints[1]}_second"]
        return hints

    def _accumulator_variables(self, suffix: str) -> list[str]:
        return [self.names.fresh(name + suffix) for name in self._accumulator_names()]

    def _emit_tile(self, accumulators: list[str]) -> None:
        """Emit the epilogue and the stores of one tile."""
        yields = self._emit_epilogue(accumulators)
        start = 0
        for index, result in enumerate(self.segment.results):
            count = self.segment.result_arity(result.port)
            self._emit_result(index, yields[start : start + count])
            start += count

    def _tile_number(self, tile: str) -> str:
        return tile if tile.isidentifier() else self._let("tile", tile)

    # Main loop and epilogue

    def _emit_main_loop(self) -> list[str]:
        suffix = "_tile" if self.columns.parts > 1 else ""
        names = self._accumulator_variables(suffix if self.split is None else "_split")
        assert self.main_loop is not None
        self.lines += self.main_loop.emit(
            ColumnTile(
                segment=self.segment,
                columns=self.columns,
                number=self.tile,
                accumulators=names,
                lanes=self.lane_columns,
                accumulator_columns=self.accumulator_columns,
            )
        )
        return names

    def _load_ports(self, *, with_columns: bool, combine: bool = True) -> None:
        """Load the ports that vary by column, or those that do not, which are loaded once for all
        parts.

        Without `combine`, partials are left for later.
        """
        for index, port in enumerate(self.segment.ports):
            is_late = port.kind.combiner is not None and not combine
            if port.kind.has_columns != with_columns or is_late:
                continue
            args = self.segment.port_args(index)
            for arg, column in zip(args, self._columns_of(port), strict=False):
                if arg not in self.port_values and (arg.uses or self._is_named(index)):
                    hint = arg.name_hint or port.value.name_hint or port.kind.value
                    self.port_values[arg] = self._load_port(hint, port, column)

    def _load_partials(self) -> None:
        """Load the partials of ports before the main loop, which hides their latency."""
        for kind, value in dict.fromkeys(self.segment.ports):
            if kind.combiner is not None:
                name = self.names.fresh(f"{value.name_hint or 'row'}_tiles")
                self.lines.append(f"{name} = {self._partials(Port(kind, value))}")
                self.partials[Port(kind, value)] = name

    def _combine_partials(self, hint: str, port: Port, combiner: Combiner) -> str:
        """Return the name of a port's combined partials, one value per row."""
        partials = self.partials.get(port) or self._let(f"{hint}_tiles", self._partials(port))
        reduction = _REDUCTIONS[combiner]
        if reduction != "tl.sum":
            self.helpers.add(reduction)
        return self._let(hint, self._by_row(f"{reduction}({partials}, 1)"))

    def _partials(self, port: Port) -> str:
        """Return the partials of the rows, as an expression."""
        self.helpers.add("row_partials")
        pointer = self.arguments.operand(port.value, port.kind.value)
        combiner, tiles, width = partial_extents(port)
        return f"row_partials({pointer}, row, {tiles}, {width}, {IDENTITY[combiner]})"

    def _by_row(self, vector: str) -> str:
        """Return a vector with one element per row that was reduced from partials."""
        return vector

    def _load_port(self, hint: str, port: Port, columns: ColumnIndex) -> str:
        if port.kind.combiner is not None:
            return self._combine_partials(hint, port, port.kind.combiner)
        place = table_index(port, columns, self.arguments)
        index = None if place is None else self._let(f"{hint}_index", place)
        return self._let(hint, load_port(port, columns, self.arguments, self.helpers, index=index))

    def _emit_epilogue(self, accumulators: list[str]) -> list[str]:
        """Emit the statements of the region; return the yielded values."""
        segment = self.segment
        if self.columns.parts == 1:
            self._load_ports(with_columns=False, combine=False)
        self._load_ports(with_columns=True)
        # What waits for all partials of a row comes last, when all loads are on their way.
        self._load_ports(with_columns=False)
        values = dict(zip(segment.accumulators, accumulators, strict=True)) | self.port_values
        # Where a tile is one group, what it combines to is a vector with an element for each row.
        reductions = [op for op in segment.block.ops if isinstance(op, GroupReduceOp)]
        of_rows = [op.result for op in reductions if self._is_tile(op.group.data)]
        extents = [*self._argument_extents(), *((value, (True, False)) for value in of_rows)]
        self.extents = spread_extents(segment.block, extents)
        column = None if self.is_pair else f"{self.accumulator_columns[0].name}[None, :]"
        scalars = [value for value, extent in extents if extent == (False, False)]
        ports = [index for index, port in enumerate(segment.ports) if port.kind.combiner]
        vectors = [argument for index in ports for argument in segment.port_args(index)]
        vectors += of_rows
        emitter = RegionEmitter(
            self.names, self._group_reduce, column, self.helpers, scalars, vectors
        )
        region = emitter.emit(segment.block, values, stored_values(segment))
        self.lines += region.lines
        return list(region.yields)

    def _is_named(self, port: int) -> bool:
        """Return whether a result needs the elements of a port."""
        named = [r.port for r in self.segment.results if r.port.kind.data != ResultKind.ACCUMULATE]
        return any(each.index == IntAttr(port) for each in named)

    def _groups(self, columns: int) -> Groups:
        return Groups(self.columns, columns // 2 if self.is_pair else columns)

    def _is_tile(self, columns: int) -> bool:
        """Return whether a group of columns has all lanes of a tile."""
        return self._groups(columns).lanes == self.columns.lanes

    def _group_reduce(self, op: GroupReduceOp, value: str) -> str:
        """Emit a reduction over the lanes of each group; padding lanes get the identity."""
        combiner = op.combiner.data
        value = self._of_group(self._whole(op.value, value), combiner)
        if self._is_tile(op.group.data):
            return self._combine(combiner, value, 1)
        ordered = self.is_ordered and combiner != Combiner.MAX
        helper = f"group_tree_{combiner.value}" if ordered else f"group_{combiner.value}"
        self.helpers.add(helper)
        return f"{helper}({value}, {self._groups(op.group.data).lanes})"

    def _of_group(self, value: str, combiner: Combiner) -> str:
        """Return `value` with the padding lanes of each group masked out."""
        if self.in_group is None:
            return value
        return f"tl.where({self.in_group}[None, :], {value}, {IDENTITY[combiner]})"

    def _whole(self, value: SSAValue, text: str) -> str:
        """Return `text` as a value of every row and lane of the tile."""
        if isinstance(value.owner, Operation) and value.owner.name == "arith.constant":
            return f"tl.full((BLOCK_M, {self.columns.lanes}), {text}, tl.float32)"
        if self.extents[value] == (True, True):
            return text
        return f"tl.broadcast_to({text}, (BLOCK_M, {self.columns.lanes}))"

    # Stores

    def _emit_result(self, index: int, yields: list[str]) -> None:
        output, port = self.segment.outputs[index], self.segment.results[index].port
        pointer = self._output_pointer(output, port)
        values = [
            self._whole(value, text)
            for value, text in zip(self.segment.yielded(index), yields, strict=True)
        ]
        match port.kind.data:
            case ResultKind.TILE | ResultKind.TILE_T | ResultKind.ACCUMULATE:
                for columns, value in zip(self.accumulator_columns, values, strict=True):
                    place = self._place(columns, port)
                    self._store_tile(pointer, place, columns, value, output)
            case ResultKind.HALF:
                place = self._place(self.lane_columns, port)
                self._store_tile(pointer, place, self.lane_columns, values[0], output)
            case ResultKind.PARTIAL_ROW:
                self._store_partial_row(index, pointer, values[0])
            case ResultKind.PARTIAL_COL:
                for columns, value in zip(self.accumulator_columns, values, strict=True):
                    self._store_partial_col(index, pointer, columns, value)
            case ResultKind.SELECT:
                self._store_select(index, pointer, values[0])
            case ResultKind.GROUP if stores_rows(self.segment, index):
                if not self.columns.offset:
                    address, mask = in_first_tile(pointer, self.tile)
                    self._store(
                        address, rounded(yields[0], element_type_of(output), self.helpers), mask
                    )
            case ResultKind.GROUP:
                (result,), columns = self.segment.yielded(index), port.group_columns
                is_of_tile = self._is_tile(columns) and self.extents[result] == (True, False)
                element = yields[0] if is_of_tile else self._element_of_groups(columns, values[0])
                self._store_groups(columns, pointer, element)

    def _output_pointer(self, output: SSAValue, port: ResultPortAttr) -> str:
        """Return the parameter that points to a result, or to the operand that it overwrites."""
        kind = port.kind.data
        if kind == ResultKind.ACCUMULATE and isinstance(port.index, IntAttr):
            return self.arguments.operand(self.segment.ports[port.index.data].value, kind.value)
        return self.arguments.output(output, kind.value)

    def _store(self, address: str, value: str, mask: str) -> None:
        line = f"tl.store({address}, {value}, mask={mask})"
        if len(line) <= 88:
            self.lines.append(line)
            return
        self.lines += ["tl.store(", f"    {address},", f"    {value},", f"    mask={mask},", ")"]

    def _place(self, columns: ColumnIndex, port: ResultPortAttr) -> str:
        """Return where the elements of a tile are in their tensor."""
        if self.segment.is_stored_transposed(port):
            return transposed_place(columns)
        pitch, row, column = columns.extent, self.stored_row, columns.of_stores
        if isinstance(port.place, PlaceAttr):
            pitch = port.place.pitch(columns.extent)
            if (rows := port.place.rows(columns.extent)) is None:
                column = self._let("place", place_of_column(port.place, column, pitch))
            else:
                row = self._let("place", place_of_row(rows, row))
        return f"{row}[:, None] * {pitch} + {column}[None, :]"

    def _store_tile(
        self, pointer: str, place: str, columns: ColumnIndex, value: str, output: SSAValue
    ) -> None:
        value = rounded(value, element_type_of(output), self.helpers)
        address, stated, mask = f"{pointer} + {place}", place_of(output), mask_of(columns)
        port = self._port_of(output)
        if stated is not None and port.is_moved:
            address, mask = in_run(stated, self._run(port, stated.runs), address, mask)
        if stated is None or stated.copies.data == 1:
            self._store(address, value, mask)
            return
        value, before = self._let("stored", value), self.lines
        self.lines = []
        self._store(f"{address} + copy * {stated.period.data}", value, mask_of(columns))
        self.lines = [*before, *in_copies(stated, self.lines)]

    def _run(self, port: ResultPortAttr, count: int) -> str:
        """Return the name of the number of the run, one of `count`, in which a result is stored."""
        assert isinstance(port.index, IntAttr)
        (argument,) = self.segment.port_args(port.index.data)
        self.helpers |= {"run_number", "checked_index"}
        return self._let("run", f"run_number({self.port_values[argument]}, {count})")

    def _port_of(self, output: SSAValue) -> ResultPortAttr:
        return self.segment.results[list(self.segment.outputs).index(output)].port

    def _reduce(self, index: int, value: str, axis: int, mask: str | None) -> str:
        combiner, is_wide = self._combiner(index), is_wide_partial(self.segment.outputs[index])
        if mask is not None:
            value = f"tl.where({mask}, {value}, {IDENTITY[combiner]})"
        return self._combine(combiner, value, axis, is_wide=is_wide)

    def _combine(self, combiner: Combiner, value: str, axis: int, *, is_wide: bool = False) -> str:
        """Return the combined elements of `value` along an axis, as an expression."""
        reduction = (_TREES if self.is_ordered else _REDUCTIONS)[combiner]
        if is_wide:
            reduction = f"wide_{reduction.removeprefix('reduce_')}"
        if reduction == "tl.sum" and axis == 0:
            self.helpers.add("sum_rows")
            return f"sum_rows({value})"
        if reduction != "tl.sum":
            self.helpers.add(reduction)
        return f"{reduction}({value}, {axis})"

    def _combiner(self, index: int) -> Combiner:
        """Return the combiner of the elements of a partial."""
        combiner = self.segment.results[index].port.combiner
        assert isinstance(combiner, CombinerAttr)
        return combiner.data

    def _store_partial_row(self, index: int, pointer: str, value: str) -> None:
        element_mask = self.lane_columns.mask and f"{self.lane_columns.mask}[None, :]"
        columns, mask = self.columns, "row_mask"
        tile = self.tile if columns.keeps_parts else self.program_tile
        if columns.keeps_parts and columns.tiles % columns.parts:
            mask += f" & ({tile} < {columns.tiles})"
        place = f"{self.first_partial} + {tile}" if self.first_partial else tile
        address = f"{pointer} + row * {self.segment_partials} + {place}"
        if columns.keeps_parts or columns.parts == 1:
            self._store(address, self._reduce(index, value, 1, element_mask), mask)
            return
        if is_wide_partial(self.segment.outputs[index]):
            total = self._combine_exponentials(value, element_mask)
        else:
            total = self._combine_parts(index, self._reduce(index, value, 1, element_mask))
        self.after_parts.append(f"tl.store({address}, {total}, mask={mask})")

    def _element_of_groups(self, columns: int, value: str) -> str:
        """Return the element of each group of columns, on all of which `value` is the same."""
        self.helpers |= {"group_element", "reduce_max"}
        value = self._of_group(value, Combiner.MAX)
        return f"group_element({value}, {self._groups(columns).lanes})"

    def _store_groups(self, columns: int, pointer: str, element: str) -> None:
        groups, per_row = self._groups(columns), self.segment.columns // columns
        number = self._let("group", groups.numbers(self.tile))
        address = groups.place(number, per_row)
        self._store(f"{pointer} + {address}", element, groups.mask(number))

    def _combine_parts(self, index: int, vector: str) -> str:
        """Return the name of the combination of one vector per part, with an element per row."""
        combiner = self._combiner(index)
        total = self.names.fresh(f"{combiner.value}_of_parts")
        self.before_parts.append(f"{total} = {self._full_row_vector(IDENTITY[combiner])}")
        if combiner == Combiner.ADD:
            self.lines.append(f"{total} += {vector}")
        else:
            helper = {Combiner.MAX: "maximum", Combiner.LSE: "lse_of_two"}[combiner]
            self.helpers.add(helper)
            self.lines.append(f"{total} = {helper}({total}, {vector})")
        return total

    def _combine_exponentials(self, value: str, mask: str | None) -> str:
        """Return the logsumexp of all parts in float64, which requires their maximum and sum."""
        if mask is not None:
            value = f"tl.where({mask}, {value}, {IDENTITY[Combiner.LSE]})"
        largest, total = self.names.fresh("largest"), self.names.fresh("exp_sum")
        for name, combiner in ((largest, Combiner.LSE), (total, Combiner.ADD)):
            self.before_parts.append(f"{name} = {self._full_row_vector(IDENTITY[combiner])}")
        self.helpers |= {"with_exponentials", "wide_logarithm"}
        self.lines.append(f"{largest}, {total} = with_exponentials({largest}, {total}, {value})")
        return f"wide_logarithm({largest}, {total})"

    def _store_partial_col(
        self, index: int, pointer: str, columns: ColumnIndex, value: str
    ) -> None:
        if self.segment.results[index].samples:
            self._store_sample_sums(index, pointer, columns, value)
            return
        combined = self._reduce(index, value, 0, "row_mask[:, None]")
        address = f"{pointer} + tile_m.to(tl.int64) * {columns.extent} + {columns.name}"
        if columns.mask is None:
            self.lines.append(f"tl.store({address}, {combined})")
        else:
            self._store(address, combined, columns.mask)

    def _store_sample_sums(
        self, index: int, pointer: str, columns: ColumnIndex, value: str
    ) -> None:
        """Store the sums over the rows of each sample; a tile may have rows of several.

        Raises CodaError where the order of the rows is stated, which the tiles would change.
        """
        if self.is_ordered:
            raise CodaError(
                "the rows of a sample are added up tile by tile, which is not a stated order",
                "use coda.sum_to in the mode deterministic",
            )
        length = self.arguments.sample_rows(self.segment.results[index].samples)
        tiles = self.arguments.sample_tiles(self.segment.outputs[index])
        self.helpers.add("store_sample_sums")
        places = f"{pointer} + {columns.name}"
        extents = f"M, {length}, {tiles}, {columns.extent}"
        call = f"{places}, {columns.mask}, {value}, {ROWS.numbers}, tile_m, {extents}"
        self.lines.append(f"store_sample_sums({call})")

    def _full_row_vector(self, value: str) -> str:
        """Return a vector with the same value for each row."""
        return f"tl.full((BLOCK_M,), {value}, tl.float32)"

    def _row_vector(self, column: str) -> str:
        """Return a port with one element per row without its second dimension."""
        return f"tl.reshape({column}, (BLOCK_M,))"

    def _store_select(self, index: int, pointer: str, value: str) -> None:
        """Store a selected column by the tile that owns it; tile 0 stores 0 for rows without a
        column.
        """
        port_index = self.segment.results[index].port.index
        assert isinstance(port_index, IntAttr)
        index_port = self.port_values[self.segment.port_args(port_index.data)[0]]
        columns, n = self.columns, self.segment.columns
        wanted = self._let("wanted", self._row_vector(index_port))
        inside = self._let("inside", is_in_range(columns, wanted))
        owner = self._let("owner", owner_of_column(columns, n, wanted, inside))
        target = self._let("target", f"tl.where({inside}, {wanted}, -1).to(tl.int32)")
        hit = f"{self.accumulator_columns[0].name}[None, :] == {target}[:, None]"
        if self.lane_columns.mask is not None:
            hit = f"({hit}) & {self.lane_columns.mask}[None, :]"
        is_target = self._let("is_target", hit)
        selected = f"tl.sum(tl.where({is_target}, {value}, 0.0), 1)"
        self._store(f"{pointer} + row", selected, f"row_mask & ({owner} == {self.tile})")
