"""The main loop of a GEMM kernel whose weights have 8 or 4 bits."""

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import Float32Type, i32
from xdsl.ir import SSAValue

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.mainloop import ColumnTile, PointerMainLoop, tuple_text
from coda_ir.dialects.coda import QuantizedAttr
from coda_ir.dialects.coda.scaled_linear import LEAST_DEPTH
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Layout

WORD_REGISTERS = 96
"""Registers of a thread that multiplies the words of 32 columns; 64 columns need twice as many."""


class QuantizedMainLoop(PointerMainLoop):
    """Loads weights of 8 or 4 bits through pointers, and dequantizes them in registers."""

    HAS_DOT = False

    @property
    def FUNCTION(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        if not self.schedule.has_one_row:
            return "multiply_quantized"
        return "multiply_words_row" if self._has_words else "multiply_quantized_row"

    @property
    def _has_words(self) -> bool:
        """True if tensor cores multiply a row by words of eight elements along K."""
        _, bn, bk = self.schedule.tile
        if not self.schedule.has_one_row or bn < 16 or bk < LEAST_DEPTH:
            return False
        weights = [weight for part in self.op.segments() for weight in part.weights]
        is_near = all(prod(shape_of(weight)) < 2**31 for weight in weights)
        is_wide = isinstance(element_type_of(self.op.x), Float32Type)
        return self.scheme.has_words_along_k and is_near and not is_wide

    @property
    def registers(self) -> int | None:
        """Enough to load the words of the next step before those of this one are multiplied: for as
        many programs as the threads of a processor allow, ptxas would load them afterwards.
        """
        if not self._has_words:
            return None
        _, columns, _ = self.schedule.tile
        return WORD_REGISTERS * (2 if columns > 32 else 1)

    @property
    def waits(self) -> bool:
        """True if the loop is all that reads memory before programs share their sums, and begins
        with weights that may be read ahead.
        """
        is_first = self.schedule.split_k.data > 1 and len(self.op.inputs) == 1
        return self._has_words and is_first and Launch.of(self.op).reads_ahead

    @property
    def scheme(self) -> QuantizedAttr:
        assert self.op.quantized is not None, "the weights are quantized"
        return self.op.quantized

    def operands(self, term: int, tile: ColumnTile, weights: Sequence[SSAValue]) -> list[str]:
        if self._has_words:
            pointers = [self.arguments.operand(weight, "w") for weight in weights]
            return [self.rows[term], tuple_text(pointers)]
        packed = self.scheme.packed if self.scheme.axis == "n" else 1
        return [self.rows[term], tuple_text(self._places(tile, weights, packed, "w"))]

    def extents(self, term: int, tile: ColumnTile) -> list[str]:
        segment, scheme = tile.segment, self.scheme
        weights, scales, zeros = (
            [tile.weight(index, values) for index in range(len(tile.accumulators)) if values]
            for values in (segment.weights, segment.scales, segment.zeros)
        )
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
        if self._has_words:
            options["b_numbers"] = tuple_text(self._columns(tile))
            is_nk = segment.layout == Layout.NK
            options["N_STEP"] = shape_of(weights[0])[1] if is_nk else 1
            options["IN_FOURS"] = not is_nk and _has_fours(tile)
            if self.waits:
                options["WAITS"] = True
        return [f"{name}={value}" for name, value in options.items()]

    def _columns(self, tile: ColumnTile) -> Sequence[str]:
        return tile.weight_columns()

    def _places(
        self, tile: ColumnTile, values: Sequence[SSAValue], packed: int, hint: str
    ) -> Iterator[str]:
        """Yield the place of the first word of each column, `packed` of which share a word, in the
        tensor of each accumulator, one of `values`.
        """
        for column, value in zip(self._columns(tile), values, strict=True):
            place = column if packed == 1 else f"({column} // {packed})"
            rows, columns = shape_of(value)
            pitch = ""
            if tile.segment.layout == Layout.NK:
                is_wide = rows * columns >= 2**31
                pitch = f"{'.to(tl.int64)' if is_wide else ''} * {columns}"
            yield f"{self.arguments.operand(value, hint)} + {place}[None, :]{pitch}"


def _has_fours(tile: ColumnTile) -> bool:
    """Return whether every 4 columns of a tile are 4 aligned, adjacent columns of the weight."""
    segment, columns = tile.segment, tile.columns
    if columns.is_padded or (segment.pairing is not None and segment.pairing.is_adjacent):
        return False
    half = (segment.group_size or 0) // 2
    widths = (segment.weight_columns(weight) for weight in columns.weights)
    return not any(extent % 4 for extent in (columns.extent, half, *widths))


def _step(value: SSAValue, layout: Layout) -> int:
    """Return the distance between two words of a column."""
    return 1 if layout == Layout.NK else shape_of(value)[1]
