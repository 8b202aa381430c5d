"""Pass `defer-norms`: move an RMSNorm or a LayerNorm past the GEMMs that consume it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from xdsl.dialects.builtin import LocationAttr, f32
from xdsl.ir import SSAValue

from coda_ir.diagnostics import OptionError, counted
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, Layout, PortKind, ScalarBuilder, Segment
from coda_ir.passes.layout.leftover_cost import BYTES_PER_US, KERNEL_US
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_cancellation, check_norm_input
from coda_ir.passes.support.matching import Norm, taken_norm
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
    apply_statistics,
    bias_of,
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
        message = f"{name}: unknown {option} '{value}'"
        raise OptionError(message, f"use one of {', '.join(MODULATED)}")


class DeferNormsPass(FunctionPass):
    """Defers a norm past the GEMMs that read it, because row scales commute with a GEMM. With
    u = wᵀW and c0 = betaᵀW + b, an RMSNorm becomes ((x·r) ⊙ w)·W = r·((x ⊙ w)·W), with
    r = rsqrt(mean x² + eps), and a LayerNorm LN(x)·W + b = r·((x ⊙ w)·W) − (r·mu)·u + c0.

        %h = coda.rms_norm %x, %w            %s = coda.mul %x, %w
        %z = coda.linear %h, %W       ->     %r = coda.norm_stats %x {kind = "rms"}
                                             %a = coda.linear %s, %W : ... -> f32
                                             %z = coda.cast(coda.mul %a, %r)

        %h = coda.layer_norm %x, %w, %beta       %s = coda.mul %x, %w
        %z = coda.linear %h, %W, %b       ->     %r, %mu = coda.norm_stats %x {kind = "layer"}
                                                 %u = gemm.pack_weight %W, %w
                                                 %c = gemm.pack_weight %W, %beta
                                                 %z = r·linear(%s, %W) − (r·mu)·u + c + b

    u and c are computed once per weight; without w, u is the sum of each column of W. If the GEMM
    already has an epilogue, its accumulators become z before the code of the epilogue. Row scales
    also commute with a rotation of columns: the epilogue of the projection then rotates x ⊙ w, and
    only the row scale of an RMSNorm is applied later.

    Legal iff this function computes x, so that its statistics cost nothing; every consumer of the
    norm is a GEMM, but not a grouped one, or code in the epilogue of another GEMM, which recomputes
    the norm, or a rotation, of an RMSNorm; and x ⊙ w cannot leave the range of float16. If GEMMs
    read a float32 RMSNorm in bfloat16, as under autocast, x ⊙ w is stored in bfloat16. If only the
    first condition holds, the norm is split into its statistics and a pointwise operator. So is a
    norm of an argument whose statistics the function computes as well.

    If w and beta of a LayerNorm have one row per sample (adaLN, see `absorb-modulation`), so do u
    and c:

                                                 %t = coda.concat %w, %beta
                                          ->     %p = coda.linear %t, %W : ... -> f32
                                                 %u, %c = the rows of %p for each sample

    That GEMM runs in every call and reads W once more. `modulated=auto` uses it only if it moves
    fewer bytes than a separate kernel for the norm would, `always` wherever it is legal, and
    `never` nowhere. The subtraction cancels if abs(mean) >> std. Therefore a LayerNorm in float32,
    or in the mode eager-exact, is not deferred.
    """

    pack_weights: bool = True
    modulated: str = "auto"

    def check_options(self) -> None:
        check_modulated(self.name, "modulated", self.modulated)

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            is_of_rows = isinstance(op, Norm) and "group" not in op.properties
            if is_of_rows and not split_with_statistics(op, rewriter):
                self._defer_or_split(op, rewriter)

    def _defer_or_split(self, norm: Norm, rewriter: FunctionRewriter) -> None:
        """Split a norm: defer it past its consumers if that is legal, else replace it by its
        statistics and a pointwise operator, with a remark. A norm whose input no kernel of the
        function computes stays unchanged, and so does one of rows that are looked up: it reads them
        once, too.
        """
        refusal = check_norm_input(norm.x)
        if refusal is None and isinstance(norm, coda.LayerNormOp):
            refusal = check_cancellation(norm)
        if rewriter.refuses(norm, refusal):
            return
        verdict = self._verdict(norm, rewriter)
        if isinstance(verdict, NormDeferral):
            rewriter.passed(norm, f"deferred past {_described(verdict)}")
            _defer(norm, rewriter, verdict)
            return
        rewriter.missed(norm, verdict)
        if not isinstance(norm.x.owner, coda.EmbeddingOp):
            insert = rewriter.before(norm)
            rewriter.replace(norm, apply_statistics(insert, norm, norm_stats(insert, norm)))

    def _verdict(self, norm: Norm, rewriter: FunctionRewriter) -> NormDeferral | Refusal:
        is_scaled_only = isinstance(norm, coda.RMSNormOp)
        if not is_scaled_only and keeps_vectors(norm) and not self.pack_weights:
            return NOT_KEPT
        found = check_norm_consumers(norm, rewriter.order)
        is_free = is_scaled_only or not is_modulated(norm) or self.modulated == "always"
        if isinstance(found, Refusal) or is_free:
            return found
        pays = check_pays(norm, found, rewriter.shapes) if self.modulated == "auto" else NEVER
        return found if pays is None else pays


def _described(deferral: NormDeferral) -> str:
    rotations = sum(isinstance(op, coda.RopeOp) for op in deferral.consumers)
    counts = {"GEMM": len(deferral.consumers) - rotations, "rotation": rotations}
    text = " and ".join(counted(count, what) for what, count in counts.items() if count)
    again = len(deferral.recomputed_by)
    repeated = f", applied again in {counted(again, 'epilogue')}" if again else ""
    return f"{text or '0 GEMMs'}{repeated}"


def _defer(norm: Norm, rewriter: FunctionRewriter, deferral: NormDeferral) -> None:
    before, taken = rewriter.before(norm), taken_norm(norm)
    weight = norm.weight
    if isinstance(norm, coda.LayerNormOp):
        rewriter.analysis(
            norm, "loses accuracy in rows whose abs(mean) is far above their standard deviation"
        )
        weight = narrow_parameter(before, norm, weight)
    x = before.cast(scaled_input(before, norm.x, weight), element_type_of(taken))
    rstd, *means = norm_stats(before, norm)
    columns = [rstd, *(before.mul(rstd, mean, "shift") for mean in means)]
    for gemm in deferral.consumers:
        insert = rewriter.before(gemm)
        if isinstance(gemm, FusedOp):
            correct = partial(_corrected, norm, columns, insert)
            correct_accumulators(gemm, x, correct, rewriter.order)
        elif isinstance(gemm, coda.RopeOp):
            rewriter.replace(gemm, _scaled_after(gemm, x, rstd, norm.location, insert))
        else:
            value = _corrected_product(gemm, norm, x, columns, insert)
            rewriter.replace(gemm, insert.cast(value, element_type_of(gemm.result)))
    if isinstance(taken.owner, coda.CastOp):
        rewriter.order.erase(taken.owner)
    for op in deferral.recomputed_by:
        stats = norm_stats(rewriter.before(norm), norm)
        value = apply_statistics(rewriter.before(op, norm.location), norm, stats)
        norm.result.replace_uses_with_if(value, lambda use, op=op: use.operation is op)
    rewriter.order.erase(norm)


def _corrected_product(
    gemm: coda.LinearOp | coda.MatmulOp | coda.LowBitLinearOp,
    norm: Norm,
    x: SSAValue,
    columns: Sequence[SSAValue],
    insert: OpInserter,
) -> SSAValue:
    """Return r·acc, or r·acc − (r·mu)·u + c0, in float32, given the `columns` (r) or (r, r·mu)."""
    rstd, *shifts = columns
    value = insert.mul(float32_gemm(insert, gemm, x), rstd)
    for shift in shifts:
        assert isinstance(norm, coda.LayerNormOp)
        layout = Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN
        sums, constants = products(insert, norm, gemm.weight, layout)
        value = insert.sub(value, insert.mul(shift, sums))
        value = value if constants is None else insert.add(value, constants)
    bias = bias_of(gemm)
    return value if bias is None else insert.add(value, insert.cast(bias, f32))


def _corrected(
    norm: Norm,
    columns: Sequence[SSAValue],
    insert: OpInserter,
    segment: Segment,
    builder: ScalarBuilder,
) -> Sequence[SSAValue]:
    """Return `_corrected_product` of each accumulator of a GEMM with an epilogue."""
    rstd, *shifts = (segment.add_port(PortKind.COL, value)[0] for value in columns)
    vectors = [
        products(insert, norm, weight, segment.layout)
        for weight in segment.weights
        if isinstance(norm, coda.LayerNormOp)
    ]
    values = [builder.mul(accumulator, rstd) for accumulator in segment.accumulators]
    for shift in shifts:
        added = _port_of_vectors(segment, [sums for sums, _ in vectors])
        values = [builder.sub(v, builder.mul(shift, u)) for v, u in zip(values, added, strict=True)]
    constants = [each for _, each in vectors if each is not None]
    if constants:
        added = _port_of_vectors(segment, constants)
        values = [builder.add(v, c) for v, c in zip(values, added, strict=True)]
    return values


def _scaled_after(
    rope: coda.RopeOp, x: SSAValue, rstd: SSAValue, location: LocationAttr, insert: OpInserter
) -> SSAValue:
    rotated = rope.with_operand(x, transposed=rope.transposed is not None)
    value = insert.insert(rotated, rope.result.name_hint)
    insert.location = location
    value = insert.mul(insert.cast(value, element_type_of(rstd)), rstd)
    return insert.cast(value, element_type_of(rope.result))


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
        "write known sizes as numbers, or use coda-to-gemm{modulated-norms=always}",
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
