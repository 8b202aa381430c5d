"""Norms and rotary embedding on what a function has computed so far."""

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from generator.function_builder import FunctionBuilder
from generator.views import view_parameter

EPSILONS = (1e-6, 1e-5, 1e-2, 0.1)


def add_norm(b: FunctionBuilder) -> None:
    b.tiles.append(norm(b, b.pick_tile()))


def norm(b: FunctionBuilder, x: SSAValue, kind: str | None = None) -> SSAValue:
    """RMSNorm or LayerNorm with any number of parameters and any eps."""
    kind = kind or b.choices.pick(("rms", "layer"))
    eps, n = b.choices.pick(EPSILONS), b.columns_of(x)
    if kind == "rms":
        weight = None if b.choices.chance(20) else b.row(n, x)
        return b.add(coda.RMSNormOp(x, weight, eps=eps), "normed")
    count = 2 - b.choices.weighted(((55, 0), (20, 1), (25, 2)))
    weights = [b.row(n, x) for _ in range(count)]
    bias_only = count == 1 and b.choices.chance(30)
    return b.add(coda.LayerNormOp(x, weights, eps=eps, bias_only=bias_only), "normed")


def group_norm(b: FunctionBuilder, x: SSAValue, group: int) -> SSAValue:
    weight = None if b.choices.chance(20) else b.row(group, x)
    eps = b.choices.pick(EPSILONS)
    return b.add(coda.RMSNormOp(x, weight, eps=eps, group=group), "heads")


def rope(b: FunctionBuilder, x: SSAValue, layout: str) -> SSAValue:
    """Rotary embedding by tables of positions, or of every row, for one head or for several."""
    head, rows = b.style.head, b.style.rows
    positions = rows[-1:] if b.choices.chance(70) else rows
    element = element_type_of(x) if b.choices.chance(60) else f32
    per_column = b.choices.chance(40)
    count = heads_of(b, x) if b.choices.chance(20) else 1
    dims = (*positions, count * (head if per_column else head // 2))
    depth = 2 if b.choices.chance(15) else 0
    cos, sin = (view_parameter(b, dims, element, depth, hint) for hint in ("cos", "sin"))
    op = coda.RopeOp(
        x,
        cos,
        sin,
        head_dim=head,
        layout=layout,
        table_heads=count,
        per_column=per_column,
    )
    return b.add(op, "rotated")


def heads_of(b: FunctionBuilder, x: SSAValue) -> int:
    """The number of heads of x; 0 where its columns are no whole heads."""
    columns, head = b.columns_of(x), b.style.head
    return 0 if columns % head or head % 2 else columns // head


def add_rotation(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    if b.style.rows and heads_of(b, x):
        b.tiles.append(rope(b, x, b.choices.pick(coda.ROPE_LAYOUTS)))


def add_group_norm(b: FunctionBuilder) -> None:
    x = b.pick_tile()
    if b.columns_of(x) % b.style.head == 0:
        b.tiles.append(group_norm(b, x, b.style.head))


def add_norm_of_channels(b: FunctionBuilder) -> None:
    """A norm of groups of columns over the positions of each sample, or of each row alone."""
    x = b.pick_tile()
    rank, n = len(shape_of(x)), b.columns_of(x)
    groups = [count for count in (1, 2, 4, n // 2) if 0 < count < n and n % count == 0]
    if rank < 2 or not groups:
        return
    order = (0, rank - 1, *range(1, rank - 1))
    params = () if b.choices.chance(30) else (b.row(n, x), b.row(n, x))
    view = x if rank == 2 else b.add(coda.TransposeOp(x, order))
    # Groups of few alike elements are divided by what eps leaves.
    norm = coda.GroupNormOp(view, params, groups=b.choices.pick(groups), eps=0.1)
    if rank == 2:
        b.tile(norm)
    else:
        b.tile(coda.TransposeOp(b.add(norm), sorted(range(rank), key=order.__getitem__)))
