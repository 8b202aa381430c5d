"""Shape rules of the operators: the dimensions of results from those of operands."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda, gemm, torch
from coda_ir.dialects.coda.infer_type import OPEN, InferTypesOp, total
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.tiling import row_partial_tiles
from coda_ir.symbolic_size import SymbolicSize

Dim: TypeAlias = int | str
"""An extent: a number, a symbol `M`, or a product of them as Python writes it, `32*B*T`."""

Dims: TypeAlias = tuple[Dim, ...]

UNKNOWN = OPEN
"""The answer of a rule for an extent that it cannot determine; it becomes a fresh symbol.

`?name3` becomes a fresh symbol too, the same one wherever an operator's results have it. `?N + T`
becomes a symbol for the sum.
"""


def broadcast_dims(operands: Iterable[Dims]) -> Dims:
    """Return the dims of an elementwise result; of two names for an extent, the known one."""
    result: Dims = ()
    for dims in operands:
        rank = max(len(result), len(dims))
        left = (1,) * (rank - len(result)) + result
        right = (1,) * (rank - len(dims)) + dims
        result = tuple(map(_merge, left, right))
    return result


def _merge(a: Dim, b: Dim) -> Dim:
    return b if a == 1 or (isinstance(b, int) and b != 1) else a


def reshape_dims(source: Dims, shape: Sequence[int]) -> Dims:
    """Return the dims of `source` viewed as `shape`, in which `?` is `DYNAMIC_INDEX`.

    Unknown extents are the symbols of `source`, in order, where there are as many and the static
    extents have the same product. Otherwise a single one is the quotient of the sizes.
    """
    known = prod(extent for extent in shape if extent != DYNAMIC_INDEX)
    unknown = sum(extent == DYNAMIC_INDEX for extent in shape)
    symbols = [dim for dim in source if isinstance(dim, str)]
    # Without elements the sizes have no quotient.
    if unknown == len(symbols) and known == prod(d for d in source if isinstance(d, int)):
        names = symbols
    elif unknown == 1:
        names = [_quotient(source, known)]
    else:
        names = [UNKNOWN] * unknown
    remaining = iter(names)
    return tuple(next(remaining) if extent == DYNAMIC_INDEX else extent for extent in shape)


def _quotient(dims: Dims, divisor: int) -> Dim:
    """Return the product of `dims` over `divisor`, if it is one term that this divides."""
    size = SymbolicSize.product(dims)
    quotient = size.divided(divisor) if len(size.terms) == 1 else None
    if quotient is None:
        return UNKNOWN
    return str(quotient) if quotient.symbols else int(quotient)


Rule: TypeAlias = Callable[[Any, list[Dims]], Sequence[Dims]]
"""For an operator of the class that it is for."""


def _like_others(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    return operands[1 : 1 + len(op.results)]


def _reshape(op: coda.ReshapeOp, operands: list[Dims]) -> Sequence[Dims]:
    return [reshape_dims(operands[0], shape_of(op.result))]


def _positions(op: coda.PositionsOp, operands: list[Dims]) -> Sequence[Dims]:
    return [shape_of(op.result) if op.dim is None else (operands[0][op.dim.value.data],)]


def _pad(op: coda.PadOp, operands: list[Dims]) -> Sequence[Dims]:
    dim, extent = op.dim.value.data, UNKNOWN
    if op.like is not None:
        extent = operands[1][dim]
    elif op.added == (0, 0):
        extent = operands[0][dim]
    return [(*operands[0][:dim], extent, *operands[0][dim + 1 :])]


def _embedding_grad(op: coda.EmbeddingGradOp, operands: list[Dims]) -> Sequence[Dims]:
    return [(UNKNOWN if op.like is None else operands[2][0], operands[1][-1])]


def _attention_grad(op: coda.AttentionGradOp, operands: list[Dims]) -> Sequence[Dims]:
    of = dict(zip(op.operands, operands, strict=True))
    added = [(op.sinks, op.d_sinks), (op.mask, op.d_mask)]
    sources = [op.q, op.k, op.v, *(x for x, result in added if x and result)]
    return [of[source] for source in sources]


def _call(op: torch.CallOp, operands: list[Dims]) -> Sequence[Dims]:
    """Return the dims of derivatives and attention; other calls state theirs."""
    if op.callee.data == torch.CONVOLUTION_GRAD:
        _, x, weight = operands
        dims = (x, weight, weight[:1])
        return [dims[position] for position in op.picks or range(3)]
    if op.callee.data == torch.FUSED_ATTENTION:
        q, _, v, *_ = operands
        return [(*q[:-1], v[-1]), q[:-1]]
    return operands[1:] if op.callee.data == torch.FUSED_ATTENTION_GRAD else []


def _vjp(op: torch.VjpOp, operands: list[Dims]) -> Sequence[Dims]:
    return [operands[number] for number in op.differentiated]


def _fused(op: gemm.FusedOp, operands: list[Dims]) -> Sequence[Dims]:
    of = dict(zip(op.operands, operands, strict=True))
    rows = _rows_of_product(op, of)
    row_tile = op.schedule.block_m.data if op.schedule else None
    results: list[Dims] = []
    for index, segment in enumerate(op.segments()):
        axis = -2 if segment.layout == gemm.Layout.NK else -1
        columns = total([of[weight][axis] for weight in segment.weights])
        results += _results(segment, rows, columns, _column_tiles(segment, op, index), row_tile)
    return results


def _rows_of_product(op: gemm.FusedOp | gemm.LibraryOp, of: Mapping[SSAValue, Dims]) -> Dims:
    if isinstance(op, gemm.FusedOp) and op.numbers_of_row > op.summed_rows and op.groups:
        return of[op.groups]
    if not op.is_transposed:
        return of[op.x][:-1] if op.gather is None else of[op.gather]
    return (*(() if op.groups is None else of[op.groups]), of[op.x][-1])


def _library(op: gemm.LibraryOp, operands: list[Dims]) -> Sequence[Dims]:
    rows = _rows_of_product(op, dict(zip(op.operands, operands, strict=True)))
    weight = operands[len(op.inputs)]
    columns = weight[-2 if op.layout.data == gemm.Layout.NK else -1]
    return [(columns, *rows) if op.is_stored_transposed else (*rows, columns)]


def _map(op: gemm.MapOp, operands: list[Dims]) -> Sequence[Dims]:
    segment = op.segment()
    rank = len(segment.domain or ())
    pairs = list(zip(segment.ports, operands, strict=True))
    known = [_port_domain(port.kind, dims, rank) for port, dims in pairs if not port.kind.is_table]
    domain = broadcast_dims([(1,) * rank, *known])
    for dims in (dims for port, dims in pairs if port.kind.is_table):
        domain = _with_symbols_of_table(domain, dims)
    if not domain:
        # A single element is a domain of one column, but a tile of it has no dimension.
        results = _results(segment, (), 1, COLUMN_TILES)
        tiles = [result.port.kind.data == gemm.ResultKind.TILE for result in segment.results]
        return [() if tile else dims for tile, dims in zip(tiles, results, strict=True)]
    # What is 1 in all ports may still be broadcast by the type of the result.
    *rows, columns = (UNKNOWN if dim == 1 else dim for dim in domain)
    return _results(segment, tuple(rows), columns, COLUMN_TILES)


def _attention_sums(op: gemm.AttentionSumOp, operands: list[Dims]) -> Sequence[Dims]:
    of = dict(zip(op.operands, operands, strict=True))
    if isinstance(op, gemm.AttentionDmaskOp) and op.mask is not None:
        *leading, rows, columns = of[op.mask]
        whole = [of[x][-2] if n == 1 else n for x, n in ((op.q, rows), (op.k, columns))]
        return [(*leading, *whole)]
    *batch, queries, _ = of[op.q]
    of_queries = (batch[0] if batch else 1, op.heads, queries)
    own: list[Dims] = [
        (*of_queries, *shape_of(result)[len(of_queries) :]) for result in op.own_results
    ]
    for numbers, segment in op.epilogues():
        *rows, columns = of[op.sums_of[numbers[0]]]
        own += _results(segment, tuple(rows), columns, op.tile_heads)
    return own


def _with_symbols_of_table(domain: Dims, table: Dims) -> Dims:
    """Return `domain`, with symbols of a table for extents that nothing else determines.

    A number gives no information, because a table of that many columns may repeat.
    """
    symbols = tuple(1 if isinstance(dim, int) else dim for dim in table)
    aligned = (1,) * (len(domain) - len(symbols)) + symbols
    return tuple(other if dim == 1 else dim for dim, other in zip(domain, aligned, strict=True))


def _port_domain(kind: gemm.PortKind, dims: Dims, rank: int) -> Dims:
    """Return the dims of the domain that a port of `kind` determines; they broadcast."""
    if kind == gemm.PortKind.SCALAR:
        return ()
    if kind.combiner is not None:
        return (*dims[:-1], 1)
    return (*dims, 1) if kind == gemm.PortKind.COL and len(dims) < rank else dims


def _results(
    segment: gemm.Segment, rows: Dims, columns: Dim, column_tiles: Dim, row_tile: int | None = None
) -> list[Dims]:
    """Return the dims of the results of a segment with an accumulator of `rows` x `columns`."""
    by_kind: dict[gemm.ResultKind, Dims] = {
        gemm.ResultKind.TILE: (*rows, columns),
        gemm.ResultKind.HALF: (*rows, _quotient((columns,), 2)),
        gemm.ResultKind.PARTIAL_ROW: (*rows, column_tiles),
        gemm.ResultKind.SELECT: rows,
        gemm.ResultKind.TILE_T: (columns, *rows),
        gemm.ResultKind.ACCUMULATE: (*rows, columns),
    }

    def dims_of(port: gemm.ResultPortAttr, samples: int) -> Dims:
        match port.kind.data:
            case gemm.ResultKind.GROUP:
                return (*rows, _quotient((columns,), port.group_columns))
            case gemm.ResultKind.PARTIAL_COL:
                return _partial_col(rows, columns, row_tile, samples)
            case kind:
                return by_kind[
                    gemm.ResultKind.TILE_T if segment.is_stored_transposed(port) else kind
                ]

    return [dims_of(result.port, result.samples) for result in segment.results]


def _partial_col(rows: Dims, columns: Dim, row_tile: int | None, samples: int) -> Dims:
    """Return the dims of partials over all rows or over each sample's; the host counts tiles."""
    if samples:
        return (*rows[:samples], "?sample_tiles", columns)
    return (_tiles(_quotient(rows, 1), row_tile, "?row_tiles"), columns)


