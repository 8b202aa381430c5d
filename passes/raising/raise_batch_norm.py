"""Pass `raise-batch-norm`: norms by stored statistics become pointwise code."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import (
    FunctionPass,
    FunctionRewriter,
    Refusal,
    operators_before,
)

OF_THE_BATCH = Refusal(
    "the statistics are stored", "the norm computes or updates the statistics of the batch"
)
OTHER_CHANNELS = Refusal(
    "the number of channels is static, and they are computed in float32",
    "the number of channels is symbolic, or they have another type",
)


class RaiseBatchNormPass(FunctionPass):
    """Turns the batch norm of a model that is not trained into a scale and a shift of each channel.

        %y = torch.call "aten.batch_norm.default"(%x, %w, %b, %m, %v)        x: B x C x ..., w: C
        ->
        %s = coda.mul (coda.rsqrt (%v + eps)), %w                                        C x 1
        %y = coda.add (coda.mul (coda.sub %x, %m), %s), %b

    In float32, rounded at its end. As pointwise code it moves to rows with a convolution before it.
    Legal iff the statistics are stored: the call is not one of training, and has them.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(CallOp):
            norm = _BatchNorm.of(op)
            if norm is not None and rewriter.accepts(op, norm.refusal, "raised to pointwise code"):
                norm.raise_in(rewriter)


@dataclass(frozen=True)
class _BatchNorm:
    """The arguments of a call."""

    op: CallOp
    x: SSAValue
    weight: SSAValue | None
    bias: SSAValue | None
    mean: SSAValue | None
    variance: SSAValue | None
    eps: float
    is_training: bool = False

    @staticmethod
    def of(op: CallOp) -> _BatchNorm | None:
        """Return the norm that `op` calls, if only its result is used; None for another call."""
        is_whole = op.callee.data == "aten.batch_norm.default"
        is_of_stored = op.callee.data == "aten._native_batch_norm_legit_no_training.default"
        if not (is_whole or is_of_stored) or op.template.symbols or len(op.outputs) != 1:
            return None
        if op.picks not in (None, (0,)):
            return None
        given, _ = op.template.evaluate(op.inputs, {}, {})
        if is_whole:
            return _BatchNorm(op, *given[:5], eps=given[7], is_training=given[5])
        return _BatchNorm(op, *given[:5], eps=given[6])

    @property
    def refusal(self) -> Refusal | None:
        if self.is_training or self.mean is None or self.variance is None:
            return OF_THE_BATCH
        is_narrow = computes_in_float32(element_type_of(self.x))
        return None if is_narrow and shape_of(self.x)[1] != DYNAMIC_INDEX else OTHER_CHANNELS

    def raise_in(self, rewriter: FunctionRewriter) -> None:
        """Replace the call, whose statistics are stored."""
        assert self.mean is not None and self.variance is not None
        spread = coda.AddOp(self._column(self.variance), coda.ConstantOp(self.eps, f32))
        scale = coda.RsqrtOp(spread)
        scale = scale if self.weight is None else coda.MulOp(scale, self._column(self.weight))
        value = coda.MulOp(coda.SubOp(coda.CastOp(self.x, f32), self._column(self.mean)), scale)
        value = value if self.bias is None else coda.AddOp(value, self._column(self.bias))
        result = coda.CastOp(value, element_type_of(self.x))
        insert = rewriter.before(self.op)
        for made in operators_before(result):
            insert.insert(made)
        rewriter.replace(self.op, insert.insert(result))

    def _column(self, value: SSAValue) -> coda.CastOp:
        """Return C numbers as C x 1 x ..., in float32."""
        _, channels, *positions = shape_of(self.x)
        return coda.CastOp(coda.ReshapeOp(value, (channels, *(1 for _ in positions))), f32)
