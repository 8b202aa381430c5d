"""Which calls of topk run as a kernel that holds rows in registers."""

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.dialects.coda.library import TopkOp
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of

MOST_COLUMNS, MOST_TAKEN = 512, 16
"""Columns of rows, and elements taken of each, one after the other."""


def has_short_rows(op: TopkOp) -> bool:
    """Return whether the elements of rows are taken, few of not many."""
    *_, columns = shape_of(op.x)
    is_by_row = op.given["dim"] == len(shape_of(op.x)) - 1
    is_short = columns != DYNAMIC_INDEX and columns <= MOST_COLUMNS
    few = op.given["k"] <= MOST_TAKEN
    return is_by_row and is_short and few and computes_in_float32(element_type_of(op.x))
