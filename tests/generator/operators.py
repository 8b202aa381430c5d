"""Single operators of the block level on what a function has computed so far."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    Signedness,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import elementwise
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from generator.function_builder import FLOATS, FunctionBuilder, tensor_of
from generator.norms import add_group_norm, add_norm, add_norm_of_channels, add_rotation, norm
from generator.views import broadcast_view

Step: TypeAlias = Callable[[FunctionBuilder], None]

Function: TypeAlias = Callable[[SSAValue], coda.UnaryOp]


def functions(operators: Iterable[type[coda.RealFunction]]) -> list[Function]:
    """Functions of one value: those with numbers twice, with small and with large ones."""
    return [
        partial(_with_number, operator, number)
        for operator in operators
        for number in ((0.3, 30.0) if operator.NUMBERS else (1.0,))
    ]


def _with_number(operator: type[coda.RealFunction], number: float, x: SSAValue) -> coda.UnaryOp:
    return operator(x, *[number for _ in operator.NUMBERS])


GROWING = (coda.ExpOp, elementwise.Exp2Op, elementwise.Expm1Op)

SMOOTH: Sequence[Function] = (
    coda.NegOp,
    *functions(
        op
        for op in coda.REAL_FUNCTIONS.values()
        if not (op.JUMPS or op.OF_POSITIVE or op in GROWING)
    ),
)
"""Elementwise functions that are defined everywhere and do not grow fast."""

WILD: Sequence[Function] = (
    *(coda.ExpOp, elementwise.Expm1Op, lambda x: coda.PowOp(x, 0.3)),
    *functions(op for op in coda.REAL_FUNCTIONS.values() if op.OF_POSITIVE and not op.NUMBERS),
)
"""Those that are not."""

BINARY = (coda.AddOp, coda.MulOp, coda.SubOp, coda.MaximumOp, coda.MinimumOp)

CONSTANTS = (1.0, 0.0, 0.5, -2.0, 3.0, 0.125, 1e-3, 30.0)

SPECIAL = (1e30, -1e38, 1e-30, float("inf"), float("-inf"), float("nan"))

BYTE = IntegerType(8, Signedness.UNSIGNED)

STATISTICS = ("sum", "mean", "max", "lse")

DOMAIN = "functions outside of their domain"
"""A hazard of programs: square roots and the like of any number."""


def cast_to(b: FunctionBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """`value` in another element type, by an operator where one is needed."""
    if element_type_of(value) == element:
        return value
    return b.add(coda.CastOp(value, element), "cast")


def constant(b: FunctionBuilder, element: Attribute) -> SSAValue:
    if b.choices.chance(2):
        b.hazards.add("special constants")
        return b.add(coda.ConstantOp(b.choices.pick(SPECIAL), element), "special")
    return b.add(coda.ConstantOp(b.choices.pick(CONSTANTS), element), "constant")


def smooth(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    return b.add(b.choices.pick(SMOOTH)(x))


def positive(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """abs(x) + 1, or sigmoid(x) + 1/2: far from 0."""
    if b.choices.chance(50):
        inner, offset = b.add(coda.AbsOp(x)), 1.0
    else:
        inner, offset = b.add(coda.SigmoidOp(x)), 0.5
    return b.add(coda.AddOp(inner, b.add(coda.ConstantOp(offset, element_type_of(x)))))


def guarded(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """A wild function where it is well conditioned: exp of bounded, log and roots of positive."""
    operator = b.choices.pick(WILD)
    if operator in (coda.ExpOp, elementwise.Expm1Op):
        bounded = b.add(b.choices.pick((coda.TanhOp, coda.SigmoidOp))(x))
        return b.add(operator(bounded))
    return b.add(operator(positive(b, x)))


def add_unary(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    kind = b.choices.weighted(((80, "smooth"), (17, "guarded"), (3, "wild")))
    if kind == "wild":
        b.hazards.add(DOMAIN)
        value = b.add(b.choices.pick(WILD)(x))
    else:
        value = smooth(b, x) if kind == "smooth" else guarded(b, x)
    b.tiles.append(value)


def add_binary(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    y = other_operand(b, x)
    if b.choices.chance(8):
        b.tile(coda.DivOp(x, positive(b, y)))
        return
    operands = (y, x) if b.choices.chance(35) else (x, y)
    if b.choices.chance(10):
        # Continuous, so that rounding does not decide between numbers that are far apart.
        relation = b.choices.pick(("lt", "le"))
        condition = b.add(coda.CompareOp(*operands, relation))
        b.tile(coda.WhereOp(condition, *operands))
        return
    b.tile(b.choices.pick(BINARY)(*operands))


def other_operand(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """Something that broadcasts to the tile x: a tile, a parameter, a statistic, a constant."""
    makers: Sequence[tuple[int, Callable[[FunctionBuilder, SSAValue], SSAValue]]] = (
        (6, lambda b, x: b.choices.recent(b.like(x))),
        (3, lambda b, x: b.parameter(b.tile_dims(b.columns_of(x)), element_type_of(x), hint="x")),
        (3, lambda b, x: b.row(b.columns_of(x), x)),
        (3, lambda b, x: constant(b, element_type_of(x))),
        (3, statistic_of_sibling),
        (2, row_code),
        (2, broadcast_parameter),
        (2, broadcast_view),
        (2, positions),
        (2, extent),
    )
    return b.choices.weighted(makers)(b, x)


def positions(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """Small numbers along one dimension of the tile x, as positions give them."""
    dims = shape_of(x)
    axis = b.choices.below(len(dims))
    extent = (x, axis) if dims[axis] == DYNAMIC_INDEX else dims[axis]
    start, step = b.choices.integer(-2, 3), b.choices.pick((1, 2, -1))
    numbers = b.add(coda.PositionsOp(extent, start=start, step=step))
    if axis < len(dims) - 1:
        shape = (dims[axis], *(1 for _ in dims[axis + 1 :]))
        numbers = b.add(coda.ReshapeOp(numbers, shape))
    element = element_type_of(x)
    return b.add(coda.MulOp(cast_to(b, numbers, element), b.add(coda.ConstantOp(1 / 64, element))))


def extent(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """The extent of a dimension of x or of another tile, as a small number."""
    like = x if b.choices.chance(50) else b.pick_tile()
    number = b.add(coda.ExtentOp(like, b.choices.below(len(shape_of(like)))))
    element = element_type_of(x)
    return b.add(coda.MulOp(cast_to(b, number, element), b.add(coda.ConstantOp(1 / 64, element))))


def statistic_of_sibling(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    return statistic(b, b.choices.recent(b.like(x)), element_type_of(x))


def statistic(b: FunctionBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """A reduction of x, perhaps with code on it, as a column of `element`."""
    kind = b.choices.pick(STATISTICS)
    own = element if b.choices.chance(60) else f32
    value = b.extra(coda.ReduceOp(x, kind, own), kind)
    if b.choices.chance(40):
        value = b.choices.pick((smooth, guarded))(b, value)
    return cast_to(b, value, element)


def row_code(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """Code on a row alone, such as the 1 + w of Gemma's norm weight."""
    row = b.row(b.columns_of(x), x)
    if b.choices.chance(50):
        return b.add(coda.AddOp(row, constant(b, element_type_of(x))))
    scalar = b.parameter((), element_type_of(x), hint="scalar")
    return b.add(coda.MulOp(scalar, row))


