"""The passes, one per file: convert_a_to_b.py is the pass convert-a-to-b, ConvertAToBPass."""

from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass

PASS_CLASSES = {
    "absorb-finalize": "AbsorbFinalizePass",
    "accumulate-gradients": "AccumulateGradientsPass",
    "accumulate-in-place": "AccumulateInPlacePass",
    "align-scales": "AlignScalesPass",
    "canonicalize": "CanonicalizePass",
    "coda-to-gemm": "CodaToGemmPass",
    "convert-attention-grad-to-gemm": "ConvertAttentionGradToGemmPass",
    "convert-float64-to-torch": "ConvertFloat64ToTorchPass",
    "convert-linear-to-gemm": "ConvertLinearToGemmPass",
    "defer-layer-norm": "DeferLayerNormPass",
    "defer-rms-norm": "DeferRMSNormPass",
    "derive-gradient": "DeriveGradientPass",
    "differentiate": "DifferentiatePass",
    "drop-barriers": "DropBarriersPass",
    "drop-no-ops": "DropNoOpsPass",
    "drop-detach": "DropDetachPass",
    "drop-unused-results": "DropUnusedResultsPass",
    "drop-zero-gradients": "DropZeroGradientsPass",
    "fuse-attention-grad": "FuseAttentionGradPass",
    "fuse-cross-entropy": "FuseCrossEntropyPass",
    "fuse-finalize": "FuseFinalizePass",
    "fuse-groups": "FuseGroupsPass",
    "fuse-pointwise": "FusePointwisePass",
    "fuse-qk-norm": "FuseQkNormPass",
    "group-head-norms": "GroupHeadNormsPass",
    "join-pointwise": "JoinPointwisePass",
    "leave-plain-gemms": "LeavePlainGemmsPass",
    "lower-leftovers": "LowerLeftoversPass",
    "lower-to": "LowerToPass",
    "merge-gemm-sums": "MergeGemmSumsPass",
    "merge-sibling-gemms": "MergeSiblingGemmsPass",
    "move-norm-gradient-sums": "MoveNormGradientSumsPass",
    "move-scales": "MoveScalesPass",
    "outline-pointwise": "OutlinePointwisePass",
    "outline-programs": "OutlineProgramsPass",
    "outline-rope": "OutlineRopePass",
    "overlap-launches": "OverlapLaunchesPass",
    "pad-vocabulary": "PadVocabularyPass",
    "pair-glu": "PairGluPass",
    "pair-rope": "PairRopePass",
    "place-column-scale": "PlaceColumnScalePass",
    "plan-buffers": "PlanBuffersPass",
    "raise-activations": "RaiseActivationsPass",
    "raise-attention": "RaiseAttentionPass",
    "raise-convolution": "RaiseConvolutionPass",
    "raise-elementwise": "RaiseElementwisePass",
    "raise-linear": "RaiseLinearPass",
    "raise-rms-norm": "RaiseRMSNormPass",
    "raise-rope": "RaiseRopePass",
    "repeat-columns": "RepeatColumnsPass",
    "report-unfused": "ReportUnfusedPass",
    "save-or-recompute": "SaveOrRecomputePass",
    "schedule": "SchedulePass",
    "set-numerics": "SetNumericsPass",
    "share-key-heads": "ShareKeyHeadsPass",
    "split-concatenation": "SplitConcatenationPass",
    "split-packed-linear": "SplitPackedLinearPass",
    "split-reductions": "SplitReductionsPass",
    "torch-to-coda": "TorchToCodaPass",
    "state-reduction-order": "StateReductionOrderPass",
    "stream-logits": "StreamLogitsPass",
    "unfuse-gemms": "UnfuseGemmsPass",
}


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass name to a function that imports the pass when it is needed."""
    return {name: _loader(name, class_name) for name, class_name in PASS_CLASSES.items()}


def _loader(name: str, class_name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        module = import_module(f"{__name__}.{name.replace('-', '_')}")
        return getattr(module, class_name)

    return load
