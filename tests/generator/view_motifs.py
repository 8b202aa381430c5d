"""Steps that make views: operands that broadcast, parts of packed values, views of views."""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.symbolic_shapes import Dims
from generator.function_builder import FunctionBuilder
from generator.norms import EPSILONS, norm
from generator.operators import BINARY, Step, linear, smooth
from generator.views import Shaped, broadcast_dims, broadcast_view, view_of, view_parameter


def row_of_samples(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """A row for each sample, [B, 1, D]: a parameter, or a part of what a linear map makes."""
    columns, element = b.columns_of(x), element_type_of(x)
    dims: Dims = (*b.style.rows[:1], *[1] * (len(b.style.rows) - 1), columns)
    if b.choices.chance(50):
        return view_parameter(b, dims, element, depth=1)
    condition = b.parameter((*dims[:-1], b.choices.pick((4, 8))), element, hint="condition")
    modulation = linear(b, condition, 2 * columns)
    if element_type_of(modulation) != element:
        modulation = b.add(coda.CastOp(modulation, element))
    start = b.choices.pick((0, columns))
    return b.add(coda.SliceOp(modulation, len(dims) - 1, start, start + columns))


def add_broadcast(b: FunctionBuilder) -> None:
    """Arithmetic of a tile, sometimes of one just computed, with what broadcasts to it."""
    x = b.pick_tile()
    if b.choices.chance(30):
        x = linear(b, x)
    makers: Sequence[Callable[[FunctionBuilder, SSAValue], SSAValue]]
    makers = (broadcast_view, row_of_samples) if b.style.rows else (broadcast_view,)
    for _ in range(1 + b.choices.chance(30)):
        operands = [x, b.choices.pick(makers)(b, x)]
        if b.choices.chance(30):
            operands.reverse()
        x = b.add(b.choices.pick(BINARY)(*operands), "broadcast")
    b.tiles.append(x)


def add_modulated_norm(b: FunctionBuilder) -> None:
    """A norm with the scale and shift of each sample, as its parameters or after it (adaLN), that
    linear maps read."""
    x = linear(b, b.pick_tile()) if b.choices.chance(60) else b.pick_tile()
    if len(b.style.rows) < 2:
        b.tiles.append(norm(b, x))
        return
    scale, shift = (row_of_samples(b, x) for _ in range(2))
    if b.choices.chance(50):
        eps = b.choices.pick(EPSILONS)
        normed = b.choices.pick(
            (
                lambda: coda.RMSNormOp(x, scale, eps=eps),
                lambda: coda.LayerNormOp(x, [scale, shift], eps=eps),
                lambda: coda.LayerNormOp(x, [shift], eps=eps, bias_only=True),
            )
        )
        value = b.add(normed(), "modulated")
    else:
        value = b.add(coda.MulOp(norm(b, x), scale), "scaled")
        value = b.add(coda.AddOp(value, shift), "modulated") if b.choices.chance(70) else value
    b.tiles.append(value)
    for _ in range(b.choices.below(3)):
        b.tiles.append(linear(b, value))


def computed(b: FunctionBuilder) -> Shaped:
    """A tile that a kernel writes, with more columns than the others have at times."""
    x, columns = b.pick_tile(), b.choices.pick(b.style.columns)
    match b.choices.pick(("linear", "pointwise", "norm")):
        case "linear":
            columns *= b.choices.pick((2, 1, 3))
            return Shaped(linear(b, x, columns), b.tile_dims(columns))
        case "pointwise":
            value = smooth(b, x)
        case _:
            value = norm(b, x)
    return Shaped(value, b.tile_dims(b.columns_of(x)))


def add_views(b: FunctionBuilder) -> None:
    """A value, one to three views of views of it, and code on the last one.

    The value is dead after its views, and kernels that follow may need a buffer. Some views are
    returned, some with what they are views of.
    """
    views = [computed(b)]
    for _ in range(b.choices.integer(1, 3)):
        views.append(view_of(b, views[-1]))
    if b.choices.chance(30):
        b.aliases = [view.value for view in views if b.choices.chance(70)]
    for _ in range(b.choices.below(3)):
        # Kernels between the views and their use.
        b.tiles.append(b.choices.pick((linear, norm, smooth))(b, b.pick_tile()))
    last = views[-1]
    if b.choices.chance(70):
        last = code_on(b, last)
    is_tile = last.dims[:-1] == b.style.rows and isinstance(last.dims[-1], int)
    (b.tiles if is_tile else b.extras).append(last.value)


def add_buried(b: FunctionBuilder) -> None:
    """A value that only a view of a view of it keeps alive, while kernels want its memory."""
    x = b.pick_tile()
    views = [Shaped(norm(b, x), b.tile_dims(b.columns_of(x)))]
    for _ in range(b.choices.integer(2, 3)):
        views.append(view_of(b, views[-1]))
    value = x
    for _ in range(b.choices.integer(2, 4)):
        value = norm(b, value) if b.choices.chance(70) else linear(b, value, b.columns_of(value))
    b.tiles.append(value)
    b.extras.append(code_on(b, views[-1]).value)
    if b.choices.chance(40):
        b.aliases = [view.value for view in views[b.choices.below(2) :]]


def code_on(b: FunctionBuilder, x: Shaped) -> Shaped:
    """Arithmetic on a value of any shape, with another view or with what broadcasts to it."""
    element = element_type_of(x.value)
    match b.choices.pick(("unary", "view", "broadcast", "reduction", "linear")):
        case "linear" if x.dims and isinstance(x.dims[-1], int):
            y = linear(b, x.value)
            return Shaped(y, (*x.dims[:-1], b.columns_of(y)))
        case "view":
            other = view_parameter(b, x.dims, element)
        case "broadcast" if x.dims:
            other = view_parameter(b, broadcast_dims(b, x.dims), element, depth=1)
        case "reduction" if x.dims and isinstance(x.dims[-1], int):
            kind = b.choices.pick(("sum", "mean", "max", "lse"))
            return Shaped(b.add(coda.ReduceOp(x.value, kind, f32)), (*x.dims[:-1], 1))
        case _:
            return Shaped(smooth(b, x.value), x.dims)
    operands = (other, x.value) if b.choices.chance(40) else (x.value, other)
    return Shaped(b.add(b.choices.pick(BINARY)(*operands)), x.dims)


def add_split(b: FunctionBuilder) -> None:
    """A packed value split into parts of its columns that meet again, as in adaLN."""
    x = b.pick_tile()
    n = b.columns_of(x)
    count = b.choices.pick((2, 3))
    packed = linear(b, x, count * n)
    axis = len(b.style.rows)
    parts = [b.add(coda.SliceOp(packed, axis, at * n, (at + 1) * n)) for at in range(count)]
    value = parts[0]
    for part in parts[1:]:
        value = b.add(b.choices.pick(BINARY)(value, part))
    if element_type_of(value) == element_type_of(x) and b.choices.chance(50):
        value = b.add(b.choices.pick(BINARY)(x, value))
    b.tiles.append(value)
    if b.choices.chance(20):
        b.extras.append(b.choices.pick(parts))


def add_convolution(b: FunctionBuilder) -> None:
    """A convolution over the last rows of a tile, whose columns are its channels."""
    x = b.pick_tile()
    if len(b.style.rows) != 2:
        return
    swapped = b.add(coda.TransposeOp(x, (0, 2, 1)))
    inputs, before = b.columns_of(x), b.choices.integer(0, 2)
    groups = b.choices.pick([n for n in (1, 2, inputs) if inputs % n == 0])
    outputs = groups * b.choices.integer(1, 3)
    taps = (outputs, inputs // groups, 2 * before + 1)
    weight = b.parameter(taps, element_type_of(x), hint="taps", weight=True)
    bias = b.row(outputs, x) if b.choices.chance(30) else None
    convolution = coda.ConvolutionOp(swapped, weight, bias, [1], [before], [1], groups)
    convolved = b.add(convolution, "convolved")
    b.tile(coda.TransposeOp(convolved, (0, 2, 1)))


def add_padded(b: FunctionBuilder) -> None:
    """A tile with more columns, or with more rows, which a linear map or a function reads."""
    x = b.pick_tile()
    before, after = b.choices.below(4), b.choices.below(4)
    axis, number = b.choices.below(len(shape_of(x))), b.choices.pick((0, 0, 1.5, -3.0))
    padded = b.add(coda.PadOp.around(x, axis, before, after, number))
    if axis == len(shape_of(x)) - 1:
        b.tiles.append(padded)
    else:
        b.extras.append(b.choices.pick((linear, smooth))(b, padded))


def add_viewed_tile(b: FunctionBuilder) -> None:
    """A new tile for what follows, as a view of a parameter."""
    x = b.pick_tile()
    b.tiles.append(view_parameter(b, b.tile_dims(b.columns_of(x)), element_type_of(x)))


VIEWS: Sequence[tuple[int, Step]] = (
    (4, add_broadcast),
    (3, add_modulated_norm),
    (4, add_views),
    (3, add_buried),
    (2, add_split),
    (1, add_viewed_tile),
    (1, add_convolution),
    (1, add_padded),
)
