"""Pass `read-narrow-weights`: read operands in their narrow type, and scale the result instead."""

from dataclasses import dataclass, replace
from math import isfinite
from typing import TypeAlias

from xdsl.dialects.builtin import bf16, f16, f32
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
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.dominance import before
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move, name_of
from coda_ir.passes.support.matching import number_of, unwidened
from coda_ir.passes.support.norms import bias_of

LinearMap: TypeAlias = coda.LinearOp | coda.MatmulOp | coda.GroupedLinearMap


@dataclass(frozen=True)
class _Narrow:
    """A weight of 8 bits that a linear layer reads as wider numbers, and their scale."""

    weight: SSAValue
    scale: SSAValue | None = None
    part: coda.SliceOp | None = None
    """The rows of a packed weight that the linear map has."""

    @property
    def is_scaled_by_row(self) -> bool:
        kind = self.scale and port_kind(shape_of(self.scale), shape_of(self.weight))
        return kind == PortKind.COL


class ReadNarrowWeightsPass(FunctionPass):
    """Reads an 8-bit weight as it is stored, and scales the result: x·(s·W)ᵀ = s·(x·Wᵀ), for one
    scale, or one per column of the result.

        %d = coda.cast %w : i8 -> bf16                 %z = coda.linear %x, %w : bf16, i8 -> f32
        %v = coda.mul %d, %s                    ->     %y = coda.cast(%z * %s + %b)
        %y = coda.linear %x, %v, %b

    A slice of a packed weight takes the matching slices of W and s. The GEMM loads W in 8 bits and
    converts it before the product, its epilogue scales the accumulator, and the dequantized weight
    is never stored. Legal iff the type of x represents every element of W; each column of the
    result has one scale; a constant scale is finite; and the numerics mode allows rounding points
    to move. Without a scale, the conversion is exact in every mode.

    Rows and weights of 16 bits that are both converted to float32 for a product, as in the routers
    of experts, are read in 16 bits. The product of two such elements is exact in float32:

        %a = coda.cast %x : bf16 -> f32
        %b = coda.cast %w : bf16 -> f32                %y = coda.linear %x, %w : bf16, bf16 -> f32
        %y = coda.linear %a, %b                 ->
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if not isinstance(op, LinearMap):
                continue
            if _are_widened(op):
                operands = f"{name_of(op.x)} and {name_of(op.weight)}"
                rewriter.passed(op, f"multiplies {operands} in 16 bits")
                _read_both(op, rewriter)
                continue
            found = _find_part(op)
            if found is None:
                continue
            if rewriter.refuses(op, _check(op, found)):
                continue
            type = element_type_of(found.weight)
            rewriter.passed(op, f"reads {name_of(found.weight)} as {type}")
            _rewrite(op, found, rewriter)


def _are_widened(op: LinearMap) -> bool:
    """Return whether x and the weight are converted from the same 16-bit type to float32."""
    if isinstance(op, coda.GroupedLinearMap) and op.bias is not None:
        return False
    wide = (element_type_of(op.x), element_type_of(op.weight), element_type_of(op.result))
    narrow = {element_type_of(unwidened(value)) for value in (op.x, op.weight)}
    return set(wide) == {f32} and narrow in ({bf16}, {f16})


def _read_both(op: LinearMap, rewriter: FunctionRewriter) -> None:
    """Multiply the operands before they are widened, and add the bias to the float32 sum."""
    insert, operands = rewriter.before(op), list(op.operands)
    operands[:2] = map(unwidened, operands[:2])
    bias = bias_of(op)
    given = [value for value in operands if value is not bias]
    value = insert.insert(type(op)(*given, element_type=f32), op.result.name_hint)
    if bias is not None:
        value = insert.add(value, bias)
    rewriter.replace(op, value)


def _find_part(op: LinearMap) -> _Narrow | None:
    """Return the weight of 8 bits of which a linear layer reads all rows, or some of them."""
    part = op.weight.owner
    if not isinstance(op, coda.LinearOp) or not isinstance(part, coda.SliceOp) or part.range[0]:
        return _find(op.weight)
    found = _find(part.x)
    return None if found is None else replace(found, part=part)


def _find(weight: SSAValue) -> _Narrow | None:
    """Return the weight of 8 bits from which `weight` is converted and scaled."""
    value = _before_casts(weight)
    if is_eight_bits(element_type_of(value)):
        return None if value is weight else _Narrow(value)
    if not isinstance(value.owner, coda.MulOp):
        return None
    for factor, scale in value.owner.pairs:
        narrow = _before_casts(factor)
        is_whole = shape_of(narrow) == shape_of(weight)
        if is_whole and is_eight_bits(element_type_of(narrow)):
            return _Narrow(narrow, scale)
    return None


def _before_casts(value: SSAValue) -> SSAValue:
    """Return `value` before conversions to floats that hold every 8-bit number."""
    return before(value, coda.CastOp, lambda op: is_float(element_type_of(op.result)))


def _check(op: LinearMap, found: _Narrow) -> Refusal | None:
    type, narrow = element_type_of(op.x), element_type_of(found.weight)
    stored = f"{name_of(op.weight)} is stored in {type}"
    if not multiplies(type, narrow):
        return Refusal(
            "float32 can represent every value", f"{stored}: it is multiplied in this type"
        )
    if found.scale is None:
        return None
    if not isfinite(number_of(found.scale) or 0.0):
        return Refusal("a constant scale is finite", f"{stored}: its scale is not finite")
    if not _is_per_column(op, found):
        return Refusal(
            "each column of the result has one scale",
            f"{stored}: its scale {name_of(found.scale)} varies along K or by group",
        )
    return check_rounding_may_move(op, f"{stored}: eager PyTorch rounds the scaled weight")


def _is_per_column(op: LinearMap, found: _Narrow) -> bool:
    """Return whether the scale is a single number, or has one for each column of the result."""
    if isinstance(op, coda.GroupedLinearMap) or found.scale is None:
        return False
    domain, shape = shape_of(found.weight), shape_of(found.scale)
    if port_kind(shape, domain) == PortKind.SCALAR:
        return True
    if isinstance(op, coda.LinearOp):
        return found.is_scaled_by_row
    return shape in ((domain[1],), (1, domain[1]))


def _rewrite(op: LinearMap, found: _Narrow, rewriter: FunctionRewriter) -> None:
    insert = rewriter.before(op)
    weight = _part_of(insert, found.weight, found.part)
    if found.scale is None or isinstance(op, coda.GroupedLinearMap):
        op.operands[1] = weight
        return
    by_row = found.part if found.is_scaled_by_row else None
    scale = _as_row(insert, _part_of(insert, found.scale, by_row))
    product = type(op)(op.x, weight, element_type=f32)
    value = insert.insert(product, op.result.name_hint)
    value = insert.mul(value, insert.cast(scale, f32))
    bias = bias_of(op)
    if bias is not None:
        value = insert.add(value, insert.cast(bias, f32))
    rewriter.replace(op, insert.cast(value, element_type_of(op.result)))


def _part_of(insert: OpInserter, value: SSAValue, part: coda.SliceOp | None) -> SSAValue:
    """Return the rows of `value` that `part` selects from another tensor; all without `part`."""
    if part is None:
        return value
    return insert.insert(coda.SliceOp(value, *part.range), value.name_hint)


def _as_row(insert: OpInserter, scale: SSAValue) -> SSAValue:
    """Return the scales of the columns as a vector."""
    if len(shape_of(scale)) < 2:
        return scale
    extent = next((extent for extent in shape_of(scale) if extent != 1), 1)
    return insert.insert(coda.ReshapeOp(scale, [extent]), scale.name_hint)
