"""PyTorch calls that may give different bits in every run on a GPU, and how to make them
deterministic.

The lists follow the documentation of `torch.use_deterministic_algorithms` and the kernels of
PyTorch 2.11 to 2.13, some of which add with atomics by default. Calls that are not listed give the
same bits in every run: reductions, norms and softmax add in a fixed order, and so does cuBLAS on
one stream.
"""

import ast
from enum import Enum
from typing import TypeAlias

from coda_ir.dialects.coda.library_call import LibraryCallOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.torch.ops import CallOp, VjpOp

AnyCall: TypeAlias = CallOp | LibraryCallOp | VjpOp
"""An operator that runs as a call of PyTorch, or differentiates one."""


class Determinism(Enum):
    """The requirement for a call to give the same bits in every run."""

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

_ADDING = frozenset({"index_add", "scatter_add", "_unsafe_masked_index_put_accumulate"})
"""Sums at places that tensors name, of which several may be one."""

_PUTTING = frozenset({"index_put", "_unsafe_index_put"})
"""The same if they accumulate. What else writes to such places, as of a cache of keys, repeats its
bits unless it writes to one of them twice; then PyTorch leaves the result open.
"""

_REDUCING = frozenset({"scatter", "scatter_reduce", "index_reduce"})
"""The same if what they reduce with depends on the order."""

_GATHERING = frozenset(
    {"embedding", "gather", "index", "_unsafe_index", "_unsafe_masked_index", "index_select"}
    | {"repeat_interleave", "take_along_dim", "max_pool3d", "max_pool3d_with_indices"}
    | {f"replication_pad{dims}d" for dims in (1, 2, 3)}
)
"""Reads from such places: their derivatives are the sums."""

_SCANS = frozenset({"cumsum", "cumprod", "logcumsumexp"})

_MEDIANS = frozenset({"median", "nanmedian"})
"""PyTorch has no fixed choice among equal elements where it gives a place."""

_LOSSES = frozenset({"cross_entropy_loss", "nll_loss_nd"})
"""Those of images are sums of atomics."""

_BAGS = frozenset({"embedding_bag", "_embedding_bag"})
"""Gathers rows, and reduces those of a bag; the derivative of the maximum adds with atomics."""

_BACKWARD_OF_BAGS = {"_embedding_bag_backward": 8, "_embedding_bag_dense_backward": 7}
"""The place of the argument `mode`, which otherwise is 4."""

_WITHOUT = frozenset(
    {"bincount", "histc", "kthvalue", "put"}
    | {f"max_unpool{dims}d" for dims in (2, 3)}
    | {"nll_loss2d", "nll_loss2d_forward"}
)

_WITHOUT_DERIVATIVE = frozenset(
    {"avg_pool3d", "ctc_loss", "_ctc_loss", "take", "max_pool2d", "max_pool2d_with_indices"}
    | {f"adaptive_{kind}_pool{dims}d" for kind in ("avg", "max") for dims in (2, 3)}
    | {"_adaptive_avg_pool2d", "_adaptive_avg_pool3d"}
    | {"fractional_max_pool2d", "fractional_max_pool3d"}
    | {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"}
    | {f"reflection_pad{dims}d" for dims in (1, 2, 3)}
    | {"upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"}
    | {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"}
)

_ATTENTION = frozenset(
    f"_scaled_dot_product_{name}_attention" for name in ("flash", "efficient", "cudnn")
)
"""Kernels; the operator that chooses one has a separate derivative here (`fused_attention`)."""

LISTED = (
    *(_ATTENTION | _CONVOLUTIONS | _OTHER_CONVOLUTIONS | _ADDING | _PUTTING | _REDUCING),
    *(_GATHERING | _SCANS | _MEDIANS | _LOSSES | _BAGS | _WITHOUT | _WITHOUT_DERIVATIVE | {"pad"}),
)
"""The operators of ATen that are known here."""

_ORDER = (Determinism.GIVEN, Determinism.ON_REQUEST, Determinism.STRICT, Determinism.MISSING)


def determinism_of(op: AnyCall) -> Determinism:
    """Return the requirement of `op`: of a derivative, also that of the call it repeats."""
    name = op.callee.data.split(".")[1]
    of_call = _of_call(name, op)
    if not isinstance(op, VjpOp):
        return of_call
    return max(of_call, _of_derivative(name, op), key=_ORDER.index)


def _of_call(name: str, op: AnyCall) -> Determinism:
    forward = name.removesuffix("_backward").removesuffix("_dense")
    if forward != name:
        return _of_derivative(forward, op)
    if name in _REDUCING:
        return _of_reduction(name, op)
    if name in _PUTTING:
        return _needs(Determinism.ON_REQUEST, if_true=_argument(op, 3, "accumulate") is True)
    if name in _SCANS:
        is_exact = not any(is_float(element_type_of(x)) for x in (*op.inputs, *op.results))
        return _needs(Determinism.MISSING, if_true=not is_exact)
    if name in _MEDIANS:
        return _needs(Determinism.MISSING, if_true=not op.callee.data.endswith(".default"))
    if name in _LOSSES:
        return _needs(Determinism.MISSING, if_true=len(shape_of(op.inputs[0])) > 2)
    if name in _WITHOUT:
        return Determinism.MISSING
    return _needs(Determinism.ON_REQUEST, if_true=name in _ADDING | _OTHER_CONVOLUTIONS)


def _of_derivative(name: str, op: AnyCall) -> Determinism:
    """Return the requirement of an operator's derivative; `op` is a call of either."""
    if name in _ATTENTION:
        return Determinism.STRICT
    if name == "pad":
        return _of_padding(_argument(op, 2, "mode"))
    if name in _BAGS:
        place = _BACKWARD_OF_BAGS.get(op.callee.data.split(".")[1], 4)
        takes_maximum = _argument(op, place, "mode") == 2
        return Determinism.MISSING if takes_maximum else Determinism.ON_REQUEST
    if name in _WITHOUT_DERIVATIVE | _SCANS | _WITHOUT:
        return Determinism.MISSING
    is_listed = name in _GATHERING | _CONVOLUTIONS | _OTHER_CONVOLUTIONS
    return _needs(Determinism.ON_REQUEST, if_true=is_listed)


def _of_reduction(name: str, op: AnyCall) -> Determinism:
    match _argument(op, 4, "reduce"):
        case None | "amax" | "amin":
            return Determinism.GIVEN
        case "sum" | "add" | "mean" if name != "index_reduce":
            return Determinism.ON_REQUEST
        case _:
            return Determinism.MISSING


def _of_padding(mode: object) -> Determinism:
    """Return the requirement of the derivative of padding."""
    match mode:
        case "reflect":
            return Determinism.MISSING
        case "replicate":
            return Determinism.ON_REQUEST
        case _:
            return Determinism.GIVEN


def _needs(what: Determinism, *, if_true: bool) -> Determinism:
    return what if if_true else Determinism.GIVEN


def _argument(op: AnyCall, place: int, name: str) -> object:
    """Return the constant passed at a position, or by name; None if there is none."""
    call = op.template.call
    given = [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg == name)]
    return next((node.value for node in given if isinstance(node, ast.Constant)), None)