COLUMN_TILES = "?tiles0"
"""The number of column tiles of an operator with one segment, where it is not known."""


def _column_tiles(segment: gemm.Segment, op: gemm.FusedOp, index: int) -> Dim:
    """Return the number of column tiles of segment number `index`, if the schedule is known."""
    if op.schedule is None or segment.columns == DYNAMIC_INDEX:
        return f"?tiles{index}"
    return row_partial_tiles(segment, op.schedule, op.order)


def _tiles(extent: Dim, tile: int | None, placeholder: str) -> Dim:
    """Return the number of tiles that cover `extent`, if extent and schedule are known."""
    if tile is None or isinstance(extent, str):
        return placeholder
    return -(-extent // tile)


def _finalize(op: gemm.FinalizeOp, operands: list[Dims]) -> Sequence[Dims]:
    """Return the dims of a finalize: by row, (..., tiles) becomes (..., 1) or (...); by column,
    (..., tiles, N) becomes (..., N).
    """
    kept = gemm.kept_dims(operands[0], op.axis.data)
    return [kept if len(shape_of(result)) == len(kept) else (*kept, 1) for result in op.results]


def _pack_weight(op: gemm.PackWeightOp, operands: list[Dims]) -> Sequence[Dims]:
    return [(operands[0][0 if op.layout.data == gemm.Layout.NK else 1],)]


RULES: dict[type, Rule] = {
    coda.ElementwiseOp: lambda _, of: [broadcast_dims(of)],
    coda.SelectiveScanGradOp: _like_others,
    coda.SSDGradOp: _like_others,
    coda.DeltaRuleGradOp: _like_others,
    coda.GluOp: lambda _, of: [(*of[0][:-1], _quotient((of[0][-1],), 2))],
    coda.ReshapeOp: _reshape,
    coda.SumToOp: lambda op, of: [of[0][len(of[0]) - len(shape_of(op.results[0])) :]],
    coda.BroadcastOp: lambda op, of: [broadcast_dims([(1,) * len(shape_of(op.results[0])), *of])],
    coda.PositionsOp: _positions,
    coda.PadOp: _pad,
    coda.AttentionGradOp: _attention_grad,
    coda.EmbeddingGradOp: _embedding_grad,
    torch.CallOp: _call,
    torch.VjpOp: _vjp,
    gemm.FusedOp: _fused,
    gemm.MapOp: _map,
    gemm.AttentionSumOp: _attention_sums,
    gemm.FinalizeOp: _finalize,
    gemm.LibraryOp: _library,
    gemm.PackWeightOp: _pack_weight,
    gemm.ScaleWeightOp: lambda _, of: of[:1],
}


def infer_dims(op: Operation, operands: list[Dims]) -> Sequence[Dims]:
    """Return the dims of the results of `op`, given its operands'; [] if there is no rule."""
    rule = next((RULES[base] for base in type(op).__mro__ if base in RULES), None)
    if rule is None and isinstance(op, InferTypesOp):
        return op.result_extents(operands)
    return [] if rule is None else rule(op, operands)
