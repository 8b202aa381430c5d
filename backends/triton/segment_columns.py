"""The columns of a tile of a column range, and of its accumulators within the segment."""

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from coda_ir.backends.triton.names import LocalNames
from coda_ir.backends.triton.ports import ColumnIndex, Extent, port_extent
from coda_ir.dialects.gemm import Port, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange


@dataclass(kw_only=True)
class SegmentColumns:
    """Emits the statements for the columns of a tile of `segment`, which is number `tile`."""

    segment: Segment
    columns: ColumnRange
    names: LocalNames

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.tile = ""
        """The number of the tile."""
        self.in_group: str | None = None
        """The mask of the lanes that have a column, where groups are padded."""

    def _set_columns(self, lanes: int, prefix: str = "") -> None:
        self.lane_columns = self._emit_lane_columns(lanes, prefix)
        self.accumulator_columns = self._emit_accumulator_columns(prefix)
        self._neighbours: ColumnIndex | None = None

    @property
    def is_pair(self) -> bool:
        return self.segment.pairing is not None

    def _columns_of(self, port: Port) -> list[ColumnIndex]:
        """Return the columns for which each argument of a port is loaded, if it has columns."""
        return [self.lane_columns] if port.kind.is_half else self.accumulator_columns

    def _neighbour_columns(self) -> ColumnIndex | None:
        """Return the columns of all pairs of a tile where those of a pair are neighbours; None
        where they are not, and where lanes have no column.
        """
        first, width = self.lane_columns.first, self.lane_columns.width
        pairing = self.segment.pairing
        if not first or pairing is None or not pairing.is_adjacent:
            return None
        if self._neighbours is None:
            lanes = self._lane_numbers(2 * width)
            name = self._let("neighbour", f"2 * ({first}) + {lanes}")
            self._neighbours = ColumnIndex(name, self.segment.columns, None)
        return self._neighbours

    def _argument_extents(self) -> list[tuple[SSAValue, Extent]]:
        """Return the extent of each argument of the region."""
        extents: list[tuple[SSAValue, Extent]] = [
            (accumulator, (True, True)) for accumulator in self.segment.accumulators
        ]
        for index, port in enumerate(self.segment.ports):
            arguments = zip(self.segment.port_args(index), self._columns_of(port), strict=False)
            extents += [(argument, port_extent(port, columns)) for argument, columns in arguments]
        return extents

    def _let(self, hint: str, expression: str) -> str:
        name = self.names.fresh(hint)
        self.lines.append(f"{name} = {expression}")
        return name

    def _emit_lane_columns(self, lanes: int, prefix: str) -> ColumnIndex:
        """Emit the column (in pair mode: the pair) of every lane, within the range's weights."""
        columns = self.columns
        hint = prefix + ("pair" if self.is_pair else "column")
        if columns.is_padded:
            return self._emit_padded_columns(hint, lanes)
        name = self._let(hint, f"{self.tile} * {lanes} + {self._lane_numbers(lanes)}")
        if columns.extent % (columns.lanes * columns.subtiles) == 0:
            first = f"{self.tile} * {lanes}"
            return ColumnIndex(name, columns.extent, None, first=first, width=lanes)
        mask = self._let(f"{hint}_mask", f"{name} < {columns.extent}")
        if columns.extent % 2:
            # The remainder by an odd number has no contiguity by which stores are arranged.
            wrapped = self._let(f"valid_{hint}", f"{name} % {columns.extent}")
            return ColumnIndex(wrapped, columns.extent, mask, stored=name)
        # A remainder keeps the contiguity that a minimum would lose.
        self.lines.append(f"{name} = {name} % {columns.extent}")
        return ColumnIndex(name, columns.extent, mask)

    def _lane_numbers(self, lanes: int) -> str:
        return f"tl.arange(0, {lanes})"

    def _emit_padded_columns(self, hint: str, lanes: int) -> ColumnIndex:
        """Emit columns of padded groups: each takes the first of a power of two of lanes."""
        columns = self.columns
        padded, group = columns.padded_group, columns.group
        lane = self._let("lane", self._lane_numbers(lanes))
        first = f"{self.tile} * {lanes // padded}"
        place = self._let("place", f"{lane} % {padded}")
        name = self._let(hint, f"({first} + {lane} // {padded}) * {group} + {place}")
        self.in_group = self._let("in_group", f"{place} < {group}")
        mask = self._let(f"{hint}_mask", f"{self.in_group} & ({name} < {columns.extent})")
        self.lines.append(f"{name} = {name} % {columns.extent}")
        return ColumnIndex(name, columns.extent, mask)

    def _emit_accumulator_columns(self, prefix: str) -> list[ColumnIndex]:
        """Emit the columns of each accumulator, within the segment."""
        lane, n = self.lane_columns, self.segment.columns
        if not self.is_pair:
            if not self.columns.offset:
                return [replace(lane, extent=n)]
            name = self._let(f"{prefix}segment_column", f"{self.columns.offset} + {lane.name}")
            return [ColumnIndex(name, n, lane.mask)]
        group, pair = self.segment.group_size, lane.name
        first, step = pair, 1
        if group is None:
            first = self._let(f"{prefix}first", f"2 * {pair}")
        else:
            step = group // 2
            if group != n:
                place = f"{pair} // {step} * {group} + {pair} % {step}"
                first = self._let(f"{prefix}first", place)
        second = self._let(f"{prefix}second", f"{first} + {step}")
        return [ColumnIndex(first, n, lane.mask), ColumnIndex(second, n, lane.mask)]
