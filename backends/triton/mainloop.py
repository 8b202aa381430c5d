"""The main loop of a GEMM kernel, which computes a tile of accumulators."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar

from xdsl.ir import SSAValue

from coda_ir.backends.triton.argument_list import ArgumentList
from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, joined
from coda_ir.backends.triton.kernel import call
from coda_ir.backends.triton.ports import ColumnIndex
from coda_ir.backends.triton.row_groups import RaggedDepth, RowGroups
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects import gemm
from coda_ir.dialects.coda import BlocksAttr
from coda_ir.dialects.coda.shapes import element_type_of, is_float8, shape_of
from coda_ir.dialects.gemm.tiling import ColumnRange
from coda_ir.dialects.gemm.tma import WeightBox, weight_box

TENSOR_DESCRIPTOR = frozenset({"from triton.tools.tensor_descriptor import TensorDescriptor"})
"""The import that the host code of a launch with descriptors needs."""


@dataclass(frozen=True)
class ColumnTile:
    """The columns of a range that one program computes."""

    segment: gemm.Segment
    columns: ColumnRange
    number: str
    """The expression of the tile's number within the range."""
    accumulators: Sequence[str]
    """Names: one, or two in pair mode."""
    lanes: ColumnIndex
    """Columns (pairs) within the range."""
    accumulator_columns: Sequence[ColumnIndex]
    """The columns of each accumulator within the segment."""

    @property
    def width(self) -> int:
        return self.columns.lanes * self.columns.subtiles

    def weight(self, accumulator: int, weights: Sequence[SSAValue]) -> SSAValue:
        """Return which weight of the segment an accumulator, given by number, is computed from."""
        found = self.columns.weights
        return weights[found[min(accumulator, len(found) - 1)]]

    def weight_columns(self) -> list[str]:
        """Return the column of each lane within the weight of each accumulator."""
        if self.segment.pairing is None:
            return [self.lanes.name]
        if len(self.segment.weights) == 2:
            return [self.lanes.name, self.lanes.name]
        return [column.name for column in self.accumulator_columns]


@dataclass(frozen=True)
class JoinedPairs(ColumnTile):
    """Adjacent columns of pairs as one accumulator, whose elements lie side by side in memory."""

    @property
    def width(self) -> int:
        return 2 * super().width

    def weight_columns(self) -> list[str]:
        return [self.lanes.name]

    @staticmethod
    def fits(tile: ColumnTile) -> bool:
        """Return whether the columns of pairs are consecutive in the rows of the weight."""
        segment = tile.segment
        is_adjacent = segment.pairing is not None and segment.pairing.is_adjacent
        is_plain = len(segment.weights) == 1 and not segment.scales and not tile.columns.is_padded
        return is_adjacent and segment.layout == gemm.Layout.KN and is_plain


