"""The rows of `gemm.fused`: which ones are read, multiplied and stored."""

from __future__ import annotations

from abc import ABC
from math import prod

from xdsl.dialects.builtin import ArrayAttr, TensorType, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)

from coda_ir.dialects.coda import BlocksAttr, QuantizedAttr
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.attrs import Layout, PortKind, SegmentAttr
from coda_ir.dialects.gemm.gemm_inputs import GemmInputs
from coda_ir.dialects.gemm.numerics import OrderAttr
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import HasSegments

MAX_ROWS = 128
"""The largest number of rows of a tile: a multiple of it has whole tiles only."""

OF_ROWS = ("groups", "numbered", "gather", "gather_weights", "scatter")
"""The keywords of the operands that say which rows are read, multiplied and stored."""


class RowsOfFused(GemmInputs, HasSegments, ABC):
    """The definitions of `gemm.fused`, with its rows and the groups that they belong to."""

    inputs = var_operand_def(TensorType)
    weights = var_operand_def(TensorType)
    groups = opt_operand_def(TensorType)
    gather = opt_operand_def(TensorType)
    gather_weights = opt_operand_def(TensorType)
    scatter = opt_operand_def(TensorType)
    x_scales = opt_operand_def(TensorType)
    weight_scales = var_operand_def(TensorType)
    weight_zeros = var_operand_def(TensorType)
    ports = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    segment_attrs = prop_def(ArrayAttr[SegmentAttr], prop_name="segments")
    transposed = opt_prop_def(UnitAttr)
    numbered = opt_prop_def(UnitAttr)
    schedule = opt_prop_def(ScheduleAttr)
    order = opt_prop_def(OrderAttr)
    blocks = opt_prop_def(BlocksAttr | QuantizedAttr)
    bodies = var_region_def()

    @property
    def is_numbered(self) -> bool:
        """True if each row of x has numbers of groups, instead of groups the ends of their rows."""
        return self.numbered is not None

    @property
    def numbers_of_row(self) -> int:
        """The numbers of groups of each row of x; 1 where rows are not numbered."""
        if self.groups is None or not self.is_numbered:
            return 1
        return prod(shape_of(self.groups)) // max(1, prod(shape_of(self.inputs[0])[:-1]))

    @property
    def summed_rows(self) -> int:
        """The number of rows side by side in a row of x, whose products are added; at least 1."""
        if not self.is_numbered:
            return 1
        is_kn = self.segment_attrs.data[0].layout.data == Layout.KN
        own = shape_of(self.weights[0])[-2 if is_kn else -1]
        return self.numbers_of_row if own != shape_of(self.inputs[0])[-1] else 1

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The dimensions of the accumulator's rows, which flatten to M."""
        if self.groups is not None and self.numbers_of_row > self.summed_rows:
            return shape_of(self.groups)
        if self.gather is None or self.is_transposed:
            return super().row_shape
        return shape_of(self.gather)

    def depth(self, index: int) -> int:
        """K of an input, or `DYNAMIC_INDEX`."""
        if self.gather is None or not self.is_transposed:
            return super().depth(index)
        return shape_of(self.gather)[0]

    @property
    def has_rows_after(self) -> bool:
        """True if rows of other groups may follow those of a tile."""
        return self.groups is not None and not (
            self.has_ragged_depth and self.row_shape[-1] % MAX_ROWS == 0
        )

    def rows_of_port(self, kind: PortKind) -> SSAValue | None:
        """Return the row numbers that select a port's elements; None for the tile's own rows."""
        return {PortKind.GATHER_COL: self.gather, PortKind.SCATTER_COL: self.scatter}.get(kind)
