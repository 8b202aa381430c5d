"""Tensors that are copied because of a transpose: one that moves the last dimension, because
kernels and matrix products read contiguous rows, or one before a reshape that merges dimensions
which are not adjacent in memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from xdsl.dialects.func import CallOp
from xdsl.ir import Operation, SSAValue

from coda_ir.cost_model.memory_times import KERNEL_US, Sizes
from coda_ir.cost_model.operator_kinds import LIBRARY, is_left, is_product
from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.storage import is_transposed_matrix
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

COPY_EFFICIENCY = 0.2
"""Share of the peak rate of memory at which PyTorch makes such copies. Chosen so that the 44 of
ConvNeXt with 32 images take 1.1 ms, as they did on an H100."""

_KERNELS = (
    *(CallOp, gemm.FusedOp, gemm.MapOp, gemm.FinalizeOp),
    *(coda.RMSNormOp, coda.LayerNormOp, coda.NormStatsOp, coda.SoftmaxOp, coda.ReduceOp),
)

_VIEWS = (coda.ReshapeOp, coda.SliceOp, coda.BarrierOp)


def is_copied(op: Operation, shapes: SymbolicShapes, sizes: Mapping[str, int]) -> bool:
    """Return whether PyTorch copies the result of a transposition that moves the last dimension:
    where a kernel or a product reads it, or a reshape merges its dimensions.
    """
    if not isinstance(op, coda.TransposeOp) or is_transposed_matrix(op.result):
        return False
    order = _order(op, shapes, sizes)
    if order[-1:] == sorted(order)[-1:]:
        return False
    return _is_copied_by_library(op, order) or any(
        isinstance(reader, _KERNELS)
        or (isinstance(reader, LIBRARY) and len(shape_of(reader.operands[0])) > 2)
        or (isinstance(reader, coda.ReshapeOp) and _merges(reader, shapes, sizes))
        for reader in _readers(op.result)
        if not isinstance(reader, coda.MatmulOp)
    )


def copies_rows(op: coda.TransposeOp, shapes: SymbolicShapes, sizes: Mapping[str, int]) -> bool:
    """Return whether a reshape, or a product of batches, copies rows of a transposition."""
    order = _order(op, shapes, sizes)
    if is_transposed_matrix(op.result):
        return False
    has_rows = order[-1:] == sorted(order)[-1:]
    return any(
        has_rows and _merges_apart(reader, order, shapes, sizes)
        if isinstance(reader, coda.ReshapeOp)
        else is_product(reader) and not _are_beside(order[:-2], order)
        for reader in _matrix_readers(op.result)
    )


def transposed_parts(
    op: Operation, shapes: SymbolicShapes, sizes: Mapping[str, int]
) -> list[SSAValue]:
    """Return the parts of a concatenation of which neighbouring elements are not in memory."""
    parts = [(part, part.owner) for part in op.parts] if isinstance(op, coda.ConcatOp) else []
    return [
        part
        for part, owner in parts
        if isinstance(owner, coda.TransposeOp)
        and (order := _order(owner, shapes, sizes))[-1:] != sorted(order)[-1:]
    ]


def _matrix_readers(value: SSAValue) -> Iterator[Operation]:
    """Yield the operators that read a value, or its transposed matrices."""
    for use in value.uses:
        yield use.operation
        if _transposes_matrices(use.operation):
            yield from _matrix_readers(use.operation.results[0])


def _are_beside(axes: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether axes are one after the other in memory."""
    places = [sorted(order).index(axis) for axis in axes]
    return all(after == before + 1 for before, after in pairwise(places))


def is_copied_by_others(op: coda.TransposeOp, shapes: SymbolicShapes) -> bool:
    """Return whether a compiler copies in a kernel that it has: the one before, or all readers."""
    if _is_copied_by_library(op, _order(op, shapes, Sizes(shapes.usual_tiles))):
        return False
    before = op.x.owner
    while isinstance(before, _VIEWS):
        before = before.operands[0].owner
    readers = [reader for reader in _readers(op.result) if not isinstance(reader, _VIEWS)]
    is_before = isinstance(before, Operation) and _is_compiled(before)
    return is_before or all(map(_is_compiled, readers))


def _order(op: coda.TransposeOp, shapes: SymbolicShapes, sizes: Mapping[str, int]) -> list[int]:
    """Return the axes of the operand in the order of the result, without those of one element."""
    extents = _extents(op.x, shapes, sizes)
    return [axis for axis in op.permutation if extents[axis] > 1]


def _is_copied_by_library(op: coda.TransposeOp, order: Sequence[int]) -> bool:
    """Return whether a product of PyTorch copies the result, whose axes have this order: matrices
    that have neither contiguous rows nor contiguous columns. No compiler changes that.
    """
    return max(order, default=0) not in order[-2:] and any(map(is_product, _readers(op.result)))


def copy_us(bytes: int, memory_gb_per_s: float) -> float:
    """Return the microseconds of such a copy of a tensor of this many bytes."""
    return KERNEL_US + 2 * bytes / (1e3 * COPY_EFFICIENCY * memory_gb_per_s)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """Yield the operators that read a value, or a view of it; and these views."""
    for use in value.uses:
        yield use.operation
        if isinstance(use.operation, _VIEWS) or _transposes_matrices(use.operation):
            yield from _readers(use.operation.results[0])


def _transposes_matrices(op: Operation) -> bool:
    """Return whether an operator transposes matrices: products read both layouts."""
    if not isinstance(op, coda.TransposeOp):
        return False
    *batch, last, before = op.permutation
    return (*batch, before, last) == tuple(range(len(op.permutation)))


def is_read_in_place(op: Operation) -> bool:
    """Return whether an operator transposes matrices for products of PyTorch alone."""
    return _transposes_matrices(op) and all(map(is_product, _readers(op.results[0])))


def _is_compiled(op: Operation) -> bool:
    """Return whether a compiler runs an operator as a separate kernel."""
    return is_left(op) and not (isinstance(op, coda.ConvolutionOp) or is_product(op))


def _merges(op: coda.ReshapeOp, shapes: SymbolicShapes, sizes: Mapping[str, int]) -> bool:
    """Return whether a dimension of the result has elements of several dimensions."""
    before, after = (_extents(value, shapes, sizes) for value in (op.x, op.result))
    inner = {prod(after[axis:]) for axis in range(len(after) + 1)}
    return not all(prod(before[axis:]) in inner for axis in range(len(before)))


def _merges_apart(
    op: coda.ReshapeOp, order: Sequence[int], shapes: SymbolicShapes, sizes: Mapping[str, int]
) -> bool:
    """Return whether a dimension of the result has elements of dimensions that are not beside each
    other in memory, where those of the operand have this order.
    """
    before, after = (_extents(value, shapes, sizes) for value in (op.x, op.result))
    before = [extent for extent in before if extent > 1]
    inner = {prod(after[axis:]) for axis in range(len(after) + 1)}
    places = [sorted(order).index(axis) for axis in order]
    return any(
        prod(before[axis:]) not in inner and places[axis] != places[axis - 1] + 1
        for axis in range(1, len(before))
    )


def _extents(value: SSAValue, shapes: SymbolicShapes, sizes: Mapping[str, int]) -> list[int]:
    return [SymbolicSize.of(dim).evaluate(sizes) for dim in shapes.dims(value)]
