"""Pass `defer-layer-norm`: move LayerNorm past the GEMMs that consume it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, Layout, PackWeightOp, PortKind, ScalarBuilder, Segment
from coda_ir.passes.support.accumulators import correct_accumulators
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_cancellation, check_norm_input
from coda_ir.passes.support.norm_deferral import NormDeferral, check_norm_consumers
from coda_ir.passes.support.norms import (
    OpInserter,
    bias_of,
    defer_or_split,
    float32_gemm,
    norm_stats,
    replace_value,
    scaled_input,
)

NOT_KEPT = Refusal(
    "vectors may be computed from weights ahead of time",
    "the norm is not deferred: the column sums of its GEMMs would be kept between calls",
    "allow pack-weights where weights change only in ways that PyTorch counts",
)


@dataclass(frozen=True)
class DeferLayerNormPass(FunctionPass):
    """LN(x)·W + b = r·((x ⊙ w)·W) − (r·mu)·u + c0 with u = wᵀW and c0 = betaᵀW + b.

        %h = coda.layer_norm %x, %w, %beta       %s = coda.mul %x, %w
        %z = coda.linear %h, %W, %b       ->     %r, %mu = coda.norm_stats %x {kind = "layer"}
                                                 %u = gemm.pack_weight %W, %w
                                                 %c = gemm.pack_weight %W, %beta
                                                 %z = r·linear(%s, %W) − (r·mu)·u + c + b

    u and c are computed once per weight; without w, u is the sum of each column of W. Where the
    GEMM has an epilogue already, its accumulators become z before the code of the epilogue. Legal
    iff x is computed in this function, every consumer of the norm is a GEMM or code in the
    epilogue of another GEMM, which normalizes x again, and x ⊙ w cannot leave the range of
    float16. Where only the first holds, the norm is split into its statistics and a pointwise
    operator. The subtraction cancels where abs(mean) >> std: a norm of float32 stays whole, and so
    does one in the mode eager-exact.
    """

    name: ClassVar[str] = "defer-layer-norm"

    pack_weights: bool = True

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.LayerNormOp):
                refusal = check_norm_input(op, op.x) or check_cancellation(op)
                if refusal is not None:
                    rewriter.missed(op, refusal)
                    continue
                defer_or_split(
                    op, self._verdict(op, rewriter), partial(_defer, op, rewriter), rewriter
                )

    def _verdict(self, op: coda.LayerNormOp, rewriter: FunctionRewriter) -> NormDeferral | Refusal:
        return check_norm_consumers(op, rewriter.order) if self.pack_weights else NOT_KEPT


def _defer(norm: coda.LayerNormOp, rewriter: FunctionRewriter, deferral: NormDeferral) -> None:
    rewriter.analysis(norm, "loses accuracy where abs(mean) of a row is far above its std")
    before = OpInserter(rewriter, norm, norm.location)
    x = scaled_input(before, norm.x, norm.weight)
    rstd, mean = norm_stats(before, norm)
    shift = before.mul(rstd, mean, "shift")
    for gemm in deferral.consumers:
        assert not isinstance(gemm, coda.RopeOp)
        insert = OpInserter(rewriter, gemm, gemm.location)
        if isinstance(gemm, FusedOp):
            correct = partial(_corrected, norm, (rstd, shift), insert)
            correct_accumulators(gemm, x, correct, rewriter.order)
            continue
        layout = Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN
        value = insert.mul(float32_gemm(insert, gemm, x), rstd)
        sums = _packed(insert, gemm.weight, norm.weight, layout)
        value = insert.sub(value, insert.mul(shift, sums))
        if norm.bias is not None:
            value = insert.add(value, _packed(insert, gemm.weight, norm.bias, layout))
        bias = bias_of(gemm)
        if bias is not None:
            value = insert.add(value, insert.cast(bias, f32))
        replace_value(gemm, insert.cast(value, element_type_of(gemm.result)))
        rewriter.order.erase(gemm)


def _corrected(
    norm: coda.LayerNormOp,
    columns: tuple[SSAValue, SSAValue],
    insert: OpInserter,
    segment: Segment,
    builder: ScalarBuilder,
) -> Sequence[SSAValue]:
    """r·acc − (r·mu)·u + c0 of each accumulator, from the `columns` (r, r·mu)."""
    rstd, shift = (segment.add_port(PortKind.COL, value)[0] for value in columns)
    accumulators = segment.accumulators
    sums = _port_of_vector(insert, segment, norm.weight)
    values = [builder.mul(accumulator, rstd) for accumulator in accumulators]
    values = [builder.sub(v, builder.mul(shift, u)) for v, u in zip(values, sums, strict=True)]
    if norm.bias is not None:
        constants = _port_of_vector(insert, segment, norm.bias)
        values = [builder.add(v, c) for v, c in zip(values, constants, strict=True)]
    return values


def _port_of_vector(
    insert: OpInserter, segment: Segment, vector: SSAValue | None
) -> Sequence[SSAValue]:
    """The product of `vector` and the weights of a segment: one element for each accumulator."""
    packed = [_packed(insert, w, vector, segment.layout) for w in segment.weights]
    if len(packed) == 1:
        return segment.add_port(PortKind.ROW, packed[0])
    return [segment.add_port(PortKind.HALF_ROW, half)[0] for half in packed]


def _packed(
    insert: OpInserter, weight: SSAValue, vector: SSAValue | None, layout: Layout
) -> SSAValue:
    name = "column_sums" if vector is None else vector.name_hint
    return insert.insert(PackWeightOp(weight, vector, layout), name)
