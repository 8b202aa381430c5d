# pyright: basic, reportGeneralTypeIssues=false
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false
"""Device functions of warp-specialized kernels, in Gluon."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Triton 3.8 has both names of these, and 3.9 the new ones only.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def group_of_tile(
    ends, tile, group, before, start, end, M, GROUPS: gl.constexpr, BLOCK_M: gl.constexpr
):
    """Return for a row tile of a grouped GEMM its group, the number of tiles before the group, and
    the first row and the end of the group.

    `group`, `before`, `start` and `end` are the results for an earlier tile, where the search
    begins. A tile has rows of one group only. The group is GROUPS for tiles past the last one.
    """
    tiles = gl.cdiv(end - start, BLOCK_M)
    while (tile >= before + tiles) & (group < GROUPS):
        group += 1
        before += tiles
        start = end
        end = gl.maximum(gl.minimum(gl.load(ends + group, mask=group < GROUPS, other=0), M), start)
        tiles = gl.cdiv(end - start, BLOCK_M)
    return group, before, start, end


@gluon.constexpr_function
def copy_layout(WARPS):
    """Return the layout of an asynchronous copy: each thread copies 8 neighbouring elements of 16
    bits, and 8 threads copy 64 elements of a row.
    """
    return gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])


@gluon.jit
def row_numbers(first, ROWS: gl.constexpr):
    """Return the numbers of ROWS rows from `first` on, in the layout of `copy_rows`."""
    LAYOUT: gl.constexpr = copy_layout(gl.num_warps())
    return first + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))


@gluon.jit
def row_ids(ids, first, end, ROWS: gl.constexpr):
    """Load the ids of ROWS rows from `first` on, with 0 for rows from `end` on."""
    rows = row_numbers(first, ROWS)
    return gl.load(ids + rows, mask=rows < end, other=0)


@gluon.jit
def copy_rows(stage, pointer, rows, mask, first_column, COLUMNS: gl.constexpr):
    """Start an asynchronous copy of rows from global memory to a stage: its columns are those of
    the source from `first_column` on. A row of the source has COLUMNS elements. Elements past them,
    and rows that the mask excludes, become zeros.
    """
    LAYOUT: gl.constexpr = copy_layout(gl.num_warps())
    columns = first_column + gl.arange(0, stage.shape[1], gl.SliceLayout(0, LAYOUT))
    places = pointer + rows.to(gl.int64)[:, None] * COLUMNS + columns[None, :]
    async_copy.async_copy_global_to_shared(
        stage, places, mask=mask[:, None] & (columns < COLUMNS)[None, :]
    )


@gluon.jit
def group_partials(
    pointer,
    first_row,
    M,
    WARPS: gl.constexpr,
    ROWS: gl.constexpr,
    TILES: gl.constexpr,
    WIDTH: gl.constexpr,
    IDENTITY: gl.constexpr,
):
    """Load the TILES partial results of each of ROWS rows, padded with IDENTITY to WIDTH columns.

    Four threads hold a row, as in the layout of the accumulators.
    """
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, 8, 16]
    )
    rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    row = gl.minimum(rows, M - 1).to(gl.int64)
    tile = gl.arange(0, WIDTH, gl.SliceLayout(0, LAYOUT))[None, :]
    return gl.load(pointer + row[:, None] * TILES + tile, mask=tile < TILES, other=IDENTITY)


@gluon.jit
def split_columns(x, PARTS: gl.constexpr):
    """Return the columns of x as a tuple of PARTS equal tiles; no elements move between threads."""
    if PARTS == 1:
        return (x,)
    else:
        halves = gl.permute(gl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1))
        first, second = gl.split(halves)
        return split_columns(first, PARTS // 2) + split_columns(second, PARTS // 2)


@gluon.jit
def split_neighbours(x):
    """Return the even and odd columns of x; no elements move between threads, which hold both."""
    return gl.split(gl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))


@gluon.jit
def split_pieces(x, PARTS: gl.constexpr):
    """Return the columns of two tiles as a tuple of PARTS tiles of one layout. The first tile is
    twice as wide as the second, and PARTS is a multiple of 3.
    """
    first = split_columns(x[0], PARTS // 3 * 2)
    second = split_columns(x[1], PARTS // 3)
    for part in gl.static_range(PARTS // 3):
        first = first + (gl.convert_layout(second[part], first[0].type.layout),)
    return first


@gluon.jit
def join_columns(first, second):
    """Return two tiles side by side. No elements move between threads."""
    halves = gl.permute(gl.join(first, second), (0, 2, 1))
    return gl.reshape(halves, (first.shape[0], 2 * first.shape[1]))


@gluon.constexpr_function
def row_layout(COLUMNS, VECTOR, WARPS):
    """Return the layout in which `store_rows` stores: threads have neighbouring parts of rows."""
    LANES = min(32, COLUMNS // VECTOR)
    return gl.BlockedLayout([1, VECTOR], [32 // LANES, LANES], [WARPS, 1], [1, 0])


@gluon.jit
def scattered_rows(
    ids,
    first_row,
    M,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    VECTOR: gl.constexpr,
    WARPS: gl.constexpr,
):
    """Load the row of the result where `store_rows` stores each row of a tile."""
    LAYOUT: gl.constexpr = row_layout(COLUMNS, VECTOR, WARPS)
    row = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    return gl.load(ids + row, mask=row < M, other=0)


@gluon.jit
def store_rows(
    pointer,
    buffer,
    value,
    first_row,
    first_column,
    M,
    N: gl.constexpr,
    VECTOR: gl.constexpr,
    WARPS: gl.constexpr,
    scattered=None,
    PITCH: gl.constexpr = None,
    place=None,
    RUN: gl.constexpr = None,
    PERIOD: gl.constexpr = None,
    OFFSET: gl.constexpr = 0,
):
    """Store a tile of an M x N result. The rows of the result are aligned to VECTOR elements.

    The tile goes through `buffer` in shared memory, so that the threads of a warp store
    neighbouring elements of a row.

    `scattered`: the row of the result where each row is stored (see `scattered_rows`); by default
    its own number.

    `PITCH`, `place`: the distance between rows of the result, and the first column of the tile in
    them; by default N and `first_column`.

    RUN, PERIOD, OFFSET: each RUN consecutive rows are stored from row OFFSET on of the next PERIOD
    rows of the result.
    """
    ROWS: gl.constexpr = value.shape[0]
    COLUMNS: gl.constexpr = value.shape[1]
    LAYOUT: gl.constexpr = row_layout(COLUMNS, VECTOR, WARPS)
    row = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    stored = row if scattered is None else scattered
    if RUN is not None:
        stored = row // RUN * PERIOD + OFFSET + row % RUN
    buffer.store(value)
    lane = gl.arange(0, COLUMNS, gl.SliceLayout(0, LAYOUT))
    rows = pointer + stored[:, None].to(gl.int64) * (N if PITCH is None else PITCH)
    columns = (first_column if place is None else place) + lane
    columns = gl.max_contiguous(gl.multiple_of(columns, VECTOR), VECTOR)
    places = rows + columns[None, :]
    mask = (row < M)[:, None] & (first_column + lane < N)[None, :]
    gl.store(places, buffer.load(LAYOUT), mask=mask)


@gluon.jit
def store_groups(
    pointer, value, first_row, first, M, END: gl.constexpr, N: gl.constexpr, GROUPS: gl.constexpr
):
    """Store one element for each of GROUPS groups of columns, on which `value` has equal elements.

    The result is M x N. The groups of the tile are numbered from `first` on; those from END on are
    not stored.
    """
    ROWS: gl.constexpr = value.shape[0]
    elements = gl.max(gl.reshape(value, (ROWS, GROUPS, value.shape[1] // GROUPS)), 2)
    LAYOUT: gl.constexpr = elements.type.layout
    row = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    group = first + gl.arange(0, GROUPS, gl.SliceLayout(0, LAYOUT))
    places = pointer + row[:, None].to(gl.int64) * N + group[None, :]
    gl.store(places, elements, mask=(row < M)[:, None] & (group < END)[None, :])


@gluon.jit
def accumulators(
    WARPS: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, DEPTH: gl.constexpr = 16
):
    """Return zeros laid out as accumulators of WARPS warps by WGMMA; DEPTH is K per instruction."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, COLUMNS, DEPTH]
    )
    return gl.zeros((ROWS, COLUMNS), gl.float32, LAYOUT)


