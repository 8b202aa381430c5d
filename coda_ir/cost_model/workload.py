"""A GEMM in the cost model: extents, and the reads, operations and writes of epilogues."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type
from xdsl.ir import Operation, SSAValue

from coda_ir.cost_model.devices import Device
from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, is_float8, shape_of
from coda_ir.dialects.gemm.places import PlaceAttr
from coda_ir.dialects.gemm.tables import serves_samples
from coda_ir.dialects.gemm.tiling import group_sizes

NOMINAL_ROWS = 16384
"""The rows that an unknown number of tokens is assumed to be: two sequences of 8192 tokens."""

LINE_BYTES = 128
"""Bytes of a line of the L2 cache."""

FUNCTION_OPERATIONS = 8.0
"""The weight of an exponential, a logarithm or a root relative to an addition: special function
units have an eighth to a quarter of the rate, and the libraries add range reduction."""

POLYNOMIAL_OPERATIONS = {
    "math.erf": 16.0,
    "gemm.normal_cdf": 8.0,
    "gemm.softplus": 9.0,
    "math.log": 14.0,
    "math.log1p": 16.0,
    "math.sin": 28.0,
    "math.cos": 28.0,
}
"""The same for functions that compute polynomials, an exponential, and a choice."""

INSTRUCTIONS = {
    **{"arith.constant": 0, "arith.divf": 6, "math.erf": 28, "math.exp": 5, "math.expm1": 17},
    **{"math.log": 25, "math.log1p": 28, "math.tanh": 22, "gemm.normal_cdf": 11, "math.exp2": 1},
    "gemm.softplus": 17,
    **{"math.log2": 28, "math.sin": 84, "math.cos": 83, "math.atan2": 45, "math.powf": 172},
}
"""Instructions of an operation in code for an H100, where they are not one."""

SLOW = {
    *("arith.divf", "math.exp", "math.exp2", "math.rsqrt", "math.sqrt", "math.erf"),
    *("math.tanh", "math.log", "math.log2", "math.log1p", "math.expm1", "gemm.softplus"),
}
FUNCTION_SLOTS = 7
"""Operations that special function units compute, at an eighth of the rate of additions."""

ISSUE_RATE = 0.8
"""Share of the peak rate of additions at which pointwise kernels issue instructions. On an H200,
two of 6.3 million elements with 79 instructions and 4 functions took 28 us."""

REDUCTION_INSTRUCTIONS = {gemm.ResultKind.PARTIAL_COL: 8, gemm.ResultKind.PARTIAL_ROW: 2}
"""Those of a sum over rows or columns of a tile. In tiles of 128 x 256, the gradient of a tanh has
86 KB, 121 KB with two sums over rows, and 163 KB with four and one over columns; at 4096 x 1024 x
4096, it then took 102 us on an H200, and a product 35."""

MOVING_INSTRUCTIONS = 9
"""Those for each accumulator that is stored after a product with an element of a tile."""

Tile = tuple[int, int, int]
"""BM, BN and BK of a schedule."""

REDUCTION_OPERATIONS, LSE_OPERATIONS, SELECT_OPERATIONS = 12.0, 8.0, 4.0
"""Operations of a sum over a tile for each accumulator, the exchange between threads included, and
of a logsumexp and of the choice of a column. With instructions as many as operations, code for an
H200 had 73 KB for a tile, its logsumexp and a choice, and 131 with another logsumexp; logits of
1024 x 16384 x 1024 took 49 us, and 55 and 67 so."""

_TILES = (gemm.PortKind.TILE, gemm.PortKind.TILE_T, gemm.PortKind.TABLE)
_HALF_TILES = (gemm.PortKind.HALF_TILE, gemm.PortKind.HALF_TABLE)
_STORED = (gemm.ResultKind.TILE, gemm.ResultKind.TILE_T, gemm.ResultKind.ACCUMULATE)


@dataclass(frozen=True)
class Workload:
    """The extents of a `gemm.fused` and the averages of its epilogues over all columns."""

    rows: int
    """M, or its assumed value."""
    has_known_rows: bool
    columns: int
    """N of all segments."""
    depths: tuple[int, ...]
    """K of each term."""
    element_bytes: int
    """The bytes of an element of the inputs."""
    weight_bytes: float
    """The average bytes of an element of the weights."""
    weight_row_bytes: int
    """The bytes of the longest row of the weights in memory."""
    epilogue_bytes: float
    """Bytes that the epilogue moves for each accumulator, without reductions."""
    operations: float
    """Scalar operations of the epilogue for each accumulator, counted as additions."""
    instructions: float
    """Instructions of the longest epilogue for each accumulator."""
    unaligned: float
    """Elements for each accumulator that are stored in rows of no multiple of 16 bytes."""
    of_half_words: float
    """Those of them in rows of no multiple of 4 bytes."""
    loads_half_words: tuple[bool, bool]
    """For x and for the weights: True if the bytes of a row are no multiple of 4."""
    reductions: float
    """Operations for each accumulator of the reductions over the columns or rows of a tile, in the
    epilogue that has most of them."""
    is_f32: bool
    loads_along_k: bool
    """True if neighbouring elements of x, and of the weights, in memory differ in K."""
    has_words: bool
    """True if the weights are words of eight elements along K."""
    is_float8: bool = False
    """True if the products are those of float8."""
    groups: int = 1
    """The number of groups of rows with separate weights, or of groups that are summed over: rows
    are those of all accumulators, and the depth is that of one. The model assumes equal sizes.
    """
    has_scattered_rows: bool = False
    """True if results are stored in rows of any order."""
    gathered_bytes: float = 0.0
    """Bytes of the rows that are read through numbers of rows, each counted once."""
    sums_rows: bool = False
    """True if the rows are those of K, as of a transposed x."""

    @staticmethod
    def of(op: gemm.FusedOp, rows: int | None = None, nominal: int = NOMINAL_ROWS) -> Workload:
        """Return the workload of `op`; `rows` is the number of rows of x (of a transposed x, the
        depth) if it is symbolic, and `nominal` what it is taken for if it is not known.

        N has to be static, and M where x is transposed (see the pass `schedule`).
        """
        segments = op.segments()
        columns = sum(segment.columns for segment in segments)
        nominal = nominal if rows is None else rows
        m = prod(op.row_shape) if op.is_transposed else _known(op.row_shape, nominal)
        groups = 1
        if op.groups is not None:
            groups = max(1, op.row_shape[0] if op.is_transposed else shape_of(op.weights[0])[0])
        shares = groups if op.has_ragged_depth else 1
        depths = tuple(-(-_known((op.depth(i),), nominal) // shares) for i in range(len(op.inputs)))
        return Workload(
            rows=m,
            has_known_rows=rows is not None or DYNAMIC_INDEX not in op.row_shape,
            columns=columns,
            depths=depths,
            element_bytes=element_bytes(op.x.type),
            weight_bytes=weight_bytes(op),
            weight_row_bytes=max(_row_bytes(weight) for weight in op.weights),
            epilogue_bytes=sum(_bytes(s) * s.columns for s in segments) / columns,
            operations=sum(_operations(s) * s.columns for s in segments) / columns,
            instructions=max(map(_instructions, segments)),
            unaligned=sum(_unaligned(s, 16) * s.columns for s in segments) / columns,
            of_half_words=sum(_unaligned(s, 4) * s.columns for s in segments) / columns,
            loads_half_words=(_has_half_words(op.x), any(map(_has_half_words, op.weights))),
            reductions=max(map(_reductions, segments)),
            has_words=op.quantized is not None and op.quantized.has_words_along_k,
            is_f32=isinstance(element_type_of(op.x), Float32Type),
            loads_along_k=all(segment.layout != gemm.Layout.KN for segment in segments),
            is_float8=is_float8(element_type_of(op.x)),
            groups=groups,
            has_scattered_rows=op.scatter is not None,
            gathered_bytes=_gathered_bytes(op, sum(depths) * groups if op.is_transposed else m),
            sums_rows=op.is_transposed,
        )

    @property
    def depth(self) -> int:
        return sum(self.depths)

    @property
    def has_short_rows(self) -> bool:
        """True if several rows of weights are in a line of the cache that all processors load."""
        return not self.sums_rows and self.weight_row_bytes < LINE_BYTES

    @property
    def used_groups(self) -> int:
        """The number of groups that have rows."""
        return max(1, min(self.groups, self.rows))

    @property
    def rows_of_group(self) -> int:
        return ceil(self.rows / self.used_groups)

    def tiles(self, block_m: int) -> int:
        """Return the number of tiles of this many rows, none of which has rows of two groups."""
        return self.used_groups * ceil(self.rows_of_group / block_m)

    def bytes(self) -> float:
        """Return what has to come from memory and go there: operands, ports and results once."""
        columns = self.columns * self.used_groups
        of_depth = self.rows * self.element_bytes + columns * self.weight_bytes
        return of_depth * self.depth + self.rows * self.columns * self.epilogue_bytes

    def flops(self) -> float:
        return 2.0 * self.rows * self.columns * self.depth


def weight_bytes(op: gemm.FusedOp) -> float:
    """Return the average bytes of an element of the weights, with the scales of quantized ones."""
    if op.quantized is not None:
        elements = op.depth(0) * sum(segment.columns for segment in op.segments())
        of_groups = (*op.weights, *op.weight_scales, *op.weight_zeros)
        stored = sum(prod(shape_of(value)) * element_bytes(value.type) for value in of_groups)
        return stored / elements
    return sum(element_bytes(weight.type) for weight in op.weights) / len(op.weights)


def _gathered_bytes(op: gemm.FusedOp, rows: int) -> float:
    """Return the bytes of this many rows of the matrix whose rows are gathered."""
    if op.gather is None and op.gather_weights is None:
        return 0.0
    matrix = op.x if op.gather is not None else op.weights[0]
    return rows * shape_of(matrix)[1] * element_bytes(matrix.type)


def rows_of(op: gemm.FusedOp) -> tuple[int, ...]:
    """Return the dimensions of x that flatten to the rows: those of M, of K if x is transposed."""
    return tuple(shape_of(op.x)[:-1])


def _known(shape: tuple[int, ...], nominal: int) -> int:
    return nominal if DYNAMIC_INDEX in shape else prod(shape)


def _bytes(segment: gemm.Segment) -> float:
    """Return the bytes of tiles per accumulator, not those of vectors of rows, columns, samples."""
    total = 0.0
    for kind, value in segment.ports:
        if kind.is_table and serves_samples(shape_of(value)):
            continue
        share = 1.0 if kind in _TILES else 0.5 if kind in _HALF_TILES else 0.0
        if kind.is_group:
            share = shape_of(value)[-1] / segment.columns
        total += share * element_bytes(value.type)
    return total + sum(_share(port) * element_bytes(type) for port, type in segment.results)


def _unaligned(segment: gemm.Segment, alignment: int) -> float:
    """Return the elements per accumulator in rows whose bytes are no multiple of this number."""
    return sum(
        _share(port)
        for port, type in segment.results
        if _share(port) and type.get_shape()[-1] * element_bytes(type) % alignment
    )


def _has_half_words(value: SSAValue) -> bool:
    return shape_of(value)[-1] != DYNAMIC_INDEX and _row_bytes(value) % 4 != 0


def _row_bytes(value: SSAValue) -> int:
    return _known(shape_of(value)[-1:], NOMINAL_ROWS) * element_bytes(value.type)


def _share(port: gemm.ResultPortAttr) -> float:
    """Return the elements of a result for each accumulator; reductions are not counted."""
    kind = port.kind.data
    copies = port.place.copies.data if isinstance(port.place, PlaceAttr) else 1
    return copies * (1.0 if kind in _STORED else 0.5 if kind == gemm.ResultKind.HALF else 0.0)


def _operations(segment: gemm.Segment) -> float:
    """Return the operations for each accumulator: a region of pairs runs once for two."""
    return sum(map(_cost, _repeated(segment))) / _columns(segment)


def _instructions(segment: gemm.Segment) -> float:
    counts = [INSTRUCTIONS.get(op.name, 1) for op in _repeated(segment)]
    sums = sum(REDUCTION_INSTRUCTIONS.get(kind, 0) for kind in _sums(segment))
    moving = MOVING_INSTRUCTIONS + sums + _of_loss(segment)
    return moving + sum(counts) / _columns(segment)


def issuing_us(segment: gemm.Segment, device: Device) -> float:
    """Return the microseconds of the instructions for an element of a pointwise kernel."""
    functions = sum(op.name in SLOW for op in _repeated(segment))
    slots = _instructions(segment) + FUNCTION_SLOTS * functions / _columns(segment)
    return slots / (ISSUE_RATE * 0.5e6 * device.vector_tflops)


def _columns(segment: gemm.Segment) -> int:
    """Return the columns for which the region of a segment runs once."""
    return 2 if segment.pairing is not None else 1


def _repeated(segment: gemm.Segment) -> list[Operation]:
    """Return the constants, and the operations that run for each accumulator: those on rows and
    scalars alone run once for a row.
    """
    indices = [index for index, (kind, _) in enumerate(segment.ports) if kind.has_columns]
    by_column: set[SSAValue] = {*segment.accumulators}
    by_column.update(value for index in indices for value in segment.port_args(index))
    found: list[Operation] = []
    for op in segment.block.ops:
        if not op.operands or not by_column.isdisjoint(op.operands):
            found.append(op)
            by_column.update(op.results if op.operands else ())
    return found


def _cost(op: Operation) -> float:
    function = FUNCTION_OPERATIONS if op.name.startswith("math.") else 1.0
    return POLYNOMIAL_OPERATIONS.get(op.name, function)


def _reductions(segment: gemm.Segment) -> float:
    sums = len(_sums(segment)) + len(group_sizes(segment))
    return REDUCTION_OPERATIONS * sums + _of_loss(segment)


def _sums(segment: gemm.Segment) -> list[gemm.ResultKind]:
    """Return the kinds of the results that are reductions, other than logsumexps."""
    kinds = (gemm.ResultKind.PARTIAL_ROW, gemm.ResultKind.PARTIAL_COL, gemm.ResultKind.GROUP)
    return [
        port.kind.data
        for port, _ in segment.results
        if port.kind.data in kinds and port.combiner != gemm.CombinerAttr(gemm.Combiner.LSE)
    ]


def _of_loss(segment: gemm.Segment) -> float:
    """Return the operations, and instructions, of logsumexps and chosen columns."""
    ports = [port for port, _ in segment.results]
    logsumexps = sum(port.combiner == gemm.CombinerAttr(gemm.Combiner.LSE) for port in ports)
    selects = sum(port.kind.data == gemm.ResultKind.SELECT for port in ports)
    return LSE_OPERATIONS * logsumexps + SELECT_OPERATIONS * selects


def total_depth(op: gemm.FusedOp) -> int:
    """Return the K of all inputs together, or `DYNAMIC_INDEX`."""
    depths = [op.depth(index) for index in range(len(op.inputs))]
    return DYNAMIC_INDEX if DYNAMIC_INDEX in depths else sum(depths)
