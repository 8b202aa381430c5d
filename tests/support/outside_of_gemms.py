"""The reasons why kernels of a program are not in the epilogue of a GEMM, from its structure."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.scan import StateSpaceModel
from coda_ir.dialects.gemm.attention import AttentionSumOp
from coda_ir.storage import is_looked_up_where_read, is_view
from coda_ir.symbolic_shapes import SymbolicShapes
from coda_ir.symbolic_size import SymbolicSize

PRODUCTS = (gemm.FusedOp, coda.AttentionOp, AttentionSumOp, StateSpaceModel)
"""GEMMs, attention and scans."""

REASONS: dict[str, str] = {
    "arguments": "all that it reads follows from arguments, so that no GEMM computes it",
    "library": "which elements are chosen depends on whole rows, and where they go on the choice",
    "rows": "it reads rows beside its own, which other tiles compute",
    "sums": "it needs sums of whole rows or columns, which are complete when all tiles are",
    "results": "it reads results of attention, of scans or of a library call, and no GEMM",
    "shape": "its domain is not that of the GEMM whose result it reads: a part of the columns, or "
    "several elements for one",
    "tile": "none: it could be in the epilogue of a GEMM",
}
"""Why a kernel is not in the epilogue of a GEMM; the first that holds is meant."""


class Outside:
    """The kernels of a function of the scheduled level that are no GEMM, attention or scan."""

    def __init__(self, func: FuncOp):
        self._shapes = SymbolicShapes(func)

    def reason(self, op: Operation) -> str | None:
        """Return a key of `REASONS`; None for products and for the sums of their tiles."""
        if isinstance(op, (*PRODUCTS, gemm.FinalizeOp)):
            return None
        if isinstance(op, coda.LibraryCallOp | coda.GroupOrderOp):
            return "library"
        # What a norm of an argument scales with may be from a GEMM.
        is_norm = isinstance(op, coda.RMSNormOp | coda.LayerNormOp)
        operands = op.operands[:1] if is_norm else op.operands
        if any(_reads_other_rows(value) for value in operands):
            return "rows"
        sources = [_source(value) for value in operands]
        if all(map(_is_of_arguments, sources)):
            return "arguments"
        if any(map(_needs_sums, sources)):
            return "sums"
        tiles = [value for value in sources if isinstance(value.owner, gemm.FusedOp)]
        if not tiles:
            return "results"
        sizes = {self._size(value) for value in tiles}
        return "tile" if any(self._size(result) in sizes for result in op.results) else "shape"

    def _size(self, value: SSAValue) -> SymbolicSize:
        return SymbolicSize.product(self._shapes.dims(value))


def _source(value: SSAValue) -> SSAValue:
    """Return the tensor of which `value` is a view, or whose rows are looked up."""
    while (op := _maker(value)) and (is_view(op) or is_looked_up_where_read(op)):
        value = op.operands[0]
    return value


def _maker(value: SSAValue) -> Operation | None:
    return None if isinstance(value, BlockArgument) else value.owner  # pyright: ignore


def _reads_other_rows(value: SSAValue) -> bool:
    while (op := _maker(value)) and is_view(op):
        if isinstance(op, coda.ShiftOp):
            return True
        value = op.operands[0]
    return False


def _is_of_arguments(value: SSAValue) -> bool:
    op = _maker(_source(value))
    return op is None or (not isinstance(op, PRODUCTS) and all(map(_is_of_arguments, op.operands)))


def _needs_sums(value: SSAValue) -> bool:
    """Return whether `value` holds sums of tiles, or follows from such sums by other kernels."""
    op = _maker(value)
    if isinstance(op, gemm.FinalizeOp):
        return True
    if isinstance(op, gemm.FusedOp):
        results = [result for segment in op.segments() for result in segment.results]
        partial = (gemm.ResultKind.PARTIAL_ROW, gemm.ResultKind.PARTIAL_COL)
        return any(
            output is value and result.port.kind.data in partial
            for output, result in zip(op.outputs, results, strict=True)
        )
    return isinstance(op, gemm.MapOp) and any(_needs_sums(_source(x)) for x in op.operands)
