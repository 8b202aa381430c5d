"""The passes, one per file: convert_a_to_b.py is the pass convert-a-to-b, ConvertAToBPass.

Each folder is a family, whose docstring says what it does and in what order its passes run.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

from xdsl.passes import ModulePass

FAMILIES: Mapping[str, str] = {
    "pipelines": "coda-to-gemm differentiate lower-leftovers lower-to torch-to-coda",
    "raising": """
        group-head-norms raise-activations raise-attention raise-convolution
        raise-depthwise-convolution raise-elementwise raise-group-biases raise-library-calls
        raise-linear raise-rms-norm raise-rope
    """,
    "block": """
        cancel-transposes compose-views convert-float64-to-torch drop-barriers
        drop-detach drop-hidden-queries drop-no-ops drop-places drop-unused-results
        expand-quantized-linear flatten-groups move-loss-slices order-groups pad-rows set-numerics
        share-key-heads skip-zero-rows split-bias split-concatenation split-packed-linear
        split-queries store-operands unroll-sums
    """,
    "algebra": """
        absorb-modulation align-scales defer-norms move-scales
        place-column-scale read-narrow-weights split-group-norm
    """,
    "fusion": """
        convert-attention-to-gemm convert-linear-to-gemm fuse-attention fuse-cross-entropy
        fuse-embedding fuse-finalize fuse-gather fuse-groups fuse-pointwise fuse-qk-norm
        fuse-scatter join-pointwise merge-gemm-sums merge-sibling-gemms outline-pointwise
        outline-rope pair-glu pair-rope reduce-columns repeat-columns report-unfused
        split-reductions
    """,
    "gradient": """
        derive-gradient drop-zero-gradients move-norm-gradient-sums save-or-recompute
        scale-rows-first stream-logits
    """,
    "layout": """
        absorb-finalize accumulate-in-place leave-plain-gemms number-groups outline-programs
        overlap-launches own-results place-parts plan-buffers schedule state-reduction-order
        unfuse-gemms
    """,
}
"""The names of the passes of each folder."""


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass name to a function that imports the pass when it is needed."""
    return {
        name: partial(_load, family, name)
        for family, names in FAMILIES.items()
        for name in names.split()
    }


def _load(family: str, name: str) -> type[ModulePass]:
    """Return the class with the name of a pass in its module."""
    module = import_module(f"{__name__}.{family}.{name.replace('-', '_')}")
    return next(each for each in vars(module).values() if getattr(each, "name", None) == name)
