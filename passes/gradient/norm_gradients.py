"""Row sums in the gradient of a norm: h ⊙ dh, and dh as the gradient of linear maps of h."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dominance import before, uses_through
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.matching import Norm, is_row_norm, only_use
from coda_ir.passes.support.norm_products import is_modulated
from coda_ir.passes.support.norms import bias_of
from coda_ir.passes.support.scaled_products import scaled, without

Linear: TypeAlias = coda.LinearOp | coda.MatmulOp | coda.QuantizedLinearOp


@dataclass(frozen=True)
class NormGradientSum:
    """A row sum of h ⊙ dh, or of w ⊙ dh, times factors that are constant in a row."""

    reduce: coda.ReduceOp
    norm: Norm
    gradient: SSAValue
    """dh, the gradient of the norm's result."""
    is_of_weight: bool
    """True if the sum is of w ⊙ dh: the first one of a LayerNorm."""
    outside: Sequence[SSAValue]
    """Columns and scalars that the sum is multiplied with."""
    divisor: SSAValue | None
    """rstd, where the sum is of h ⊙ dh / rstd."""

    @property
    def columns(self) -> int:
        return shape_of(self.reduce.x)[-1]

    @property
    def weight(self) -> SSAValue:
        assert self.norm.weight is not None, "the sum of a weight has one"
        return self.norm.weight

    @property
    def norm_bias(self) -> SSAValue | None:
        return self.norm.bias if isinstance(self.norm, coda.LayerNormOp) else None

    @property
    def needs_vectors(self) -> bool:
        """True if products of the layers' weights and vectors are needed."""
        return self.is_of_weight or self.norm_bias is not None


@dataclass(frozen=True)
class MapGradient:
    """A linear layer z = h·W of the forward, and dz."""

    map: Linear
    gradient: SSAValue
    total: SSAValue | None = None
    """The sum of z and of what other maps of the norm lead to, where the forward has only that."""
    is_in_total: bool = False
    """True if <z, dz> is counted where z leads to."""

    def with_bias(self) -> tuple[SSAValue, SSAValue | None]:
        """Return the value with which the forward continues, and the bias in it or None."""
        result, bias = self._with_own_bias()
        return self.total or result, bias

    def _with_own_bias(self) -> tuple[SSAValue, SSAValue | None]:
        result = self.map.result
        uses = list(result.uses)
        add = uses[0].operation if len(uses) == 1 else None
        if bias_of(self.map) is not None or not isinstance(add, coda.AddOp):
            return result, bias_of(self.map)
        other = add.operands[1 - uses[0].index]
        # What is added to a single row may be anything: subtracting it again may lose all digits.
        is_row = len(shape_of(result)) > 1 and shape_of(other) == shape_of(result)[-1:]
        is_bias = is_row and add.result.type == result.type
        return (add.result, other) if is_bias else (result, None)

    def rotated(self) -> tuple[SSAValue, SSAValue] | None:
        """The rotation of z, and its gradient, if dz is that gradient rotated back."""
        back = self.gradient.owner
        if not isinstance(back, coda.RopeOp) or back.transposed is None:
            return None
        result, bias = self.with_bias()
        for use in result.uses if bias is None else ():
            rope = use.operation
            if isinstance(rope, coda.RopeOp) and use.index == 0 and _is_adjoint(rope, back):
                return rope.result, back.x
        return None


def _is_adjoint(rope: coda.RopeOp, back: coda.RopeOp) -> bool:
    tables = (rope.cos, rope.sin) == (back.cos, back.sin)
    adjoint = {**rope.properties, "transposed": back.transposed}
    return tables and rope.transposed is None and adjoint == back.properties


def uncast(value: SSAValue) -> SSAValue:
    """Return `value` before its conversions between float types."""
    return before(value, coda.CastOp, lambda op: is_float(element_type_of(op.operand)))


