# pyright: basic, reportGeneralTypeIssues=false
# pyright: reportArgumentType=false, reportOperatorIssue=false
"""Device functions that map programs to tiles, and tiles to rows of groups."""

import triton
import triton.language as tl


@triton.jit
def grouped_tile(program, tiles_m, tiles_n: tl.constexpr, GROUP_M: tl.constexpr):
    """Return the row and the column number of the tile of a program. Programs with neighbouring
    numbers have GROUP_M row tiles of the same columns, whose weights stay in the L2 cache.
    """
    first = program // (GROUP_M * tiles_n) * GROUP_M
    rows = tl.minimum(tiles_m - first, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    return first + within % rows, within // rows


@triton.jit
def rows_of_tile(ends, tile, M, GROUPS: tl.constexpr, LANES: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return for a row tile of a grouped GEMM its group, its first row, and the end of the group; 0
    for tiles past the last one.

    Group g ends at row ends[g] and begins where the one before ends; it may be empty. A tile has
    rows of one group only. LANES is the power of two that is not below GROUPS.
    """
    group = tl.arange(0, LANES)
    start = tl.load(ends + group - 1, mask=(group > 0) & (group < GROUPS), other=0)
    end = tl.load(ends + group, mask=group < GROUPS, other=0)
    start, end = tl.maximum(start, 0), tl.minimum(end, M)
    tiles = tl.maximum(end - start + BLOCK_M - 1, 0) // BLOCK_M
    ends = tl.cumsum(tiles, 0)
    first = start + (tile - ends + tiles) * BLOCK_M
    is_here = (ends - tiles <= tile) & (tile < ends)
    here = tl.sum(tl.where(is_here, group, 0))
    return here, tl.sum(tl.where(is_here, first, 0)), tl.sum(tl.where(is_here, end, 0))


@triton.jit
def rows_of_group(ends, group, K):
    """Return the first row of a group and the end of its rows. The group may be empty."""
    start = tl.maximum(tl.load(ends + group - 1, mask=group > 0, other=0), 0)
    return start, tl.maximum(tl.minimum(tl.load(ends + group), K), start)
