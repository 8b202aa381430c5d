"""Calls of every operator of `.coda` in random programs, by what they compute.

What jumps (an order, a rounding to an integer, a comparison) is computed of numbers that every
precision has alike: of integers, and of floats between the places where they would be rounded to
another one. On everything else a rounding would decide between results that are far apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.elementwise import BINARY, COMPARISONS, SIGNS, UNARY
from coda_ir.frontends.coda_text.scaled_linear import RECIPES

if TYPE_CHECKING:
    from generator.coda_programs import TextBuilder

Maker: TypeAlias = "Callable[[TextBuilder, str, int], tuple[str, int]]"

LOGICAL = [name for name in BINARY if BINARY[name].ELEMENTS == coda.Elements.BOOLEANS]
ARITHMETIC = [name for name in BINARY if name not in LOGICAL]

NARROW = ("i8", "u8")
INTEGERS = (*NARROW, "i32", "i64")
FLOAT8 = ("f8e4m3", "f8e5m2")


def integers(b: TextBuilder, n: int, element: str = "") -> str:
    """A tile of integers of both signs, which wrap around in 8 bits."""
    element = element or b.choices.pick(INTEGERS)
    drawn = b.parameter(*b.rows, n, element=element)
    return f"({drawn} * {b.choices.pick((1, 37, 77))} - {b.choices.pick((1, 50, 100))})"


def exact(b: TextBuilder, n: int) -> str:
    """A tile of f32 that are neither whole numbers nor halves of them."""
    return f"(cast({integers(b, n)}, f32) * {b.choices.pick((0.25, 0.75, 1.5))} + 0.125)"


def truth(b: TextBuilder, n: int) -> str:
    """A tile of truth values."""
    element = b.choices.pick((*INTEGERS, "bool"))
    if element == "bool":
        drawn = b.parameter(*b.rows, n, element=element)
        return b.choices.pick((drawn, f"cast({integers(b, n)}, bool)", f"({drawn} != true)"))
    relation = b.choices.pick((*COMPARISONS, *SIGNS))
    if b.choices.chance(30):
        return f"({_joined(relation, exact(b, n), b.choices.pick(('0', '-12', '30.5')))})"
    return f"({_joined(relation, integers(b, n, element), integers(b, n, element))})"


def _as_tile(b: TextBuilder, value: str, *, small: float = 0.0625) -> str:
    """Integers, truth values or floats of another type as a tile of the program."""
    return f"cast({value}, {b.element}) * {small}"


def _beside(b: TextBuilder, x: str, value: str) -> str:
    """The tile `value` with x."""
    return f"{b.choices.pick(('{x} + {v}', '{x} * {v}', '{v} - {x}'))}".format(x=x, v=value)


# Elementwise operators.


def _function(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    name = b.choices.pick([*UNARY])
    if UNARY[name].JUMPS:
        return _beside(b, x, _as_tile(b, f"{name}({exact(b, n)})")), n
    inside = f"abs({x}) + 0.5" if UNARY[name].OF_POSITIVE else f"tanh({x})"
    numbers = [b.choices.pick(("0.3", "1.0", "2.0")) for _ in UNARY[name].NUMBERS]
    return f"{name}({', '.join([inside, *numbers])})", n


def _parametrized(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    texts = (
        "elu({x})",
        "clamp({x}, -0.5, 1)",
        "clamp({x}, min=0.1)",
        "pow(tanh({x}), 3)",
        "pow(abs({x}) + 0.5, -1.5)",
        'activate({x}, "relu2")',
        'activate(tanh({x}), "identity")',
        "gelu({x})",
        "gelu_tanh({x})",
    )
    return b.choices.pick(texts).format(x=x), n


def _two_operands(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A function of two tiles; of integers as well, and then with what wraps around."""
    operator = b.choices.pick(ARITHMETIC)
    of_integers = BINARY[operator].ELEMENTS != coda.Elements.FLOATS
    if not of_integers or b.choices.chance(50):
        return _two_floats(b, operator, x, n)
    element = b.choices.pick(INTEGERS)
    value = _joined(operator, integers(b, n, element), divisor(b, n, element))
    if b.choices.chance(40):
        value = f"{b.choices.pick(('abs', '-'))}({value})"
    b.result(value)
    return _beside(b, x, _as_tile(b, value)), n


def divisor(b: TextBuilder, n: int, element: str) -> str:
    """A tile of integers without 0, or one of them."""
    if b.choices.chance(30):
        return b.choices.pick(("3", "7"))
    drawn = b.parameter(*b.rows, n, element=element)
    return f"({drawn} * 2 - {b.choices.pick((3, 7))})"


