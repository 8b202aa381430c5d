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


class MainLoop(Protocol):
    """Writes the statements that compute the accumulators of one column range."""

    @property
    def imports(self) -> frozenset[str]:
        """Import statements that the host code of a launch needs."""
        ...

    def prologue(self) -> list[str]:
        """Statements before all column ranges."""
        ...

    def emit(
        self,
        segment: Segment,
        columns: ColumnRange,
        accumulators: Sequence[str],
        tile: str,
        lanes: ColumnIndex,
        accumulator_columns: Sequence[ColumnIndex],
    ) -> list[str]:
        """Statements that assign the `accumulators` (one, or two in pair mode) of tile `tile`.

        `lanes` are columns (pairs) within the range, `accumulator_columns` within the segment.
        """
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

    def emit(
        self,
        segment: Segment,
        columns: ColumnRange,
        accumulators: Sequence[str],
        tile: str,
        lanes: ColumnIndex,
        accumulator_columns: Sequence[ColumnIndex],
    ) -> list[str]:
        step = self._step(segment, columns)
        helper = "matmul_tile" if segment.pairing is None else "matmul_pair_tile"
        self.helpers.add(helper)
        lines = [f"{', '.join(accumulators)} = {helper}(", "    a_rows,"]
        for index, column in enumerate(self.weight_columns(segment, lanes, accumulator_columns)):
            weight = segment.weights[columns.weights[min(index, len(columns.weights) - 1)]]
            lines.append(f"    {self._column_pointers(segment, weight, column)},")
        lines += ["    K,", f"    {step},", "    BLOCK_K,"]
        return [*lines, *_last_argument(self.arguments.op), ")"]

    def _step(self, segment: Segment, columns: ColumnRange) -> str:
        """The distance of two elements of a weight's column."""
        if segment.layout == Layout.NK:
            return "1"
        return str(segment.weight_columns(columns.weights[0]))

    @staticmethod
    def weight_columns(
        segment: Segment, lanes: ColumnIndex, accumulator_columns: Sequence[ColumnIndex]
    ) -> list[str]:
        """The column of each lane within the weight of each accumulator."""
        if segment.pairing is None:
            return [lanes.name]
        if len(segment.weights) == 2:
            return [lanes.name, lanes.name]
        return [column.name for column in accumulator_columns]

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
    imports: frozenset[str] = frozenset(
        {"from triton.tools.tensor_descriptor import TensorDescriptor"}
    )

    def prologue(self) -> list[str]:
        return []

    def emit(
        self,
        segment: Segment,
        columns: ColumnRange,
        accumulators: Sequence[str],
        tile: str,
        lanes: ColumnIndex,
        accumulator_columns: Sequence[ColumnIndex],
    ) -> list[str]:
        box = usable_box(segment, columns)
        helper = "tma_tile" if segment.pairing is None else "tma_pair_tile"
        self.helpers.add(helper)
        bm = self.schedule.block_m.data
        a = self._descriptor(self.x, ("{rows}",), (bm,), "a")
        arguments = [a]
        for index, corner in enumerate(self.corners(segment, columns, box, tile)):
            weight = segment.weights[columns.weights[min(index, len(columns.weights) - 1)]]
            view = tuple(map(str, box.view))
            arguments += [self._descriptor(weight, view, box.block, "w"), corner]
        shape = f"BLOCK_M, {columns.lanes * columns.parts}, BLOCK_K"
        return [
            f"{', '.join(accumulators)} = {helper}(",
            f"    {arguments[0]},",
            "    tile_m * BLOCK_M,",
            *(f"    {argument}," for argument in arguments[1:]),
            f"    K, {shape},",
            *_last_argument(self.arguments.op),
            ")",
        ]

    @staticmethod
    def corners(segment: Segment, columns: ColumnRange, box: WeightBox, tile: str) -> list[str]:
        """For each accumulator, where its box starts in the first dimensions of the view."""
        lanes, group = columns.lanes * columns.parts, segment.group_size
        if segment.pairing is None:
            return [f"({tile} * {lanes},)"]
        if len(box.view) == 2:
            outer, second = f"{tile} * {box.block[0]}", 1 if group is None else group // 2
            return [f"({outer}, 0)", f"({outer}, {second})"]
        first = f"{tile} * {lanes}"
        if len(segment.weights) == 2:
            return [f"({first},)", f"({first},)"]
        assert group is not None
        half = group // 2
        if group != segment.columns:
            first = f"{first} // {half} * {group} + {first} % {half}"
        return [f"({first},)", f"({first} + {half},)"]

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


def usable_box(segment: Segment, columns: ColumnRange) -> WeightBox:
    """The box of a range's weights. Raises CodaError where there is none."""
    box = weight_box(segment, columns)
    if isinstance(box, str):
        raise CodaError(
            f"gemm.fused: the tma main loop cannot load its weights: {box}",
            "schedule it with the pointer main loop",
        )
    return box
