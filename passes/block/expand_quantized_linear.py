"""Pass `expand-quantized-linear`: quantize operands with separate operators."""

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float8E4M3FNType, f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import ceiling, element_type_of, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter
from coda_ir.storage import is_transposed_matrix

LARGEST = 448.0
LEAST_SCALE = 1e-12
"""The scale of a block or row of zeros."""


Maxima: TypeAlias = dict[tuple[SSAValue, int], SSAValue]
"""The largest elements of the blocks of rows (N x K / depth), by weight (N x K) and depth."""


class ExpandQuantizedLinearPass(FunctionPass):
    """Turns Q(x)·Q(W)ᵀ into a product in float8 whose epilogue applies the scales.

        %y = coda.quantized_linear %x, %w    ->    %sx = max(abs(%x)) / 448 of each row
                                                   %qx = coda.cast %x / %sx : f32 -> f8E4M3FN
                                                   %sw, %qw = the same of %w
                                                   %z = coda.linear %qx, %qw : f8, f8 -> f32
                                                   %y = coda.cast(%z * %sx * %sw)

    With scales of blocks, the product is a `coda.scaled_linear`; rows that do not consist of whole
    blocks are padded with zeros. Linear maps of the same x share its quantization. The kernel that
    computes x quantizes it, if it has the whole row or block. Always legal. The pass runs after
    differentiation, because the derivative is defined for `coda.quantized_linear`, and before
    `save-or-recompute`, so that the forward has the scales that the backward needs.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        maxima: Maxima = {}
        for op in rewriter.ops_of(coda.QuantizedLinearOp):
            _expand(op, maxima, rewriter)


def _expand(op: coda.QuantizedLinearOp, maxima: Maxima, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, "became a product of float8 with scales of rows or of blocks")
    insert = rewriter.before(op)
    if op.result.name_hint is None and op.weight.name_hint is not None:
        op.result.name_hint = f"{op.weight.name_hint}_out"
    quantizer = _Quantizer(insert, maxima)
    value = quantizer.by_rows(op) if op.blocks is None else quantizer.by_blocks(op, op.blocks)
    rewriter.replace(op, insert.cast(value, element_type_of(op.result)))


@dataclass(frozen=True)
class _Quantizer:
    insert: OpInserter
    maxima: Maxima

    def by_rows(self, op: coda.QuantizedLinearOp) -> SSAValue:
        """Use a scale for each row of x and each row of the weight."""
        wide = [self.insert.cast(value, f32) for value in op.operands]
        scales = [self._scale(self._largest(value)) for value in wide]
        x, weight = map(self._rounded, wide, scales)
        # Under the name of the result, by which it is chosen to be recomputed as a whole.
        name = op.result.name_hint
        value = self.insert.insert(coda.LinearOp(x, weight), name)
        columns = self.insert.reshape(scales[1], shape_of(op.weight)[:1])
        for scale in (scales[0], columns):
            value = self.insert.mul(value, scale, name)
        return value

    def by_blocks(self, op: coda.QuantizedLinearOp, blocks: coda.BlocksAttr) -> SSAValue:
        """Use a scale for each block."""
        depth, columns = blocks.depth.data, blocks.columns.data
        # Converted to float32 before it is split, x would be stored so by the GEMM that computes
        # it. Converted afterwards, a weight would be, by the kernel that finds its scales.
        x = self.insert.cast(self._in_blocks(self._padded(op.x, -1, depth), depth), f32)
        of_x = self._scale(self._largest(x))
        weight = self._padded(self._padded(op.weight, 1, depth), 0, columns)
        weight = self.insert.cast(weight, f32)
        of_weight = self._scales_of_blocks(op.weight, weight, depth, columns)
        n, k = shape_of(weight)
        each = self.insert.insert(
            coda.BroadcastOp(
                self.insert.reshape(of_weight, (n // columns, 1, k // depth)),
                (n // columns, columns, k // depth),
            )
        )
        elements = self._rounded(
            self._in_blocks(weight, depth), self.insert.reshape(each, (n, k // depth, 1))
        )
        rows = self.insert.rewriter.shapes.dims(x)[:-2]
        product = coda.ScaledLinearOp(
            self.insert.reshape(self._rounded(x, of_x), (*rows, k)),
            self._cut(self.insert.reshape(elements, (n, k)), shape_of(op.weight)[0]),
            self.insert.reshape(of_x, (*rows, k // depth)),
            of_weight,
            blocks,
        )
        return self.insert.insert(product, op.result.name_hint)

    def _rounded(self, wide: SSAValue, scale: SSAValue) -> SSAValue:
        quotient = self.insert.insert(coda.DivOp(wide, scale))
        return self.insert.insert(coda.CastOp(quotient, Float8E4M3FNType()), "quantized")

    def _scale(self, largest: SSAValue) -> SSAValue:
        number, least = (
            self.insert.insert(coda.ConstantOp(value, f32)) for value in (LARGEST, LEAST_SCALE)
        )
        scale = self.insert.insert(coda.DivOp(largest, number))
        return self.insert.insert(coda.MaximumOp(scale, least), "scale")

    def _largest(self, wide: SSAValue) -> SSAValue:
        return self._maximum(self.insert.insert(coda.AbsOp(wide)))

    def _maximum(self, magnitudes: SSAValue) -> SSAValue:
        return self.insert.insert(coda.ReduceOp(magnitudes, "max"))

    def _scales_of_blocks(
        self, weight: SSAValue, wide: SSAValue, depth: int, columns: int
    ) -> SSAValue:
        """Return the scale of each `columns` x `depth` block of a weight (N / columns x K / depth),
        given the weight in float32 with whole blocks.

        Where the weight is a transpose, neighbours in memory are combined first: the kernel that
        computes them can do that. An earlier product with the weight may have done it.
        """
        n, k = shape_of(wide)
        stored = _stored_transposed(weight)
        if stored is not None and shape_of(weight) == (n, k):
            rows = self.maxima.get((stored, columns))
            # Another product may have padded the rows for other blocks.
            if rows is None or shape_of(rows) != (k, n // columns):
                elements = self.insert.cast(self._in_blocks(stored, columns), f32)
                rows = self.insert.reshape(self._largest(elements), (k, n // columns))
            blocks = self._in_blocks(self._transposed(rows), depth)
            scale = self._scale(self._maximum(blocks))
            return self.insert.reshape(scale, (n // columns, k // depth))
        rows = self.insert.reshape(self._largest(self._in_blocks(wide, depth)), (n, k // depth))
        self.maxima[weight, depth] = rows
        largest = self._maximum(self._in_blocks(self._transposed(rows), columns))
        return self._scale(
            self._transposed(self.insert.reshape(largest, (k // depth, n // columns)))
        )

    def _transposed(self, matrix: SSAValue) -> SSAValue:
        return self.insert.insert(coda.TransposeOp(matrix, (1, 0)))

    def _in_blocks(self, value: SSAValue, depth: int) -> SSAValue:
        """Reshape (... x K) to (... x K / depth x depth)."""
        rows, k = self.insert.rewriter.shapes.dims(value)[:-1], shape_of(value)[-1]
        return self.insert.reshape(value, (*rows, k // depth, depth))

    def _padded(self, value: SSAValue, axis: int, block: int) -> SSAValue:
        """Pad `value` with zeros to whole blocks along dimension `axis`."""
        size, axis = shape_of(value)[axis], axis % len(shape_of(value))
        extent = ceiling(size, block) * block
        return value if extent == size else self.insert.insert(coda.PadOp(value, axis, 0, extent))

    def _cut(self, weight: SSAValue, rows: int) -> SSAValue:
        """Return the first `rows` of a weight, whose last block may be smaller."""
        if shape_of(weight)[0] == rows:
            return weight
        return self.insert.insert(coda.SliceOp(weight, 0, 0, rows))


def _stored_transposed(weight: SSAValue) -> SSAValue | None:
    """Return the tensor (... x N) whose columns are the rows of a weight N x K; None if it is no
    transpose, or if its rows are not known.
    """
    if not isinstance(weight.owner, coda.TransposeOp) or not is_transposed_matrix(weight):
        return None
    matrix = weight.owner.x
    view = matrix.owner
    if isinstance(view, coda.ReshapeOp) and shape_of(view.x)[-1] == shape_of(matrix)[-1]:
        matrix = view.x
    return None if DYNAMIC_INDEX in shape_of(matrix) else matrix