def broadcast_parameter(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """A parameter with a 1, or without some of the leading dimensions."""
    dims = b.tile_dims(b.columns_of(x))
    if b.choices.chance(15):
        return b.parameter((1,), element_type_of(x), hint="scalar")
    missing = b.choices.below(len(dims))
    kept = [1 if b.choices.chance(40) else dim for dim in dims[missing:]]
    return b.parameter(tuple(kept), element_type_of(x), hint="part")


def add_linear(b: FunctionBuilder) -> None:
    b.tiles.append(linear(b, b.pick_tile()))


def linear(
    b: FunctionBuilder, x: SSAValue, columns: int | None = None, weight: SSAValue | None = None
) -> SSAValue:
    """A linear map of x by `linear` or `matmul`, with or without a bias, in any of the layouts."""
    k, n = b.columns_of(x), columns or b.choices.pick(b.style.columns)
    result = f32 if b.choices.chance(8) and b.style.element != FLOATS["f64"] else None
    if weight is None and b.choices.chance(30):
        weight = b.matrix(k, n, x)
        return b.add(coda.MatmulOp(x, weight, element_type=result))
    if weight is None and b.choices.chance(5):
        weight = b.add(coda.TransposeOp(b.matrix(k, n, x), (1, 0)))
    weight = weight or b.matrix(n, k, x)
    bias = b.row(n, x) if b.choices.chance(30) else None
    return b.add(coda.LinearOp(x, weight, bias, element_type=result))


def add_grouped_linear(b: FunctionBuilder) -> None:
    """A linear map of rows in groups, or two of them as gate and up projection."""
    x, style = b.pick_tile(), b.style
    if len(style.rows) != 1 or element_type_of(x) == FLOATS["f64"]:
        add_linear(b)
        return
    b.style = replace(style, groups=b.choices.integer(1, 4))
    k, n = b.columns_of(x), b.choices.pick(style.columns)
    if b.choices.chance(30):
        order = coda.GroupOrderOp(b.integers(style.rows), groups=b.style.groups or 1)
        x, ends = b.add(coda.IndexOp(x, b.add(order), dim=0)), order.ends
    else:
        ends = b.ends()
    products = [grouped_linear(b, x, k, n, ends)]
    if b.choices.chance(40):
        gate, up = products[0], grouped_linear(b, x, k, n, ends)
        products = [b.add(coda.MulOp(b.add(coda.SiluOp(gate)), up))]
    b.style = style
    b.tiles += products


def grouped_linear(b: FunctionBuilder, x: SSAValue, k: int, n: int, ends: SSAValue) -> SSAValue:
    bias = b.parameter((*b.groups, n), element_type_of(x)) if b.choices.chance(30) else None
    if b.choices.chance(30):
        return b.add(coda.GroupedMatmulOp(x, b.matrix(k, n, x), ends, bias))
    return b.add(coda.GroupedLinearOp(x, b.matrix(n, k, x), ends, bias))


def add_scaled_linear(b: FunctionBuilder) -> None:
    """A product of float8 with scales of blocks, or two of them as gate and up projection."""
    element, style = b.style.element, b.style
    k, n = b.choices.pick(style.columns), b.choices.pick(style.columns)
    blocks = coda.BlocksAttr.get(b.choices.pick((32, 128)), b.choices.pick((1, 2, 128)))
    x = b.parameter((*style.rows, k), Float8E4M3FNType(), hint="q")
    scales = b.parameter((*style.rows, -(-k // blocks.depth.data)), f32, hint="scales")
    products = [scaled_linear(b, x, scales, n, blocks) for _ in range(b.choices.pick((1, 2)))]
    if len(products) > 1:
        products = [b.add(coda.MulOp(b.add(coda.SiluOp(products[0])), products[1]))]
    b.tiles += [b.add(coda.CastOp(product, element)) for product in products]


def add_quantized_linear(b: FunctionBuilder) -> None:
    """A product of what is quantized for it: arguments, which have the same numbers everywhere."""
    style, element = b.style, b.style.element
    k, n = b.choices.pick(style.columns), b.choices.pick(style.columns)
    if element == FLOATS["f64"]:
        add_linear(b)
        return
    blocks = b.choices.pick((None, coda.BlocksAttr.get(32, b.choices.pick((1, 2, 128)))))
    x, weight = b.parameter((*style.rows, k), element), b.parameter((n, k), f32, weight=True)
    b.tiles.append(b.add(coda.QuantizedLinearOp(x, weight, blocks, b.choices.chance(50))))


def scaled_linear(
    b: FunctionBuilder, x: SSAValue, scales: SSAValue, n: int, blocks: coda.BlocksAttr
) -> SSAValue:
    weight = b.parameter((n, b.columns_of(x)), Float8E5M2Type(), hint="w", weight=True)
    shape = (-(-n // blocks.columns.data), b.columns_of(scales))
    of_weight = b.parameter(shape, f32, hint="w_scales", weight=True)
    return b.add(coda.ScaledLinearOp(x, weight, scales, of_weight, blocks))


def add_low_bit_linear(b: FunctionBuilder) -> None:
    """A product with a weight of 8 or 4 bits, or two of them as gate and up projection."""
    x, style, choices = b.pick_tile(), b.style, b.choices
    k, n = b.columns_of(x), choices.pick(style.columns)
    if not computes_in_float32(element_type_of(x)):
        return
    words = [(i32, f"{axis}{order}") for axis in "kn" for order in ("01234567", "04152637")]
    fitting = [(type, text) for type, text in words if (k if text[0] == "k" else n) % 8 == 0]
    fitting += [(BYTE, "k10")] if k % 2 == 0 else []
    stored, packing = choices.pick((*fitting, (i8, ""), (BYTE, ""), (Float8E4M3FNType(), "")))
    is_float = isinstance(stored, Float8E4M3FNType)
    offset = 0 if is_float else choices.pick((0, 1, 8))
    scheme = coda.QuantizedAttr.get(choices.pick((32, 128)), offset=offset, packing=packing)
    is_kn, has_zeros = choices.chance(50), not is_float and choices.chance(50)

    def parameter(extents: tuple[int, int], type: Attribute, hint: str) -> SSAValue:
        return b.parameter(extents[::-1] if is_kn else extents, type, hint=hint, weight=True)

    groups, products = (n, -(-k // scheme.depth.data)), list[SSAValue]()
    for _ in range(choices.pick((1, 2))):
        weight = parameter(scheme.words(n, k), stored, "w")
        scales = parameter(groups, choices.pick((f32, FLOATS["f16"], FLOATS["bf16"])), "scales")
        zeros = parameter(groups, choices.pick((i8, BYTE)), "zeros") if has_zeros else None
        products.append(b.add(coda.LowBitLinearOp(x, weight, scales, zeros, scheme, kn=is_kn)))
    if len(products) > 1:
        products = [b.add(coda.MulOp(b.add(coda.SiluOp(products[0])), products[1]))]
    b.tiles += products


def add_gate(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    if b.columns_of(x) % 2 == 0:
        b.tile(coda.GluOp(x, b.choices.pick(coda.ACTIVATIONS)))


def add_softmax(b: FunctionBuilder) -> None:
    b.tile(coda.SoftmaxOp(b.pick_tile()))


def add_reduction(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    statistic(b, x, b.choices.pick((element_type_of(x), f32)))


def add_slice(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    n = b.columns_of(x)
    start = b.choices.below(n)
    stop = b.choices.integer(start + 1, n)
    b.tile(coda.SliceOp(x, len(shape_of(x)) - 1, start, stop))


def add_concat(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    element = element_type_of(x)
    others = [tile for tile in b.tiles if element_type_of(tile) == element]
    y = b.choices.recent(others)
    if b.columns_of(x) + b.columns_of(y) <= 2 * max(b.style.columns):
        b.tile(coda.ConcatOp([x, y], len(shape_of(x)) - 1))


def add_cast(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    names = ("f32", "bf16", "f16") if b.style.element != FLOATS["f64"] else ("f32", "f64")
    name = "f64" if b.choices.chance(10) else b.choices.pick(names)
    value = b.add(coda.CastOp(x, FLOATS[name]), "cast")
    if b.choices.chance(60):
        # Mixed types inside a program, and the type of the program after it.
        b.tiles.append(value)
        value = cast_to(b, smooth(b, value), element_type_of(x))
    b.tiles.append(value)


def add_reshape(b: FunctionBuilder) -> None:
    """Columns as heads and back, or the rows as one dimension."""
    x, rows = b.pick_tile(), b.style.rows
    n, head, element = b.columns_of(x), b.style.head, element_type_of(x)
    if n % head == 0 and b.choices.chance(50):
        shape = tensor_of((*rows, n // head, head), element).get_shape()
        heads = b.add(coda.ReshapeOp(x, shape))
        changed = norm(b, heads) if b.choices.chance(50) else smooth(b, heads)
        b.tile(coda.ReshapeOp(changed, shape_of(x)))
    elif len(rows) > 1:
        flat = tensor_of(("M" if any(isinstance(d, str) for d in rows) else _size(rows), n), f32)
        value = b.extra(coda.ReshapeOp(x, flat.get_shape()))
        if b.choices.chance(50):
            changed = smooth(b, value)
            b.extras.append(changed)
            if sum(isinstance(dim, str) for dim in rows) < 2:
                b.tile(coda.ReshapeOp(changed, shape_of(x)))


def _size(rows: Sequence[int | str]) -> int:
    size = 1
    for dim in rows:
        assert isinstance(dim, int)
        size *= dim
    return size


def add_transpose(b: FunctionBuilder) -> None:
    """The leading dimensions of a tile exchanged, with code in between."""
    x = b.pick_tile()
    if len(shape_of(x)) < 3:
        return
    perm = (1, 0, *range(2, len(shape_of(x))))
    swapped = b.extra(coda.TransposeOp(x, perm))
    if b.choices.chance(60):
        changed = smooth(b, swapped)
        back = [perm.index(axis) for axis in range(len(perm))]
        b.tile(coda.TransposeOp(changed, back))


def add_shift(b: FunctionBuilder) -> None:
    """Rows of other positions: alone, or as a convolution of each column."""
    x = b.pick_tile()
    if len(shape_of(x)) < 2:
        return
    if b.choices.chance(50) or len(shape_of(x)) != 3:
        b.tile(coda.ShiftOp(x, b.choices.integer(-3, 3)))
        return
    taps = b.choices.integer(1, 4)
    weight = b.parameter((b.columns_of(x), taps), element_type_of(x), hint="taps", weight=True)
    before = b.choices.integer(0, taps)
    b.tiles.append(coda.shifted_convolution(b.add, x, weight, None, before=before))


def add_scan(b: FunctionBuilder) -> None:
    """A selective scan whose states decay."""
    u = b.pick_tile()
    if len(shape_of(u)) != 3 or b.style.element == FLOATS["f64"]:
        return
    element, states = element_type_of(u), b.choices.pick((1, 3, 4))
    if element == FLOATS["f64"]:
        return
    rates = b.parameter((b.columns_of(u), states), element, hint="rates", weight=True)
    a = b.add(coda.NegOp(b.add(elementwise.SoftplusOp(rates))))
    times = b.parameter(b.tile_dims(b.columns_of(u)), element, hint="times")
    dt = b.add(elementwise.SoftplusOp(times))
    read = [b.parameter(b.tile_dims(states), element, hint=name) for name in "bc"]
    if b.choices.chance(30):
        at_one = (b.style.rows[0], b.columns_of(u), states)
        read.append(b.parameter(at_one, FLOATS["f32"], hint="initial"))
    op = coda.SelectiveScanOp(u, dt, a, *read, final=b.choices.chance(30))
    b.tile(op)
    if op.final is not None:
        b.extras.append(op.final)


def add_ssd(b: FunctionBuilder) -> None:
    """A state space model of heads whose states decay."""
    x = b.pick_tile()
    element, columns = element_type_of(x), b.columns_of(x)
    if len(shape_of(x)) != 3 or FLOATS["f64"] in (element, b.style.element):
        return
    heads, states = b.choices.pick(_divisors(columns)), b.choices.pick((1, 3, 4))
    groups = b.choices.pick(_divisors(heads))
    rates = b.parameter((heads,), element, hint="rates", weight=True)
    a = b.add(coda.NegOp(b.add(elementwise.SoftplusOp(rates))))
    times = b.parameter(b.tile_dims(heads), element, hint="times")
    dt = b.add(elementwise.SoftplusOp(times))
    read = [b.parameter(b.tile_dims(groups * states), element, hint=name) for name in "bc"]
    type = b.choices.pick((element, FLOATS["f32"]))
    at_one = (b.style.rows[0], heads, columns // heads, states)
    if b.choices.chance(30):
        read.append(b.parameter(at_one, FLOATS["f32"], hint="initial"))
    op = coda.SSDOp(x, dt, a, *read, states=states, final=b.choices.chance(30), element_type=type)
    b.tile(op)
    if op.final is not None:
        b.extras.append(op.final)


def add_delta_rule(b: FunctionBuilder) -> None:
    """The gated delta rule with short keys."""
    v = b.pick_tile()
    element, columns = element_type_of(v), b.columns_of(v)
    if len(shape_of(v)) != 3 or FLOATS["f64"] in (element, b.style.element):
        return
    heads, head_dim = b.choices.pick(_divisors(columns)), b.choices.pick((1, 3, 4))
    key_heads = b.choices.pick(_divisors(heads))
    drawn = [b.parameter(b.tile_dims(key_heads * head_dim), element, hint=name) for name in "qk"]
    half = b.add(coda.ConstantOp(0.5, element))
    q, k = (b.add(coda.MulOp(b.add(elementwise.TanhOp(x)), half)) for x in drawn)
    beta = b.add(elementwise.SigmoidOp(b.parameter(b.tile_dims(heads), element, hint="beta")))
    times = b.parameter(b.tile_dims(heads), element, hint="times")
    decay = b.add(coda.NegOp(b.add(elementwise.SoftplusOp(times))))
    operands = [q, k, v, beta, decay]
    if b.choices.chance(30):
        at_one = (b.style.rows[0], heads, head_dim, columns // heads)
        operands.append(b.parameter(at_one, FLOATS["f32"], hint="initial"))
    type, final = b.choices.pick((element, FLOATS["f32"])), b.choices.chance(30)
    op = coda.DeltaRuleOp(*operands, head_dim=head_dim, final=final, element_type=type)
    b.tile(op)
    if op.final is not None:
        b.extras.append(op.final)


def _divisors(n: int) -> tuple[int, ...]:
    """The divisors of n that are no more than 4."""
    return tuple(count for count in (1, 2, 3, 4) if n % count == 0)


def add_embedding(b: FunctionBuilder) -> None:
    n = b.choices.pick(b.style.columns)
    table = b.parameter((b.choices.pick((7, 11, 3)), n), hint="table", weight=True)
    b.tile(coda.EmbeddingOp(b.integers(b.style.rows), table))


def add_library_call(b: FunctionBuilder) -> None:
    """Add a call of PyTorch. Places of elements are drawn: ties would decide about those that an
    order gives.
    """
    x = b.pick_tile()
    n, dim = b.columns_of(x), len(shape_of(x)) - 1
    match b.choices.pick(("cumsum", "sort", "topk", "gather", "scatter")):
        case "cumsum":
            b.tile(coda.CumsumOp(x, dim=dim))
        case "sort":
            b.tile(coda.SortOp(x, dim=dim, descending=b.choices.chance(50)))
        case "topk":
            b.tile(coda.TopkOp(x, k=b.choices.integer(1, n), dim=dim))
        case "gather":
            ids = b.parameter((*b.style.rows, b.choices.integer(1, n)), i64, hint="ids")
            b.tile(coda.GatherOp(x, ids, dim=dim))
        case _:
            # One place in each row: no two are the same.
            ids = b.parameter((*b.style.rows, 1), i64, hint="ids")
            value = b.add(coda.GatherOp(x, ids, dim=dim))
            b.tile(coda.ScatterOp(x, ids, smooth(b, value), dim=dim))


def add_tied_rows(b: FunctionBuilder) -> None:
    """A pointwise operator on the rows of a new tile that nothing else touches."""
    b.new_tile(b.choices.pick(b.style.columns))


STEPS: Sequence[tuple[int, Step]] = (
    (8, add_linear),
    (10, add_binary),
    (8, add_unary),
    (4, add_norm),
    (2, add_group_norm),
    (2, add_norm_of_channels),
    (2, add_rotation),
    (3, add_gate),
    (1, add_softmax),
    (2, add_reduction),
    (3, add_slice),
    (2, add_concat),
    (2, add_cast),
    (2, add_reshape),
    (1, add_transpose),
    (1, add_embedding),
    (2, add_library_call),
    (2, add_shift),
    (1, add_scan),
    (1, add_ssd),
    (1, add_delta_rule),
    (1, add_tied_rows),
    (3, add_grouped_linear),
    (2, add_scaled_linear),
    (2, add_low_bit_linear),
    (1, add_quantized_linear),
)
