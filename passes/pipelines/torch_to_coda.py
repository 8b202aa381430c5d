"""Pass `torch-to-coda`: turn computations that a PyTorch model writes out into named operators."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from coda_ir.passes.block.cancel_transposes import CancelTransposesPass
from coda_ir.passes.block.compose_views import ComposeViewsPass
from coda_ir.passes.block.drop_no_ops import DropNoOpsPass
from coda_ir.passes.block.skip_zero_rows import SkipZeroRowsPass
from coda_ir.passes.gradient.derivatives.activity import keep_differentiated
from coda_ir.passes.raising.group_head_norms import GroupHeadNormsPass
from coda_ir.passes.raising.raise_activations import RaiseActivationsPass
from coda_ir.passes.raising.raise_attention import RaiseAttentionPass
from coda_ir.passes.raising.raise_convolution import RaiseConvolutionPass
from coda_ir.passes.raising.raise_depthwise_convolution import RaiseDepthwiseConvolutionPass
from coda_ir.passes.raising.raise_elementwise import RaiseElementwisePass
from coda_ir.passes.raising.raise_group_biases import RaiseGroupBiasesPass
from coda_ir.passes.raising.raise_library_calls import RaiseLibraryCallsPass
from coda_ir.passes.raising.raise_linear import RaiseLinearPass
from coda_ir.passes.raising.raise_rms_norm import RaiseRMSNormPass
from coda_ir.passes.raising.raise_rope import RaiseRopePass
from coda_ir.passes.support.function_pass import NamedPass

STEPS: tuple[ModulePass, ...] = (
    # Patterns match operators of `coda`.
    RaiseElementwisePass(),
    # First: depthwise convolutions see the rows that are products of single positions, and the
    # code that moves to rows with them, before it is seen through views.
    RaiseConvolutionPass(),
    DeadCodeElimination(),
    RaiseDepthwiseConvolutionPass(),
    DeadCodeElimination(),
    CancelTransposesPass(last=False),
    # Before reshapes are merged: the rows that were flattened are seen in pairs of them.
    RaiseLinearPass(),
    CanonicalizePass(),
    CommonSubexpressionElimination(),
    DropNoOpsPass(),
    ComposeViewsPass(),
    DeadCodeElimination(),
    RaiseActivationsPass(),
    RaiseRMSNormPass(),
    DeadCodeElimination(),
    GroupHeadNormsPass(),
    RaiseRopePass(),
    # Once more: norms of heads that have been rotated.
    GroupHeadNormsPass(),
    RaiseAttentionPass(),
    RaiseLibraryCallsPass(),
    SkipZeroRowsPass(),
    DeadCodeElimination(),
    CanonicalizePass(),
    DropNoOpsPass(),
    CommonSubexpressionElimination(),
    # Once more: heads of attention are columns now.
    ComposeViewsPass(),
    DeadCodeElimination(),
    # Reductions of rows are known now.
    CancelTransposesPass(),
    DropNoOpsPass(),
    # After the masks that have no effect.
    RaiseGroupBiasesPass(),
    DeadCodeElimination(),
)


class TorchToCodaPass(NamedPass):
    """Raises the operators of an exported model to the block level.

    Patterns match the computation, never the names of modules or classes. An argument that no
    longer has a use keeps its gradient, which is zero (`coda.differentiated`).
    """

    def steps(self) -> tuple[ModulePass, ...]:
        """Return the passes in order."""
        return STEPS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with keep_differentiated(op):
            PassPipeline(self.steps()).apply(ctx, op)
