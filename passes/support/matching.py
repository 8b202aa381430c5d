"""Matching of decomposed computations on the block level, by what they compute."""

from math import sqrt
from typing import TypeAlias, TypeGuard, TypeVar

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f64
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm.scalar_code import is_widening_cast
from coda_ir.dominance import before

OpT = TypeVar("OpT", bound=Operation)

FAR = -1e30
"""The largest number that stays the same, but for rounding, if a score is added to it."""

Norm: TypeAlias = coda.RMSNormOp | coda.LayerNormOp


def is_row_norm(op: Operation) -> TypeGuard[Norm]:
    """Return whether `op` is a norm over whole rows, which one statistic of each row applies."""
    is_grouped = isinstance(op, coda.RMSNormOp) and op.group is not None
    return isinstance(op, Norm) and not is_grouped


def defined_by(value: SSAValue, kind: type[OpT]) -> OpT | None:
    """Return the operator that computes `value`, if it has the type `kind`."""
    return value.owner if isinstance(value.owner, kind) else None


def number_of(value: SSAValue) -> float | None:
    """Return the number that `value` is: a constant or its square root, converted or not."""
    value = unconverted(value)
    if isinstance(value.owner, coda.SqrtOp):
        number = number_of(value.owner.operand)
        return None if number is None or number < 0 else sqrt(number)
    return float(value.owner.number) if isinstance(value.owner, coda.ConstantOp) else None


def unwidened(value: SSAValue) -> SSAValue:
    """Return `value` before its conversions to wider types, which are exact."""
    return before(value, coda.CastOp, is_widening_cast)


def widens(op: Operation) -> bool:
    """Return whether `op` converts floats to a wider type, which is exact; float64 is one."""
    if not isinstance(op, coda.CastOp):
        return False
    is_float = computes_in_float32(element_type_of(op.operand))
    return is_widening_cast(op) or (is_float and element_type_of(op.result) == f64)


def as_narrow_as(value: SSAValue, element: Attribute) -> SSAValue:
    """Return `value` before it was widened, if its elements then have the type `element`."""
    narrow = unwidened(value)
    return narrow if element_type_of(narrow) == element else value


def offset_of(value: SSAValue) -> tuple[SSAValue, float] | None:
    """Return (x, c) if `value` is x + c for a number c."""
    add = defined_by(value, coda.AddOp)
    for x, constant in add.pairs if add else ():
        number = number_of(constant)
        if number is not None:
            return x, number
    return None


def is_row(value: SSAValue, columns: int) -> bool:
    """Return whether `value` is a vector of `columns` elements."""
    return shape_of(value) == (columns,)


def only_use(value: SSAValue) -> Operation | None:
    """Return the one operator that uses `value`, once."""
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def same_type(a: SSAValue, b: SSAValue) -> bool:
    return element_type_of(a) == element_type_of(b)


def taken_norm(norm: Operation) -> SSAValue:
    """Return the value of a norm that consumers use: an RMSNorm rounded to a narrower type, if it
    is only rounded.

    Autocast has norms in float32 so, in front of products in bfloat16.
    """
    result = norm.results[0]
    cast = only_use(result)
    if not isinstance(norm, coda.RMSNormOp) or not isinstance(cast, coda.CastOp):
        return result
    is_rounded = isinstance(element_type_of(cast.result), BFloat16Type | Float16Type)
    return (
        cast.result if is_rounded and isinstance(element_type_of(result), Float32Type) else result
    )


def unconverted(value: SSAValue) -> SSAValue:
    """Return `value` before conversions between element types."""
    return before(value, coda.CastOp)


def is_float64(op: Operation) -> bool:
    """Return whether `op` has an operand or a result of float64."""
    return any(element_type_of(value) == f64 for value in (*op.operands, *op.results))
