"""Discontinuous functions in programs that are continuous.

A tile is taken apart by a discontinuous function and put together again. Rounding decides nothing
then, unless two kernels compute the function of numbers that are rounded differently.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.shapes import element_type_of
from generator.function_builder import FunctionBuilder
from generator.operators import Step, cast_to, linear, other_operand, smooth

WHOLE = (elementwise.FloorOp, elementwise.CeilOp, elementwise.RoundOp, elementwise.TruncOp)


OPPOSITES = (
    ("ge", "lt", coda.MinimumOp, coda.AddOp),
    ("le", "gt", coda.MaximumOp, coda.SubOp),
)
"""A relation and its opposite, and f and g with f(y, g(y, z)) = y for all z of 0 and more."""


def add_halves(b: FunctionBuilder) -> None:
    """A tile plus the elements of a product where a comparison neither holds nor fails: none."""
    x, y = compared(b)
    relation, opposite, bound, far = b.choices.pick(OPPOSITES)
    value, zero = b.choices.recent(b.like(x)), b.add(coda.ConstantOp(0.0, element_type_of(x)))
    holds = b.add(coda.CompareOp(x, y, relation))
    part = b.add(coda.WhereOp(holds, value, zero), "part")
    product = cast_to(b, linear(b, part, b.columns_of(x)), element_type_of(x))
    # The number y again, for a comparison that the kernel of the first one cannot compute.
    late = b.add(bound(y, b.add(far(y, b.add(coda.AbsOp(product))))), "late")
    fails = b.add(coda.CompareOp(x, late, opposite))
    rest = b.add(coda.WhereOp(fails, zero, product))
    b.tile(coda.AddOp(value, b.add(coda.WhereOp(holds, zero, rest), "none")))


def compared(b: FunctionBuilder) -> tuple[SSAValue, SSAValue]:
    """A computed tile, and what it is compared with; at times both are 1 but for rounding."""
    x = computed(b)
    match b.choices.weighted(((5, "one"), (3, "largest"), (2, "other"))):
        case "one":
            return one(b, x), b.add(coda.ConstantOp(1.0, element_type_of(x)))
        case "largest":
            return x, b.add(coda.ReduceOp(x, "max", element_type_of(x)), "largest")
        case _:
            return x, other_operand(b, x)


def add_whole_numbers(b: FunctionBuilder) -> None:
    """The whole numbers next to the elements of a tile, and what is left."""
    x = one(b, computed(b)) if b.choices.chance(40) else computed(b)
    whole = b.add(b.choices.pick(WHOLE)(x))
    put_together(b, [whole, b.add(coda.SubOp(x, whole))])


def computed(b: FunctionBuilder) -> SSAValue:
    """A tile that a kernel with a product computes."""
    return smooth(b, linear(b, b.pick_tile()))


def one(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """A tile of numbers that are 1 but for rounding."""
    share = b.add(coda.SigmoidOp(x))
    inverse = b.add(coda.ExpOp(b.add(coda.NegOp(share))))
    return b.add(coda.MulOp(b.add(coda.ExpOp(share)), inverse), "one")


def put_together(b: FunctionBuilder, parts: Sequence[SSAValue]) -> None:
    """A tile that is the sum of the parts, mostly after linear maps of them by one weight."""
    element = element_type_of(parts[0])
    if b.choices.chance(80):
        n = b.choices.pick(b.style.columns)
        weight = b.matrix(n, b.columns_of(parts[0]), parts[0])
        parts = [cast_to(b, linear(b, part, n, weight), element) for part in parts]
    b.tile(coda.AddOp(*parts), "together")


JUMPS: Sequence[tuple[int, Step]] = ((1, add_halves), (1, add_whole_numbers))
