"""Which calls of PyTorch may give other bits in every run on a GPU, and what can be done.

After the documentation of `torch.use_deterministic_algorithms` and the kernels of PyTorch 2.11 to
2.13, some of which add with atomics unless they are asked not to. Calls that are not listed repeat
their bits: reductions, norms and softmax add in a fixed order, and cuBLAS does on one stream.
"""

from __future__ import annotations

import ast
from enum import Enum

from coda_ir.dialects.coda.shapes import element_type_of, is_float
from coda_ir.dialects.torch.ops import CallOp, VjpOp


class Determinism(Enum):
    """What a call needs so that every run gives the same bits."""

    GIVEN = "nothing"
    ON_REQUEST = "to be run under torch.use_deterministic_algorithms"
    STRICT = "the same, and not with warnings only, which this kernel takes for a permission"
    MISSING = "an algorithm that PyTorch does not have"


_CONVOLUTIONS = frozenset(f"conv{dims}d" for dims in (1, 2, 3))
"""cuDNN repeats the bits of these; it may add their derivatives with atomics."""

_OTHER_CONVOLUTIONS = frozenset(
    {"convolution", "_convolution"} | {f"conv_transpose{dims}d" for dims in (1, 2, 3)}
)
"""Those that are a derivative of one, or may be."""

_ADDING = frozenset({"index_add", "scatter_add", "scatter_reduce"})
"""Sums at places that tensors name, of which several may be one."""

_PUTTING = frozenset({"index_put", "_unsafe_index_put"})
"""The same if they accumulate. What else writes to such places, as of a cache of keys, repeats its
bits unless it writes to one of them twice; then PyTorch leaves the result open.
"""

_GATHERING = frozenset(
    {"embedding", "gather", "index", "_unsafe_index", "index_select", "repeat_interleave"}
    | {"take_along_dim", "max_pool3d", "max_pool3d_with_indices"}
    | {f"replication_pad{dims}d" for dims in (1, 2, 3)}
)
"""Reads from such places: their derivatives are the sums."""

_SCANS = frozenset({"cumsum", "cumprod", "logcumsumexp"})

_WITHOUT = frozenset(
    {"bincount", "histc", "kthvalue", "median", "nanmedian", "put"}
    | {f"max_unpool{dims}d" for dims in (2, 3)}
    | {"nll_loss2d", "nll_loss2d_forward"}
)

_WITHOUT_DERIVATIVE = frozenset(
    {"avg_pool3d", "ctc_loss", "_ctc_loss", "embedding_bag", "_embedding_bag", "take"}
    | {"adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "max_pool2d"}
    | {"_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "max_pool2d_with_indices"}
    | {"fractional_max_pool2d", "fractional_max_pool3d", "pad"}
    | {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"}
    | {f"reflection_pad{dims}d" for dims in (1, 2, 3)}
    | {"upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"}
    | {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"}
)

_ATTENTION = frozenset(
    f"_scaled_dot_product_{name}_attention" for name in ("flash", "efficient", "cudnn")
)
"""Kernels; the operator that chooses one has a derivative of its own here (`fused_attention`)."""

LISTED = (
    *(_ATTENTION | _CONVOLUTIONS | _OTHER_CONVOLUTIONS | _ADDING | _PUTTING),
    *(_GATHERING | _SCANS | _WITHOUT | _WITHOUT_DERIVATIVE),
)
"""The operators of ATen that are known here."""

_ORDER = (Determinism.GIVEN, Determinism.ON_REQUEST, Determinism.STRICT, Determinism.MISSING)


def determinism_of(op: CallOp | VjpOp) -> Determinism:
    """What `op` needs; a derivative computes the call again, and needs what that does."""
    name = op.callee.data.split(".")[1]
    of_call = _of_call(name, op)
    if isinstance(op, CallOp):
        return of_call
    return max(of_call, _of_derivative(name), key=_ORDER.index)


def _of_call(name: str, op: CallOp | VjpOp) -> Determinism:
    forward = name.removesuffix("_backward").removesuffix("_dense")
    if forward != name:
        return _of_derivative(forward)
    if name in _SCANS and not any(is_float(element_type_of(x)) for x in op.inputs):
        return Determinism.GIVEN
    if name in _PUTTING and _accumulates(op):
        return Determinism.ON_REQUEST
    if name in _WITHOUT | _SCANS:
        return Determinism.MISSING
    is_listed = name in _ADDING | _OTHER_CONVOLUTIONS
    return Determinism.ON_REQUEST if is_listed else Determinism.GIVEN


def _accumulates(op: CallOp | VjpOp) -> bool:
    call = op.template.call
    given = [*call.args[3:4], *(k.value for k in call.keywords if k.arg == "accumulate")]
    return any(isinstance(node, ast.Constant) and node.value is True for node in given)


def _of_derivative(name: str) -> Determinism:
    if name in _ATTENTION:
        return Determinism.STRICT
    if name in _WITHOUT_DERIVATIVE | _SCANS | _WITHOUT:
        return Determinism.MISSING
    is_listed = name in _GATHERING | _CONVOLUTIONS | _OTHER_CONVOLUTIONS
    return Determinism.ON_REQUEST if is_listed else Determinism.GIVEN
