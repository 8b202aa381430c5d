"""The loading warps: the boxes of each column range, step after step.

One warp loads boxes through TMA. Where rows are no box, two warps load, and copy these, 16 bytes by
each thread at a time; what they copy arrives at the barrier of a stage as boxes do:

    mbarrier.expect(full.index(stage), STAGE_BYTES)
    tma_load(w_desc, [row_group * 1536 + tile_n * 256, k], full.index(stage), b_stages.index(stage))
    copy_rows(a_stages.index(stage), x_ptr, gathered, is_row, k, 2048)
    async_copy.mbarrier_arrive(full.index(stage), increment_count=False)

Rows are gathered, or they are the last ones of a group that is summed over, of which a box would
have rows of the next group as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList
from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, joined
from coda_ir.backends.triton.kernel import call, indented
from coda_ir.backends.triton.warp_specialized.gluon import Box, Layouts
from coda_ir.backends.triton.warp_specialized.row_tiles import RowTiles
from coda_ir.backends.triton.warp_specialized.tile_moves import BOUND
from coda_ir.dialects.coda import BlocksAttr
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr, Segment, is_power_of_two
from coda_ir.dialects.gemm.buffers import STEP_BYTES, stage_bytes
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.tiling import ColumnRange
from coda_ir.dialects.gemm.warp_specialized import columns_scaled_together

COPY_WARPS = 2
"""That load where rows are copied; with the warp that moves tiles they are at most a group of four,
which have their registers together."""

MAX_ROWS_BEFORE = 0x7FFF0000
"""The extent of dimensions that say where a box ends."""


@dataclass(frozen=True)
class WeightRows:
    """Consecutive columns of a weight, and their place in a stage, or in separate stages."""

    weight: int
    """Index of the weight in its term."""
    first: str
    """The first column: an expression of `tile`."""
    count: int
    place: int
    """The first column of the stage."""
    start: int = 0
    """With a stride of 2: which column of a pair."""
    stride: int = 1
    stages: str = "b_stages"


def weight_rows(
    segment: Segment, columns: ColumnRange, tile: str, schedule: ScheduleAttr
) -> list[WeightRows]:
    """Return the weight columns of the accumulators of tile `tile`, side by side in a stage."""
    count = columns.lanes * columns.subtiles
    first, group = f"{tile} * {count}", segment.group_size
    weights = columns.weights
    if segment.pairing is None:
        whole = WeightRows(weights[0], first, count, 0)
        return [whole] if is_power_of_two(count) else _pieces(whole, schedule)
    if segment.has_neighbours:
        return [WeightRows(weights[0], f"{tile} * {2 * count}", 2 * count, 0)]
    if segment.pairing.is_adjacent:
        return [WeightRows(weights[0], first, count, half * count, half, 2) for half in range(2)]
    if len(segment.weights) == 2:
        return [WeightRows(weights[half], first, count, half * count) for half in range(2)]
    assert group is not None
    # A box that goes past the halves of the whole weight fills lanes without columns.
    step = count if group == segment.columns else min(count, group // 2)
    return [
        WeightRows(
            weights[0],
            _place_in_group(first, piece, group, half, segment.columns),
            step,
            half * count + piece,
        )
        for half in range(2)
        for piece in range(0, count, step)
    ]


def scaled_columns(
    blocks: BlocksAttr, segment: Segment, columns: ColumnRange, tile: str, schedule: ScheduleAttr
) -> list[tuple[int, str]]:
    """Return the weight and the first column of each part of a tile that has one scale."""
    count = schedule.block_n.data
    found: list[tuple[int, str]] = []
    for place in range(0, count, columns_scaled_together(blocks, segment, columns, count)):
        rows = next(
            rows
            for rows in weight_rows(segment, columns, tile, schedule)
            if rows.place <= place < rows.place + rows.count
        )
        offset = f" + {place - rows.place}" if place > rows.place else ""
        found.append((rows.weight, f"{rows.first}{offset}"))
    return found


def _pieces(whole: WeightRows, schedule: ScheduleAttr) -> list[WeightRows]:
    """Return the columns of a tile in pieces that are multiplied together."""
    wide, narrow = schedule.pieces
    return [
        replace(whole, count=wide),
        replace(whole, first=f"{whole.first} + {wide}", count=narrow, stages="c_stages"),
    ]


def _place_in_group(first: str, piece: int, group: int, half: int, columns: int) -> str:
    """Return the column of pair `first + piece`: of its first or second half."""
    pair = f"({first} + {piece})" if piece else f"({first})"
    offset = f" + {half * group // 2}" if half else ""
    if group == columns:
        return f"{pair}{offset}"
    return f"{pair} // {group // 2} * {group} + {pair} % {group // 2}{offset}"


@dataclass
class BoxDescriptors:
    """The TMA descriptors of a kernel, which are parameters."""

    arguments: ArgumentList
    layouts: Layouts = field(default_factory=Layouts)

    def matrix(
        self,
        value: SSAValue,
        extents: tuple[HostValue | int, int],
        box: Box,
        default: str,
    ) -> str:
        """Return the descriptor of an operand or result: rows x columns."""
        return self._add(value, extents, box, default, strides=self._strides(value))

    def placed(self, value: SSAValue, place: PlaceAttr, box: Box, default: str) -> str:
        """Return the descriptor of a result whose rows are stored in those of another tensor."""
        offset, columns, period = place.numbers
        extents, view = (prod(shape_of(value)[:-1]), columns), f".view(-1)[{offset}:]"
        return self._add(value, extents, box, default, view=view, strides=(period, 1))

    def bounded(self, value: SSAValue, columns: int, box: Box, default: str) -> str:
        """Return the descriptor of boxes of a result that end before a row which the kernel names.

        TMA stores nothing past an extent. That of rows is BOUND, and the row before which a box
        ends has this number (`BoxMove.corner`). The second dimension adds where that row is, and
        the first takes BOUND rows back: 2**30 steps of 2**34 elements are 0 in addresses of 64
        bits. `create_ragged_descriptor` of Triton does the same.
        """
        extents = (MAX_ROWS_BEFORE, MAX_ROWS_BEFORE, BOUND, columns)
        pitch, _ = self._strides(value) or (columns, 1)
        strides = (2**34 - pitch, pitch, pitch, 1)
        return self._add(value, extents, (1, 1, *box), default, strides=strides)

    def rows_of(self, value: SSAValue, rows: HostValue, box: Box, default: str) -> str:
        """Return the descriptor of an operand with summed rows; of another one without rows."""
        extents, strides = (joined(rows, " or 1"), shape_of(value)[-1]), self._strides(value)
        return self._add(value, extents, box, default, strides=strides, is_never_empty=False)

    def every_other(self, weight: SSAValue, start: int, box: Box) -> str:
        """Return the descriptor of rows `start`, `start + 2`, ... of an N x K weight."""
        n, k = shape_of(weight)
        pitch, _ = self._strides(weight) or (k, 1)
        view, strides = f"[{start}:]", (2 * pitch, 1)
        return self._add(weight, (n // 2, k), box, "w", view=view, strides=strides)

    def _strides(self, value: SSAValue) -> tuple[int, ...]:
        """Return the strides of an operand or a result; none if it is dense."""
        pitch = self.arguments.pitches.get(value)
        assert pitch is None or isinstance(pitch, int), "a descriptor has one pitch"
        return () if pitch is None else (pitch, 1)

    def _add(
        self,
        value: SSAValue,
        extents: Sequence[HostValue | int],
        box: Box,
        default: str,
        *,
        strides: Sequence[int] = (),
        view: str = "",
        is_never_empty: bool = True,
    ) -> str:
        return self.arguments.descriptor(
            value,
            extents,
            box,
            default,
            strides=strides,
            view=view,
            is_never_empty=is_never_empty,
            layout=self.layouts.of(element_type_of(value), box),
        )


@dataclass(frozen=True)
class Depths:
    """K of each input of `op`, as kernel text: a number, or a parameter."""

    op: FusedOp
    arguments: ArgumentList

    def __getitem__(self, term: int) -> str:
        if not self.op.is_transposed:
            return str(self.op.depth(term))
        return self.arguments.add("K", "i32", self.rows(term)) if term else "K"

    def rows(self, term: int) -> HostValue:
        """Return the host's flattened rows of a transposed input."""
        return self.arguments.flattened_rows(self.op.inputs[term]) if term else ROW_COUNT

    def steps(self, block_k: int) -> str:
        """The steps over all inputs, as an expression of the kernel."""
        if self.op.is_transposed:
            counts = [f"tl.cdiv({self[term]}, {block_k})" for term in range(len(self.op.inputs))]
            return " + ".join(counts)
        return str(sum(-(-self.op.depth(term) // block_k) for term in range(len(self.op.inputs))))


@dataclass(frozen=True)
class LoadEmitter:
    """Emits the loops that load the stages of a column range."""

    op: FusedOp
    schedule: ScheduleAttr
    descriptors: BoxDescriptors
    depths: Depths
    row_tiles: RowTiles

    @property
    def copies(self) -> bool:
        """True if warps copy rows, so that stages are not filled by TMA alone."""
        return self.op.gather is not None or self.op.has_ragged_depth

    @property
    def box_bytes(self) -> int:
        """The bytes of a stage that TMA loads."""
        bm, bn, _ = self.schedule.tile
        gathered = (bm, self.op.gather), (bn, self.op.gather_weights)
        copied = sum(rows for rows, ids in gathered if ids is not None)
        return stage_bytes(self.schedule) - STEP_BYTES * copied

    def before_ranges(self) -> list[str]:
        """Return the statements for a tile that all ranges of columns share."""
        if not self.copies:
            return []
        if self.op.has_ragged_depth:
            return [f"first_row = {self.row_tiles.first_of_group}"]
        bm, end = self.schedule.block_m.data, self.row_tiles.end
        return [
            f"first_row = {self.row_tiles.first}",
            f"is_row = row_numbers(first_row, {bm}) < {end}",
            f"gathered = row_ids({self._ids}, first_row, {end}, {bm})",
        ]

    @property
    def _ids(self) -> str:
        """The parameter that points to the numbers of the gathered rows."""
        ids = self.op.gather if self.op.gather_weights is None else self.op.gather_weights
        return "None" if ids is None else self.descriptors.arguments.operand(ids, "ids")

    def emit(self, segment: Segment, columns: ColumnRange, tile: str) -> list[str]:
        """Emit the statements for tile number `tile` (a name) of the range, one loop per term."""
        if self.op.has_ragged_depth:
            return self._emit_ragged(segment, columns, tile)
        lines: list[str] = []
        for term, weights in enumerate(segment.terms):
            copied = self._copy_gathered() if self.op.gather is not None else []
            body = [*self._load_input(term)] if not copied else []
            for rows in weight_rows(segment, columns, tile, self.schedule):
                body += self._load_weight(segment, weights[rows.weight], rows, term)
            lines += self._loop("0", self.depths[term], [_EXPECT, *body, *copied])
        return lines

    def _loop(self, first: str, last: str, body: Sequence[str]) -> list[str]:
        """Return the loop that fills the stages of all steps, each when it is free."""
        loop = f"for k in range({first}, {last}, {self.schedule.block_k.data}):"
        return [loop, *indented([*_FREE_STAGE, *body, "step += 1"])]

    # Boxes

    def _load_input(self, term: int) -> list[str]:
        bm, _, bk = self.schedule.tile
        x, place = self.op.inputs[term], "a_stages.index(stage)"
        if self.op.is_transposed:
            a = self.descriptors.rows_of(x, self.depths.rows(term), (bk, bm), "a")
            first = "first_row" if self.op.has_ragged_depth else f"tile_m * {bm}"
            return _load(a, f"[k, {first}]", place)
        a = self.descriptors.matrix(x, (ROW_COUNT, shape_of(x)[-1]), (bm, bk), "a")
        return _load(a, f"[{self.row_tiles.first}, k]", place)

    def _load_weight(
        self, segment: Segment, weight: SSAValue, rows: WeightRows, term: int
    ) -> list[str]:
        bk, place = self.schedule.block_k.data, f"{rows.stages}.index(stage)"
        if self.op.is_transposed:
            name = self.descriptors.rows_of(weight, self.depths.rows(term), (bk, rows.count), "w")
            return _load(name, f"[k, {rows.first}]", place)
        # The weights of groups are one below the other.
        first, second = shape_of(weight)[-2:]
        count = 1 if self.row_tiles.groups is None else self.row_tiles.groups.count
        before = "" if self.row_tiles.groups is None else f"row_group * {first} + "
        if segment.layout == Layout.KN:
            name = self.descriptors.matrix(weight, (count * first, second), (bk, rows.count), "w")
            return _load(name, f"[{before}k, {rows.first}]", place)
        if rows.stride == 1:
            name = self.descriptors.matrix(weight, (count * first, second), (rows.count, bk), "w")
        else:
            before = before and f"row_group * {first // 2} + "
            name = self.descriptors.every_other(weight, rows.start, (rows.count, bk))
        if rows.count not in self.schedule.pieces:
            place += f".slice({rows.place}, {rows.count})"
        return _load(name, f"[{before}{rows.first}, k]", place)

    # Copies

    def _copy_gathered(self) -> list[str]:
        """Emit the copy of gathered rows of x."""
        x = self.op.x
        copy = self._copy("a_stages", x, "gathered", "is_row", "k", shape_of(x)[-1])
        return [*copy, _ARRIVE]

    def _emit_ragged(self, segment: Segment, columns: ColumnRange, tile: str) -> list[str]:
        """Emit the loop over the rows of a group: boxes, except for gathered rows and those of an
        incomplete last step.
        """
        (weights,), bk = segment.terms, self.schedule.block_k.data
        operands = [(self.op.x, "a_stages", "first_row", self.op.gather, self._load_input(0))]
        for rows in weight_rows(segment, columns, tile, self.schedule):
            weight = weights[rows.weight]
            load = self._load_weight(segment, weight, rows, 0)
            operands.append((weight, rows.stages, rows.first, self.op.gather_weights, load))
        if self._ids == "None":
            return self._loop("first_k", "end_k", self._ragged_step(operands, ""))
        # Two steps in turn: the numbers of rows for one are on their way during the other one, in
        # separate registers, because moving them would wait.
        names = ("gathered", "gathered_next")
        ids = [
            f"{name} = row_ids({self._ids}, {first}, end_k, {bk})"
            for name, first in zip(names, ("first_k", f"first_k + {bk}"), strict=True)
        ]
        first, second = (
            [*_FREE_STAGE, *self._ragged_step(operands, name), "step += 1"] for name in names
        )
        loop = ["k = pair", *first, f"k = pair + {bk}", "if k < end_k:", *indented(second)]
        return [*ids, f"for pair in range(first_k, end_k, {2 * bk}):", *indented(loop)]

    def _ragged_step(
        self, operands: Sequence[tuple[SSAValue, str, str, SSAValue | None, list[str]]], ids: str
    ) -> list[str]:
        """Return the statements that load step `k`: of operands, each with its stages, its first
        column, whether its rows are gathered, by numbers named `ids`, and the load of a box.
        """
        bk = self.schedule.block_k.data
        box: list[str] = []
        gathered: list[str] = []
        last: list[str] = []
        for value, stages, first, is_gathered, load in operands:
            row, width = ids if is_gathered else "own", shape_of(value)[-1]
            copy = self._copy(stages, value, row, "is_inside", first, width)
            if is_gathered:
                gathered += copy
            else:
                box, last = [*box, *load], [*last, *copy]
        further = [f"{ids} = row_ids({self._ids}, k + {2 * bk}, end_k, {bk})"] if ids else []
        return [
            f"own = row_numbers(k, {bk})",
            "is_inside = own < end_k",
            *(
                [
                    f"if k + {bk} <= end_k:",
                    *indented([_EXPECT, *box]),
                    "else:",
                    *indented(["mbarrier.arrive(full.index(stage))", *last]),
                ]
                if box
                else ["mbarrier.arrive(full.index(stage))"]
            ),
            *gathered,
            _ARRIVE,
            *further,
        ]

    def _copy(
        self, stages: str, value: SSAValue, row: str, mask: str, column: str, width: int
    ) -> list[str]:
        pointer = self.descriptors.arguments.operand(value, "x" if value is self.op.x else "w")
        arguments = (f"{stages}.index(stage)", pointer, row, mask, column, str(width))
        return call("copy_rows", arguments)


_FREE_STAGE = (
    "stage = step % STAGES",
    "mbarrier.wait(empty.index(stage), ((step // STAGES) & 1) ^ 1)",
)
_EXPECT = "mbarrier.expect(full.index(stage), STAGE_BYTES)"
_ARRIVE = "async_copy.mbarrier_arrive(full.index(stage), increment_count=False)"


def _load(descriptor: str, corner: str, place: str) -> list[str]:
    arguments = (descriptor, corner, "full.index(stage)", place)
    return call("tma_load", arguments)
