"""Motifs of Transformers: chains that the passes look for, and near misses of them."""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from generator.function_builder import FLOATS, FunctionBuilder
from generator.gradient_motifs import gradients
from generator.norms import group_norm, heads_of, norm, rope
from generator.operators import (
    Step,
    cast_to,
    constant,
    linear,
    other_operand,
    positive,
    smooth,
    statistic,
)


def source(b: FunctionBuilder) -> SSAValue:
    """A tile for a norm: mostly one that a GEMM or pointwise code computes, or an argument."""
    x = b.pick_tile()
    match b.choices.weighted(((4, "residual"), (3, "linear"), (2, "pointwise"), (1, "as it is"))):
        case "residual":
            x = linear(b, x)
            shortcut = b.choices.recent(b.like(x))
            if b.choices.chance(40):
                dims = b.tile_dims(b.columns_of(x))
                shortcut = b.parameter(dims, element_type_of(x), hint="x")
            return b.tile(coda.AddOp(x, shortcut), "residual")
        case "linear":
            return linear(b, x)
        case "pointwise":
            return smooth(b, x)
        case _:
            return x


def norm_then_linear(b: FunctionBuilder) -> None:
    """Norm, then one to three linear maps; sometimes something else uses the norm as well."""
    normed = norm(b, source(b))
    if b.choices.chance(12):
        normed = b.tile(b.choices.pick((coda.MulOp, coda.AddOp))(normed, other_operand(b, normed)))
    for _ in range(b.choices.integer(1, 3)):
        b.tiles.append(linear(b, normed))
    if b.choices.chance(12):
        b.extras.append(normed)
    if b.choices.chance(8):
        b.tiles.append(normed)


def rewritten_norm(b: FunctionBuilder) -> None:
    """RMSNorm in single operators, which no pass has to recognize, before a linear map."""
    x = source(b)
    square = b.add(coda.MulOp(x, x))
    mean = b.extra(coda.ReduceOp(square, "mean", f32))
    shifted = b.add(coda.AddOp(mean, b.add(coda.ConstantOp(1e-5, f32))))
    rstd = cast_to(b, b.add(coda.RsqrtOp(shifted)), element_type_of(x))
    scaled = b.add(coda.MulOp(x, rstd))
    b.tiles.append(linear(b, b.add(coda.MulOp(scaled, b.row(b.columns_of(x), x)))))


