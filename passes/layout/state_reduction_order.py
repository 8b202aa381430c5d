"""Pass `state-reduction-order`: state the order of reductions in deterministic functions."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type

from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import element_type_of, is_float8, shape_of
from coda_ir.dialects.gemm.tiling import group_sizes
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter

MAX_DEPTH = 64
MAX_COLUMNS = 64
"""Columns of a partial, unless a group is wider: an epilogue that every schedule can hold."""

MAP_ELEMENTS = 2048
"""Elements of a tile of a pointwise kernel, at least one row of them."""

WIDEST_MAP = 512
ROWS = 64
PARTIALS = 32


class StateReductionOrderPass(FunctionPass):
    """States the order of every reduction as a property that schedules and backends must keep.

        gemm.fused %x            ->    gemm.fused %x order<depth = 64, columns = 64, rows = 64>
          columns(%w) ...                columns(%w) ...

    The pass applies to functions whose numerics mode is deterministic, where no order is stated
    yet. The sizes depend on K, N and the types, never on the number of rows.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        if gemm.numerics_mode(rewriter.func) != gemm.NumericsMode.DETERMINISTIC:
            return
        for op in rewriter.ops:
            if isinstance(op, gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp) and op.order is None:
                op.order = _order_of(op)


def _order_of(op: gemm.FusedOp | gemm.MapOp | gemm.FinalizeOp) -> gemm.OrderAttr | None:
    match op:
        case gemm.FusedOp():
            return _fused_order(op)
        case gemm.MapOp():
            return _map_order(op)
        case _:
            return gemm.OrderAttr.get(partials=PARTIALS)


def _fused_order(op: gemm.FusedOp) -> gemm.OrderAttr:
    segments = op.segments()
    columns = _fitting(max(segment.columns for segment in segments), MAX_COLUMNS)
    # Schedules for float32 have no registers for deeper steps.
    is_f32 = isinstance(element_type_of(op.x), Float32Type)
    # Tensor cores multiply 32 float8 at once.
    least = 32 if is_float8(element_type_of(op.x)) else 16
    depth = 16 if is_f32 else _fitting(_deepest(op), MAX_DEPTH, least)
    return gemm.OrderAttr.get(depth=depth, columns=max(columns, _widest_group(segments)), rows=ROWS)


def _deepest(op: gemm.FusedOp) -> int:
    """Return the largest K, dynamic if unknown, or the rows of transposed inputs."""
    depths = [shape_of(x)[-1] for x in op.inputs]
    return DYNAMIC_INDEX if op.is_transposed or DYNAMIC_INDEX in depths else max(depths)


def _map_order(op: gemm.MapOp) -> gemm.OrderAttr | None:
    segment = op.segment()
    columns = (segment.results[0].type.get_shape() or (1,))[-1]
    if columns == DYNAMIC_INDEX or any(result.port.is_partial for result in segment.results[:1]):
        return None
    columns = max(_fitting(columns, WIDEST_MAP, least=1), _widest_group([segment]))
    return gemm.OrderAttr.get(columns=columns, rows=max(1, MAP_ELEMENTS // columns))


def _fitting(extent: int, most: int, least: int = 16) -> int:
    """Return a power of two that covers `extent`, between `least` and `most`."""
    if extent == DYNAMIC_INDEX:
        return most
    return min(most, max(least, 1 << max(0, extent - 1).bit_length()))


def _widest_group(segments: Sequence[gemm.Segment]) -> int:
    """Return the number of lanes of the widest group of columns, rounded up to a power of two."""
    widest = max((size for segment in segments for size in group_sizes(segment)), default=1)
    return 1 << (widest - 1).bit_length()