def parts_of(value: SSAValue, kind: type[coda.BinaryOp]) -> list[SSAValue]:
    """Return the terms, or the factors, of `value`, each before its conversions."""
    found: list[SSAValue] = []
    pending = [value]
    while pending:
        current = uncast(pending.pop())
        if isinstance(current.owner, kind):
            pending += reversed(current.owner.operands)
        else:
            found.append(current)
    return found


def find_norm_sum(reduce: coda.ReduceOp) -> NormGradientSum | None:
    """Return the row sum of a norm's gradient that `reduce` is."""
    if reduce.kind.data not in ("sum", "mean") or shape_of(reduce.x)[-1] == DYNAMIC_INDEX:
        return None
    parts = parts_of(reduce.x, coda.MulOp)
    for index, gradient in enumerate(parts):
        maps = [term for term in parts_of(gradient, coda.AddOp) if isinstance(term.owner, Linear)]
        others = [*parts[:index], *parts[index + 1 :]]
        for norm in _norms_of(others) if maps else ():
            found = _match(reduce, norm, gradient, others)
            if found is not None:
                return found
    return None


def _norms_of(parts: Sequence[SSAValue]) -> Iterator[Norm]:
    """Yield the unmodulated norms over whole rows that read a factor, or its minuend."""
    sources = [uncast(p.owner.lhs) if isinstance(p.owner, coda.SubOp) else p for p in parts]
    seen: set[Operation] = set()
    for source in sources:
        for use in _uses_before_casts(source):
            if is_row_norm(use) and use not in seen:
                seen.add(use)
                if not is_modulated(use):
                    yield use


def _uses_before_casts(value: SSAValue) -> Iterator[Operation]:
    for use in uses_through(value, lambda op: isinstance(op, coda.CastOp)):
        yield use.operation


def _match(
    reduce: coda.ReduceOp, norm: Norm, gradient: SSAValue, others: Sequence[SSAValue]
) -> NormGradientSum | None:
    """Return the sum of `others` ⊙ `gradient` as one of h ⊙ dh or of w ⊙ dh, if it is one."""
    weights = [] if norm.weight is None else [uncast(norm.weight)]
    if isinstance(norm, coda.LayerNormOp) and weights:
        left = _without(others, weights)
        if left is not None and all(map(_is_per_row, left)):
            return NormGradientSum(reduce, norm, gradient, True, left, None)
    stats = stats_of(norm)
    if stats is None:
        return None
    centered = [v for v in others if _is_centered(v, norm, stats)]
    x = [centered[0]] if centered else [uncast(norm.x)]
    if isinstance(norm, coda.LayerNormOp) != bool(centered):
        return None
    left = _without(others, [*x, *weights])
    if left is None or not all(map(_is_per_row, left)):
        return None
    rstd = stats.stats[0]
    outside = _without(left, [rstd])
    if outside is None:
        return NormGradientSum(reduce, norm, gradient, False, left, divisor=rstd)
    return NormGradientSum(reduce, norm, gradient, False, outside, divisor=None)


def _without(values: Sequence[SSAValue], removed: Sequence[SSAValue]) -> list[SSAValue] | None:
    """Return `values` without one occurrence of each of `removed`; None if one is missing."""
    left = list(values)
    for value in removed:
        if value not in left:
            return None
        left.remove(value)
    return left


def _is_per_row(value: SSAValue) -> bool:
    return not shape_of(value) or shape_of(value)[-1] == 1


def stats_of(norm: Norm) -> coda.NormStatsOp | None:
    """Return the operator that computes the statistics of a norm."""
    kind = "layer" if isinstance(norm, coda.LayerNormOp) else "rms"
    for op in _uses_before_casts(uncast(norm.x)):
        if isinstance(op, coda.NormStatsOp) and (op.kind.data, op.eps) == (kind, norm.eps):
            return op
    return None


def _is_centered(value: SSAValue, norm: Norm, stats: coda.NormStatsOp) -> bool:
    """Return whether `value` is x − mean."""
    op = value.owner
    return (
        isinstance(op, coda.SubOp)
        and len(stats.stats) > 1
        and uncast(op.lhs) is uncast(norm.x)
        and uncast(op.rhs) is stats.stats[1]
    )


