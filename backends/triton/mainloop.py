"""The main loop of a GEMM kernel: how a tile of accumulators is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.kernel import triton_type
from coda_ir.backends.triton.ports import ArgumentList, ColumnIndex
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, ScheduleAttr, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange
from coda_ir.dialects.gemm.tma import WeightBox, weight_box

TENSOR_DESCRIPTOR = frozenset({"from triton.tools.tensor_descriptor import TensorDescriptor"})
"""What the host code of a launch with descriptors imports."""


@dataclass(frozen=True)
class ColumnTile:
    """The columns of a range that a program computes."""

    segment: Segment
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
        return self.columns.lanes * self.columns.parts

    def weight(self, accumulator: int, weights: Sequence[SSAValue]) -> SSAValue:
        """Which of the weights of the segment an accumulator, by its number, is computed from."""
        found = self.columns.weights
        return weights[found[min(accumulator, len(found) - 1)]]

    def weight_columns(self) -> list[str]:
        """The column of each lane within the weight of each accumulator."""
        if self.segment.pairing is None:
            return [self.lanes.name]
        if len(self.segment.weights) == 2:
            return [self.lanes.name, self.lanes.name]
        return [column.name for column in self.accumulator_columns]


class MainLoop(Protocol):
    """Writes the statements that compute the accumulators of one column range."""

    @property
    def imports(self) -> frozenset[str]:
        """Import statements that the host code of a launch needs."""
        ...

    def prologue(self) -> list[str]:
        """Statements before all column ranges."""
        ...

    def emit(self, tile: ColumnTile) -> list[str]:
        """Statements that assign the accumulators of a tile."""
        ...


def sum_type(op: Operation) -> str:
    """What a sum over K is computed in: float32 where the order of its steps is stated."""
    return "tl.float32" if isinstance(op, FusedOp) and op.order is not None else "SUM_TYPE"


def _last_argument(op: Operation) -> list[str]:
    """The argument of a helper for `sum_type`, where it is not the default."""
    return ["    tl.float32,"] if sum_type(op) == "tl.float32" else []


@dataclass
class PointerMainLoop:
    """Loads through pointers: portable, for every layout and alignment."""

    arguments: ArgumentList
    x: SSAValue
    k: int
    helpers: set[str]
    imports: frozenset[str] = frozenset()

    def prologue(self) -> list[str]:
        x = self.arguments.operand(self.x, "x")
        return [f"a_rows = {x} + row[:, None] * K"]

    def emit(self, tile: ColumnTile) -> list[str]:
        segment = tile.segment
        step = self._step(segment, tile.columns)
        helper = "matmul_tile" if segment.pairing is None else "matmul_pair_tile"
        self.helpers.add(helper)
        lines = [f"{', '.join(tile.accumulators)} = {helper}(", "    a_rows,"]
        for index, column in enumerate(tile.weight_columns()):
            weight = tile.weight(index, segment.weights)
            lines.append(f"    {self._column_pointers(segment, weight, column)},")
        lines += ["    K,", f"    {step},", "    BLOCK_K,"]
        return [*lines, *_last_argument(self.arguments.op), ")"]

    def _step(self, segment: Segment, columns: ColumnRange) -> str:
        """The distance of two elements of a weight's column."""
        if segment.layout == Layout.NK:
            return "1"
        return str(segment.weight_columns(columns.weights[0]))

    def _column_pointers(self, segment: Segment, weight: SSAValue, column: str) -> str:
        pointer = self.arguments.operand(weight, "w")
        if segment.layout == Layout.KN:
            return f"{pointer} + {column}[None, :]"
        if segment.columns * self.k >= 2**31:
            return f"{pointer} + {column}[None, :].to(tl.int64) * K"
        return f"{pointer} + {column}[None, :] * K"


@dataclass
class TmaMainLoop:
    """Loads boxes through Hopper's TMA, from descriptors that the host makes at each launch.

    The weights are taken as they are: columns that pair up are boxes of a view (see `tma.py`).
    """

    arguments: ArgumentList
    x: SSAValue
    schedule: ScheduleAttr
    helpers: set[str]
    imports: frozenset[str] = TENSOR_DESCRIPTOR

    def prologue(self) -> list[str]:
        return []

    def emit(self, tile: ColumnTile) -> list[str]:
        box = usable_box(tile.segment, tile.columns)
        helper = "tma_tile" if tile.segment.pairing is None else "tma_pair_tile"
        self.helpers.add(helper)
        bm = self.schedule.block_m.data
        a = self._descriptor(self.x, ("{rows}",), (bm,), "a")
        arguments = [a]
        for index, corner in enumerate(corners(tile, box)):
            weight = tile.weight(index, tile.segment.weights)
            view = tuple(map(str, box.view))
            arguments += [self._descriptor(weight, view, box.block, "w"), corner]
        shape = f"BLOCK_M, {tile.width}, BLOCK_K"
        return [
            f"{', '.join(tile.accumulators)} = {helper}(",
            f"    {arguments[0]},",
            "    tile_m * BLOCK_M,",
            *(f"    {argument}," for argument in arguments[1:]),
            f"    K, {shape},",
            *_last_argument(self.arguments.op),
            ")",
        ]

    def _descriptor(
        self, value: SSAValue, view: tuple[str, ...], block: tuple[int, ...], default: str
    ) -> str:
        """The parameter of a descriptor of `value` as `view` x K, with boxes `block` x BK."""
        k, bk = shape_of(value)[-1], self.schedule.block_k.data
        place = f"{{operands[{list(self.arguments.op.operands).index(value)}]}}"
        type = triton_type(element_type_of(value))
        argument = descriptor(place, type, (*view, str(k)), (*block, bk))
        return self.arguments.add(f"{value.name_hint or default}_desc", *argument)


def descriptor(
    place: str, type: str, extents: Sequence[str], box: Sequence[int]
) -> tuple[str, str]:
    """Signature type and host expression of a descriptor of contiguous memory as `extents`."""
    strides = [1]
    for extent in reversed(extents[1:]):
        strides.insert(0, strides[0] * int(extent))
    boxes = ", ".join(map(str, box))
    shape, steps = ", ".join(extents), ", ".join(map(str, strides))
    return (
        f"tensordesc<{type}[{boxes}]>",
        f"TensorDescriptor({place}, [{shape}], [{steps}], [{boxes}])",
    )


def corners(tile: ColumnTile, box: WeightBox) -> list[str]:
    """For each accumulator, where its box starts in the first dimensions of the view."""
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


def usable_box(segment: Segment, columns: ColumnRange) -> WeightBox:
    """The box of a range's weights. Raises CodaError where there is none."""
    box = weight_box(segment, columns)
    if isinstance(box, str):
        raise CodaError(
            f"gemm.fused: the tma main loop cannot load its weights: {box}",
            "schedule it with the pointer main loop",
        )
    return box