@gluon.jit
def loaded_stage(full, step, IS_COPIED: gl.constexpr = False):
    """Wait until the operands of a step are in shared memory, and return the number of its stage.

    `full` has an mbarrier for each stage.

    IS_COPIED: whether threads wrote operands by asynchronous copies. A fence makes these visible to
    tensor cores.
    """
    STAGES: gl.constexpr = full.shape[0]
    mbarrier.wait(full.index(step % STAGES), (step // STAGES) & 1)
    if IS_COPIED:
        fence_async_shared()
    return step % STAGES


@gluon.jit
def free_stage_before(empty, step, pred):
    """Release the stage of the step before `step`: arrive at its mbarrier in `empty` if `pred`."""
    STAGES: gl.constexpr = empty.shape[0]
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=pred)


@gluon.jit
def operand(stages, stage, IS_TRANSPOSED: gl.constexpr):
    """Return the operand in a stage, transposed if IS_TRANSPOSED."""
    if IS_TRANSPOSED:
        return stages.index(stage).permute((1, 0))
    else:
        return stages.index(stage)


@gluon.jit
def accumulate(
    acc,
    a_stages,
    b_stages,
    full,
    empty,
    step,
    STEPS,
    A_AXIS: gl.constexpr,
    B_AXIS: gl.constexpr,
    IS_COPIED: gl.constexpr = False,
):
    """Return acc plus a @ b over the next STEPS stages, and the number of the step after them.

    A_AXIS and B_AXIS are the dimensions of a stage along the rows of a and the columns of b.
    Products are asynchronous: the stage of a step is released once the products of the next one
    have been issued, and the last products are still in flight at the end (see `finish`).

    IS_COPIED: see `loaded_stage`.
    """
    for k in range(0, STEPS):
        stage = loaded_stage(full, step, IS_COPIED)
        a = operand(a_stages, stage, A_AXIS == 1)
        acc = warpgroup_mma(a, operand(b_stages, stage, B_AXIS == 0), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
        free_stage_before(empty, step, k > 0)
        step += 1
    return acc, step


@gluon.jit
def finish(acc, empty, step, STEPS):
    """Wait for the last products of `accumulate`, release their stage, and return acc."""
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    free_stage_before(empty, step, STEPS > 0)
    return acc


@gluon.jit
def accumulate_in_pieces(
    acc,
    a_stages,
    b_stages,
    full,
    empty,
    step,
    STEPS,
    A_AXIS: gl.constexpr,
    B_AXIS: gl.constexpr,
    IS_COPIED: gl.constexpr = False,
):
    """`accumulate` for two accumulators side by side: `b_stages` has the stages of each.

    IS_COPIED: see `loaded_stage`.
    """
    wide, narrow = acc
    for k in range(0, STEPS):
        stage = loaded_stage(full, step, IS_COPIED)
        a = operand(a_stages, stage, A_AXIS == 1)
        wide = warpgroup_mma(a, operand(b_stages[0], stage, B_AXIS == 0), wide, is_async=True)
        narrow = warpgroup_mma(a, operand(b_stages[1], stage, B_AXIS == 0), narrow, is_async=True)
        wide, narrow = warpgroup_mma_wait(num_outstanding=2, deps=(wide, narrow))
        free_stage_before(empty, step, k > 0)
        step += 1
    return (wide, narrow), step


@gluon.jit
def finish_in_pieces(acc, empty, step, STEPS):
    """`finish` for the two accumulators of `accumulate_in_pieces`."""
    wide, narrow = warpgroup_mma_wait(num_outstanding=0, deps=(acc[0], acc[1]))
    free_stage_before(empty, step, STEPS > 0)
    return (wide, narrow)


@gluon.jit
def accumulate_promoted(
    acc,
    a_stages,
    b_stages,
    full,
    empty,
    step,
    STEPS,
    A_AXIS: gl.constexpr,
    B_AXIS: gl.constexpr,
    FIRST_ROW: gl.constexpr = 0,
    a_scales=None,
    b_scales=None,
    first_row=0,
    M=0,
    BLOCKS: gl.constexpr = 0,
):
    """`accumulate` for float8. Tensor cores accumulate float8 products with 14 bits of precision,
    so the sum of each stage is added to acc in float32 registers (as in DeepSeek-V3, arXiv
    2412.19437, section 3.3.2).

    The columns are computed in pieces of at most 128, one after another, so that their products
    share registers. Returns the sums as a tuple of tiles (see `finish_promoted`), and the number of
    the next step.

    FIRST_ROW: the first row of a stage of a to multiply; acc has the number of rows.

    `first_row`, `M`: the first row of the tile, and the number of rows of a.

    BLOCKS, `a_scales`, `b_scales`: for block scales, the number of blocks of K. A stage is one
    block. `a_scales` points to the scales of a, M x BLOCKS. `b_scales` has a pointer to the scales
    of each piece of columns, or of equal parts of it.
    """
    gl.static_assert(A_AXIS == 0 and B_AXIS == 0)
    COLUMNS: gl.constexpr = min(acc.shape[1], 128)
    PIECES: gl.constexpr = acc.shape[1] // COLUMNS
    PARTS: gl.constexpr = len(b_scales) // PIECES if BLOCKS else 1
    zeros = accumulators(gl.num_warps(), acc.shape[0], COLUMNS, 32)
    # A queue: its first element is the next one to be added to.
    sums = split_columns(acc, PIECES * PARTS)
    LAYOUT: gl.constexpr = sums[0].type.layout
    if BLOCKS:
        row = first_row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, LAYOUT))
        a_scales += gl.minimum(row, M - 1).to(gl.int64) * BLOCKS
    for k in range(0, STEPS):
        stage = loaded_stage(full, step)
        a, product = a_stages.index(stage), zeros
        if a.shape[0] > acc.shape[0]:
            a = a.slice(FIRST_ROW, acc.shape[0])
        for piece in gl.static_range(PIECES):
            b = b_stages.index(stage).slice(COLUMNS * piece, COLUMNS).permute((1, 0))
            product = warpgroup_mma(a, b, product, use_acc=False, is_async=True)
            if BLOCKS and piece == 0:
                # Load the scales while the first product is computed. If they were loaded a step
                # ahead, moving them between registers would wait for the loads.
                scales = block_scales(a_scales, b_scales, k)
            product = warpgroup_mma_wait(num_outstanding=0, deps=(product,))
            if piece == PIECES - 1:
                mbarrier.arrive(empty.index(stage))
            parts = split_columns(product, PARTS)
            for part in gl.static_range(PARTS):
                added = gl.convert_layout(parts[part], LAYOUT)
                if BLOCKS:
                    added = added * (scales[0] * scales[1 + PARTS * piece + part])[:, None]
                sums = sums[1:] + (sums[0] + added,)
        step += 1
    return sums, step


@gluon.jit
def block_scales(a_scales, b_scales, block):
    """Load the scales of a block of K: those of the rows, then that of each part of the columns."""
    scales = (gl.load(a_scales + block),)
    for part in gl.static_range(len(b_scales)):
        scales = scales + (gl.load(b_scales[part] + block),)
    return scales


@gluon.jit
def finish_promoted(acc, empty, step, STEPS):
    """Return the sums of `accumulate_promoted` as one tile. Its stages are released already."""
    whole = joined(acc)
    zeros = accumulators(gl.num_warps(), whole.shape[0], whole.shape[1], 32)
    return gl.convert_layout(whole, zeros.type.layout)


@gluon.jit
def joined(pieces):
    """Return tiles side by side. Their number is a power of two."""
    COUNT: gl.constexpr = len(pieces)
    if COUNT == 1:
        return pieces[0]
    else:
        return join_columns(joined(pieces[: COUNT // 2]), joined(pieces[COUNT // 2 :]))
