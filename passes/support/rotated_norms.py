"""Norms of rotated heads, which commute with the rotation."""

from collections.abc import Iterator

from xdsl.ir import Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise import CosOp, SinOp
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import name_of

REARRANGED = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.BroadcastOp)


def check_rotated_norm(norm: coda.RMSNormOp, rope: coda.RopeOp) -> Refusal | None:
    """Check that a norm of `rope` commutes: rotations keep the sum of squares of a pair."""
    failed = next(_failures(norm, rope), None)
    if failed is None:
        return None
    condition, why = failed
    found = f"the norm does not move before the rotation of {name_of(rope.x)}: {why}"
    return Refusal(condition, found)


def _failures(norm: coda.RMSNormOp, rope: coda.RopeOp) -> Iterator[tuple[str, str]]:
    """Yield the conditions that fail, each with the reason."""
    if norm.weight is not None:
        yield "a norm of rotated heads has no weight", "its weight may differ within a pair"
    if norm.group_size != rope.head_dim.value.data:
        yield "a norm of rotated heads has groups of a head", f"it has groups of {norm.group_size}"
    if not rope.result.has_one_use():
        yield "the norm is the only use of the rotated heads", "other operators read its result"
    if not _turns_by_angles(rope):
        yield (
            "the tables of the rotation are cos and sin of the same angles, which the function "
            "computes in float32 or float64",
            "its tables may be any numbers",
        )
    if numerics_mode(norm) == NumericsMode.EAGER_EXACT:
        yield (
            "the numerics mode allows rounding points to move",
            "eager PyTorch rounds its result, and the mode is eager-exact",
        )


def _turns_by_angles(rope: coda.RopeOp) -> bool:
    """Return whether each pair of columns has one angle, whose cos and sin are in the tables."""
    cos, sin = rope.cos.owner, rope.sin.owner
    while isinstance(cos, REARRANGED) and isinstance(sin, REARRANGED):
        if _form(cos) != _form(sin):
            return False
        cos, sin = cos.operands[0].owner, sin.operands[0].owner
    if not isinstance(cos, CosOp) or not isinstance(sin, SinOp) or rope.is_per_column:
        return False
    return cos.operands == sin.operands and element_bytes(element_type_of(rope.cos)) >= 4


def _form(op: Operation) -> tuple[object, ...]:
    return op.name, op.properties, op.attributes, op.result_types
