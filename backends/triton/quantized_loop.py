"""The main loop of GEMMs whose weights are quantized: elements or words of them, with scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from coda_ir.backends.triton.mainloop import ColumnTile, PointerMainLoop, tuple_text
from coda_ir.dialects.coda import QuantizedAttr
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Layout


class QuantizedMainLoop(PointerMainLoop):
    """Loads weights of 8 or 4 bits through pointers, and dequantizes them in registers."""

    @property
    def FUNCTION(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "multiply_quantized" + "_row" * self.schedule.has_one_row

    @property
    def scheme(self) -> QuantizedAttr:
        assert self.op.quantized is not None, "the weights are quantized"
        return self.op.quantized

    def operands(self, term: int, tile: ColumnTile, weights: Sequence[SSAValue]) -> list[str]:
        packed = self.scheme.packed if self.scheme.axis == "n" else 1
        return [self.rows[term], tuple_text(self._places(tile, weights, packed, "w"))]

    def extents(self, term: int, tile: ColumnTile) -> list[str]:
        segment, scheme = tile.segment, self.scheme
        weights, scales, zeros = (
            [tile.weight(index, values) for index in range(len(tile.accumulators)) if values]
            for values in (segment.weights, segment.scales, segment.zeros)
        )
        self.helpers.add("shift_of")
        options: dict[str, object] = {
            "K": self.depths[term],
            "A_STEP": 1,
            "B_STEP": _step(weights[0], segment.layout),
            "BLOCK_K": "BLOCK_K",
            "b_scales": tuple_text(self._places(tile, scales, 1, "scales")),
            "DEPTH": scheme.depth.data,
            "SCALE_STEP": _step(scales[0], segment.layout),
            "OFFSET": scheme.offset.data,
        }
        is_packed = scheme.axis == "n"
        if zeros:
            has_words = element_type_of(zeros[0]) == i32
            is_packed |= has_words
            places = self._places(tile, zeros, 8 if has_words else 1, "zeros")
            options["b_zeros"] = tuple_text(places)
            options["ZERO_STEP"] = _step(zeros[0], segment.layout)
        if scheme.packed > 1:
            options["ALONG_K"] = scheme.axis == "k"
            options["PACKED"] = scheme.packed
            options["POSITIONS"] = hex(scheme.positions)
        if is_packed:
            columns = self._columns(tile)
            options["b_shifts"] = tuple_text(
                f"shift_of({column} % {scheme.packed}, {hex(scheme.positions)})[None, :]"
                for column in columns
            )
        return [f"{name}={value}" for name, value in options.items()]

    def _columns(self, tile: ColumnTile) -> Sequence[str]:
        return tile.weight_columns()

    def _places(
        self, tile: ColumnTile, values: Sequence[SSAValue], packed: int, hint: str
    ) -> Iterator[str]:
        """The place of the first word of each column, `packed` of which share a word, in the tensor
        of each accumulator, one of `values`.
        """
        for column, value in zip(self._columns(tile), values, strict=True):
            place = column if packed == 1 else f"({column} // {packed})"
            rows, columns = shape_of(value)
            pitch = ""
            if tile.segment.layout == Layout.NK:
                is_wide = rows * columns >= 2**31
                pitch = f"{'.to(tl.int64)' if is_wide else ''} * {columns}"
            yield f"{self.arguments.operand(value, hint)} + {place}[None, :]{pitch}"


def _step(value: SSAValue, layout: Layout) -> int:
    """The distance of two words of a column."""
    return 1 if layout == Layout.NK else shape_of(value)[1]
