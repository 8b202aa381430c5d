"""Pass `read-narrow-weights`: a GEMM reads a weight of 8 bits, and its result takes the scale."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    is_eight_bits,
    is_float,
    multiplies,
    shape_of,
)
from coda_ir.dialects.gemm import PortKind
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move, name_of
from coda_ir.passes.support.matching import number_of, operand_pairs
from coda_ir.passes.support.norms import OpInserter, bias_of, replace_value
from coda_ir.passes.support.ports import port_kind

LinearMap: TypeAlias = coda.LinearOp | coda.MatmulOp | coda.GroupedLinearMap


@dataclass(frozen=True)
class _Narrow:
    """A weight of 8 bits that a linear map has as wider numbers, and what they are scaled with."""

    weight: SSAValue
    scale: SSAValue | None = None


@dataclass(frozen=True)
class ReadNarrowWeightsPass(FunctionPass):
    """x·(s·W)ᵀ = s·(x·Wᵀ) for a weight of 8 bits with one scale, or one per column of the result.

        %d = coda.cast %w : i8 -> bf16                 %z = coda.linear %x, %w : bf16, i8 -> f32
        %v = coda.mul %d, %s                    ->     %y = coda.cast(%z * %s + %b)
        %y = coda.linear %x, %v, %b

    The GEMM loads W as 8 bits and converts it on the way to the product, its epilogue scales the
    accumulator, and the dequantized weight is never stored. Legal iff the type of x holds the
    elements of W, each column of the result has one scale, a constant scale is finite, and the
    numerics mode lets rounding points move. Without a scale, converting is exact in any mode.
    """

    name: ClassVar[str] = "read-narrow-weights"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            found = _find(op.weight) if isinstance(op, LinearMap) else None
            if found is None:
                continue
            assert isinstance(op, LinearMap)
            refusal = _check(op, found)
            if refusal is not None:
                rewriter.missed(op, refusal)
                continue
            type = element_type_of(found.weight)
            rewriter.passed(op, f"reads {name_of(found.weight)} as {type}")
            if found.scale is None:
                op.operands[1] = found.weight
            else:
                assert isinstance(op, coda.LinearOp | coda.MatmulOp)
                _rewrite(op, found.weight, found.scale, rewriter)


def _find(weight: SSAValue) -> _Narrow | None:
    """The weight of 8 bits that `weight` is, converted and scaled."""
    value = _before_casts(weight)
    if is_eight_bits(element_type_of(value)):
        return None if value is weight else _Narrow(value)
    if not isinstance(value.owner, coda.MulOp):
        return None
    for factor, scale in operand_pairs(value.owner):
        narrow = _before_casts(factor)
        is_whole = shape_of(narrow) == shape_of(weight)
        if is_whole and is_eight_bits(element_type_of(narrow)):
            return _Narrow(narrow, scale)
    return None


def _before_casts(value: SSAValue) -> SSAValue:
    """`value` before conversions to floats that hold every number of 8 bits."""
    while isinstance(value.owner, coda.CastOp) and is_float(element_type_of(value)):
        value = value.owner.operand
    return value


def _check(op: LinearMap, found: _Narrow) -> Refusal | None:
    type, narrow = element_type_of(op.x), element_type_of(found.weight)
    stored = f"{name_of(op.weight)} is stored in {type}"
    if not multiplies(type, narrow):
        return Refusal("float32 holds every value", f"{stored}: it is multiplied as such")
    if found.scale is None:
        return None
    if not isfinite(number_of(found.scale) or 0.0):
        return Refusal("a constant scale is finite", f"{stored}: its scale is no number")
    if not _is_per_column(op, found.scale):
        return Refusal(
            "each column of the result has one scale",
            f"{stored}: its scale {name_of(found.scale)} varies along K, or by group",
        )
    return check_rounding_may_move(op, f"{stored}: eager rounds the scaled weight")


def _is_per_column(op: LinearMap, scale: SSAValue) -> bool:
    """Return whether `scale` is one number, or has one for each column of the result."""
    if isinstance(op, coda.GroupedLinearMap):
        return False
    domain, shape = shape_of(op.weight), shape_of(scale)
    kind = port_kind(shape, domain)
    if kind == PortKind.SCALAR or isinstance(op, coda.LinearOp):
        return kind in (PortKind.SCALAR, PortKind.COL)
    return shape in ((domain[1],), (1, domain[1]))


def _rewrite(
    op: coda.LinearOp | coda.MatmulOp,
    weight: SSAValue,
    scale: SSAValue,
    rewriter: FunctionRewriter,
) -> None:
    insert = OpInserter(rewriter, op, op.location)
    product = type(op)(op.x, weight, result_element_type=f32)
    value = insert.insert(product, op.result.name_hint)
    value = insert.mul(value, insert.cast(_as_row(insert, scale), f32))
    bias = bias_of(op)
    if bias is not None:
        value = insert.add(value, insert.cast(bias, f32))
    replace_value(op, insert.cast(value, element_type_of(op.result)))
    rewriter.order.erase(op)


def _as_row(insert: OpInserter, scale: SSAValue) -> SSAValue:
    """The scales of the columns as one dimension."""
    if len(shape_of(scale)) < 2:
        return scale
    extent = next((extent for extent in shape_of(scale) if extent != 1), 1)
    return insert.insert(coda.ReshapeOp(scale, [extent]), scale.name_hint)
