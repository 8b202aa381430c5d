"""Random operators of the GEMM level: segments with ports, results and pairings of all kinds."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, TensorType, f32
from xdsl.ir import Attribute, Block, Region, SSAValue

from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of, tensor_type
from coda_ir.dialects.gemm import (
    Combiner,
    CombinerAttr,
    FinalizeOp,
    FusedOp,
    Layout,
    MapOp,
    PackWeightOp,
    PairingAttr,
    Port,
    PortKind,
    ResultKind,
    ResultPortAttr,
    ScalarBuilder,
    ScaleWeightOp,
    ScheduleAttr,
    Segment,
    YieldOp,
    region_type,
)
from coda_ir.dialects.gemm.tiling import column_ranges
from coda_ir.symbolic_shapes import Dims
from generator.function_builder import FunctionBuilder, tensor_of
from generator.regions import RegionBuilder
from generator.views import view_parameter

COMBINERS = (Combiner.ADD, Combiner.MAX, Combiner.LSE)

PLAIN_PORTS = (
    *(PortKind.TILE, PortKind.ROW, PortKind.COL, PortKind.SCALAR, PortKind.TABLE),
    PortKind.GROUP,
)
GEMM_PORTS = (*PLAIN_PORTS, PortKind.TILE_T)
HALF_PORTS = (
    *(PortKind.HALF_TILE, PortKind.HALF_ROW, PortKind.HALF_TABLE),
    PortKind.HALF_GROUP,
)


def fused(b: FunctionBuilder, x: SSAValue) -> FusedOp:
    """A GEMM of x with one to three segments, the results of which are consumed or returned.

    Sometimes further inputs are multiplied and added, or rows are in groups, gathered or scattered,
    and sometimes the inputs are transposed: then the rows of the program, or those of each group,
    are K, and the results, of the columns of x, are returned.
    """
    transposed = bool(b.style.rows) and b.choices.chance(25)
    style, ends = b.style, None
    is_summed = transposed and len(style.rows) == 1 and b.choices.chance(30)
    inputs = [x] if is_summed else draw_inputs(b, x, transposed=transposed)
    if is_summed:
        b.style = replace(style, groups=b.choices.integer(1, 4))
        ends = b.ends()
        b.style = replace(style, rows=(*b.groups, b.columns_of(x)))
    elif transposed:
        b.style = replace(style, rows=(b.columns_of(x),))
    elif len(style.rows) == 1 and b.choices.chance(25):
        b.style = replace(style, groups=b.choices.integer(1, 4))
        ends = b.ends()
    segments = [
        draw_segment(b, inputs, style.rows if transposed else None, is_summed=is_summed)
        for _ in range(b.choices.weighted(((6, 1), (3, 2), (1, 3))))
    ]
    schedule = draw_schedule(b) if b.choices.chance(35) else None
    gather, scatter = (None, None) if transposed else draw_moves(b, style.rows, segments)
    for segment in segments:
        segment.ports = [moved_port(b, port, gather, scatter) for port in segment.ports]
    gather_weights = None
    if is_summed:
        gather, gather_weights = (
            b.integers(style.rows) if b.choices.chance(30) else None for _ in range(2)
        )
    op = FusedOp(
        inputs,
        segments,
        schedule,
        transposed=transposed,
        groups=ends,
        gather=gather,
        gather_weights=gather_weights,
        scatter=scatter,
    )
    if schedule is not None and not fits(op, schedule):
        op.schedule = None
    b.add(op, "fused")
    for segment in op.segments():
        consume(b, segment, tiles=b.extras if transposed else b.tiles)
    b.style = style
    return op


def draw_moves(
    b: FunctionBuilder, rows: Dims, segments: Sequence[Segment]
) -> tuple[SSAValue | None, SSAValue | None]:
    """The rows of the inputs that are read, and the rows in which those of results are stored."""
    if len(rows) != 1:
        return None, None
    kinds = {result.port.kind.data for segment in segments for result in segment.results}
    can_scatter = kinds <= {ResultKind.TILE, ResultKind.HALF}
    gather = b.integers(rows) if b.choices.chance(20) else None
    return gather, b.integers(rows) if can_scatter and b.choices.chance(40) else None


def moved_port(
    b: FunctionBuilder, port: Port, gather: SSAValue | None, scatter: SSAValue | None
) -> Port:
    """Now and then a column of the rows that are gathered or scattered, in place of a column."""
    moves = {PortKind.GATHER_COL: gather, PortKind.SCATTER_COL: scatter}
    kinds = [kind for kind, ids in moves.items() if ids is not None]
    element = element_type_of(port.value)
    if port.kind != PortKind.COL or not kinds or not is_float(element) or b.choices.chance(50):
        return port
    kind = b.choices.pick(kinds)
    # Gathered rows are those of x, which has as many.
    return Port(kind, b.parameter(b.style.rows, element, hint="moved"))


def draw_inputs(b: FunctionBuilder, x: SSAValue, *, transposed: bool) -> list[SSAValue]:
    """x, and now and then more inputs of its rows (columns, where they are transposed)."""
    inputs = [x]
    for _ in range(b.choices.weighted(((8, 0), (3, 1), (1, 2)))):
        columns = b.columns_of(x) if transposed else b.choices.pick((8, 3, 16, 1, 20))
        inputs.append(tile_of(b, columns, x))
    return inputs


def tile_of(b: FunctionBuilder, columns: int, like: SSAValue) -> SSAValue:
    """A tile of `columns` with the element type of `like`: one that exists, or a parameter."""
    wanted = tensor_of(b.tile_dims(columns), element_type_of(like))
    fitting = [tile for tile in b.tiles if tile.type == wanted]
    if fitting and b.choices.chance(60):
        return b.choices.recent(fitting)
    return b.new_tile(columns, element_type_of(like))


def mapped(b: FunctionBuilder, x: SSAValue) -> None:
    """A pointwise kernel over the tile x."""
    segment = Segment(weights=[], ports=[], results=[], body=Region(Block()))
    segment.block.add_op(YieldOp())
    columns = b.columns_of(x)
    groups = [size for size in (2, 4) if columns % size == 0 and b.choices.chance(10)]
    region = RegionBuilder(b.choices, ScalarBuilder(segment.block), groups)
    region.take(segment.add_port(PortKind.TILE, x))
    draw_ports(b, segment, region, columns)
    draw_results(b, segment, region, columns, [ResultKind.TILE])
    op = MapOp(segment)
    b.add(op, "mapped")
    consume(b, op.segment())


def draw_segment(
    b: FunctionBuilder,
    inputs: Sequence[SSAValue],
    depth: Dims | None = None,
    *,
    is_summed: bool = False,
) -> Segment:
    """A column range over `inputs`; `depth` has the dims of K where these are transposed.

    `is_summed`: K are the rows of groups, of which no result combines accumulators.
    """
    choices = b.choices
    pairing, columns = draw_pairing(b)
    count = 1
    if pairing is None:
        count = choices.weighted(((8, 1), (2, 2), (1, 3)))
    elif columns % 4 == 0 and not pairing.is_adjacent and pairing.group_size is None:
        count = choices.pick((1, 2))
    each = columns // 2 if pairing is not None and count == 2 else columns
    layout = Layout.KN if depth is not None else choices.pick((Layout.NK, Layout.KN))
    terms = [[draw_weight(b, x, each, layout, depth) for _ in range(count)] for x in inputs]
    block = Block(arg_types=[f32] * (1 if pairing is None else 2))
    block.add_op(YieldOp())
    segment = Segment(terms[0], [], [], Region(block), layout, pairing, more_weights=terms[1:])
    region = RegionBuilder(choices, ScalarBuilder(block), draw_groups(b, segment, each))
    region.take(block.args)
    draw_ports(b, segment, region, segment.columns)
    kinds = list(ResultKind)
    draw_results(b, segment, region, segment.columns, kinds, combines_rows=not is_summed)
    return segment


def draw_weight(
    b: FunctionBuilder, x: SSAValue, columns: int, layout: Layout, depth: Dims | None
) -> SSAValue:
    """A weight of `columns` for the input x: a tile of its rows where it is transposed."""
    if depth is not None:
        style, b.style = b.style, replace(b.style, rows=depth)
        weight = tile_of(b, columns, x)
        b.style = style
        return weight
    k = b.columns_of(x)
    weight = b.matrix(*((columns, k) if layout == Layout.NK else (k, columns)), like=x)
    if not b.style.groups and b.choices.chance(6):
        return b.add(ScaleWeightOp(weight, b.row(k, x), layout), "scaled")
    return weight


def draw_pairing(b: FunctionBuilder) -> tuple[PairingAttr | None, int]:
    """A pairing, and a number of columns that it divides."""
    columns = b.choices.pick(b.style.columns)
    even = columns + columns % 2
    match b.choices.weighted(((6, "none"), (2, "halves"), (2, "groups"), (2, "adjacent"))):
        case "halves":
            return PairingAttr.halves(), even
        case "groups":
            group = b.choices.pick((2, 4, 6))
            return PairingAttr.halves(group), group * b.choices.integer(1, 3)
        case "adjacent":
            return PairingAttr.adjacent_columns(), even
        case _:
            return None, columns


def draw_groups(b: FunctionBuilder, segment: Segment, each: int) -> list[int]:
    """Group sizes that a region may reduce over: one, or powers of two."""
    if b.choices.chance(70):
        return []
    columns = segment.columns if segment.pairing is not None else each
    sizes = [size for size in (2, 4, 8) if columns % size == 0]
    odd = [size for size in (6, 12, 3, 5) if columns % size == 0]
    if segment.pairing is not None:
        odd = [size for size in odd if size % 2 == 0]
    return odd[:1] if odd and b.choices.chance(30) else sizes


def draw_ports(b: FunctionBuilder, segment: Segment, region: RegionBuilder, columns: int) -> None:
    kinds = GEMM_PORTS if segment.weights else PLAIN_PORTS
    if b.style.groups:
        kinds = (*kinds, PortKind.GROUP_ROW)
    if segment.pairing is not None:
        kinds = (*kinds, *HALF_PORTS)
    if segment.pairing is not None and b.style.groups:
        kinds = (*kinds, PortKind.HALF_GROUP_ROW)
    for _ in range(b.choices.weighted(((2, 1), (3, 2), (2, 0), (1, 4)))):
        kind = b.choices.pick(kinds)
        region.take(segment.add_port(kind, draw_operand(b, kind, columns)))


def draw_operand(b: FunctionBuilder, kind: PortKind, columns: int) -> SSAValue:
    """A tensor for a port over rows x columns: a value of the right type or a parameter."""
    choices, rows = b.choices, b.style.rows
    n = columns // 2 if kind.is_half else columns
    element: Attribute = choices.pick((b.style.element, f32))
    match kind:
        case PortKind.TILE | PortKind.HALF_TILE:
            wanted = tensor_of(b.tile_dims(n), element)
            fitting = [tile for tile in b.tiles if tile.type == wanted]
            if fitting and choices.chance(60):
                return choices.recent(fitting)
            depth = b.choices.pick((0, 1, 2))
            return view_parameter(b, b.tile_dims(n), element, depth, hint="x")
        case PortKind.TILE_T:
            return b.parameter((n, *rows), element, hint="transposed")
        case PortKind.COL:
            dims = (*rows, 1) if choices.chance(60) else rows
            return b.integers(dims) if choices.chance(25) else b.parameter(dims, element)
        case PortKind.SCALAR:
            return b.parameter(choices.pick(((), (1,), (1, 1))), element, hint="scalar")
        case PortKind.ROW | PortKind.HALF_ROW:
            return b.row(n)
        case PortKind.GROUP_ROW | PortKind.HALF_GROUP_ROW:
            return b.parameter((*b.groups, n), element, hint="row")
        case PortKind.TABLE | PortKind.HALF_TABLE | PortKind.GROUP | PortKind.HALF_GROUP:
            kept: Dims = rows[choices.integer(0, len(rows)) :]
            kept = tuple(dim if choices.chance(85) else 1 for dim in kept)
            divisors = [size for size in (n, n // 2, 2, 1) if size and n % size == 0]
            return b.parameter((*kept, choices.pick(divisors)), element, hint="table")
        case PortKind.PARTIAL_ADD | PortKind.PARTIAL_MAX | PortKind.PARTIAL_LSE:
            raise ValueError(f"{kind}: partials come from a GEMM, not from parameters")
        case PortKind.GATHER_COL | PortKind.SCATTER_COL:
            raise ValueError(f"{kind}: `moved_port` makes them of columns")


def draw_results(
    b: FunctionBuilder,
    segment: Segment,
    region: RegionBuilder,
    columns: int,
    kinds: Sequence[ResultKind],
    *,
    combines_rows: bool = True,
) -> None:
    """One to three results of random code; a map needs a tile first, a GEMM may do without."""
    for index in range(b.choices.weighted(((4, 1), (3, 2), (1, 3)))):
        is_given = not index and len(kinds) == 1
        kind = kinds[0] if is_given else draw_result_kind(b, segment, combines_rows=combines_rows)
        port = draw_result_port(b, segment, kind, region, columns)
        region.grow(b.choices.integer(1, 5))
        values = [region.value() for _ in range(segment.result_arity(port))]
        type = result_type(b, kind, columns)
        if kind == ResultKind.ACCUMULATE:
            assert isinstance(port.index, IntAttr)
            type = tensor_type(segment.ports[port.index.data].value)
        segment.add_result(port, type, values)


def draw_result_kind(b: FunctionBuilder, segment: Segment, *, combines_rows: bool) -> ResultKind:
    kinds = [(5, ResultKind.TILE), (3, ResultKind.PARTIAL_ROW)]
    if not b.style.groups and combines_rows:
        kinds.append((1, ResultKind.PARTIAL_COL))
    kinds.append((1, ResultKind.ACCUMULATE))
    if segment.weights:
        kinds.append((1, ResultKind.TILE_T))
    if segment.pairing is not None:
        kinds.append((3, ResultKind.HALF))
    elif segment.weights:
        kinds.append((1, ResultKind.SELECT))
    return b.choices.weighted(kinds)


def draw_result_port(
    b: FunctionBuilder, segment: Segment, kind: ResultKind, region: RegionBuilder, columns: int
) -> ResultPortAttr:
    match kind:
        case ResultKind.TILE:
            return ResultPortAttr.tile()
        case ResultKind.TILE_T:
            return ResultPortAttr.tile_t()
        case ResultKind.ACCUMULATE:
            transposed = bool(segment.weights) and b.choices.chance(50)
            dims = (columns, *b.style.rows) if transposed else b.tile_dims(columns)
            element: Attribute = b.choices.pick((b.style.element, f32))
            port = Port(
                PortKind.TILE_T if transposed else PortKind.TILE,
                b.parameter(dims, element, hint="old"),
            )
            region.take(segment.add_port(*port))
            return ResultPortAttr.accumulate(segment.ports.index(port))
        case ResultKind.HALF:
            return ResultPortAttr.half()
        case ResultKind.PARTIAL_ROW:
            return ResultPortAttr.partial_row(b.choices.pick(COMBINERS))
        case ResultKind.PARTIAL_COL:
            return ResultPortAttr.partial_col(b.choices.pick(COMBINERS))
        case ResultKind.SELECT:
            port = Port(PortKind.COL, b.integers(b.style.rows))
            segment.add_port(*port)
            return ResultPortAttr.select(segment.ports.index(port))
        case ResultKind.GROUP:
            raise AssertionError(_GROUP)


def result_type(b: FunctionBuilder, kind: ResultKind, columns: int) -> TensorType[Attribute]:
    element: Attribute = b.choices.pick((b.style.element, f32))
    rows = tensor_of(b.style.rows, f32).get_shape()
    match kind:
        case ResultKind.TILE | ResultKind.ACCUMULATE:
            return TensorType(element, (*rows, columns))
        case ResultKind.TILE_T:
            return TensorType(element, (columns, *rows))
        case ResultKind.HALF:
            return TensorType(element, (*rows, columns // 2))
        case ResultKind.PARTIAL_ROW:
            return TensorType(f32, (*rows, DYNAMIC_INDEX))
        case ResultKind.PARTIAL_COL:
            return TensorType(f32, (DYNAMIC_INDEX, columns))
        case ResultKind.SELECT:
            return TensorType(f32, rows)
        case ResultKind.GROUP:
            raise AssertionError(_GROUP)


_GROUP = "results for groups of columns are drawn in .coda text"


def consume(b: FunctionBuilder, segment: Segment, tiles: list[SSAValue] | None = None) -> None:
    """Tiles are added to `tiles`, by default for use by what follows; partials are combined; the
    rest is returned.
    """
    tiles = b.tiles if tiles is None else tiles
    rows: list[tuple[Combiner, SSAValue]] = []
    for result, value in zip(segment.results, segment.outputs, strict=True):
        value.name_hint = result.port.kind.data.value
        match result.port.kind.data:
            case ResultKind.TILE | ResultKind.HALF:
                tiles.append(value)
            case ResultKind.SELECT | ResultKind.TILE_T | ResultKind.GROUP:
                b.extras.append(value)
            case ResultKind.ACCUMULATE:
                (b.extras if segment.is_stored_transposed(result.port) else tiles).append(value)
            case ResultKind.PARTIAL_ROW:
                rows.append((combiner_of(result.port), value))
            case ResultKind.PARTIAL_COL:
                partials = [(combiner_of(result.port), value)]
                finalize(b, partials, shape_of(value)[1:], "col")
    if rows:
        finalize(b, rows, shape_of(rows[0][1])[:-1], "row")


def combiner_of(port: ResultPortAttr) -> Combiner:
    assert isinstance(port.combiner, CombinerAttr)
    return port.combiner.data


def finalize(
    b: FunctionBuilder,
    partials: Sequence[tuple[Combiner, SSAValue]],
    kept: Sequence[int],
    axis: str,
) -> None:
    """Combine partials, with random code on the totals."""
    block = Block(arg_types=[f32] * len(partials))
    block.add_op(YieldOp())
    region = RegionBuilder(b.choices, ScalarBuilder(block), [])
    region.take(block.args)
    ports: list[Port] = []
    if b.choices.chance(30):
        ports.append(Port(PortKind.SCALAR, b.parameter((), f32, hint="scalar")))
    if axis == "row" and b.choices.chance(30):
        ports.append(Port(PortKind.COL, draw_operand(b, PortKind.COL, 1)))
    for port in ports:
        type = region_type(element_type_of(port.value))
        region.take([block.insert_arg(type, len(block.args))])
    shape = (*kept, 1) if axis == "row" and b.choices.chance(50) else tuple(kept)
    types: list[TensorType[Attribute]] = []
    values: list[SSAValue] = []
    for _ in range(1 + b.choices.chance(25)):
        region.grow(b.choices.integer(0, 3))
        values.append(region.value())
        types.append(TensorType(b.choices.pick((f32, b.style.element)), shape))
    assert block.last_op is not None
    block.last_op.operands = values
    op = FinalizeOp(partials, ports, types, Region(block), axis=axis)
    b.extra(op, "total")
    b.extras.extend(op.results[1:])


def draw_schedule(b: FunctionBuilder) -> ScheduleAttr:
    tile = (b.choices.pick((16, 32)), b.choices.pick((32, 16, 64, 128)), b.choices.pick((16, 32)))
    warps = b.choices.pick((4, 1, 8))
    # No choice of its own, so that seeds keep their programs.
    split_k = 3 if tile[1] == 64 else 1
    return ScheduleAttr.get("pointer", tile, warps=warps, stages=1, group_m=2, split_k=split_k)


def fits(op: FusedOp, schedule: ScheduleAttr) -> bool:
    """Return whether the tiles of a schedule hold the groups of an operator."""
    try:
        for segment in op.segments():
            column_ranges(segment, schedule)
    except ValueError:
        return False
    return True


def packed_vector(b: FunctionBuilder, x: SSAValue) -> None:
    """A weight times a vector ahead of time, added to a linear map of the weight."""
    if not is_float(element_type_of(x)):
        return
    n, k = b.choices.pick(b.style.columns), b.columns_of(x)
    layout = b.choices.pick((Layout.NK, Layout.KN))
    weight = b.matrix(n, k, x) if layout == Layout.NK else b.matrix(k, n, x)
    vector = None if b.choices.chance(20) else b.row(k, x)
    b.extra(PackWeightOp(weight, vector, layout), "packed")
