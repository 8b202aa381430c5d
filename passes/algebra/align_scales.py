"""Pass `align-scales`: give products that are added one scale, for one accumulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import isfinite

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float16Type, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, is_float8, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter, Refusal
from coda_ir.passes.support.legality import (
    check_gemm_types,
    check_products_may_meet,
    is_tilewise,
    name_of,
)
from coda_ir.passes.support.matching import number_of
from coda_ir.passes.support.norms import bias_of
from coda_ir.passes.support.order import BlockOrder
from coda_ir.passes.support.scaled_products import (
    Product,
    Term,
    is_reciprocal_deviation,
    product_of,
    scaled,
    terms_of,
    without,
)
from coda_ir.passes.support.sums import erase_unused


@dataclass(frozen=True)
class _Aligned:
    """A product, with its new input if any: a tile times `factors` divided by `divisors`."""

    product: Product
    tile: SSAValue | None = None
    factors: Sequence[SSAValue] = ()
    divisors: Sequence[SSAValue] = ()

    @property
    def cost(self) -> int:
        """The number of columns of the input that changes."""
        return 0 if self.tile is None else shape_of(self.tile)[-1]


@dataclass(frozen=True)
class _Alignment:
    """Products whose sum is scaled by common factors."""

    products: Sequence[_Aligned] = ()
    scale: Sequence[SSAValue] = ()

    def price(self) -> tuple[int, int]:
        """The sort key: more products first, then fewer columns that change."""
        return -len(self.products), sum(each.cost for each in self.products)


_ONE_BY_ONE = "the products are stored and added one by one"


class AlignScalesPass(FunctionPass):
    """Gives the products of a sum one common scale: x·W + s·((x·A)·B) = x·W + (s·(x·A))·B, as in
    low-rank adaptations.

        %t = coda.linear %x, %A                       %t = coda.linear %x, %A
        %u = coda.linear %t, %B                       %a = coda.mul %t, %s
        %z = coda.linear %x, %W                ->     %u = coda.linear %a, %B
        %y = coda.add %z, (coda.mul %u, %s)           %y = coda.add (coda.linear %x, %W), %u

    `merge-gemm-sums` adds products in one accumulator if they are added unchanged. The scale of a
    product, one number or one per row, moves to the epilogue that computes the input of the
    product. After a deferred norm, where all products have the factor rstd, rstd is applied to
    their sum; an input that is also shifted is divided by rstd.

    Legal iff the scale is known before the input of the product, which is computed tile by tile;
    the scaled product has no other use and no bias; the input has no other use, or fewer columns
    than the product, so that a scaled copy costs less; the type is not float16, whose range the
    input may leave; and the numerics mode allows rounding points to move.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        seen: set[Operation] = set()
        for op in reversed(rewriter.ops):
            if isinstance(op, coda.AddOp) and op not in seen:
                _run_on_sum(op, terms_of(op, seen), rewriter)


def _run_on_sum(root: coda.AddOp, terms: Sequence[Term], rewriter: FunctionRewriter) -> None:
    products = [product for term in terms if (product := product_of(term)) is not None]
    if len(products) < 2 or all(product.is_plain for product in products):
        return
    refusal = check_products_may_meet(root)
    best = _Alignment()
    scales = sorted((product.factors for product in products), key=len)
    for scale in () if refusal else scales:
        found = [_align(product, scale, rewriter.order) for product in products]
        refusal = refusal or next((each for each in found if isinstance(each, Refusal)), None)
        aligned = [each for each in found if isinstance(each, _Aligned)]
        best = min(best, _Alignment(aligned, scale), key=_Alignment.price)
    if len(best.products) > 1:
        rewriter.passed(root, f"{len(best.products)} products have one scale")
        _rewrite(root, terms, best, rewriter)
    elif refusal is not None:
        rewriter.missed(root, refusal)


def _align(product: Product, target: Sequence[SSAValue], order: BlockOrder) -> _Aligned | Refusal:
    """Return how `product` gets exactly the factors `target`, or why it cannot."""
    gemm = product.gemm
    refusal = check_gemm_types(gemm) or _check_alone(product) or _check_finite(product)
    if refusal is not None:
        return refusal
    if without(product.factors, target) == ([], []):
        return _Aligned(product)
    inner = scaled(gemm.x)
    factors, divisors = without([*product.factors, *inner.factors], target)
    refusal = _check_input(product, inner.tile, [*factors, *divisors], order)
    if refusal is not None:
        return refusal
    if not all(map(is_reciprocal_deviation, divisors)):
        return Refusal(
            "no other product of the sum has a scale",
            f"{_ONE_BY_ONE}: {name_of(divisors[0])} scales other products, and may be 0",
        )
    return _Aligned(product, inner.tile, factors, divisors)


