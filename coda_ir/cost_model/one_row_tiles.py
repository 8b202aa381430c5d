"""The tiles of GEMMs that multiply one row at a time."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.workload import Tile, Workload, total_depth
from coda_ir.dialects.gemm import Layout
from coda_ir.dialects.gemm.tiling import ColumnCuts

ROW_BYTES, ROW_COLUMNS = 1024, 64
"""The extents of a step of `one_row`: bytes along K for N x K, columns of words for K x N."""

MAX_ROWS, MAX_ROW_BYTES = 16, 2**20
"""Rows in groups that `one_row` multiplies by weights of 16 bits, if each is that of another group,
and the most bytes of such weights without groups. On an H100, the scores of 128 experts took
1.4 us less than in tiles of 16 rows, and gate and up projections of 8 experts 1.6 of 20.5 us."""

ROW_OF_K_WORDS = 32, 128
"""The same of words along K: columns, and elements of each, for one warp. On an H100, 22016 columns
of 4096 took 22.2 us, and 23.8 with four warps for 512 elements, which wait for each other."""

COLUMNS_OF_GROUPS, STEPS_OF_GROUPS = 4, 8
"""Columns (pairs) of a tile of a row in a group, so that there are enough tiles, and steps of its K
at least. On an H100, 2048 columns of the sum of 8 rows of 768 took 11.7 us so, and 14.1 in tiles of
8; a layer with 768 pairs of 8 rows of 2048 took 36.9 us with steps of 256, and 37.8 with 512."""


def tiles_of_one_row(cuts: ColumnCuts, device: Device, workload: Workload) -> Sequence[Tile]:
    """Return the tiles for one row times weights of few bits, contiguous along K or along N."""
    op, k = cuts.op, total_depth(cuts.op) // cuts.op.summed_rows
    if not workload.has_known_rows or workload.is_float8:
        return []
    is_summed = op.is_transposed or op.order is not None
    is_wanted = device.name != "interpreter" and _is_for_one_row(workload)
    if is_summed or k == DYNAMIC_INDEX or not (is_wanted or op.is_numbered):
        return []
    if op.quantized is not None and op.quantized.has_words_along_k:
        columns, depth = ROW_OF_K_WORDS
        has_pairs = any(segment.pairing for segment in cuts.segments)
        return [(1, 2 * columns if has_pairs else columns, depth)]
    if any(segment.layout == Layout.KN for segment in cuts.segments):
        if op.quantized is None or op.quantized.packed == 1:
            return []
        return [(1, ROW_COLUMNS, min(128, op.quantized.depth.data))]
    deepest = max(16, 1 << (k - 1).bit_length())
    groups = max(cuts.groups, default=1)
    if workload.weight_bytes >= 2:
        return [_row_of_halves(cuts, groups, k, deepest)]
    depth = min(ROW_BYTES // max(1, round(workload.weight_bytes)), deepest)
    columns = 4
    # A tile has whole groups, of pairs too: with more columns, steps are shorter.
    least = 1 << (groups - 1).bit_length()
    wider = max(columns, 2 * least if groups > 1 else 1)
    return [(1, wider, max(16, columns * depth // wider))]


def _is_for_one_row(workload: Workload) -> bool:
    """Return whether rows are multiplied one by one: a single one by weights of few bits, or if the
    time is not that of reading the weights, and few rows of as many groups.
    """
    if workload.groups > 1:
        return workload.weight_bytes == 2 and workload.rows <= min(MAX_ROWS, workload.groups)
    if workload.rows > 1 or workload.weight_bytes > 2:
        return False
    return workload.weight_bytes < 2 or 2 * workload.columns * workload.depth <= MAX_ROW_BYTES


def _row_of_halves(cuts: ColumnCuts, groups: int, k: int, deepest: int) -> Tile:
    """Return the tile of a row for weights of 16 bits: steps that divide K, and whole groups."""
    depth = min(ROW_BYTES // 2, deepest, max(128, k & -k))
    columns = 2 * ROW_BYTES // depth
    if groups > 1:
        columns, depth = 1 << (groups - 1).bit_length(), min(64, deepest)
    elif cuts.op.groups is not None:
        steps = total_depth(cuts.op) // depth
        depth = depth // 2 if steps < STEPS_OF_GROUPS and depth >= 256 else depth
        columns = max(COLUMNS_OF_GROUPS, ROW_BYTES // depth)
    return 1, columns * (2 if any(part.pairing for part in cuts.segments) else 1), depth
