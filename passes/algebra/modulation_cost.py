"""Bytes that the deferral of a norm with parameters of each sample saves and costs.

Apart, a pointwise kernel reads x and writes the norm. Deferred, what computes x writes x ⊙ s, and a
GEMM of two rows for each sample reads the weight of each consumer once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, Layout
from coda_ir.passes.layout.leftover_cost import BYTES_PER_US, KERNEL_US
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.norm_deferral import NormConsumer, NormDeferral
from coda_ir.passes.support.norm_products import is_modulated, is_table
from coda_ir.passes.support.norms import parameters_of
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

SAMPLES = 8
"""The size that a symbol of the samples is taken to have."""

ROWS = 1024
"""The size that a symbol of the rows of a sample is taken to have."""

PRODUCT_BYTES = 4
"""Bytes of an element of a product, which is float32."""

KERNEL_BYTES = int(KERNEL_US * BYTES_PER_US)
"""The bytes that move in the time that a kernel takes beside those that it moves."""


def check_pays(
    norm: coda.LayerNormOp, deferral: NormDeferral, shapes: SymbolicShapes
) -> Refusal | None:
    """Return a refusal where the products of the parameters cost more than the norm.

    A symbol counts as `SAMPLES` samples, or as `ROWS` rows of one.
    """
    if not is_modulated(norm):
        return None
    spent, saved = _spent(norm, deferral, shapes), _saved(norm, shapes)
    sizes = _sizes(norm, shapes, spent + saved)
    if spent.evaluate(sizes) + KERNEL_BYTES <= saved.evaluate(sizes):
        return None
    assumed = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
    return Refusal(
        "the products of scale and shift with the weights cost less than the norm saves",
        f"the norm is not deferred: another kernel would move {spent} bytes to save {saved}"
        + (f", with {assumed}" if assumed else ""),
        "state the sizes that are known, or use modulated-norms=always",
    )


def _saved(norm: coda.LayerNormOp, shapes: SymbolicShapes) -> SymbolicSize:
    """The kernel of the norm reads x, which is stored for others, or would not be stored at all."""
    others = [use for use in norm.x.uses if use.operation is not norm]
    return shapes.bytes(norm.x) * (1 if others else 2)


def _spent(norm: coda.LayerNormOp, deferral: NormDeferral, shapes: SymbolicShapes) -> SymbolicSize:
    """The weights are read once more; each product is written, and read by the epilogue."""
    rows = sum(map(shapes.rows, filter(is_table, parameters_of(norm))), SymbolicSize())
    spent = SymbolicSize()
    for weight, layout in _weights(deferral.consumers):
        columns = SymbolicSize.of(shapes.dims(weight)[0 if layout == Layout.NK else -1])
        spent += shapes.bytes(weight) + rows * columns * (2 * PRODUCT_BYTES)
    return spent


def _weights(consumers: Iterable[NormConsumer]) -> Iterator[tuple[SSAValue, Layout]]:
    for gemm in consumers:
        if isinstance(gemm, FusedOp):
            for segment in gemm.segments():
                yield from ((weight, segment.layout) for weight in segment.weights)
        elif not isinstance(gemm, coda.RopeOp):
            yield gemm.weight, Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN


def _sizes(norm: coda.LayerNormOp, shapes: SymbolicShapes, total: SymbolicSize) -> dict[str, int]:
    """Return what the symbols of a number of bytes are taken to be."""
    tables = filter(is_table, parameters_of(norm))
    samples = {symbol for table in tables for symbol in shapes.rows(table).symbols}
    return {symbol: SAMPLES if symbol in samples else ROWS for symbol in sorted(total.symbols)}