def activation(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    if b.choices.chance(15):
        x = b.add(coda.MaximumOp(x, constant(b, element_type_of(x))))
    return smooth(b, x)


def gated(b: FunctionBuilder) -> None:
    """act(x·Wg) ⊙ (x·Wu) with two weights, then a projection back; or what looks like it."""
    x = norm(b, source(b)) if b.choices.chance(50) else b.pick_tile()
    n = b.choices.pick(b.style.columns)
    gate = linear(b, x, n)
    tied = b.choices.chance(5)
    other = norm(b, x) if b.choices.chance(5) else x
    up = gate if tied else linear(b, other, n)
    if b.choices.chance(10):
        b.extras.append(gate)
    if b.choices.chance(10):
        up = b.add(b.choices.pick((coda.AddOp, coda.MulOp))(up, other_operand(b, up)))
    act = cast_to(b, activation(b, gate), element_type_of(x))
    up = cast_to(b, up, element_type_of(x))
    operands = (up, act) if b.choices.chance(30) else (act, up)
    operator = coda.AddOp if b.choices.chance(10) else coda.MulOp
    value = b.tile(operator(*operands), "gated")
    if b.choices.chance(60):
        b.tiles.append(linear(b, value, b.columns_of(x)))


def packed_gate(b: FunctionBuilder) -> None:
    """A packed projection of gate and up, taken apart by `glu` or by slices."""
    x = norm(b, source(b)) if b.choices.chance(50) else b.pick_tile()
    n = b.choices.pick(b.style.columns)
    packed = linear(b, x, 2 * n)
    if b.choices.chance(15):
        packed = activation(b, packed)
    if b.choices.chance(60):
        value = b.add(coda.GluOp(packed, b.choices.pick(coda.ACTIVATIONS)), "gated")
    else:
        axis = len(shape_of(packed)) - 1
        gate = b.add(coda.SliceOp(packed, axis, 0, n))
        up = b.add(coda.SliceOp(packed, axis, n, 2 * n))
        value = b.add(coda.MulOp(activation(b, gate), up), "gated")
    b.tiles.append(value)
    if b.choices.chance(15):
        b.extras.append(packed)
    value = cast_to(b, value, element_type_of(x))
    if b.choices.chance(50):
        b.tiles.append(linear(b, value))


def heads(b: FunctionBuilder, x: SSAValue, layout: str, *, normed: bool) -> SSAValue:
    """Queries or keys: a norm of each head, and the rotation."""
    if normed:
        x = group_norm(b, x, b.style.head)
    if b.choices.chance(10):
        x = b.add(coda.MulOp(x, constant(b, element_type_of(x))))
    if b.style.rows and b.choices.chance(85):
        x = rope(b, x, layout)
    if not normed and b.choices.chance(10):
        x = group_norm(b, x, b.style.head)
    return x


def attention(b: FunctionBuilder) -> None:
    """Queries, keys and values of a norm, then attention where the rows allow it."""
    x = norm(b, source(b)) if b.choices.chance(60) else b.pick_tile()
    head = b.style.head
    if head % 2:
        return
    kv = head * b.choices.pick((1, 2))
    q_columns = kv * b.choices.pick((1, 2, 3))
    layout = b.choices.pick(coda.ROPE_LAYOUTS)
    normed = b.choices.chance(50)
    value_dim = head * b.choices.pick((2, 2, 1, 4)) // 2
    q, k, v = projections(b, x, (q_columns, kv, kv // head * value_dim))
    q = heads(b, q, layout, normed=normed)
    k = heads(b, k, layout, normed=normed)
    b.tiles.extend((q, k, v))
    same_type = element_type_of(q) == element_type_of(k) == element_type_of(v)
    if len(b.style.rows) not in (1, 2) or not same_type or b.choices.chance(20):
        return
    y = coda.AttentionOp(
        q,
        k,
        v,
        head_dim=head,
        value_dim=value_dim,
        causal=b.choices.chance(50),
        scale=0.25 if b.choices.chance(20) else None,
        softcap=20.0 if b.choices.chance(10) else None,
        window=b.choices.integer(1, 5) if b.choices.chance(20) else None,
        sinks=b.row(q_columns // head, q) if b.choices.chance(15) else None,
        mask=attention_mask(b, q, q_columns // head) if b.choices.chance(25) else None,
    )
    b.tiles.append(linear(b, b.tile(y), b.columns_of(x)))


def attention_mask(b: FunctionBuilder, q: SSAValue, heads: int) -> SSAValue:
    """A parameter that broadcasts to the scores: truth values, or floats like the queries."""
    batch = b.style.rows[0] if len(b.style.rows) == 2 else 1
    scores = (batch, heads, b.style.rows[-1], b.style.rows[-1])
    dims = tuple(1 if b.choices.chance(40) else dim for dim in scores)
    element = b.choices.pick((i1, element_type_of(q)))
    return b.parameter(dims[b.choices.below(3) :], element, hint="mask")


def projections(b: FunctionBuilder, x: SSAValue, sizes: Sequence[int]) -> list[SSAValue]:
    """Linear maps of x by weights of their own, or slices of a packed one."""
    if b.choices.chance(65):
        return [linear(b, x, size) for size in sizes]
    packed = linear(b, x, sum(sizes))
    if b.choices.chance(10):
        b.extras.append(packed)
    parts: list[SSAValue] = []
    start = 0
    for size in sizes:
        axis = len(shape_of(packed)) - 1
        parts.append(b.add(coda.SliceOp(packed, axis, start, start + size), "part"))
        start += size
    return parts


def head_of_model(b: FunctionBuilder) -> None:
    """Logits of a norm and their loss."""
    x = norm(b, source(b), "rms") if b.choices.chance(60) else b.pick_tile()
    logits = linear(b, x, b.choices.pick((11, 5, 16, 130)))
    if b.choices.chance(25):
        logits = b.add(coda.SoftcapOp(logits, 3.0))
    if b.choices.chance(15):
        b.extras.append(logits)
    target, ignored = b.integers(b.style.rows), b.choices.pick((-100, 0, 2))
    for _ in range(1 + b.choices.chance(10)):
        loss = coda.CrossEntropyOp(
            logits,
            target,
            ignore_index=ignored,
            reduction=b.choices.pick(coda.LOSS_REDUCTIONS),
        )
        b.extra(loss, "loss")


def rotated_projection(b: FunctionBuilder) -> None:
    """A projection, perhaps with a norm per head, that is rotated once or twice."""
    x = linear(b, b.pick_tile(), b.style.head * b.choices.pick((1, 2)))
    if not (b.style.rows and heads_of(b, x)):
        return
    if b.choices.chance(50):
        x = group_norm(b, x, b.style.head * b.choices.pick((1, 1, shape_of(x)[-1] // b.style.head)))
    for _ in range(1 + b.choices.chance(15)):
        b.tiles.append(rope(b, x, b.choices.pick(coda.ROPE_LAYOUTS)))
    if b.choices.chance(20):
        b.tiles.append(x)


def scaled_columns(b: FunctionBuilder) -> None:
    """x ⊙ w before linear maps: what `place-column-scale` folds into weights."""
    x = b.pick_tile()
    w = b.row(b.columns_of(x), x)
    scaled = b.add(coda.MulOp(*((w, x) if b.choices.chance(30) else (x, w))))
    for _ in range(b.choices.integer(1, 2)):
        b.tiles.append(linear(b, scaled))
    if b.choices.chance(15):
        b.tiles.append(scaled)


WIDEST = 1056
"""Columns of more tiles of a GEMM than finalize reads at a time."""

WIDE_ROWS = (130, 200, 1090, WIDEST)
"""Columns of more than one tile of a GEMM."""


def wide_rows(b: FunctionBuilder) -> None:
    """A reduction over more columns than a tile has, of a GEMM or of pointwise code."""
    x = linear(b, b.pick_tile(), b.choices.pick(WIDE_ROWS))
    if b.choices.chance(50):
        x = smooth(b, x)
    if b.choices.chance(50):
        b.extra(coda.ReduceOp(x, b.choices.pick(("sum", "mean", "max", "lse")), f32))
        return
    b.tiles.append(linear(b, norm(b, x)))


def below_zero(b: FunctionBuilder) -> None:
    """Maxima of what is negative everywhere, over few columns and over many."""
    x = linear(b, b.pick_tile(), b.choices.pick((WIDEST, 130, b.style.columns[0], WIDEST)))
    x = b.add(coda.NegOp(positive(b, x)))
    if b.choices.chance(30):
        b.extras.append(x)
    kind = b.choices.pick(("max", "max", "lse"))
    largest = b.extra(coda.ReduceOp(x, kind, element_type_of(x)), kind)
    if b.choices.chance(40):
        shifted = b.add(coda.ExpOp(b.add(coda.SubOp(x, largest))))
        b.extra(coda.ReduceOp(shifted, "sum", f32))


def product(b: FunctionBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """A linear map of x with its columns; mostly a map of a narrow one, with a scale."""
    if b.choices.chance(40):
        return cast_to(b, linear(b, x, b.columns_of(x)), element)
    narrow = linear(b, x, b.choices.pick((2, 4)))
    value = cast_to(b, linear(b, narrow, b.columns_of(x)), element)
    operands = [value, scale(b, x, element)]
    if b.choices.chance(30):
        operands.reverse()
    return b.add(coda.MulOp(*operands), "scaled")


def subtracted(b: FunctionBuilder) -> None:
    """Sums and differences of products with scales, nested to the left and to the right."""
    x = norm(b, source(b)) if b.choices.chance(40) else b.pick_tile()
    element = element_type_of(x)
    terms = [product(b, x, element) for _ in range(b.choices.integer(2, 4))]
    if b.choices.chance(50):
        terms.insert(b.choices.below(len(terms) + 1), other_operand(b, x))
    value = terms.pop()
    while terms:
        operator = b.choices.pick((coda.SubOp, coda.AddOp, coda.SubOp))
        first = terms.pop()
        operands = (value, first) if b.choices.chance(25) else (first, value)
        value = b.add(operator(*operands), "difference")
    if b.choices.chance(40):
        value = b.add(coda.AddOp(product(b, x, element), value), "sum")
    b.tiles.append(value)


def scale(b: FunctionBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """A number, known or given, or a statistic of the rows of x."""
    match b.choices.weighted(((4, "constant"), (1, "parameter"), (1, "statistic"))):
        case "constant":
            return constant(b, element)
        case "parameter":
            return b.parameter((), element, hint="scale")
        case _:
            return statistic(b, x, element)


def adapted(b: FunctionBuilder) -> None:
    """x·W + s·((x·A)·B): two linear maps of one tile, perhaps of a norm, that are added."""
    x = norm(b, source(b)) if b.choices.chance(60) else b.pick_tile()
    base, low = linear(b, x), linear(b, x, b.choices.pick((2, 4)))
    if b.choices.chance(20):
        low = smooth(b, low)
    product = cast_to(b, linear(b, low, b.columns_of(base)), element_type_of(base))
    if b.choices.chance(80):
        product = b.add(coda.MulOp(product, scale(b, x, element_type_of(base))))
    b.tile(coda.AddOp(*((product, base) if b.choices.chance(20) else (base, product))), "adapted")
    if b.choices.chance(15):
        b.tiles.append(b.choices.pick((low, base, product)))


def mixed_types(b: FunctionBuilder) -> None:
    """Code in float32 between values of the type of the program."""
    x = b.pick_tile()
    element = element_type_of(x)
    if element == FLOATS["f64"]:
        return
    wide = cast_to(b, linear(b, x), f32)
    wide = b.add(coda.MulOp(smooth(b, wide), other_operand(b, wide)))
    b.tiles.append(cast_to(b, wide, element))


MOTIFS: Sequence[tuple[int, Step]] = (
    (8, norm_then_linear),
    (6, gated),
    (4, packed_gate),
    (5, attention),
    (3, head_of_model),
    (3, rotated_projection),
    (2, scaled_columns),
    (2, adapted),
    (2, rewritten_norm),
    (2, mixed_types),
    (2, wide_rows),
    (4, below_zero),
    (4, subtracted),
    (3, gradients),
)
