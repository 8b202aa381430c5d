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
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def group_of_tile(
    ends, tile, group, before, start, end, M, GROUPS: gl.constexpr, BLOCK_M: gl.constexpr
):
    """The group of a tile of rows, the tiles before it, its first row and its end, from those of
    a tile before it. A group has whole tiles; GROUPS for tiles behind those of the last one.
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
    """Return the layout of a copy: each thread copies eight neighbours of 16 bits, and eight
    threads 64 of a row."""
    return gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])


@gluon.jit
def row_numbers(first, ROWS: gl.constexpr):
    """ROWS rows, as the warps that copy them hold their numbers."""
    LAYOUT: gl.constexpr = copy_layout(gl.num_warps())
    return first + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))


@gluon.jit
def row_ids(ids, first, end, ROWS: gl.constexpr):
    """The ids of ROWS rows before `end`, and row 0 in place of others."""
    rows = row_numbers(first, ROWS)
    return gl.load(ids + rows, mask=rows < end, other=0)


@gluon.jit
def copy_rows(stage, pointer, rows, mask, first_column, COLUMNS: gl.constexpr):
    """Begin to copy columns of rows, of which each has COLUMNS, and zeros in place of others."""
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
    """The TILES partials of ROWS rows side by side, and IDENTITY in their place up to WIDTH.

    Four threads share a row, as they do in the accumulators.
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
    """The columns of x in PARTS equal tiles, which stay in the registers where they are."""
    if PARTS == 1:
        return (x,)
    else:
        halves = gl.permute(gl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1))
        first, second = gl.split(halves)
        return split_columns(first, PARTS // 2) + split_columns(second, PARTS // 2)


@gluon.jit
def split_neighbours(x):
    """The even and the odd columns of x. A thread has both of accumulators, and keeps them."""
    return gl.split(gl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))


@gluon.jit
def split_pieces(x, PARTS: gl.constexpr):
    """The columns of two tiles, the first of which is twice as wide, in PARTS tiles of a layout."""
    first = split_columns(x[0], PARTS // 3 * 2)
    second = split_columns(x[1], PARTS // 3)
    for part in gl.static_range(PARTS // 3):
        first = first + (gl.convert_layout(second[part], first[0].type.layout),)
    return first


@gluon.jit
def join_columns(first, second):
    """Two tiles side by side, whose elements stay in the registers where they are."""
    halves = gl.permute(gl.join(first, second), (0, 2, 1))
    return gl.reshape(halves, (first.shape[0], 2 * first.shape[1]))


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
    ids=None,
    PITCH: gl.constexpr = None,
    place=None,
    RUN: gl.constexpr = None,
    PERIOD: gl.constexpr = None,
    OFFSET: gl.constexpr = 0,
):
    """Store a tile of a result of M x N, whose rows are aligned to VECTOR elements; that of row m
    in row ids[m] where these are given. The columns may begin at `place` of rows of PITCH others,
    and RUN rows OFFSET behind each multiple of PERIOD.

    Threads exchange elements in buffer, so that those of a warp store neighbours of a row.
    """
    ROWS: gl.constexpr = value.shape[0]
    COLUMNS: gl.constexpr = value.shape[1]
    LANES: gl.constexpr = 32 if COLUMNS // VECTOR > 32 else COLUMNS // VECTOR
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, VECTOR], [32 // LANES, LANES], [WARPS, 1], [1, 0])
    row = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    stored = row if ids is None else gl.load(ids + row, mask=row < M, other=0)
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
    pointer,
    value,
    first_row,
    first,
    M,
    END: gl.constexpr,
    N: gl.constexpr,
    GROUPS: gl.constexpr,
):
    """Store an element for each of GROUPS groups of columns, which value has in all of them.

    The result is M x N; groups from END on do not exist.
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
    """Zeros where WARPS warps accumulate products, of DEPTH along K in each instruction."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, COLUMNS, DEPTH]
    )
    return gl.zeros((ROWS, COLUMNS), gl.float32, LAYOUT)


@gluon.jit
def loaded_stage(full, step, IS_COPIED: gl.constexpr = False):
    """The stage of a step, once its operands are there.

    IS_COPIED: threads have written to it, which products see behind a fence.
    """
    STAGES: gl.constexpr = full.shape[0]
    mbarrier.wait(full.index(step % STAGES), (step // STAGES) & 1)
    if IS_COPIED:
        fence_async_shared()
    return step % STAGES


@gluon.jit
def free_stage_before(empty, step, pred):
    """Hand back the stage of the step before, if pred is true."""
    STAGES: gl.constexpr = empty.shape[0]
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=pred)


@gluon.jit
def operand(stages, stage, IS_TURNED: gl.constexpr):
    """The operand in a stage, whose dimensions change places where it IS_TURNED."""
    if IS_TURNED:
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
    """a @ b added to acc over the next STEPS stages.

    A_AXIS and B_AXIS are the dimensions of a stage that hold rows of a and columns of b. A stage is
    handed back when the products after its own have begun; the last ones are still under way.
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
    """The accumulators, once their last products are there and its stage is handed back."""
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
    """`accumulate` for two accumulators side by side, with stages of b for each."""
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
    """`finish` for two accumulators."""
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
    """`accumulate` for float8, which adds the products of each stage to acc in float32.

    Rows from FIRST_ROW on are multiplied, as many as acc has, in pieces of at most 128 columns, one
    after the other in the same registers. The sums are left in these pieces. With BLOCKS of K, the
    product of each stage is scaled for its rows, which are those of a_scales (M x BLOCKS) from
    first_row on, and for the columns of each piece, whose scales b_scales points to.
    """
    gl.static_assert(A_AXIS == 0 and B_AXIS == 0)
    COLUMNS: gl.constexpr = min(acc.shape[1], 128)
    PIECES: gl.constexpr = acc.shape[1] // COLUMNS
    PARTS: gl.constexpr = len(b_scales) // PIECES if BLOCKS else 1
    zeros = accumulators(gl.num_warps(), acc.shape[0], COLUMNS, 32)
    # The first of them is the one that is added to next.
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
                # Behind the first product, which takes as long as the loads. Those of a step ahead
                # are moved between registers before it, which waits for them.
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
    """The scales of a block of K: of each row, then of each part of the columns."""
    scales = (gl.load(a_scales + block),)
    for part in gl.static_range(len(b_scales)):
        scales = scales + (gl.load(b_scales[part] + block),)
    return scales


@gluon.jit
def finish_promoted(acc, empty, step, STEPS):
    """The sums of all pieces as one tile, whose elements stay in their registers."""
    whole = joined(acc)
    zeros = accumulators(gl.num_warps(), whole.shape[0], whole.shape[1], 32)
    return gl.convert_layout(whole, zeros.type.layout)


@gluon.jit
def joined(pieces):
    """Tiles side by side, of which there are a power of two."""
    COUNT: gl.constexpr = len(pieces)
    if COUNT == 1:
        return pieces[0]
    else:
        return join_columns(joined(pieces[: COUNT // 2]), joined(pieces[COUNT // 2 :]))
