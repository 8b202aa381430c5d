"""Pass `coda-to-gemm`: the pipeline from the block level to the GEMM level."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from coda_ir.diagnostics import OptionError
from coda_ir.passes.algebra.absorb_modulation import AbsorbModulationPass
from coda_ir.passes.algebra.align_scales import AlignScalesPass
from coda_ir.passes.algebra.defer_norms import DeferNormsPass, check_modulated
from coda_ir.passes.algebra.move_scales import MoveScalesPass
from coda_ir.passes.algebra.place_column_scale import PlaceColumnScalePass
from coda_ir.passes.algebra.read_narrow_weights import ReadNarrowWeightsPass
from coda_ir.passes.algebra.split_group_norm import SplitGroupNormPass
from coda_ir.passes.block.convert_float64_to_torch import ConvertFloat64ToTorchPass
from coda_ir.passes.block.drop_detach import DropDetachPass
from coda_ir.passes.block.drop_hidden_queries import DropHiddenQueriesPass
from coda_ir.passes.block.drop_places import DropPlacesPass
from coda_ir.passes.block.drop_unused_results import DropUnusedResultsPass
from coda_ir.passes.block.expand_quantized_linear import ExpandQuantizedLinearPass
from coda_ir.passes.block.flatten_groups import FlattenGroupsPass
from coda_ir.passes.block.move_loss_slices import MoveLossSlicesPass
from coda_ir.passes.block.order_groups import OrderGroupsPass
from coda_ir.passes.block.pad_rows import PadRowsPass
from coda_ir.passes.block.set_numerics import SetNumericsPass
from coda_ir.passes.block.share_key_heads import ShareKeyHeadsPass
from coda_ir.passes.block.split_bias import SplitBiasPass
from coda_ir.passes.block.split_concatenation import SplitConcatenationPass
from coda_ir.passes.block.split_packed_linear import SplitPackedLinearPass
from coda_ir.passes.block.split_queries import SplitQueriesPass
from coda_ir.passes.block.store_operands import StoreOperandsPass
from coda_ir.passes.block.unroll_sums import UnrollSumsPass
from coda_ir.passes.fusion.convert_linear_to_gemm import ConvertLinearToGemmPass
from coda_ir.passes.fusion.fuse_cross_entropy import FuseCrossEntropyPass
from coda_ir.passes.fusion.fuse_finalize import FuseFinalizePass
from coda_ir.passes.fusion.fuse_gather import FuseGatherPass
from coda_ir.passes.fusion.fuse_groups import FuseGroupsPass
from coda_ir.passes.fusion.fuse_pointwise import FusePointwisePass
from coda_ir.passes.fusion.fuse_qk_norm import FuseQkNormPass
from coda_ir.passes.fusion.fuse_scatter import FuseScatterPass
from coda_ir.passes.fusion.join_pointwise import JoinPointwisePass
from coda_ir.passes.fusion.merge_gemm_sums import MergeGemmSumsPass
from coda_ir.passes.fusion.outline_rope import OutlineRopePass
from coda_ir.passes.fusion.pair_glu import PairGluPass
from coda_ir.passes.fusion.pair_rope import PairRopePass
from coda_ir.passes.fusion.reduce_columns import ReduceColumnsPass
from coda_ir.passes.fusion.split_reductions import SplitReductionsPass
from coda_ir.passes.pipelines.lower_leftovers import KERNELS, LowerLeftoversPass
from coda_ir.passes.raising.raise_rope import RaiseRopePass
from coda_ir.passes.support.function_pass import NamedPass

FUSION: tuple[ModulePass, ...] = (
    DropDetachPass(),
    DropPlacesPass(),
    MoveLossSlicesPass(),
    ExpandQuantizedLinearPass(),
    SplitGroupNormPass(),
    SplitBiasPass(),
    # Norms with all that they scale and shift are rounded once.
    AbsorbModulationPass(),
    RaiseRopePass(decomposed=False),
    CanonicalizePass(),
    CommonSubexpressionElimination(),
    DropHiddenQueriesPass(),
    SplitQueriesPass(),
    ConvertFloat64ToTorchPass(),
    ShareKeyHeadsPass(),
    FlattenGroupsPass(),
    # Algebra on the block level.
    SplitPackedLinearPass(),
    ReadNarrowWeightsPass(),
    DeferNormsPass(),
    # Norms of the same rows share their statistics.
    CommonSubexpressionElimination(),
    PlaceColumnScalePass(),
    MoveScalesPass(),
    SplitConcatenationPass(),
    AlignScalesPass(),
    OrderGroupsPass(),
    PadRowsPass(),
    UnrollSumsPass(),
    StoreOperandsPass(),
    # GEMMs and what runs on their tiles. Pairing needs the tails fused, and gives new tails.
    ConvertLinearToGemmPass(),
    MergeGemmSumsPass(),
    # Kernels that read a weight gradient once, before an epilogue takes a part of them.
    FuseGroupsPass(of_weight_gradients=True),
    FusePointwisePass(),
    PairGluPass(),
    FuseQkNormPass(),
    # What stands between a norm of heads and the rotation.
    FusePointwisePass(),
    PairRopePass(),
    FusePointwisePass(),
    FuseCrossEntropyPass(),
    # What is computed from the gradient of logits that are computed again.
    FusePointwisePass(),
    # What is computed again on tensors that an epilogue loads.
    OutlineRopePass(),
    FuseGroupsPass(softmax_kernels=False),
    # Kernels that read the columns take pointwise code on the same elements.
    ReduceColumnsPass(of_code=False),
    JoinPointwisePass(),
    # Reductions of GEMM tiles first, so that the code on their results joins the finalize; then
    # those of the pointwise kernels that remain, which also reports what is refused.
    SplitReductionsPass(last=False),
    FuseFinalizePass(),
    DeadCodeElimination(),
    # Where rows come from and go to, once epilogues are whole and store what is read.
    DropUnusedResultsPass(),
    FuseGatherPass(),
    FuseScatterPass(),
    DeadCodeElimination(),
)
"""The algebra of the block level, the GEMMs, and what runs on their tiles."""

LEFTOVERS = ("kernels", "inductor", "graphs")
"""The ways to lower the operators that no GEMM takes."""

STEPS = (*FUSION, *KERNELS)


class CodaToGemmPass(NamedPass):
    """Rewrites every function as GEMM-plus-epilogue programs.

    Operators that cannot be fused remain, each with a remark. `fold-weights` lets
    `place-column-scale` fold norm weights into frozen weights. `numerics` sets a mode first, as
    `set-numerics` does; without it, functions keep their mode. Without `pack-weights`, nothing is
    computed from weights ahead of time: `defer-norms` does not defer norms that need this, and
    no weight can be folded. `leftovers` selects how to run the operators that no GEMM takes:
    `kernels`; `inductor`, in a graph where `lower-leftovers` estimates that this is worth it; or
    `graphs`, wherever it is legal. `modulated-norms` is the option `modulated` of
    `defer-norms`, which determines whether norms with a scale and shift per sample are
    deferred.
    """

    fold_weights: bool = False
    numerics: str | None = None
    pack_weights: bool = True
    leftovers: str = "kernels"
    modulated_norms: str = "auto"

    def steps(self) -> tuple[ModulePass, ...]:
        """Return the passes in order, with their options. Raises CodaError for contradictions."""
        if self.fold_weights and not self.pack_weights:
            raise OptionError(
                "coda-to-gemm: folded weights are computed ahead of time, which pack-weights=false "
                "does not allow",
                "leave out one of the two",
            )
        if self.leftovers not in LEFTOVERS:
            raise OptionError(
                f"coda-to-gemm: unknown leftovers '{self.leftovers}'",
                f"use one of {', '.join(LEFTOVERS)}",
            )
        check_modulated(self.name, "modulated-norms", self.modulated_norms)
        stated = () if self.numerics is None else (SetNumericsPass(self.numerics),)
        leftovers = LowerLeftoversPass(always=self.leftovers == "graphs")
        last = KERNELS if self.leftovers == "kernels" else (leftovers,)
        return (*stated, *map(self._configured, FUSION), *last)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PassPipeline(self.steps()).apply(ctx, op)

    def _configured(self, step: ModulePass) -> ModulePass:
        match step.name:
            case "place-column-scale":
                return PlaceColumnScalePass(self.fold_weights)
            case "defer-norms":
                return DeferNormsPass(self.pack_weights, self.modulated_norms)
            case _:
                return step