def _two_floats(b: TextBuilder, operator: str, x: str, n: int) -> tuple[str, int]:
    if BINARY[operator].JUMPS:
        y = b.choices.pick((exact(b, n), "0.75", "-2"))
        return _beside(b, x, _as_tile(b, _joined(operator, exact(b, n), y))), n
    return _joined(operator, x, f"(tanh({b.parameter(*b.rows, n)}) + 2)"), n


def _size(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A tile beside a size, which may be known at run time only."""
    rows = b.choices.pick(b.rows)
    texts = ("{x} / ({rows} + 1)", "{x} + cast(2 * {rows}, {element}) * 0.03", "{rows} * {x} / 8")
    return b.choices.pick(texts).format(x=x, rows=rows, element=b.element), n


def _joined(operator: str, left: str, right: str) -> str:
    return (
        f"{operator}({left}, {right})" if operator.isidentifier() else f"{left} {operator} {right}"
    )


def _truth(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    value = truth(b, n)
    match b.choices.pick(("logical", "not", "as it is")):
        case "logical":
            value = f"{b.choices.pick(LOGICAL)}({value}, {truth(b, n)})"
        case "not":
            value = f"logical_not({value})"
        case _:
            pass
    if b.choices.chance(30):
        b.result(value)
    return f"where({value}, {x}, {b.choices.pick((f'sin({x})', '0', '-1.5'))})", n


# Casts.


def _quantized(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Floats as integers, which are returned, and as floats again."""
    element = b.choices.pick(INTEGERS)
    if b.choices.chance(50):
        options = ", saturate=true"
    else:
        # Without it a number that does not fit is not defined.
        options, element = "", b.choices.pick(("i32", "i64"))
    rounding = b.choices.pick(("", ', rounding="nearest_even"', ', rounding="toward_zero"'))
    value = f"cast({exact(b, n)}, {element}{rounding}{options})"
    b.result(value)
    return _beside(b, x, _as_tile(b, value)), n


def _narrowed(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Integers as narrower ones: their lowest bits, or the nearest number."""
    options = b.choices.pick(("", ", saturate=true"))
    value = f"cast({integers(b, n)} * 3, {b.choices.pick(INTEGERS)}{options})"
    b.result(value)
    return _beside(b, x, _as_tile(b, value)), n


def _float8(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Tiles that are stored in 8 bits: parameters, moved elements, results."""
    element, saturate = b.choices.pick(FLOAT8), b.choices.pick(("", ", saturate=true"))
    match b.choices.pick(("parameter", "straight through", "computed", "returned")):
        case "parameter":
            stored = b.parameter(*b.rows, n, element=element)
        case "straight through":
            return f"{x} + detach(cast(cast({x}, {element}), {b.element}) - {x})", n
        case "computed":
            stored = f"cast({x}, {element}{saturate})"
        case _:
            stored = f"cast({exact(b, n)}, {element}{saturate})"
            b.result(stored)
    moved = b.choices.pick(("{v}", "shift({v}, 1)", "concat({v}, {v})[..., {n}:]"))
    return _beside(b, x, f"cast({moved.format(v=stored, n=n)}, {b.element})"), n


def _narrow_product(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A product of two float8, or with a weight of 8 bits, with its scales in several places."""
    element, columns = b.choices.pick((*FLOAT8, *NARROW)), b.choices.pick(b.columns)
    w = b.parameter(columns, n, element=element, weight=True)
    if element in FLOAT8 and b.choices.chance(40):
        stored = b.parameter(*b.rows, n, element=b.choices.pick(FLOAT8))
        scaled = f"linear({stored}, {w}) * {b.parameter(*b.rows, 1, element='f32')} * 0.25"
        return f"cast({scaled}, {b.element})", columns
    extent = b.choices.pick((columns, 1))
    scale = b.choices.pick(("", "* 0.5", f"* {b.parameter(extent, 1, weight=True)}"))
    bias = b.choices.pick(("", f", {b.parameter(columns, weight=True)}"))
    return f"linear({x}, cast({w}, {b.element}) {scale}{bias})", columns


def _scaled_product(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A product of float8 with scales of blocks, of which rows and columns may have a part."""
    columns, depth = b.choices.pick(b.columns), b.choices.pick((32, 128))
    rows, count = b.choices.pick((1, 2, 128)), -(-n // depth)
    q = f"cast({x}, f8e4m3, saturate=true)" if b.choices.chance(50) else None
    q = q or b.parameter(*b.rows, n, element=b.choices.pick(FLOAT8))
    w = b.parameter(columns, n, element=b.choices.pick(FLOAT8), weight=True)
    scales = b.parameter(*b.rows, count, element="f32")
    of_weight = b.parameter(-(-columns // rows), count, element="f32", weight=True)
    blocks = f"depth={depth}, columns={rows}"
    return f"scaled_linear({q}, {w}, {scales}, {of_weight}, {blocks}, dtype={b.element})", columns


def _quantized_product(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A product of what is quantized for it: arguments, which have the same numbers everywhere."""
    k, recipe = b.choices.pick(b.columns), b.choices.pick(tuple(RECIPES))
    recipe = f', recipe="{recipe}"'
    w = b.parameter(n, k, element=b.choices.pick(("", "f32")), weight=True)
    product = f"quantized_linear({b.parameter(*b.rows, k)}, {w}{recipe}, dtype={b.element})"
    return _beside(b, x, product), n


def _low_bit_product(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A product with a weight of 4 bits along either axis, or of 8."""
    columns, depth = b.choices.pick(b.columns), b.choices.pick((32, 128))
    element, packing = b.choices.pick((("i8", ""), ("u8", "")))
    if n % 8 == 0 and b.choices.chance(50):
        element, packing = "i32", "k01234567"
    words = n // 8 if packing else n
    w = b.parameter(columns, words, element=element, weight=True)
    groups = columns, -(-n // depth)
    scales = b.parameter(*groups, element="f32", weight=True)
    zeros = f", {b.parameter(*groups, element='u8', weight=True)}" if b.choices.chance(50) else ""
    options = f'depth={depth}, offset={b.choices.pick((0, 8))}, packing="{packing}"'
    return f"low_bit_linear({x}, {w}, {scales}{zeros}, {options})", columns


# Rows and elements by number, and order.


def ids_of(b: TextBuilder, n: int, count: int) -> str:
    """`count` different numbers below n in each row."""
    order = f"argsort({b.parameter(*b.rows, n)}{b.choices.pick(('', ', descending=true'))})"
    if b.choices.chance(50):
        # Whole numbers: no two of a row are equal.
        name = f"ids{len(b.statements)}"
        b.statements.append(f"_, {name} = topk(cast({order}, {b.element}), {count})")
        return name
    return f"{order}[..., :{count}]"


def _index(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    if b.choices.chance(50):
        ids = b.parameter(*b.rows, element=b.choices.pick(("i64", "i32")))
        table = b.parameter(b.choices.pick((4, 7)), n, weight=True)
        ids = b.choices.pick((ids, f"{ids} - 2" if b.rows else ids))
        rows = b.choices.pick((f"index({table}, {ids})", f"{table}[{ids}]"))
        return _beside(b, x, rows), n
    count = b.choices.pick(b.columns)
    ids = b.parameter(count, element="i64")
    texts = (
        f"index({x}, {ids}, dim=-1)",
        f"index({x}, {ids}, dim={len(b.rows)})",
        f"{x}[..., {ids}]",
    )
    return b.choices.pick(texts), count


def _embedding(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    ids = b.parameter(*b.rows, element=b.choices.pick(("i64", "i32")))
    padding = b.choices.pick(("", ", padding_idx=0"))
    table = b.parameter(b.choices.pick((4, 7)), n, weight=True)
    return _beside(b, x, f"embedding({ids}, {table}{padding})"), n


def _gather(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    count = b.choices.integer(1, n)
    ids = (
        ids_of(b, n, count) if b.choices.chance(50) else b.parameter(*b.rows, count, element="i64")
    )
    return f"gather({x}, {ids})", count


def _scatter(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    count = b.choices.integer(1, n)
    values = f"silu({x})[..., :{count}]" if b.choices.chance(50) else b.parameter(*b.rows, count)
    return f"scatter({x}, {ids_of(b, n, count)}, {values})", n


def _one_hot(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    ids = b.parameter(*b.rows, element="i64")
    return _beside(b, x, _as_tile(b, f"one_hot({ids}, {n})", small=0.5)), n


def _order(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Elements in order. Their numbers jump: those of what is exact are returned."""
    k = b.choices.integer(1, n)
    texts = (
        (f"sort({x})", n),
        (f"sort({x}, descending=true)", n),
        (f"sort({x}, dim=0)", n),
        (f"topk({x}, {k})", k),
    )
    text, columns = b.choices.pick(texts)
    name = f"ordered{len(b.statements)}"
    b.statements.append(f"{name}, _ = {text}")
    if b.choices.chance(50):
        b.result(f"argsort({integers(b, n)}, dim={b.choices.pick((-1, 0))})")
    return name, columns


def _running_sum(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    if b.choices.chance(30):
        value = f"cumsum({integers(b, n, 'i64')})"
        b.result(value)
        return _beside(b, x, _as_tile(b, value)), n
    return f"cumsum({x}, dim={b.choices.pick((-1, 0))})", n


# Norms, reductions, convolutions, attention, losses.


def _group_norm(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    groups = b.choices.pick(
        [size for size in (1, 2, 4) if size == 1 or (n % size == 0 and n > size)]
    )
    params = f", {b.parameter(n)}, {b.parameter(n)}" if b.choices.chance(60) else ""
    eps = b.choices.pick(("", ", eps=0.01"))
    return f"group_norm({x}{params}, groups={groups}{eps}, dim=-1)", n


def _norm_of_groups(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    group = b.choices.pick([size for size in (2, 3, n) if n % size == 0])
    return f"{b.choices.pick(('rms_norm', 'layer_norm'))}({x}, group={group})", n


def _reduced(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    if b.choices.chance(10):
        exact = f"{b.choices.pick(('sum', 'max'))}({integers(b, n)})"
        return _beside(b, x, _as_tile(b, exact, small=1 / 4096)), n
    name = b.choices.pick(("sum", "mean", "max", "logsumexp"))
    if b.choices.chance(50):
        return _beside(b, x, f"{name}({x})"), n
    return _beside(b, x, f"cast({name}({x}, dtype=f32), {b.element})"), n


def _positions_convolved(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Windows of positions, where there is one dimension of them."""
    if len(b.rows) != 2:
        return f"shift({x}, {b.choices.pick((-2, -1, 1, 3))})", n
    bias = f", {b.parameter(n)}" if b.choices.chance(50) else ""
    if b.choices.chance(40):
        w = b.parameter(n, n, 3, weight=True)
        columns = f"transpose({x})"
        return f"transpose(convolution({columns}, {w}{bias}, padding=[1]) * 0.25)", n
    w, options = b.choices.pick(
        (
            ((n, 4), ", causal=true"),
            ((n, 1, 3), f", groups={n}, padding=1"),
            ((n, n, 3), ", dilation=2, padding=2"),
            ((n, n, 2), ", causal=true"),
        )
    )
    return f"conv1d({x}, {b.parameter(*w, weight=True)}{bias}{options}) * 0.25", n


def _scan(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A selective scan over positions, where there is one dimension of them."""
    if len(b.rows) != 2:
        return f"silu({x})", n
    states = b.choices.pick((1, 4))
    dt, a = b.parameter(*b.rows, n), b.parameter(n, states)
    reads = [b.parameter(*b.rows, states) for _ in range(2)]
    if b.choices.chance(30):
        reads.append(b.parameter(b.rows[0], n, states, element="f32"))
    call = f"selective_scan({x}, sigmoid({dt}), -exp(tanh({a})), {', '.join(reads)}"
    if b.choices.chance(30):
        b.result(f"{call}, final=true)", unused=("_",))
    return f"{call})", n


def _heads(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A state space model of heads, where there is one dimension of positions."""
    if len(b.rows) != 2:
        return f"silu({x})", n
    heads = 2 if n % 2 == 0 else 1
    dt, a = b.parameter(*b.rows, heads), b.parameter(heads)
    reads = [b.parameter(*b.rows, 3) for _ in range(2)]
    if b.choices.chance(30):
        reads.append(b.parameter(b.rows[0], heads, n // heads, 3, element="f32"))
    call = f"ssd({x}, sigmoid({dt}), -exp(tanh({a})), {', '.join(reads)}, states=3"
    if b.choices.chance(30):
        b.result(f"{call}, final=true)", unused=("_",))
    return f"{call})", n


def _delta_rule(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """The gated delta rule with short keys, where there is one dimension of positions."""
    if len(b.rows) != 2:
        return f"silu({x})", n
    heads = 2 if n % 2 == 0 else 1
    q, k = (f"(0.5 * tanh({b.parameter(*b.rows, 3)}))" for _ in range(2))
    call = f"delta_rule({q}, {k}, {x}, sigmoid({b.parameter(*b.rows, heads)})"
    if b.choices.chance(70):
        call += f", -exp(tanh({b.parameter(*b.rows, heads)}))"
    if b.choices.chance(30):
        call += f", initial={b.parameter(b.rows[0], heads, 3, n // heads, element='f32')}"
    if b.choices.chance(30):
        b.result(f"{call}, head_dim=3, final=true)", unused=("_",))
    return f"{call}, head_dim=3)", n


def _groups(b: TextBuilder, x: str, k: int) -> tuple[str, int]:
    """A linear map with a weight for each group of rows, where these are one dimension."""
    if len(b.rows) != 1:
        return f"silu({x})", k
    groups, n = b.choices.integer(1, 3), b.choices.pick((4, 8))
    offsets = b.parameter(groups, element="i32")
    if b.choices.chance(50):
        w = b.parameter(groups, k, n, weight=True)
        return f"grouped_matmul({x}, {w}, {offsets})", n
    bias = f", {b.parameter(groups, n)}" if b.choices.chance(50) else ""
    return f"grouped_linear({x}, {b.parameter(groups, n, k, weight=True)}, {offsets}{bias})", n


def _attention(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    if n % 4 or len(b.rows) not in (1, 2):
        return f"softmax({x})", n
    value = b.choices.pick((4, 4, 2, 8))
    w = [b.parameter(columns, n, weight=True) for columns in (n, n, n // 4 * value)]
    q, k, v = (f"linear({x}, {each})" for each in w)
    options = (
        "",
        ", causal=true",
        ", causal=true, window=2",
        ", softcap=20.0",
        f", mask=gt({b.parameter(1, 1, 1, b.rows[-1], element='i32')}, 0)",
        f", sinks={b.parameter(n // 4)}",
    )
    value_dim = f", value_dim={value}" if value != 4 else ""
    text = f"attention({q}, {k}, {v}, head_dim=4{value_dim}{b.choices.pick(options)})"
    return text, n // 4 * value


def _loss(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A loss, which is returned, beside a packed gate."""
    target = b.parameter(*b.rows, element="i64")
    reduction = b.choices.pick(("mean", "sum", "none"))
    b.result(f'cross_entropy({x}, {target}, reduction="{reduction}", ignore_index=2)')
    return _packed(b, x, n)


def _packed(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    name, adjacent = b.choices.pick(coda.ACTIVATIONS), b.choices.pick(("true", "false"))
    w = b.parameter(n, 2 * n, weight=True)
    return f'glu(matmul({x}, {w}), activation="{name}", adjacent={adjacent})', n


def _wide_product(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    columns = b.choices.pick(b.columns)
    product = f"matmul({x}, {b.parameter(n, columns, weight=True)}, dtype=f32)"
    return f"cast(silu({product}), {b.element})", columns


def _torch(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    name = b.choices.pick(("atan", "asinh"))
    dims = ", ".join(map(str, (*b.rows, n)))
    return f'torch("aten.{name}.default({{0}})", {x}, dtype={b.element}, shape=[{dims}])', n


# Shape.


def _moved(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    rows = ", ".join(map(str, b.rows))
    texts = [
        (f"reshape(silu(reshape({x}, [-1, {n}])), [{rows}, {n}])", n),
        (f"{x} + broadcast({b.parameter(n)}, [{rows}, {n}])", n),
        (f"pad({x}, 2, 1, value=0.5)", n + 3),
        (f"pad({x}, 1)[..., :{n}]", n),
        (f"{x} * cast(arange({n}, start=-2, step=2), {b.element})", n),
        (f"{x} + cast(arange({n}, dtype=i32), {b.element}) * 0.125", n),
        (f"{x}[..., ::2]", -(-n // 2)),
    ]
    return b.choices.pick(texts)


def _chunks(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    if n % 2:
        return _moved(b, x, n)
    first, second = f"first{len(b.statements)}", f"second{len(b.statements)}"
    b.statements.append(f"{first}, {second} = chunk({x}, 2)")
    return f"sigmoid({first}) * {second}", n // 2


OPERATORS: Sequence[tuple[int, Maker]] = (
    (4, _function),
    (2, _parametrized),
    (3, _two_operands),
    (2, _size),
    (3, _truth),
    (3, _quantized),
    (2, _narrowed),
    (2, _float8),
    (2, _narrow_product),
    (2, _scaled_product),
    (1, _quantized_product),
    (2, _low_bit_product),
    (2, _index),
    (1, _embedding),
    (2, _gather),
    (2, _scatter),
    (1, _one_hot),
    (2, _order),
    (2, _running_sum),
    (1, _group_norm),
    (1, _norm_of_groups),
    (2, _reduced),
    (3, _positions_convolved),
    (1, _scan),
    (1, _heads),
    (1, _delta_rule),
    (1, _groups),
    (1, _attention),
    (1, _loss),
    (1, _packed),
    (1, _wide_product),
    (1, _torch),
    (2, _moved),
    (1, _chunks),
)


def call_of_any(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """An expression with one of the operators, and its number of columns."""
    return b.choices.weighted(OPERATORS)(b, x, n)
