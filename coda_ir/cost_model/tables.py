"""The time of the gradient of a table of embeddings beyond its bytes."""

from math import prod

from xdsl.ir import Block, Operation

from coda_ir.cost_model.operator_times import OperatorTimes
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_bytes
from coda_ir.numbered_elements import reads_all_ids

ATOMIC_US, WARP = 8e-4, 32
"""Microseconds for each number that a compiler adds to a table with rows narrower than a warp,
whose threads wait for each other if ids are computed, as from positions, so that neighbours are
equal. On an H100, the gradients of T5's position bias took 3.8 and 2.9 ms for 4.2 million, and
mT5's 1.7 and 1.1 ms for 1.6 million."""

SPREAD_US = 6e-5
"""The same for ids of an argument. On an H200, those of 2.1 million with random ids took 127."""

ORDERED_US = 2e-3
"""Microseconds for each index of such a table in a program: 0.54 ms for 262144 of either."""

SUM_US = 2e-7
"""Microseconds for each row of dy and each element of a table whose programs read all ids."""

TABLE_US, TABLE_ROWS = 40.0, 4096
"""Microseconds of the gradient of a table in a program beyond those of its bytes, for this many
rows or more; fewer take a proportion. Indices are sorted, and their runs are found. On an H200,
those of 4096 rows of 768 columns took 56, and in a compiler's kernels 14."""


def table_us(op: Operation, times: OperatorTimes, *, is_compiled: bool = False) -> float:
    """Return the microseconds that the gradient of a table takes beyond its bytes; 0 for other
    operators. A compiler adds it up in float32: it stores zeros, and loads the sums to round them.
    Rows narrower than a warp take longer.
    """
    if not isinstance(op, coda.EmbeddingGradOp):
        return 0.0
    table, rows, added = (times.extents_of(op.result), times.rows(op.dy), times.extents_of(op.dy))
    if not is_compiled and reads_all_ids(op):
        return SUM_US * rows * prod(table)
    is_rounded = is_compiled and element_bytes(op.result.type) == 2
    us = 0.0 if is_compiled else TABLE_US * min(1.0, rows / TABLE_ROWS)
    us += times.moving_us(4 * times.bytes([op.result])) if is_rounded else 0.0
    if added[-1] >= WARP:
        return us
    if not is_compiled:
        return us + ORDERED_US * rows
    number_us = SPREAD_US if isinstance(op.ids.owner, Block) else ATOMIC_US
    return us + number_us * prod(added)
