"""Operators with kernels that read or write elements by index (`gather`, `scatter`, `index`)."""

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32, i64
from xdsl.ir import SSAValue

from coda_ir.dialects.coda import EmbeddingGradOp, GatherOp, IndexOp, ScatterOp
from coda_ir.dialects.coda.library import MAX_COLUMNS
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, is_float, shape_of
from coda_ir.symbolic_shapes import SymbolicShapes


def has_kernel(op: GatherOp | ScatterOp | IndexOp, shapes: SymbolicShapes) -> bool:
    """Return whether a kernel runs an operator: on rows of few columns, or on a vector."""
    if not _fits(op.x) or element_type_of(op.ids) not in (i32, i64):
        return False
    rank, columns = len(shape_of(op.x)), (shape_of(op.x)[-1:], shape_of(op.ids)[-1:])
    if isinstance(op, IndexOp):
        return rank == 1 and bool(columns[1])
    if isinstance(op, ScatterOp) and rank == 1 and replaces_all(op, shapes):
        return True
    is_short = all(0 < extent <= MAX_COLUMNS for extents in columns for extent in extents)
    return rank > 0 and op.given["dim"] == rank - 1 and is_short


FEW_IDS, FEW_ELEMENTS, FEW_SUMS = 64, 2**13, 2**28
"""Few ids, elements of a table, and products of both: the programs of each row of such a table read
all ids, instead of a sort of the ids. With 16384 ids and 1024 columns, this took 96 us for 16 rows
on an H200, and 214 for 64, of which a sort takes 179; with 262144 ids and 8 columns, 61 for 32 rows
and a sort 252."""


def reads_all_ids(op: EmbeddingGradOp) -> bool:
    """Return whether one kernel computes the gradient of a table, without a sort of the ids."""
    ids, table = shape_of(op.ids), shape_of(op.result)
    if DYNAMIC_INDEX in table:
        return False
    if prod(table) <= FEW_ELEMENTS:
        return True
    return DYNAMIC_INDEX not in ids and (
        prod(ids) <= FEW_IDS or prod(ids) * prod(table) <= FEW_SUMS
    )


def replaces_all(op: ScatterOp, shapes: SymbolicShapes) -> bool:
    """Return whether there are as many numbers as elements: as they differ, none is kept."""
    return shapes.dims(op.x) == shapes.dims(op.ids)


def _fits(value: SSAValue) -> bool:
    type = element_type_of(value)
    return computes_in_float32(type) if is_float(type) else type in (i32, i64)
