"""Pass `defer-layer-norm`: move LayerNorm past the GEMMs that consume it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.diagnostics import OptionError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, PortKind, ScalarBuilder, Segment
from coda_ir.passes.layout.leftover_cost import BYTES_PER_US, KERNEL_US
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_cancellation, check_norm_input
from coda_ir.passes.support.norm_deferral import (
    NormConsumer,
    NormDeferral,
    check_norm_consumers,
    correct_accumulators,
)
from coda_ir.passes.support.norm_products import (
    is_modulated,
    is_table,
    keeps_vectors,
    narrow_parameter,
    products,
)
from coda_ir.passes.support.norms import (
    bias_of,
    defer_or_split,
    float32_gemm,
    norm_stats,
    parameters_of,
    scaled_input,
    split_with_statistics,
)
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

NOT_KEPT = Refusal(
    "vectors may be precomputed from weights",
    "the norm is not deferred: the column sums of its GEMMs would have to be kept between calls",
    "allow pack-weights if weights change only in ways that PyTorch tracks",
)


MODULATED = ("auto", "always", "never")
"""The norms with parameters of each sample that move: those where it pays, all legal ones, none."""

NEVER = Refusal(
    "norms with per-sample parameters may move",
    "the norm is not deferred: modulated=never keeps its scale and shift",
)


def check_modulated(name: str, option: str, value: str) -> None:
    """Raise CodaError for an unknown value of `option` of the pass `name`."""
    if value not in MODULATED:
        raise OptionError(f"{name}: unknown {option}={value}", f"use one of {', '.join(MODULATED)}")


class DeferLayerNormPass(FunctionPass):
    """Defers a LayerNorm past the GEMMs that read it, with u = wᵀW and c0 = betaᵀW + b:
    LN(x)·W + b = r·((x ⊙ w)·W) − (r·mu)·u + c0.

        %h = coda.layer_norm %x, %w, %beta       %s = coda.mul %x, %w
        %z = coda.linear %h, %W, %b       ->     %r, %mu = coda.norm_stats %x {kind = "layer"}
                                                 %u = gemm.pack_weight %W, %w
                                                 %c = gemm.pack_weight %W, %beta
                                                 %z = r·linear(%s, %W) − (r·mu)·u + c + b

    u and c are computed once per weight; without w, u is the sum of each column of W. If the GEMM
    already has an epilogue, its accumulators become z before the code of the epilogue. Legal iff
    this function computes x; every consumer of the norm is a GEMM, but not a grouped one, or code
    in the epilogue of another GEMM, which recomputes the norm; and x ⊙ w cannot leave the range of
    float16. If only the first condition holds, the norm is split into its statistics and a
    pointwise operator. So is a norm of an argument whose statistics the function computes as well.

    If w and beta have one row per sample (adaLN, see `absorb-modulation`), so do u and c:

                                                 %t = coda.concat %w, %beta
                                          ->     %p = coda.linear %t, %W : ... -> f32
                                                 %u, %c = the rows of %p for each sample

    That GEMM runs in every call and reads W once more. `modulated=auto` uses it only if it moves
    fewer bytes than a separate kernel for the norm would, `always` wherever it is legal, and
    `never` nowhere. The subtraction cancels if abs(mean) >> std. Therefore a norm in float32, or in
    the mode eager-exact, is not deferred.
    """

    pack_weights: bool = True
    modulated: str = "auto"

    def check_options(self) -> None:
        check_modulated(self.name, "modulated", self.modulated)

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.LayerNormOp):
            if split_with_statistics(op, rewriter):
                continue
            if rewriter.refuses(op, check_norm_input(op, op.x) or check_cancellation(op)):
                continue
            defer_or_split(op, self._verdict(op, rewriter), partial(_defer, op, rewriter), rewriter)

    def _verdict(self, op: coda.LayerNormOp, rewriter: FunctionRewriter) -> NormDeferral | Refusal:
        if keeps_vectors(op) and not self.pack_weights:
            return NOT_KEPT
        found = check_norm_consumers(op, rewriter.order)
        if isinstance(found, Refusal) or not is_modulated(op) or self.modulated == "always":
            return found
        pays = check_pays(op, found, rewriter.shapes) if self.modulated == "auto" else NEVER
        return found if pays is None else pays


def _defer(norm: coda.LayerNormOp, rewriter: FunctionRewriter, deferral: NormDeferral) -> None:
    rewriter.analysis(
        norm, "loses accuracy in rows whose abs(mean) is far above their standard deviation"
    )
    before = rewriter.before(norm)
    x = scaled_input(before, norm.x, narrow_parameter(before, norm, norm.weight))
    rstd, mean = norm_stats(before, norm)
    shift = before.mul(rstd, mean, "shift")
    for gemm in deferral.consumers:
        assert not isinstance(gemm, coda.RopeOp)
        insert = rewriter.before(gemm)
        if isinstance(gemm, FusedOp):
            correct = partial(_corrected, norm, (rstd, shift), insert)
            correct_accumulators(gemm, x, correct, rewriter.order)
            continue
        layout = Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN
        value = insert.mul(float32_gemm(insert, gemm, x), rstd)
        sums, constants = products(insert, norm, gemm.weight, layout)
        value = insert.sub(value, insert.mul(shift, sums))
        if constants is not None:
            value = insert.add(value, constants)
        bias = bias_of(gemm)
        if bias is not None:
            value = insert.add(value, insert.cast(bias, f32))
        rewriter.replace(gemm, insert.cast(value, element_type_of(gemm.result)))


def _corrected(
    norm: coda.LayerNormOp,
    columns: tuple[SSAValue, SSAValue],
    insert: OpInserter,
    segment: Segment,
    builder: ScalarBuilder,
) -> Sequence[SSAValue]:
    """Return r·acc − (r·mu)·u + c0 of each accumulator, given the `columns` (r, r·mu)."""
    rstd, shift = (segment.add_port(PortKind.COL, value)[0] for value in columns)
    sums, constants = zip(
        *(products(insert, norm, weight, segment.layout) for weight in segment.weights), strict=True
    )
    values = [builder.mul(accumulator, rstd) for accumulator in segment.accumulators]
    added = _port_of_vectors(segment, sums)
    values = [builder.sub(v, builder.mul(shift, u)) for v, u in zip(values, added, strict=True)]
    if norm.bias is not None:
        added = _port_of_vectors(segment, constants)
        values = [builder.add(v, c) for v, c in zip(values, added, strict=True)]
    return values


def _port_of_vectors(segment: Segment, vectors: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Return one element per accumulator, from a vector of all columns or one for each half."""
    kind = PortKind.ROW if len(shape_of(vectors[0])) == 1 else PortKind.TABLE
    if len(vectors) == 1:
        return segment.add_port(kind, vectors[0])
    return [segment.add_port(kind.halved(), half)[0] for half in vectors]


# The bytes that the deferral of a norm with parameters of each sample saves and costs


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
    """Check that the products of the parameters cost less than the norm.

    Apart, a pointwise kernel reads x and writes the norm. Deferred, what computes x writes x ⊙ s,
    and a GEMM of two rows for each sample reads the weight of each consumer once more.
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
        "state the known sizes, or use modulated-norms=always",
    )


def _saved(norm: coda.LayerNormOp, shapes: SymbolicShapes) -> SymbolicSize:
    """Return the bytes saved: no kernel reads x for the norm, or stores x for it alone."""
    others = [use for use in norm.x.uses if use.operation is not norm]
    return shapes.bytes(norm.x) * (1 if others else 2)


def _spent(norm: coda.LayerNormOp, deferral: NormDeferral, shapes: SymbolicShapes) -> SymbolicSize:
    """Return the bytes spent: weights are read again, products are written and read."""
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
    """Return the sizes assumed for the symbols of a number of bytes."""
    tables = filter(is_table, parameters_of(norm))
    samples = {symbol for table in tables for symbol in shapes.rows(table).symbols}
    return {symbol: SAMPLES if symbol in samples else ROWS for symbol in sorted(total.symbols)}
