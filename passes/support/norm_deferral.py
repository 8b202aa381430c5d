"""Legality of deferral: whether a norm can move past all of its consumers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import Float16Type
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue, Use

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, PairingAttr, ScalarBuilder, Segment, numerics_mode
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import check_rounding_may_move
from coda_ir.passes.support.matching import Norm, only_use, taken_norm
from coda_ir.passes.support.order import BlockOrder

NormConsumer: TypeAlias = (
    coda.LinearOp | coda.MatmulOp | coda.LowBitLinearOp | coda.RopeOp | FusedOp
)
"""Operators that a norm moves past. An RMSNorm only scales rows and columns, so that it also
moves past a rotation of columns, and past a quantized weight, which has no other vectors."""


POST_NORM = (
    "use it only as the input of linear or @; for other code, such as a residual, the GEMM before "
    "it normalizes rows of at most 128 columns, and one kernel after that GEMM wider ones"
)


@dataclass(frozen=True)
class NormDeferral:
    """A norm that can move past the GEMMs, and the rotations, that consume it."""

    consumers: tuple[NormConsumer, ...]
    recomputed_by: tuple[Operation, ...] = ()
    """Pointwise code in the epilogues of other GEMMs, which applies the statistics again."""


def check_norm_consumers(norm: Norm, order: BlockOrder) -> NormDeferral | Refusal:
    """Check that every consumer of the norm (see `taken_norm`) is a GEMM on its rows.

    It also stores x times the weight in place of the norm, which is of order 1: in float16 that
    overflows above 65504 where PyTorch stays finite. Without a weight, x is there already.
    """
    stored = "the norm is not deferred: eager PyTorch rounds it"
    refusal = check_rounding_may_move(norm, stored) or _check_parameters(norm, order)
    if refusal is not None:
        return refusal
    if not shape_of(norm.x)[-1]:
        return Refusal("no operand is empty", "the norm is not deferred: its rows have no elements")
    element_type = element_type_of(norm.x)
    if not computes_in_float32(element_type):
        return Refusal(
            "float32 can represent every value",
            f"the norm is not deferred: its element type is {element_type}",
            "use f32, or the reference target",
        )
    taken = taken_norm(norm)
    is_stored = norm.weight is None and element_type_of(taken) == element_type
    if isinstance(element_type_of(taken), Float16Type) and not is_stored:
        return Refusal(
            "the element type has the range of float32",
            "the norm is not deferred: its input times its weight may overflow float16",
            "use bf16 or f32",
        )
    consumers: list[NormConsumer] = []
    others: list[Use] = []
    for use in sorted(taken.uses, key=lambda use: order.position(use.operation)):
        op = use.operation
        if use.index == 0 and isinstance(op, NormConsumer) and _lets_pass(op, norm):
            consumers.append(op)
        elif taken is norm.results[0] and _joins_other_tile(op, taken):
            others.append(use)
        else:
            return _not_deferred(use)
    if not consumers and others:
        return _not_deferred(others[0])
    return NormDeferral(tuple(consumers), tuple(dict.fromkeys(use.operation for use in others)))


def _check_parameters(norm: Norm, order: BlockOrder) -> Refusal | None:
    producer, parameters = norm.x.owner, norm.operands[1:]
    if not isinstance(producer, Operation):
        return None
    if order.slices_after(parameters, producer) is None:
        return Refusal(
            "the weight and the bias do not depend on the input of the norm",
            "the norm is not deferred: a parameter is computed from its input",
        )
    return None


def _lets_pass(consumer: NormConsumer, norm: Norm) -> bool:
    """Return whether `norm` can be applied to the result of `consumer` instead of its input."""
    only_scales = isinstance(norm, coda.RMSNormOp)
    if isinstance(consumer, FusedOp):
        vectors = only_scales or all(map(takes_row_vectors, consumer.segments()))
        return takes_scaled_rows(consumer) and vectors
    return only_scales or not isinstance(consumer, coda.RopeOp | coda.LowBitLinearOp)


def _not_deferred(use: Use) -> Refusal:
    consumer, condition = use.operation, "every consumer of the norm is a GEMM"
    remedy: str | None = "use the norm only as the input of linear or @"
    if isinstance(consumer, ReturnOp):
        what = "it is returned"
    elif isinstance(consumer, FusedOp):
        condition, what = f"{condition} of its rows alone", _other_role(consumer, use.index)
    elif any(isinstance(each, coda.GroupedLinearMap) for each in _through_views(consumer)):
        condition = f"{condition}, not a grouped one"
        what = "a grouped GEMM (of experts) reads its rows"
        remedy = "no action is needed: the rows for the experts are gathered from the stored norm"
    elif isinstance(consumer, coda.LowBitLinearOp):
        what, remedy = "its mean cannot move past a quantized weight", None
    elif calls := [each for each in _through_views(consumer) if isinstance(each, CallOp)]:
        what, remedy = f"a call of PyTorch, {calls[0].callee.data}, reads its rows", None
    elif isinstance(consumer, coda.ReshapeOp) and all(
        isinstance(each, coda.LinearOp | coda.MatmulOp) for each in _through_views(consumer)
    ):
        what, remedy = f"{consumer.name} uses it before a GEMM", "reshape after the linear"
    else:
        what = f"{consumer.name} uses it"
        if is_pointwise(consumer):
            remedy = POST_NORM
    found = f"the norm is not deferred: {what}, so the norm must be stored"
    return Refusal(condition, found, remedy)


def _through_views(op: Operation) -> list[Operation]:
    """Return `op` without reshapes, and the readers of those and of selected rows in turn."""
    found = [op]
    for each in found:
        if isinstance(each, coda.ReshapeOp | coda.IndexOp | coda.GatherOp):
            users = dict.fromkeys(use.operation for use in each.results[0].uses)
            found += [user for user in users if user not in found]
    return [each for each in found if not isinstance(each, coda.ReshapeOp)]


def _other_role(gemm: FusedOp, index: int) -> str:
    """Return how a GEMM uses its operand `index`, if not to multiply rows by a weight."""
    if index >= len(gemm.inputs):
        return "an epilogue reads it" if gemm.operands[index] in gemm.ports else "it is a weight"
    if gemm.is_transposed:
        return "a GEMM sums over its rows"
    if gemm.groups is not None:
        return "a GEMM uses different weights for different rows"
    if gemm.gather is not None or gemm.scatter is not None:
        return "a GEMM gathers or scatters rows"
    if gemm.blocks is not None:
        return "a GEMM applies block scales to them"
    if len(gemm.inputs) > 1:
        return "a GEMM adds its product to another one"
    return "a GEMM joins several weights in one range of columns"


def _joins_other_tile(op: Operation, value: SSAValue) -> bool:
    """Return whether `op` combines `value` with a GEMM's tile, or changes it before that."""
    while is_pointwise(op) and _tiles(op) == [value]:
        follower = only_use(op.results[0])
        if follower is None:
            return False
        op, value = follower, op.results[0]
    return is_pointwise(op) and any(
        other is not value and shape_of(other) == shape_of(value) and _is_gemm_tile(other)
        for other in op.operands
    )


