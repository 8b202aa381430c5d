"""Pass `differentiate`: the pipeline from a function to its forward and backward functions."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from coda_ir.passes.algebra.split_group_norm import SplitGroupNormPass
from coda_ir.passes.block.convert_float64_to_torch import ConvertFloat64ToTorchPass
from coda_ir.passes.block.expand_quantized_linear import ExpandQuantizedLinearPass
from coda_ir.passes.block.move_loss_slices import MoveLossSlicesPass
from coda_ir.passes.block.split_packed_linear import SplitPackedLinearPass
from coda_ir.passes.block.store_operands import StoreOperandsPass
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass
from coda_ir.passes.gradient.move_norm_gradient_sums import MoveNormGradientSumsPass
from coda_ir.passes.gradient.save_or_recompute import SaveOrRecomputePass
from coda_ir.passes.gradient.scale_rows_first import ScaleRowsFirstPass
from coda_ir.passes.gradient.stream_logits import StreamLogitsPass
from coda_ir.passes.raising.raise_rope import RaiseRopePass
from coda_ir.passes.support.function_pass import NamedPass


class DifferentiatePass(NamedPass):
    """Adds @f_forward and @f_backward for a function @f of the block level.

        @f(x, w) -> (y)    ->    @f_forward(x, w) -> (y, saved...)
                                 @f_backward(x, w, saved..., d_y) -> (d_x, d_w)

    The pipeline runs `raise-rope{decomposed=false}`, so that gradients use whole heads;
    `move-loss-slices`, so that gradients of logits are not padded;
    `convert-float64-to-torch`, so that PyTorch differentiates what it computes; `split-group-norm`,
    so that sums of columns have derivatives; `split-packed-linear`, so that parts are saved and
    fused separately; `scale-rows-first`, so that experts save less; `derive-gradient`, with the
    options `function` and `wrt`; algebra on the joint function; `stream-logits`, if a number of
    parts is given; `expand-quantized-linear`, so that scales are saved; and `save-or-recompute`,
    with the other options. `coda-to-gemm` fuses both new functions like any other function of the
    block level. An argument of the backward has the name of an argument or a result of the forward,
    or `d_` and the name of a result.
    """

    function: str | None = None
    wrt: tuple[str, ...] = ()
    memory_budget: int | None = None
    save: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    extents: str = ""
    pack_weights: bool = True
    stream_logits: int | None = None

    def steps(self) -> tuple[ModulePass, ...]:
        """Return the passes in order, with the options of this one passed on."""
        return (
            RaiseRopePass(decomposed=False),
            DeadCodeElimination(),
            MoveLossSlicesPass(),
            ConvertFloat64ToTorchPass(),
            SplitGroupNormPass(),
            SplitPackedLinearPass(),
            ScaleRowsFirstPass(),
            DeriveGradientPass(self.function, self.wrt),
            CanonicalizePass(),
            CommonSubexpressionElimination(),
            MoveNormGradientSumsPass(self.pack_weights),
            *self._streaming(),
            ExpandQuantizedLinearPass(),
            CanonicalizePass(),
            CommonSubexpressionElimination(),
            StoreOperandsPass(),
            SaveOrRecomputePass(self.memory_budget, self.save, self.recompute, self.extents),
            CanonicalizePass(),
            CommonSubexpressionElimination(),
        )

    def _streaming(self) -> tuple[ModulePass, ...]:
        if self.stream_logits is None:
            return ()
        return (
            CanonicalizePass(),
            CommonSubexpressionElimination(),
            StreamLogitsPass(self.stream_logits),
        )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PassPipeline(self.steps()).apply(ctx, op)
