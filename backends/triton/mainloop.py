"""The main loop of a GEMM kernel: how a tile of accumulators is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import SSAValue

from coda_ir.backends.triton.ports import ArgumentList, ColumnIndex
from coda_ir.dialects.gemm import Layout, Segment
from coda_ir.dialects.gemm.tiling import ColumnRange


class MainLoop(Protocol):
    """Writes the statements that compute the accumulators of one column range."""

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


@dataclass
class PointerMainLoop:
    """Loads through pointers: portable, for every layout and alignment."""

    arguments: ArgumentList
    x: SSAValue
    k: int
    helpers: set[str]

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
        for index, column in enumerate(self._weight_columns(segment, lanes, accumulator_columns)):
            weight = segment.weights[columns.weights[min(index, len(columns.weights) - 1)]]
            lines.append(f"    {self._column_pointers(segment, weight, column)},")
        return [*lines, "    K,", f"    {step},", "    BLOCK_K,", ")"]

    def _step(self, segment: Segment, columns: ColumnRange) -> str:
        """The distance of two elements of a weight's column."""
        if segment.layout == Layout.NK:
            return "1"
        return str(segment.weight_columns(columns.weights[0]))

    @staticmethod
    def _weight_columns(
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
