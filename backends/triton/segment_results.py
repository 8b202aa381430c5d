"""The results of a column range of a kernel: the combination of elements, and their stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList
from coda_ir.backends.triton.ports import (
    ROWS,
    ColumnIndex,
    Extent,
    mask_of,
    rounded,
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
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import (
    Combiner,
    CombinerAttr,
    ResultKind,
    ResultPortAttr,
    is_wide_partial,
)
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.tiling import stores_rows
from coda_ir.storage import place_of

IDENTITY = {Combiner.ADD: "0.0", Combiner.MAX: 'float("-inf")', Combiner.LSE: 'float("-inf")'}
REDUCTIONS = {Combiner.ADD: "tl.sum", Combiner.MAX: "reduce_max", Combiner.LSE: "reduce_lse"}
_TREES = {Combiner.ADD: "tree_sum", Combiner.MAX: "reduce_max", Combiner.LSE: "tree_lse"}


@dataclass(kw_only=True)
class SegmentResults(SegmentColumns):
    """Emits the statements that store what the region of `segment` yields for a tile."""

    first_partial: int
    """Partials over columns before those of the range."""
    segment_partials: int
    arguments: ArgumentList
    is_ordered: bool = False
    """True if sums have a stated order, which `tl.sum` has not."""
    stored_row: str = "row"
    """The rows in which tiles are stored."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program_tile = ""
        """The number of the program's columns; `tile` is that of a subtile."""
        self.before_subtiles: list[str] = []
        self.after_subtiles: list[str] = []
        """The lines before and after the loop over subtiles, for what is combined over them."""
        self.port_values: dict[SSAValue, str] = {}
        """The names of the loaded ports, by region argument."""
        self.extents: Mapping[SSAValue, Extent] = {}
        """For each value of the region, whether it varies by row, and by column."""

    def _groups(self, columns: int) -> Groups:
        return Groups(self.columns, columns // 2 if self.is_pair else columns)

    def _is_tile(self, columns: int) -> bool:
        """Return whether a group of columns has all lanes of a tile."""
        return self._groups(columns).lanes == self.columns.lanes

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

    def _emit_result(self, index: int, yields: list[str]) -> None:
        output, port = self.segment.outputs[index], self.segment.results[index].port
        pointer = self._output_pointer(output, port)
        values = [
            self._whole(value, text)
            for value, text in zip(self.segment.yielded(index), yields, strict=True)
        ]
        match port.kind.data:
            case ResultKind.TILE | ResultKind.TILE_T | ResultKind.ACCUMULATE:
                for columns, value in self._stored(values, port):
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
                    self._store(address, rounded(yields[0], element_type_of(output)), mask)
            case ResultKind.GROUP:
                (result,), columns = self.segment.yielded(index), port.group_columns
                is_of_tile = self._is_tile(columns) and self.extents[result] == (True, False)
                element = yields[0] if is_of_tile else self._element_of_groups(columns, values[0])
                self._store_groups(columns, pointer, element)

    def _stored(
        self, values: Sequence[str], port: ResultPortAttr
    ) -> Sequence[tuple[ColumnIndex, str]]:
        """Return what is stored of each accumulator, by its columns.

        Neighbours are stored together: alone, every other column of 16 bits took a store of its
        own, and 4096 x 2560 of them 150 us on an H100.
        """
        is_transposed = self.segment.is_stored_transposed(port)
        neighbours = None if is_transposed else self._neighbour_columns()
        if neighbours is None:
            return list(zip(self.accumulator_columns, values, strict=True))
        value = self._let("neighbours", f"tl.interleave({', '.join(values)})")
        return [(neighbours, value)]

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
            if isinstance(port.place, PlaceAttr):
                return transposed_place(columns, port.place.period.data, port.place.offset.data)
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
        value = rounded(value, element_type_of(output))
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
        reduction = (_TREES if self.is_ordered else REDUCTIONS)[combiner]
        if is_wide:
            reduction = f"wide_{reduction.removeprefix('reduce_')}"
        if reduction == "tl.sum" and axis == 0:
            return f"sum_rows({value})"
        return f"{reduction}({value}, {axis})"

    def _combiner(self, index: int) -> Combiner:
        """Return the combiner of the elements of a partial."""
        combiner = self.segment.results[index].port.combiner
        assert isinstance(combiner, CombinerAttr)
        return combiner.data

    def _store_partial_row(self, index: int, pointer: str, value: str) -> None:
        element_mask = self.lane_columns.mask and f"{self.lane_columns.mask}[None, :]"
        columns, mask = self.columns, "row_mask"
        tile = self.tile if columns.keeps_subtiles else self.program_tile
        if columns.keeps_subtiles and columns.tiles % columns.subtiles:
            mask += f" & ({tile} < {columns.tiles})"
        place = f"{self.first_partial} + {tile}" if self.first_partial else tile
        address = f"{pointer} + row * {self.segment_partials} + {place}"
        if columns.keeps_subtiles or columns.subtiles == 1:
            self._store(address, self._reduce(index, value, 1, element_mask), mask)
            return
        if is_wide_partial(self.segment.outputs[index]):
            total = self._combine_exponentials(value, element_mask)
        else:
            total = self._combine_subtiles(index, self._reduce(index, value, 1, element_mask))
        self.after_subtiles.append(f"tl.store({address}, {total}, mask={mask})")

    def _element_of_groups(self, columns: int, value: str) -> str:
        """Return the element of each group of columns, on all of which `value` is the same."""
        value = self._of_group(value, Combiner.MAX)
        return f"group_element({value}, {self._groups(columns).lanes})"

    def _store_groups(self, columns: int, pointer: str, element: str) -> None:
        groups, per_row = self._groups(columns), self.segment.columns // columns
        number = self._let("group", groups.numbers(self.tile))
        address = groups.place(number, per_row)
        self._store(f"{pointer} + {address}", element, groups.mask(number))

    def _combine_subtiles(self, index: int, vector: str) -> str:
        """Return the name of the combination of one vector per subtile, with an element per row."""
        combiner = self._combiner(index)
        total = self.names.fresh(f"{combiner.value}_of_subtiles")
        self.before_subtiles.append(f"{total} = {self._full_row_vector(IDENTITY[combiner])}")
        if combiner == Combiner.ADD:
            self.lines.append(f"{total} += {vector}")
        else:
            helper = {Combiner.MAX: "maximum", Combiner.LSE: "lse_of_two"}[combiner]
            self.lines.append(f"{total} = {helper}({total}, {vector})")
        return total

    def _combine_exponentials(self, value: str, mask: str | None) -> str:
        """Return the logsumexp of all subtiles in float64, which requires their maximum and sum."""
        if mask is not None:
            value = f"tl.where({mask}, {value}, {IDENTITY[Combiner.LSE]})"
        largest, total = self.names.fresh("largest"), self.names.fresh("exp_sum")
        for name, combiner in ((largest, Combiner.LSE), (total, Combiner.ADD)):
            self.before_subtiles.append(f"{name} = {self._full_row_vector(IDENTITY[combiner])}")
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
            raise LoweringError(
                "the rows of a sample are added up tile by tile, which is not a stated order",
                "use coda.sum_to in the mode deterministic",
            )
        length = self.arguments.sample_rows(self.segment.results[index].samples)
        tiles = self.arguments.sample_tiles(self.segment.outputs[index])
        places = f"{pointer} + {columns.name}"
        extents = f"M, {length}, {tiles}, {columns.extent}"
        call = f"{places}, {columns.mask}, {value}, {ROWS.numbers}, tile_m, {extents}"
        self.lines.append(f"store_sample_sums({call})")

    def _full_row_vector(self, value: str) -> str:
        """Return a vector with the same value for each row."""
        return f"tl.full((BLOCK_M,), {value}, tl.float32)"

    def _store_select(self, index: int, pointer: str, value: str) -> None:
        """Store a selected column by its tile; tile 0 stores 0 for rows without a column."""
        port_index = self.segment.results[index].port.index
        assert isinstance(port_index, IntAttr)
        wanted = self.port_values[self.segment.port_args(port_index.data)[0]]
        columns, n = self.columns, self.segment.columns
        inside = self._let("inside", is_in_range(columns, wanted))
        owner = self._let("owner", owner_of_column(columns, n, wanted, inside))
        target = self._let("target", f"tl.where({inside}, {wanted}, -1).to(tl.int32)")
        hit = f"{self.accumulator_columns[0].name}[None, :] == {target}[:, None]"
        if self.lane_columns.mask is not None:
            hit = f"({hit}) & {self.lane_columns.mask}[None, :]"
        is_target = self._let("is_target", hit)
        selected = f"tl.sum(tl.where({is_target}, {value}, 0.0), 1)"
        self._store(f"{pointer} + row", selected, f"row_mask & ({owner} == {self.tile})")
