"""Pass `move-scales`: move a factor of rows, or of the whole tensor, past GEMMs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue, Use

from coda_ir.diagnostics import counted
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.gemm import PortKind
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.dominance import uses_through
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import (
    check_rounding_may_move,
    is_tilewise,
    name_of,
    reader_name,
)
from coda_ir.passes.support.matching import unwidened
from coda_ir.passes.support.norms import bias_of
from coda_ir.passes.support.scaled_products import tile_and_factor

Gemm: TypeAlias = coda.LinearOp | coda.MatmulOp | coda.GroupedLinearMap | coda.WeightGradientOp

_STORED = "the scaled tensor is stored by a separate kernel"


@dataclass(frozen=True)
class _Scaled:
    """x·s with one s, or one per row, and the GEMMs that read it."""

    op: coda.MulOp
    x: SSAValue
    scale: SSAValue
    is_per_row: bool
    uses: Sequence[Use]

    @property
    def gemms(self) -> list[tuple[Gemm, int]]:
        return [(u.operation, u.index) for u in self.uses if isinstance(u.operation, Gemm)]


class MoveScalesPass(FunctionPass):
    """Moves a scalar, or a scale per row, past a GEMM, which then reads the unscaled x: (s·x)·W =
    s·(x·W).

        %t = coda.mul %x, %s                         %a = coda.matmul %x, %W : ... -> f32
        %z = coda.matmul %t, %W               ->     %z = coda.cast(coda.mul %a, %s)
        %d = coda.weight_gradient %t, %h             %b = coda.weight_gradient %x, %h : ... -> f32
                                                     %d = coda.cast(coda.mul %b, %s)

    The epilogues of the two GEMMs of the backward then apply the scale of a loss or of a residual
    branch, instead of a kernel that reads and writes the whole gradient. Legal iff x is stored
    anyway; every other use of x·s is pointwise code, which recomputes the product; no GEMM has a
    bias or is an addend of a sum in one accumulator; x has elements; a constant s is finite; and
    the numerics mode allows rounding points to move. A weight gradient sums over the rows, so only
    scalars move past it.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            found = _find(op)
            if found is None:
                continue
            if rewriter.accepts(
                op, _check(found), f"moved past {counted(len(found.gemms), 'GEMM')}"
            ):
                for gemm, _ in found.gemms:
                    _rewrite(found, gemm, rewriter)


def _find(op: Operation) -> _Scaled | None:
    """Find x·s that GEMMs read and that no epilogue computes."""
    if not isinstance(op, coda.MulOp) or not is_pointwise(op):
        return None
    domain, uses = shape_of(op.result), _uses_through_casts(op.result)
    pair = tile_and_factor(op, domain)
    if pair is None:
        return None
    is_column = port_kind(shape_of(pair[1]), domain) == PortKind.COL
    found = _Scaled(op, unwidened(pair[0]), pair[1], is_column, uses)
    return found if found.gemms and _is_stored(found.x) else None


def _uses_through_casts(value: SSAValue) -> list[Use]:
    """Return the uses of `value` and of its conversions, except to 8 bits, which need a scale."""

    def is_cast(op: Operation) -> bool:
        return isinstance(op, coda.CastOp) and is_float(element_type_of(op.result))

    return list(uses_through(value, is_cast))


def _is_stored(x: SSAValue) -> bool:
    """Return whether `x` is in memory without the readers of x·s; else its producer scales it."""
    return not is_tilewise(x) or x.has_more_than_one_use()


def _check(found: _Scaled) -> Refusal | None:
    number = found.scale.owner
    if isinstance(number, coda.ConstantOp) and not isfinite(number.number):
        # Products with it have either sign, and no sum; the product with their sum has one.
        return Refusal("a constant factor is finite", f"{_STORED}: its factor is {number.number}")
    refusal = check_rounding_may_move(found.op, f"{_STORED}: eager PyTorch rounds it")
    if refusal is not None:
        return refusal
    for use in found.uses:
        op = use.operation
        refusal = _check_gemm(found, op, use.index) if isinstance(op, Gemm) else _check_other(op)
        if refusal is not None:
            return refusal
    return None


def _check_other(op: Operation) -> Refusal | None:
    if is_pointwise(op):
        return None
    return Refusal(
        "only GEMMs and pointwise code read the scaled tensor",
        f"{_STORED}: {reader_name(op)} also reads it",
    )


def _check_gemm(found: _Scaled, gemm: Gemm, index: int) -> Refusal | None:
    is_weight = index > 0 and not isinstance(gemm, coda.WeightGradientOp)
    if list(gemm.operands).count(gemm.operands[index]) > 1 or is_weight:
        return Refusal(
            "the scaled tensor is not the weight of a GEMM",
            f"{_STORED}: it is a weight of {gemm.name}",
        )
    if 0 in shape_of(found.x):
        # Sums of no products are 0; times a factor that is not finite, they are not.
        return Refusal("no operand is empty", f"{_STORED}: {name_of(found.x)} has no elements")
    if found.is_per_row and isinstance(gemm, coda.WeightGradientOp):
        return Refusal(
            "no GEMM sums over the scaled rows",
            f"{_STORED}: {name_of(gemm.result)} sums over rows with different factors",
        )
    if not isinstance(gemm, coda.WeightGradientOp) and bias_of(gemm) is not None:
        return Refusal("no GEMM has a bias", f"{_STORED}: {gemm.name} adds a bias")
    if element_type_of(found.x) != element_type_of(gemm.operands[index]):
        found_type = element_type_of(found.x)
        return Refusal(
            "scaling preserves the element type",
            f"{_STORED}: it changes the type from {found_type}",
        )
    if len(shape_of(found.scale)) > len(shape_of(gemm.result)):
        return Refusal(
            "the factor broadcasts to the result",
            f"{_STORED}: the factor has more dimensions than the result",
        )
    if _is_added_to_product(gemm):
        return Refusal(
            "no product is added to other products",
            f"{_STORED}: {name_of(gemm.result)} is summed with others in one accumulator",
        )
    return None


def _is_added_to_product(gemm: Gemm) -> bool:
    sums = [u.operation for u in gemm.result.uses if isinstance(u.operation, coda.AddOp)]
    addends = [value for op in sums for value in op.operands if value is not gemm.result]
    return any(isinstance(value.owner, Gemm | coda.AddOp) for value in addends)


def _rewrite(found: _Scaled, gemm: Gemm, rewriter: FunctionRewriter) -> None:
    insert = rewriter.before(gemm)
    operands = list(gemm.operands)
    operands[next(i for g, i in found.gemms if g is gemm)] = found.x
    product = insert.insert(type(gemm)(*operands, element_type=f32))
    insert.location = found.op.location
    scaled = insert.mul(product, insert.cast(found.scale, f32))
    rewriter.replace(gemm, insert.cast(scaled, element_type_of(gemm.result)))