def _is_gemm_tile(value: SSAValue) -> bool:
    """Return whether a GEMM makes `value`, or pointwise code on a GEMM's result of one use."""
    while is_pointwise(value.owner) and isinstance(value.owner, Operation):
        tiles = _tiles(value.owner)
        if len(tiles) != 1:
            return False
        value = tiles[0]
    return isinstance(value.owner, coda.LinearOp | coda.MatmulOp | coda.LowBitLinearOp)


def _tiles(op: Operation) -> list[SSAValue]:
    """Return the operands of a pointwise operator that have an element for each of its result."""
    return [value for value in op.operands if shape_of(value) == shape_of(op.results[0])]


# Norms that move into an epilogue: its accumulators become what the GEMM on the norm has


Correction: TypeAlias = Callable[[Segment, ScalarBuilder], Sequence[SSAValue]]
"""The values that take the place of the accumulators of a segment."""


def takes_scaled_rows(gemm: FusedOp) -> bool:
    """Return whether the rows of the accumulators are those of the input, times one matrix."""
    others = (gemm.groups, gemm.gather, gemm.scatter, gemm.blocks)
    return len(gemm.inputs) == 1 and not gemm.is_transposed and set(others) == {None}


def takes_row_vectors(segment: Segment) -> bool:
    """Return whether a vector over each weight's columns is a port: of all columns or each half."""
    return len(segment.weights) == 1 or (
        len(segment.weights) == 2 and segment.pairing == PairingAttr.halves()
    )


def correct_accumulators(
    gemm: FusedOp, x: SSAValue, correct: Correction, order: BlockOrder
) -> None:
    """Make `gemm` multiply `x`, and apply `correct` to the accumulators before its regions."""
    segments = gemm.take_segments()
    for segment in segments:
        uses = [list(accumulator.uses) for accumulator in segment.accumulators]
        builder = ScalarBuilder(segment.block, gemm.location, numerics_mode(gemm), at_start=True)
        for value, same in zip(correct(segment, builder), uses, strict=True):
            for use in same:
                use.operation.operands[use.index] = value
    replace_gemm(gemm, x, segments, order)


def replace_gemm(
    gemm: FusedOp, x: SSAValue, segments: Sequence[Segment], order: BlockOrder
) -> None:
    """Replace `gemm` by a GEMM of `x` with other segments."""
    new = gemm.with_segments(segments, inputs=x)
    new.attributes |= gemm.attributes
    order.substitute(gemm, new)