def _check_alone(product: Product) -> Refusal | None:
    if product.gemm.result.has_one_use():
        return None
    return Refusal(
        "an added product has no other use",
        f"{_ONE_BY_ONE}: {name_of(product.gemm.result)} is also used elsewhere",
    )


def _check_finite(product: Product) -> Refusal | None:
    """Check that scales are finite: infinite multiples do not distribute over sums."""
    if all(isfinite(number_of(factor) or 0.0) for factor in product.factors):
        return None
    found = f"{_ONE_BY_ONE}: {name_of(product.term.value)} is scaled by infinity or NaN"
    return Refusal("a scale is a finite number", found)


def _check_input(
    product: Product, tile: SSAValue, factors: Sequence[SSAValue], order: BlockOrder
) -> Refusal | None:
    """Check that the kernel that computes the input `tile` may apply the scale."""
    gemm, name = product.gemm, name_of(product.term.value)
    if bias_of(gemm) is not None:
        found = f"{_ONE_BY_ONE}: {name} has a scale and a bias"
        return Refusal("no scaled product has a bias", found)
    if not is_tilewise(tile):
        return Refusal(
            "the kernel that computes the input of a scaled product can apply the scale",
            f"{_ONE_BY_ONE}: {name} has another scale, and {name_of(tile)} is not the tile of a "
            "kernel",
        )
    type = element_type_of(gemm.x)
    if isinstance(type, Float16Type) or is_float8(type):
        return Refusal(
            "the type of the input has the range of float32",
            f"{_ONE_BY_ONE}: the scaled input of {name} may leave the range of {type}",
            "use bf16",
        )
    columns = shape_of(tile)[-1], shape_of(gemm.result)[-1]
    if not gemm.x.has_one_use() and (DYNAMIC_INDEX in columns or columns[0] > columns[1]):
        return Refusal(
            "a scaled copy of the input has no more columns than the product",
            f"{_ONE_BY_ONE}: {name} has another scale, and {name_of(gemm.x)} is also used "
            "elsewhere",
        )
    assert isinstance(tile.owner, Operation)
    if order.slices_after(factors, tile.owner) is None:
        return Refusal(
            "the scale is known before the input of the product",
            f"{_ONE_BY_ONE}: the scale of {name} is computed from {name_of(tile)}",
        )
    return None


def _rewrite(
    root: coda.AddOp, terms: Sequence[Term], alignment: _Alignment, rewriter: FunctionRewriter
) -> None:
    """Replace the sum by that of the products times their common factors, plus the other terms."""
    insert = rewriter.before(root)
    total = reduce(insert.add, [_product(insert, each) for each in alignment.products])
    for factor in alignment.scale:
        total = insert.mul(total, insert.cast(factor, f32))
    done = [each.product.term for each in alignment.products]
    for term in terms:
        if term not in done:
            join = insert.sub if term.is_negative else insert.add
            total = join(total, insert.cast(term.value, f32))
    root.result.replace_all_uses_with(insert.cast(total, element_type_of(root.result)))
    erase_unused(root, rewriter)


def _product(insert: OpInserter, aligned: _Aligned) -> SSAValue:
    """Return the product with the new input, in float32."""
    gemm, x = aligned.product.gemm, aligned.product.gemm.x
    name = gemm.result.name_hint
    if aligned.tile is not None:
        x = insert.cast(aligned.tile, f32)
        for factor in aligned.factors:
            x = insert.mul(x, insert.cast(factor, f32))
        for divisor in aligned.divisors:
            x = insert.insert(coda.DivOp(x, insert.cast(divisor, f32)))
        x = insert.cast(x, element_type_of(gemm.x))
    if isinstance(gemm, coda.MatmulOp):
        return insert.insert(coda.MatmulOp(x, gemm.weight, element_type=f32), name)
    product = coda.LinearOp(x, gemm.weight, gemm.bias, element_type=f32)
    return insert.insert(product, name)
