"""Pass `move-norm-gradient-sums`: compute row sums of a norm's gradient in an earlier kernel."""

from collections.abc import Sequence
from functools import reduce as reduce_values

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import SSAValue

from coda_ir.diagnostics import counted
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Layout, PackWeightOp
from coda_ir.passes.gradient.norm_gradients import (
    Linear,
    MapGradient,
    NormGradientSum,
    find_map_gradients,
    find_norm_sum,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import check_rounding_may_move
from coda_ir.passes.support.order import BlockOrder


class MoveNormGradientSumsPass(FunctionPass):
    """Replaces the row sum in a norm's gradient by one before a GEMM: <h, dz·Wᵀ> = <h·W, dz>.

        %h  = coda.rms_norm %x, %w                     the forward, with %z = coda.linear %h, %W
        %dh = coda.matmul %dz, %W
        %c  = coda.reduce (h ⊙ dh) {kind = "sum"}  ->  %c = coda.reduce (z ⊙ dz) {kind = "sum"}

    The gradient of a norm needs the sum over a row of h ⊙ dh, but the GEMM that computes dh has
    only a tile of the row at a time. The equal sum of z ⊙ dz is available in the kernel that
    computes dz, before that GEMM. For several linear maps, the sums are added. If dz is the inverse
    rotation of dy, <z, dz> = <rotated z, dy>, so neither needs to be rotated. For a LayerNorm with
    the bias beta, the sum is <h − beta, dh>, which <z − beta·W − b, dz> replaces, and <w, dh> =
    <dz, w·W>; these vectors are computed once per weight.

    Legal iff dh is the sum of the gradients of linear maps of h alone, the results of these maps do
    not depend on the row sum, and the numerics mode allows rounding points to move. `pack-weights`
    allows vectors to be kept between calls; without it, LayerNorm is refused.
    """

    pack_weights: bool = True

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.ReduceOp):
            found = find_norm_sum(op)
            if found is not None and found.columns:
                self._move(found, rewriter)

    def _move(self, found: NormGradientSum, rewriter: FunctionRewriter) -> None:
        maps = rewriter.allowed(found.reduce, self._check(found, rewriter.order))
        if maps is not None:
            count = counted(len(maps), "linear map")
            rewriter.passed(found.reduce, f"taken over the results of {count} of the norm")
            _rewrite(found, maps, rewriter)

    def _check(self, found: NormGradientSum, order: BlockOrder) -> Sequence[MapGradient] | Refusal:
        refusal = check_rounding_may_move(
            found.reduce,
            "the row sum of the norm's gradient is not moved: eager PyTorch rounds the gradient",
        )
        if refusal is not None:
            return refusal
        if found.needs_vectors and not self.pack_weights:
            return Refusal(
                "vectors may be precomputed from weights",
                "the row sum of the norm's gradient is not moved: it needs products of weights",
                "allow pack-weights if weights change only in ways that PyTorch tracks",
            )
        maps = find_map_gradients(found)
        if isinstance(maps, Refusal) or _make_available(found, maps, order):
            return maps
        return Refusal(
            "the results of the maps do not depend on the row sum",
            "the row sum of the norm's gradient is not moved: its replacement would depend on it",
        )


def _make_available(found: NormGradientSum, maps: Sequence[MapGradient], order: BlockOrder) -> bool:
    """Move the values that replace the row sum before it; return False if one depends on the sum.

    They may come later: what looks like a map of the forward may belong to another gradient.
    """
    values = [value for value in (found.norm_bias, found.divisor) if value is not None]
    if not found.is_of_weight:
        for each in maps:
            values += filter(None, each.rotated() or each.with_bias())
    return order.hoist(values, found.reduce)


def _rewrite(
    found: NormGradientSum, maps: Sequence[MapGradient], rewriter: FunctionRewriter
) -> None:
    reduce = found.reduce
    insert = rewriter.before(reduce)
    counted = [each for each in maps if found.needs_vectors or not each.is_in_total]
    products = [(_product(insert, found, each), each.rotated() is not None) for each in counted]
    if any(isinstance(each.map, coda.QuantizedLinearOp) for each in counted):
        # A separate kernel reads each gradient to quantize it, and computes the sum as well.
        groups = [[value] for value, _ in products]
    else:
        groups = _by_shape(products)
    sums = [coda.ReduceOp(_sum(insert, same), "sum", f32) for same in groups]
    total = _sum(insert, [insert.insert(each) for each in sums])
    for factor in found.outside:
        total = insert.mul(total, insert.cast(factor, f32))
    if found.divisor is not None:
        total = insert.insert(coda.DivOp(total, found.divisor))
    if reduce.kind.data == "mean":
        total = insert.mul(total, insert.insert(coda.ConstantOp(1.0 / found.columns, f32)))
    rewriter.replace(reduce, insert.cast(total, element_type_of(reduce.result)))


def _by_shape(products: Sequence[tuple[SSAValue, bool]]) -> list[list[SSAValue]]:
    """Group products by shape; those of one shape are added before they are summed by row.

    At most one product of each group is of what is rotated, so that all that reads a rotated
    gradient fits one kernel.
    """
    groups: list[list[SSAValue]] = []
    with_rotation: list[bool] = []
    for value, is_rotated in products:
        shape = shape_of(value)
        for index, group in enumerate(groups):
            same = shape == shape_of(group[0]) and shape[-1] != DYNAMIC_INDEX
            if same and not (is_rotated and with_rotation[index]):
                group.append(value)
                with_rotation[index] |= is_rotated
                break
        else:
            groups.append([value])
            with_rotation.append(is_rotated)
    return groups


def _sum(insert: OpInserter, values: Sequence[SSAValue]) -> SSAValue:
    return reduce_values(insert.add, values)


def _product(insert: OpInserter, found: NormGradientSum, each: MapGradient) -> SSAValue:
    """Return the contribution of the layer's columns: z ⊙ dz, or dz ⊙ (w·W); if z is counted with
    another result, subtract the excess.
    """
    if found.is_of_weight:
        gradient = insert.cast(each.gradient, f32)
        return insert.mul(gradient, _pack(insert, found.weight, each.map))
    if each.is_in_total and found.norm_bias is not None:
        shift = insert.insert(coda.NegOp(_pack(insert, found.norm_bias, each.map)))
        return insert.mul(insert.cast(each.gradient, f32), shift)
    rotated = None if found.norm_bias is not None else each.rotated()
    result, bias = each.with_bias()
    result, gradient = (result, each.gradient) if rotated is None else rotated
    value = insert.cast(result, f32)
    if bias is not None:
        value = insert.sub(value, insert.cast(bias, f32))
    if found.norm_bias is not None:
        value = insert.sub(value, _pack(insert, found.norm_bias, each.map))
    return insert.mul(value, insert.cast(gradient, f32))


def _pack(insert: OpInserter, vector: SSAValue, gemm: Linear) -> SSAValue:
    """Return the product of a vector and the weight of `gemm`, which is not quantized."""
    layout = Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN
    return insert.insert(PackWeightOp(gemm.weight, vector, layout), vector.name_hint)