def find_map_gradients(found: NormGradientSum) -> Sequence[MapGradient] | Refusal:
    """Return the linear layers on the norm's result whose gradients add up to exactly dh."""
    maps: list[MapGradient] = []
    for term in parts_of(found.gradient, coda.AddOp):
        each = _map_gradient(term, found.norm)
        if each is None:
            what = name_of(term)
            return Refusal(
                "the norm feeds only linear maps",
                f"the row sum of the norm's gradient is not moved: {what} adds to the gradient, "
                f"and comes from no linear map of {name_of(found.norm.result)}",
                "use the norm only as the input of linear or @",
            )
        maps.append(each)
    return maps if found.is_of_weight else _counted_together(maps)


def _counted_together(maps: Sequence[MapGradient]) -> list[MapGradient]:
    """Return the layers of a low-rank adaptation z = h·W + s·((h·A)·B) as one, in terms of their
    results.

    With t = h·A, <t, dt> = <t, s·(dz·Bᵀ)> = <s·(t·B), dz>: the sum over both maps is <z, dz>.
    """
    found = list(maps)
    for index, each in enumerate(found):
        while (added := _added_to(found[index].with_bias()[0], each.gradient, found)) is not None:
            total, other = added
            found[index] = replace(found[index], total=total)
            found[other] = replace(found[other], is_in_total=True)
    return found


def _added_to(
    result: SSAValue, gradient: SSAValue, maps: Sequence[MapGradient]
) -> tuple[SSAValue, int] | None:
    """Return the sum of `result` and of what another layer leads to, and that layer's number."""
    add = only_use(result)
    if not isinstance(add, coda.AddOp) or add.result.type != result.type:
        return None
    ahead = _before_product(next(v for v in add.operands if v is not result))
    for number, other in enumerate(maps):
        is_taken = other.is_in_total or other.total is not None or bias_of(other.map) is not None
        back = None if is_taken else _before_product(other.gradient)
        if (
            ahead is not None
            and back is not None
            and (ahead.tile, back.tile) == (other.map.result, gradient)
            and ahead.weight is back.weight
            and without(ahead.factors, back.factors) == ([], [])
        ):
            return add.result, number
    return None


@dataclass(frozen=True)
class _BeforeProduct:
    """The product with a weight, without factors before and after it."""

    tile: SSAValue
    weight: SSAValue
    factors: Sequence[SSAValue]


def _before_product(value: SSAValue) -> _BeforeProduct | None:
    after = scaled(value)
    gemm = after.tile.owner
    if not isinstance(gemm, Linear) or bias_of(gemm) is not None:
        return None
    before = scaled(gemm.x)
    return _BeforeProduct(before.tile, gemm.weight, [*after.factors, *before.factors])


def _map_gradient(term: SSAValue, norm: Norm) -> MapGradient | None:
    back = term.owner
    if isinstance(back, coda.QuantizedLinearOp):
        return _quantized_map_gradient(back, norm)
    if not isinstance(back, Linear) or bias_of(back) is not None:
        return None
    forward = coda.LinearOp if isinstance(back, coda.MatmulOp) else coda.MatmulOp
    for use in back.weight.uses:
        op = use.operation
        if isinstance(op, forward) and op.weight is back.weight and uncast(op.x) is norm.result:
            return MapGradient(op, back.x)
    return None


def _quantized_map_gradient(back: coda.QuantizedLinearOp, norm: Norm) -> MapGradient | None:
    """Like the function for wide operands. <h, dh> and <z, dz> differ by the rounding of both
    products: for N columns, by less than that of dh by a factor of √N.
    """
    transposed = back.weight.owner
    if not isinstance(transposed, coda.TransposeOp) or isinstance(norm, coda.LayerNormOp):
        return None
    for use in transposed.x.uses:
        op = use.operation
        if not isinstance(op, coda.QuantizedLinearOp) or op.weight is not transposed.x:
            continue
        if op.blocks == back.blocks and uncast(op.x) is norm.result:
            return MapGradient(op, back.x)
    return None
