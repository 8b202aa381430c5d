"""The passes, one per file: convert_a_to_b.py is the pass convert-a-to-b, ConvertAToBPass.

Each folder is a family, whose docstring says what it does and in what order its passes run.
"""

from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass

FAMILIES: dict[str, dict[str, str]] = {
    "pipelines": {
        "coda-to-gemm": "CodaToGemmPass",
        "differentiate": "DifferentiatePass",
        "lower-leftovers": "LowerLeftoversPass",
        "lower-to": "LowerToPass",
        "torch-to-coda": "TorchToCodaPass",
    },
    "raising": {
        "group-head-norms": "GroupHeadNormsPass",
        "raise-activations": "RaiseActivationsPass",
        "raise-attention": "RaiseAttentionPass",
        "raise-batch-norm": "RaiseBatchNormPass",
        "raise-convolution": "RaiseConvolutionPass",
        "raise-depthwise-convolution": "RaiseDepthwiseConvolutionPass",
        "raise-elementwise": "RaiseElementwisePass",
        "raise-group-biases": "RaiseGroupBiasesPass",
        "raise-library-calls": "RaiseLibraryCallsPass",
        "raise-linear": "RaiseLinearPass",
        "raise-rms-norm": "RaiseRMSNormPass",
        "raise-rope": "RaiseRopePass",
    },
    "block": {
        "cancel-transposes": "CancelTransposesPass",
        "canonicalize": "CanonicalizePass",
        "convert-float64-to-torch": "ConvertFloat64ToTorchPass",
        "drop-barriers": "DropBarriersPass",
        "drop-detach": "DropDetachPass",
        "drop-hidden-queries": "DropHiddenQueriesPass",
        "drop-no-ops": "DropNoOpsPass",
        "drop-unused-results": "DropUnusedResultsPass",
        "expand-quantized-linear": "ExpandQuantizedLinearPass",
        "flatten-groups": "FlattenGroupsPass",
        "order-groups": "OrderGroupsPass",
        "pad-rows": "PadRowsPass",
        "set-numerics": "SetNumericsPass",
        "share-key-heads": "ShareKeyHeadsPass",
        "skip-zero-rows": "SkipZeroRowsPass",
        "split-bias": "SplitBiasPass",
        "split-concatenation": "SplitConcatenationPass",
        "split-packed-linear": "SplitPackedLinearPass",
        "split-queries": "SplitQueriesPass",
        "unroll-sums": "UnrollSumsPass",
    },
    "algebra": {
        "absorb-modulation": "AbsorbModulationPass",
        "align-scales": "AlignScalesPass",
        "defer-layer-norm": "DeferLayerNormPass",
        "defer-rms-norm": "DeferRMSNormPass",
        "move-scales": "MoveScalesPass",
        "place-column-scale": "PlaceColumnScalePass",
        "read-narrow-weights": "ReadNarrowWeightsPass",
        "split-group-norm": "SplitGroupNormPass",
    },
    "fusion": {
        "convert-attention-to-gemm": "ConvertAttentionToGemmPass",
        "convert-linear-to-gemm": "ConvertLinearToGemmPass",
        "fuse-attention": "FuseAttentionPass",
        "fuse-cross-entropy": "FuseCrossEntropyPass",
        "fuse-embedding": "FuseEmbeddingPass",
        "fuse-finalize": "FuseFinalizePass",
        "fuse-gather": "FuseGatherPass",
        "fuse-groups": "FuseGroupsPass",
        "fuse-pointwise": "FusePointwisePass",
        "fuse-qk-norm": "FuseQkNormPass",
        "fuse-scatter": "FuseScatterPass",
        "join-pointwise": "JoinPointwisePass",
        "merge-gemm-sums": "MergeGemmSumsPass",
        "merge-sibling-gemms": "MergeSiblingGemmsPass",
        "outline-pointwise": "OutlinePointwisePass",
        "outline-rope": "OutlineRopePass",
        "pair-glu": "PairGluPass",
        "pair-rope": "PairRopePass",
        "reduce-columns": "ReduceColumnsPass",
        "repeat-columns": "RepeatColumnsPass",
        "report-unfused": "ReportUnfusedPass",
        "split-reductions": "SplitReductionsPass",
    },
    "gradient": {
        "accumulate-gradients": "AccumulateGradientsPass",
        "derive-gradient": "DeriveGradientPass",
        "drop-zero-gradients": "DropZeroGradientsPass",
        "move-norm-gradient-sums": "MoveNormGradientSumsPass",
        "save-or-recompute": "SaveOrRecomputePass",
        "scale-rows-first": "ScaleRowsFirstPass",
        "stream-logits": "StreamLogitsPass",
    },
    "layout": {
        "absorb-finalize": "AbsorbFinalizePass",
        "accumulate-in-place": "AccumulateInPlacePass",
        "leave-plain-gemms": "LeavePlainGemmsPass",
        "outline-programs": "OutlineProgramsPass",
        "overlap-launches": "OverlapLaunchesPass",
        "own-results": "OwnResultsPass",
        "place-parts": "PlacePartsPass",
        "plan-buffers": "PlanBuffersPass",
        "schedule": "SchedulePass",
        "state-reduction-order": "StateReductionOrderPass",
        "unfuse-gemms": "UnfuseGemmsPass",
    },
}


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass name to a function that imports the pass when it is needed."""
    return {
        name: _loader(family, name, class_name)
        for family, passes in FAMILIES.items()
        for name, class_name in passes.items()
    }


def _loader(family: str, name: str, class_name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        module = import_module(f"{__name__}.{family}.{name.replace('-', '_')}")
        return getattr(module, class_name)

    return load
