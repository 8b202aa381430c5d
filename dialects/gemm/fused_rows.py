"""The rows of `gemm.fused`: which ones are read, multiplied and stored."""

from __future__ import annotations

from math import prod
from typing import Protocol

from xdsl.dialects.builtin import ArrayAttr, UnitAttr
from xdsl.ir import SSAValue

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.attrs import Layout, PortKind, SegmentAttr
from coda_ir.dialects.gemm.gemm_inputs import Gemm, GemmInputs

MAX_ROWS = 128
"""The largest number of rows of a tile: a multiple of it has whole tiles only."""

OF_ROWS = ("groups", "numbered", "gather", "gather_weights", "scatter")
"""The keywords of the operands that say which rows are read, multiplied and stored."""


class _Fused(Gemm, Protocol):
    @property
    def gather(self) -> SSAValue | None: ...

    @property
    def scatter(self) -> SSAValue | None: ...

    @property
    def numbered(self) -> UnitAttr | None: ...

    @property
    def segment_attrs(self) -> ArrayAttr[SegmentAttr]: ...

    @property
    def is_transposed(self) -> bool: ...

    @property
    def is_numbered(self) -> bool: ...

    @property
    def has_ragged_depth(self) -> bool: ...

    @property
    def numbers_of_row(self) -> int: ...

    @property
    def summed_rows(self) -> int: ...

    @property
    def row_shape(self) -> tuple[int, ...]: ...


class RowsOfFused(GemmInputs):
    """A mixin of `gemm.fused`: its rows, and the groups that they belong to."""

    @property
    def is_numbered(self: _Fused) -> bool:
        """True if each row of x has numbers of groups, instead of groups the ends of their rows."""
        return self.numbered is not None

    @property
    def numbers_of_row(self: _Fused) -> int:
        """The numbers of groups of each row of x; 1 where rows are not numbered."""
        if self.groups is None or not self.is_numbered:
            return 1
        return prod(shape_of(self.groups)) // max(1, prod(shape_of(self.inputs[0])[:-1]))

    @property
    def summed_rows(self: _Fused) -> int:
        """The rows that lie side by side in a row of x, and whose products are added; at least
        1.
        """
        is_kn = self.segment_attrs.data[0].layout.data == Layout.KN
        own = shape_of(self.weights[0])[-2 if is_kn else -1]
        is_summed = self.is_numbered and own != shape_of(self.inputs[0])[-1]
        return self.numbers_of_row if is_summed else 1

    @property
    def row_shape(self: _Fused) -> tuple[int, ...]:
        """The dimensions of the accumulator's rows, which flatten to M."""
        if self.groups is not None and self.numbers_of_row > self.summed_rows:
            return shape_of(self.groups)
        if self.gather is None or self.is_transposed:
            return GemmInputs.row_shape.__get__(self)
        return shape_of(self.gather)

    def depth(self: _Fused, index: int) -> int:
        """K of an input, or `DYNAMIC_INDEX`."""
        if self.gather is None or not self.is_transposed:
            return GemmInputs.depth(self, index)
        return shape_of(self.gather)[0]

    @property
    def has_rows_behind(self: _Fused) -> bool:
        """True if rows of other groups may follow those of a tile."""
        return self.groups is not None and not (
            self.has_ragged_depth and self.row_shape[-1] % MAX_ROWS == 0
        )

    def rows_of_port(self: _Fused, kind: PortKind) -> SSAValue | None:
        """Return the row numbers that select the elements of a port of `kind`; None if the port
        uses the tile's own rows.
        """
        return {
            PortKind.GATHER_COL: self.gather,
            PortKind.SCATTER_COL: self.scatter,
        }.get(kind)
