"""Motifs of backward passes: gradients of inputs, of weights and of biases."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from generator.function_builder import FunctionBuilder


def gradients(b: FunctionBuilder) -> None:
    """The gradients of a tile that one to three linear maps read, and of what these have."""
    x = b.pick_tile()
    dzs = [upstream(b, x) for _ in range(b.choices.integer(1, 3))]
    products = [input_gradient(b, dz, x) for dz in dzs]
    if b.choices.chance(30):
        products.insert(b.choices.below(len(products) + 1), b.choices.recent(b.like(x)))
    total = sum_of(b, products)
    for dz in dzs:
        if b.choices.chance(80):
            weight_gradient(b, dz, x)
        if len(b.style.rows) == 1 and element_type_of(x) != f64 and b.choices.chance(20):
            weight_gradient_of_groups(b, dz, x)
    if b.choices.chance(40):
        b.extras.append(sum_over_rows(b, b.choices.pick((total, *dzs))))


def upstream(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """The gradient of a result: a tile with the element type of x, mostly an argument."""
    like = [tile for tile in b.tiles if element_type_of(tile) == element_type_of(x)]
    if b.choices.chance(30):
        return b.choices.recent(like)
    return b.new_tile(b.choices.pick(b.style.columns), element_type_of(x))


def input_gradient(b: FunctionBuilder, dz: SSAValue, x: SSAValue) -> SSAValue:
    """dz · W, sometimes with a weight that is stored transposed."""
    n, k = b.columns_of(dz), b.columns_of(x)
    if b.choices.chance(15):
        return b.tile(coda.LinearOp(dz, b.matrix(k, n, dz)), "dx")
    return b.tile(coda.MatmulOp(dz, b.matrix(n, k, dz)), "dx")


def sum_of(b: FunctionBuilder, addends: Sequence[SSAValue]) -> SSAValue:
    """A sum from left to right, now and then from right to left."""
    first, *others = addends if b.choices.chance(80) else reversed(addends)
    for other in others:
        first = b.tile(coda.AddOp(first, other), "sum")
    return first


def weight_gradient(b: FunctionBuilder, dz: SSAValue, x: SSAValue) -> None:
    """dzᵀ · x, sometimes in float32, and sometimes added to another gradient."""
    wide = f32 if b.choices.chance(30) else None
    dw = b.extra(coda.WeightGradientOp(dz, x, element_type=wide), "dw")
    if b.choices.chance(25):
        old = b.parameter(shape_of(dw), element_type_of(dw), hint="old")
        b.extra(coda.AddOp(old, dw), "accumulated")


def weight_gradient_of_groups(b: FunctionBuilder, dz: SSAValue, x: SSAValue) -> None:
    """dzᵀ · x over the rows of each group, whose ends are a parameter."""
    style = b.style
    b.style = replace(style, groups=b.choices.integer(1, 4))
    ends = b.ends()
    b.style = style
    b.extra(coda.GroupedWeightGradientOp(dz, x, ends), "dw")


def sum_over_rows(b: FunctionBuilder, value: SSAValue) -> SSAValue:
    """The gradient of a bias."""
    wide = f32 if b.choices.chance(30) else None
    return b.add(coda.SumToOp(value, shape_of(value)[-1:], element_type=wide), "dbias")
