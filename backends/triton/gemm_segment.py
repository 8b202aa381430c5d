"""The code of one column range of a GEMM kernel: main loop and epilogue."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from coda_ir.backends.triton.dependent_launch import start_next_kernel
from coda_ir.backends.triton.epilogue import RegionEmitter, stored_values
from coda_ir.backends.triton.kernel import indented
from coda_ir.backends.triton.mainloop import ColumnTile, MainLoop
from coda_ir.backends.triton.ports import (
    ColumnIndex,
    load_port,
    partial_extents,
    port_extent,
    spread_extents,
    table_index,
)
from coda_ir.backends.triton.segment_results import IDENTITY, REDUCTIONS, SegmentResults
from coda_ir.backends.triton.split_k import SplitK
from coda_ir.dialects.gemm import Combiner, GroupReduceOp, Port, PortKind, ResultKind

_WITH_NEIGHBOURS = (PortKind.TILE, PortKind.TABLE, PortKind.ROW)
"""Ports whose elements for neighbouring columns are neighbours in memory."""


@dataclass(kw_only=True)
class SegmentEmitter(SegmentResults):
    """Emits the statements of a column range of `segment`, whose tiles are numbered `tile`.

    In scope are `rows`, `row`, `row_mask`, `tile_m`, `BLOCK_M` and what the main loop needs.
    """

    main_loop: MainLoop | None
    """None where the accumulators are there already."""
    split: SplitK | None = None
    """The split of K among several programs; None if one program has all of K."""
    is_dependent: bool = False
    """True if the next kernel may begin when the main loop is done."""
    partials: dict[Port, str] = field(default_factory=dict[Port, str])
    """The names of partials that are loaded already."""

    def emit(self, tile: str) -> list[str]:
        """Emit the statements for program number `tile` (an expression) of this range."""
        subtiles = self.columns.subtiles
        self.tile = self.program_tile = self._tile_number(tile)
        self._set_columns(self.columns.lanes * subtiles, "tile_" if subtiles > 1 else "")
        if self.split is None:
            self._load_partials()
        accumulators = self._emit_main_loop()
        if self.is_dependent:
            self.lines += start_next_kernel()
        if self.split is None:
            self._emit_subtiles_of(accumulators)
        else:
            self._emit_in_last_program(self.split, accumulators)
        return self.lines

    def _emit_in_last_program(self, split: SplitK, accumulators: Sequence[str]) -> None:
        """Emit the epilogue in the program of the tile that has the sums of all programs."""
        columns = [self.columns.lanes * self.columns.subtiles] * len(accumulators)
        before = [*self.lines, *split.publish(accumulators, columns)]
        self.lines = []
        sums = split.sums(columns)
        names = self._accumulator_variables("_tile" if self.columns.subtiles > 1 else "")
        self.lines += [f"{name} = {sum}" for name, sum in zip(names, sums, strict=True)]
        self._emit_subtiles_of(names)
        self.lines = [*before, *indented(self.lines)]

    def _emit_subtiles_of(self, accumulators: list[str]) -> None:
        """Emit the epilogue of the accumulators, subtile by subtile if there are several."""
        if self.columns.subtiles == 1:
            self._emit_tile(accumulators)
            return
        self._load_ports(with_columns=False)
        before, self.lines = self.lines, []
        self._emit_subtile(accumulators)
        self.lines = [*before, *self._loop_over_subtiles()]

    def _loop_over_subtiles(self) -> list[str]:
        """Emit the statements of a subtile, given in `lines`, for each subtile in turn."""
        loop = f"for subtile in tl.static_range({self.columns.subtiles}):"
        return [*self.before_subtiles, loop, *indented(self.lines), *self.after_subtiles]

    def _emit_subtile(self, accumulators: list[str]) -> None:
        """Emit subtile `subtile` of several tiles of the program."""
        subtiles = self.columns.subtiles
        self.tile = self._let("subtile_index", f"{self.tile} * {subtiles} + subtile")
        self._set_columns(self.columns.lanes)
        self._emit_tile(
            [
                self._let(name, f"column_subtile({accumulator}, subtile, {subtiles})")
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
        suffix = "_tile" if self.columns.subtiles > 1 else ""
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
        subtiles.

        Without `combine`, partials are left for later.
        """
        for index, port in enumerate(self.segment.ports):
            is_late = port.kind.combiner is not None and not combine
            if port.kind.has_columns != with_columns or is_late:
                continue
            args = self.segment.port_args(index)
            if self._load_neighbours(args, port):
                continue
            for arg, column in zip(args, self._columns_of(port), strict=False):
                if arg not in self.port_values and (arg.uses or self._is_named(index)):
                    hint = arg.name_hint or port.value.name_hint or port.kind.value
                    self.port_values[arg] = self._load_port(hint, port, column)

    def _load_neighbours(self, args: Sequence[SSAValue], port: Port) -> bool:
        """Load the elements of both columns of each pair together, and return True, where they are
        neighbours in memory. Alone, every other column of 16 bits takes a separate load: those of
        two tables made the kernel of a rotation spill in tiles of 128 x 256.
        """
        is_wanted = len(args) == 2 and all(arg.uses for arg in args)
        if not is_wanted or port.kind not in _WITH_NEIGHBOURS or args[0] in self.port_values:
            return False
        has_columns = port_extent(port, self.lane_columns)[1]
        if not has_columns or self.arguments.computed(port.value) is not None:
            return False
        columns = self._neighbour_columns()
        if columns is None:
            return False
        hint = port.value.name_hint or port.kind.value
        both = self._load_port(hint, port, columns)
        names = [self.names.fresh(arg.name_hint or hint) for arg in args]
        self.lines.append(f"{', '.join(names)} = column_neighbours({both})")
        self.port_values |= dict(zip(args, names, strict=True))
        return True

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
        reduction = REDUCTIONS[combiner]
        return self._let(hint, self._by_row(f"{reduction}({partials}, 1)"))

    def _partials(self, port: Port) -> str:
        """Return the partials of the rows, as an expression."""
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
        return self._let(hint, load_port(port, columns, self.arguments, index=index))

    def _emit_epilogue(self, accumulators: list[str]) -> list[str]:
        """Emit the statements of the region; return the yielded values."""
        segment = self.segment
        if self.columns.subtiles == 1:
            self._load_ports(with_columns=False, combine=False)
        self._load_ports(with_columns=True)
        # What waits for all partials of a row comes last, when all loads are on their way.
        self._load_ports(with_columns=False)
        values = dict(zip(segment.accumulators, accumulators, strict=True)) | self.port_values
        # Where a tile is one group, what it combines to is a vector with an element for each row.
        reductions = [op for op in segment.block.ops if isinstance(op, GroupReduceOp)]
        of_rows = [op.result for op in reductions if self._is_tile(op.group.value.data)]
        extents = [*self._argument_extents(), *((value, (True, False)) for value in of_rows)]
        self.extents = spread_extents(segment.block, extents)
        column = None if self.is_pair else f"{self.accumulator_columns[0].name}[None, :]"
        kinds = [(port.kind, segment.port_args(index)) for index, port in enumerate(segment.ports)]
        # A table with one element is loaded for each column.
        scalars = [x for kind, arguments in kinds if kind == PortKind.SCALAR for x in arguments]
        vectors = [x for kind, arguments in kinds if kind.is_vector for x in arguments]
        vectors += of_rows
        emitter = RegionEmitter(self.names, self._group_reduce, column, scalars, vectors)
        region = emitter.emit(segment.block, values, stored_values(segment))
        self.lines += region.lines
        return list(region.yields)

    def _is_named(self, port: int) -> bool:
        """Return whether a result needs the elements of a port."""
        named = [r.port for r in self.segment.results if r.port.kind.data != ResultKind.ACCUMULATE]
        return any(each.index == IntAttr(port) for each in named)

    def _group_reduce(self, op: GroupReduceOp, value: str) -> str:
        """Emit a reduction over the lanes of each group; padding lanes get the identity."""
        combiner = op.combiner.data
        value = self._of_group(self._whole(op.value, value), combiner)
        if self._is_tile(op.group.value.data):
            return self._combine(combiner, value, 1)
        ordered = self.is_ordered and combiner != Combiner.MAX
        helper = f"group_tree_{combiner.value}" if ordered else f"group_{combiner.value}"
        return f"{helper}({value}, {self._groups(op.group.value.data).lanes})"