@dataclass
class MainLoop(ABC):
    """Emits the loops over K of each input of `op`, by calls of a device function.

    acc = tl.zeros((BLOCK_M, 128), SUM_TYPE)
    (acc,) = multiply(
        (acc,),
        x_rows,
        (w_ptr + column[None, :],),
        0,
        64,
        K=64,
        A_STEP=1,
        B_STEP=128,
        BLOCK_K=BLOCK_K,
    )
    acc = acc.to(tl.float32)
    """

    op: gemm.FusedOp
    schedule: gemm.ScheduleAttr
    arguments: ArgumentList
    groups: RowGroups | None = None
    ragged: RaggedDepth | None = None
    depths: list[str] = field(default_factory=list[str])
    """K of each input: a number, or the name of a parameter."""

    FUNCTION: ClassVar[str]
    """The device function that has the loop over K."""
    HAS_DOT: ClassVar[bool] = True
    """True if it multiplies with `dot`, which has to know of float8."""
    IMPORTS: ClassVar[frozenset[str]] = frozenset()
    """Import statements that the host code of a launch needs."""

    def __post_init__(self) -> None:
        self.depths = [self._depth(index) for index in range(len(self.op.inputs))]

    def _depth(self, index: int) -> str:
        """Return the flattened rows of a transposed input, which are known at launch."""
        if not self.op.is_transposed:
            return str(self.op.depth(index) // self.op.summed_rows)
        if not index:
            return "K"
        rows = self.arguments.flattened_rows(self.op.inputs[index])
        return self.arguments.add("K", "i32", rows)

    def prologue(self) -> list[str]:
        """Return the statements before all column ranges."""
        return []

    @property
    def waits(self) -> bool:
        """True if the loop itself waits for earlier kernels, after its first loads."""
        return False

    def emit(self, tile: ColumnTile) -> list[str]:
        """Emit the statements that assign the accumulators of a tile."""
        names = list(tile.accumulators)
        # Where the order of the steps is stated, so is what each of them is rounded to.
        sum = "tl.float32" if self.op.order is not None else "SUM_TYPE"
        lines = [f"{name} = tl.zeros((BLOCK_M, {tile.width}), {sum})" for name in names]
        for term, weights in enumerate(tile.segment.terms):
            of_tile = [tile.weight(index, weights) for index in range(len(names))]
            before, bounds = self._bounds(term)
            operands = self.operands(term, tile, of_tile)
            extents = (*self.extents(term, tile), *self._accumulation(), *self._scales(tile))
            arguments = (tuple_text(names), *operands, *bounds, *extents)
            target = ", ".join(names) if len(names) > 1 else tuple_text(names)
            lines += [*before, *call(f"{target} = {self.FUNCTION}", arguments)]
            lines += self._last_step(target, [tuple_text(names), *operands], extents)
        if sum == "SUM_TYPE":
            lines += [f"{name} = {name}.to(tl.float32)" for name in names]
        return lines

    def _scales(self, tile: ColumnTile) -> list[str]:
        """Return the arguments for the places of the block scales of each row and column."""
        op, blocks = self.op, self.op.blocks
        if not isinstance(blocks, BlocksAttr) or op.x_scales is None:
            return []
        count = shape_of(op.x_scales)[-1]
        columns = zip(range(len(tile.accumulators)), tile.weight_columns(), strict=True)
        places = [
            f"{self.arguments.operand(tile.weight(index, tile.segment.scales), 'w_scales')} + "
            f"({column} // {blocks.columns.data})[None, :] * {count}"
            for index, column in columns
        ]
        x_scales = self.arguments.operand(op.x_scales, "x_scales")
        return [
            f"a_scales={x_scales} + row[:, None] * {count}",
            f"b_scales={tuple_text(places)}",
            f"SCALED={blocks.depth.data}",
        ]

    def _accumulation(self) -> list[str]:
        """Return the arguments for float8, which may be summed with few bits, and for parts."""
        if self.schedule.multiplies_parts:
            return ["IN_PARTS=True"]
        operands = (self.op.x, *self.op.weights) if self.HAS_DOT else ()
        if not any(is_float8(element_type_of(operand)) for operand in operands):
            return []
        is_fast = gemm.numerics_mode(self.op) == gemm.NumericsMode.FAST
        return ["HAS_FLOAT8=True", *(["IS_FAST=True"] if is_fast else [])]

    def _bounds(self, term: int) -> tuple[list[str], tuple[str, str]]:
        """Return the bounds of an input's loop over K, after the statements that compute them."""
        depth = self.depths[term]
        if self.ragged is not None:
            return self._bounds_of_group()
        if self.schedule.split_k.data > 1:
            split = f"first, last = depths_of_split({depth}, split, SPLIT_K, BLOCK_K)"
            return [split], ("first", "last")
        if self.op.is_transposed:
            depth = f"bound({depth})"
        return [], ("0", depth)

    def _bounds_of_group(self) -> tuple[list[str], tuple[str, str]]:
        return [], ("bound(first_row)", "bound(end_row)")

    def _last_step(self, target: str, operands: Sequence[str], extents: Sequence[str]) -> list[str]:
        """Return the statements of a separate last step after the loop."""
        return []

    @property
    def stages_of_ids(self) -> int:
        """The additional stages of the loop that load row ids before the rows."""
        ids = self.op.gather or self.op.gather_weights
        return int(self.ragged is not None and ids is not None)

    @property
    def registers(self) -> int | None:
        """The most registers of a thread; None leaves them to ptxas."""
        return None

    @abstractmethod
    def operands(self, term: int, tile: ColumnTile, weights: Sequence[SSAValue]) -> list[str]:
        """Return where the rows of an input are, and a weight's columns for each accumulator."""

    @abstractmethod
    def extents(self, term: int, tile: ColumnTile) -> list[str]:
        """Return the last arguments of the device function: storage of operands, and the tile."""


FEW_ROWS = 16
"""Rows of a tile that may lie past the end for the most part."""


@dataclass
class PointerMainLoop(MainLoop):
    """Loads through pointers: portable, for every layout and alignment."""

    FUNCTION = "multiply"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows = [
            self.arguments.names.fresh(f"{x.name_hint or 'x'}_rows") for x in self.op.inputs
        ]

    def prologue(self) -> list[str]:
        lines: list[str] = []
        row = "row" if self.ragged is None else "x_row"
        if self.op.gather is not None and self.ragged is None:
            row = "gathered"
            if prod(shape_of(self.op.x)[:-1]) == 1:
                lines.append("gathered = row * 0  # the only row")
            else:
                ids = self.arguments.operand(self.op.gather, "ids")
                lines.append(f"gathered = tl.load({ids} + row).to(tl.int64)")
        elif (repeated := self.op.numbers_of_row // self.op.summed_rows) > 1:
            lines.append(f"repeated = row // {repeated}")
            row = "repeated"
        for name, x in zip(self.rows, self.op.inputs, strict=True):
            stride = "" if self.op.is_transposed else f" * {self.arguments.pitch(x)}"
            lines.append(f"{name} = {self.arguments.operand(x, 'x')} + {row}[:, None]{stride}")
        return lines

    def emit(self, tile: ColumnTile) -> list[str]:
        """Load pairs of adjacent columns together: the loop copies only 4 bytes or more ahead."""
        op = self.op
        is_plain = op.order is None and op.blocks is None and not op.is_transposed
        if not is_plain or not JoinedPairs.fits(tile):
            return super().emit(tile)
        fresh = self.arguments.names.fresh
        lanes, accumulator, count = fresh("columns"), fresh("acc_pairs"), tile.width
        columns = f"{tile.number} * {2 * count} + tl.arange(0, {2 * count})"
        if tile.lanes.mask is not None:
            # Lanes past the last pair repeat others; a remainder keeps loads wide.
            columns = f"({columns}) % {2 * tile.columns.extent}"
        index = replace(tile.lanes, name=lanes)
        joined = JoinedPairs(tile.segment, tile.columns, tile.number, [accumulator], index, [])
        pairs = f"tl.reshape({accumulator}, (BLOCK_M, {count}, 2))"
        return [
            f"{lanes} = {columns}",
            *super().emit(joined),
            f"{', '.join(tile.accumulators)} = tl.split({pairs})",
        ]

    def operands(self, term: int, tile: ColumnTile, weights: Sequence[SSAValue]) -> list[str]:
        columns = zip(weights, tile.weight_columns(), strict=True)
        places = [
            f"{self._weight(weight)} + {column}[None, :]{self._column_step(weight, tile.segment)}"
            for weight, column in columns
        ]
        return [self.rows[term], tuple_text(places)]

    def _column_step(self, weight: SSAValue, segment: gemm.Segment) -> str:
        """Return the factor by which columns of a weight are apart, unless they are adjacent."""
        if segment.layout == gemm.Layout.KN:
            return ""
        pitch = self.arguments.pitch(weight)
        assert isinstance(pitch, int), "rows of a matrix"
        return f"{'.to(tl.int64)' if segment.columns * pitch >= 2**31 else ''} * {pitch}"

    def _weight(self, weight: SSAValue) -> str:
        """Return where a weight begins: for grouped rows, the weight of their group."""
        pointer = self.arguments.operand(weight, "w")
        if self.groups is None or self.op.summed_rows > 1:
            return pointer
        return f"{pointer} + row_group.to(tl.int64) * {prod(shape_of(weight)[1:])}"

    def extents(self, term: int, tile: ColumnTile) -> list[str]:
        """Return K, and the distances of neighbours in a row of x and in a weight's column."""
        segment, is_transposed, pitch = tile.segment, self.op.is_transposed, self.arguments.pitch
        of_x = pitch(self.op.inputs[term]) if is_transposed else 1
        weight = tile.weight(0, segment.terms[term])
        of_weight = pitch(weight) if segment.layout == gemm.Layout.KN else 1
        depth = self.depths[term] if self.ragged is None else "end_row"
        extents = {"K": depth, "A_STEP": of_x, "B_STEP": of_weight}
        known = ["IS_KNOWN=False", *self._gathered_depths()] if is_transposed else self._rows()
        return [*(f"{name}={x}" for name, x in extents.items()), "BLOCK_K=BLOCK_K", *known]

    def _rows(self) -> list[str]:
        """Return the argument for the rows to load. All programs repeat the same row of x past the
        end of few rows, and wait for one another: on an H100, of 1, 8 and 16 rows times 4096 x 4096
        it takes 20.9, 16.4 and 15.0 us, without it 14.7, 14.8 and 14.9.
        """
        is_short = self.schedule.block_m.data <= FEW_ROWS and self.FUNCTION == "multiply"
        return ["a_inside=row_mask[:, None]"] if is_short else []

    def _gathered_depths(self) -> list[str]:
        """Return the arguments for the rows that are summed over, of x and of the weights."""
        ids = {"a_ids": self.op.gather, "b_ids": self.op.gather_weights}
        return [
            f"{name}={self.arguments.operand(value, 'ids')}"
            for name, value in ids.items()
            if value is not None
        ]


@dataclass
class TmaMainLoop(MainLoop):
    """Loads boxes through Hopper's TMA, with descriptors that the host makes at each launch.

    The weights are taken as they are: columns that pair up are boxes of a view (see `tma.py`).
    TMA gives zeros past the end of K.
    """

    FUNCTION = "tma_multiply"
    IMPORTS = TENSOR_DESCRIPTOR

    def _bounds_of_group(self) -> tuple[list[str], tuple[str, str]]:
        """Return the bounds of the loop. It has whole steps: the box of the last one also contains
        rows of the next group.
        """
        whole = "whole = first_row + (end_row - first_row) // BLOCK_K * BLOCK_K"
        return [whole], ("bound(first_row)", "bound(whole)")

    def _last_step(self, target: str, operands: Sequence[str], extents: Sequence[str]) -> list[str]:
        if self.ragged is None:
            return []
        arguments = [*operands, "whole", "end_row", *extents]
        return call(f"{target} = tma_multiply_last", arguments)

    def operands(self, term: int, tile: ColumnTile, weights: Sequence[SSAValue]) -> list[str]:
        box = usable_box(tile.segment, tile.columns)
        has_rows = tile.segment.layout == gemm.Layout.NK
        outer, *inner = box.view
        count = 1 if self.groups is None else self.groups.count
        # The weights of groups are one below the other: more columns, or rows of a K x N weight.
        view, depth = (outer * count if has_rows else outer, *inner), self._rows(term)
        depth = depth * count if isinstance(depth, int) and not has_rows else depth
        a = self._input(term)
        descriptors = [
            self._descriptor(weight, depth, view, box.block, "w", is_last=has_rows)
            for weight in weights
        ]
        starts = corners(tile, box)
        if self.groups is not None and has_rows:
            starts = [f"(row_group * {outer} + {corner[1:]}" for corner in starts]
        return [*a, tuple_text(descriptors), tuple_text(starts)]

    def _input(self, term: int) -> list[str]:
        x, bm = self.op.inputs[term], self.schedule.block_m.data
        rows = shape_of(x)[-1] if self.op.is_transposed else ROW_COUNT
        is_last = not self.op.is_transposed
        first = "tile_m * BLOCK_M" if self.groups is None else "first_row"
        return [
            self._descriptor(x, self._rows(term), (rows,), (bm,), "a", is_last=is_last),
            first if self.ragged is None else "first_of_tile",
        ]

    def extents(self, term: int, tile: ColumnTile) -> list[str]:
        """Return which dimension of x and of the weights is K, the last one or the first."""
        a_is_last, b_is_last = not self.op.is_transposed, tile.segment.layout == gemm.Layout.NK
        last = [f"A_K_IS_LAST={a_is_last}", f"B_K_IS_LAST={b_is_last}"]
        is_below = self.groups is not None and not b_is_last
        first = [f"b_first=row_group * {self.depths[term]}"] if is_below else []
        return [*last, "BLOCK_M=BLOCK_M", f"BLOCK_N={tile.width}", "BLOCK_K=BLOCK_K", *first]

    def _descriptor(
        self,
        value: SSAValue,
        depth: HostValue | int,
        view: Sequence[HostValue | int],
        box: Sequence[int],
        default: str,
        *,
        is_last: bool,
    ) -> str:
        """Return the parameter of a descriptor of `value` as `view`, with K last or first."""
        bk = self.schedule.block_k.data
        extents, boxes = ((*view, depth), (*box, bk)) if is_last else ((depth, *view), (bk, *box))
        pitch, inner = self.arguments.pitch(value), [n for n in view[1:] if isinstance(n, int)]
        assert isinstance(pitch, int), "rows of a matrix"
        steps = [prod(inner[axis:]) for axis in range(len(view))]
        strides = [*(pitch * step for step in steps), 1] if is_last else [pitch, *steps]
        is_never_empty = not self.op.is_transposed
        return self.arguments.descriptor(
            value, extents, boxes, default, strides=strides, is_never_empty=is_never_empty
        )

    def _rows(self, term: int) -> HostValue | int:
        """Return the host's K, at least 1, if it is known only at launch."""
        if not self.op.is_transposed:
            return self.op.depth(term)
        rows = self.arguments.flattened_rows(self.op.inputs[term]) if term else ROW_COUNT
        return joined(rows, " or 1")


def tuple_text(elements: Iterable[str]) -> str:
    """Return a tuple of expressions as text."""
    *others, last = elements
    return f"({', '.join([*others, last])})" if others else f"({last},)"


def corners(tile: ColumnTile, box: WeightBox) -> list[str]:
    """Return for each accumulator where its box starts in the first dimensions of the view."""
    segment, group = tile.segment, tile.segment.group_size
    if segment.pairing is None:
        return [f"({tile.number} * {tile.width},)"]
    if len(box.view) == 2:
        outer, second = f"{tile.number} * {box.block[0]}", 1 if group is None else group // 2
        return [f"({outer}, 0)", f"({outer}, {second})"]
    first = f"{tile.number} * {tile.width}"
    if len(segment.weights) == 2:
        return [f"({first},)", f"({first},)"]
    assert group is not None
    half = group // 2
    if group != segment.columns:
        first = f"{first} // {half} * {group} + {first} % {half}"
    return [f"({first},)", f"({first} + {half},)"]


def usable_box(segment: gemm.Segment, columns: ColumnRange) -> WeightBox:
    """Return the box of a range's weights. Raises CodaError if there is none."""
    box = weight_box(segment, columns)
    if isinstance(box, str):
        raise LoweringError(
            f"gemm.fused: the tma main loop cannot load its weights: {box}",
            "schedule it with the pointer main loop",
        )
    return box
