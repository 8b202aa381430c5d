# pyright: basic, reportGeneralTypeIssues=false, reportArgumentType=false
"""Device functions for main loops of GEMMs: loads by pointers or TMA, one row of a, and split K."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from coda_ir.backends.triton.runtime.device import (
    SUM_TYPE,
    as_float64,
    bound,
    dot,
    dot_in_parts,
    scaled_dot,
)
from coda_ir.backends.triton.runtime.header import INTERPRET


@triton.jit
def load_depth(
    pointers,
    k,
    K,
    STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    AXIS: tl.constexpr,
    IS_KNOWN: tl.constexpr = True,
    ids=None,
    inside=None,
):
    """Load elements k to k + BLOCK_K of rows (AXIS 1) or columns (AXIS 0), with zeros past K.

    `pointers` point to element 0 of each row or column. STEP is the distance between neighbouring
    elements along K.

    IS_KNOWN: whether K is a constant of the kernel. Otherwise it is a number of rows known at run
    time.

    `ids`: the row that each index of K selects; by default row k.

    `inside`: a mask of the rows to load; the others are zeros.
    """
    depth = tl.expand_dims(k + tl.arange(0, BLOCK_K), 1 - AXIS)
    if not IS_KNOWN:
        row = depth if ids is None else tl.load(ids + depth, mask=depth < K, other=0)
        return tl.load(pointers + row.to(tl.int64) * STEP, mask=depth < K, other=0.0)
    else:
        offsets = depth.to(tl.int64) * STEP if K * STEP >= 2**31 else depth * STEP
        if inside is not None:
            mask = inside if K % BLOCK_K == 0 else inside & (depth < K)
            return tl.load(pointers + offsets, mask=mask, other=0.0)
        elif K % BLOCK_K == 0:
            return tl.load(pointers + offsets)
        else:
            return tl.load(pointers + offsets, mask=depth < K, other=0.0)


@triton.jit
def multiply(
    accs,
    a_rows,
    b_columns,
    first,
    last,
    K,
    A_STEP: tl.constexpr,
    B_STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    IS_KNOWN: tl.constexpr = True,
    HAS_FLOAT8: tl.constexpr = False,
    IS_FAST: tl.constexpr = False,
    a_ids=None,
    b_ids=None,
    a_scales=None,
    b_scales=None,
    SCALED: tl.constexpr = 0,
    a_inside=None,
    IN_PARTS: tl.constexpr = False,
):
    """Return each of accs plus a @ b over K from `first` to `last`.

    `accs` and `b_columns` are tuples of equal length: one acc for each b. `a_rows` points to the
    first element of each row of a, `b_columns` to that of each column of b. A_STEP and B_STEP are
    the distances between neighbouring elements along K. The sum is rounded to the type of acc after
    each step of BLOCK_K.

    IS_KNOWN: whether K is a constant of the kernel. Otherwise it is a number of rows known at run
    time.

    `a_ids`, `b_ids`: the rows that indices of K select in a and b; by default row k.

    HAS_FLOAT8, IS_FAST: see `dot`.

    SCALED: the number of elements of K that share a scale, for block-scaled operands.

    `a_scales`, `b_scales`: pointers to the scales of block 0 of each row of a and each column of b.

    `a_inside`: a mask of the rows of a to load; the others are zeros.

    IN_PARTS: whether to multiply float32 by tensor cores, in three parts of bfloat16.
    """
    for k in range(first, last, BLOCK_K):
        a = load_depth(a_rows, k, K, A_STEP, BLOCK_K, 1, IS_KNOWN, a_ids, a_inside)
        sums = ()
        for i in tl.static_range(len(accs)):
            b = load_depth(b_columns[i], k, K, B_STEP, BLOCK_K, 0, IS_KNOWN, b_ids)
            if SCALED:
                total = scaled_dot(a, b, accs[i], a_scales, b_scales[i], k // SCALED)
            elif IN_PARTS:
                total = dot_in_parts(a, b, accs[i])
            else:
                total = dot(a, b, accs[i], HAS_FLOAT8, IS_FAST)
            sums = sums + (total,)
        accs = sums
    return accs


@triton.jit
def wide(x):
    """Convert x to the accumulator type, SUM_TYPE."""
    if INTERPRET:
        return as_float64(x)
    else:
        return x.to(tl.float32)


@triton.jit
def add_row_products(totals, a_row, bs, k, K, A_STEP: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return each of totals plus the elementwise products of elements k to k + BLOCK_K of a row of
    a with those of the columns of b: tiles of BLOCK_K x columns. The caller sums over K.
    """
    sums = ()
    for i in tl.static_range(len(totals)):
        # Load a copy of a for each column, so that a and b have the same layout.
        a_rows = tl.broadcast_to(a_row, (1, totals[0].shape[1]))
        a = load_depth(a_rows, k, K, A_STEP, BLOCK_K, 0)
        sums = sums + (totals[i] + wide(a) * wide(bs[i]),)
    return sums


@triton.jit
def load_columns(columns, place, k, K, STEP: tl.constexpr, BLOCK_K: tl.constexpr):
    """Load elements k to k + BLOCK_K of the columns `place` elements after each of `columns`."""
    found = ()
    for i in tl.static_range(len(columns)):
        found = found + (load_depth(columns[i] + place, k, K, STEP, BLOCK_K, 0),)
    return found


@triton.jit
def multiply_row(
    accs,
    a_row,
    b_columns,
    first,
    last,
    K,
    A_STEP: tl.constexpr,
    B_STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STEPS: tl.constexpr = 1,
    numbers=None,
    ROWS: tl.constexpr = 1,
    B_ROW: tl.constexpr = 0,
    AHEAD: tl.constexpr = 0,
):
    """Return each of accs plus the product of one row of a with b over K, computed without tensor
    cores: each thread keeps its own partial sums. The other arguments are those of `multiply`.

    STEPS: the number of steps of BLOCK_K whose weights are loaded at a time.

    `numbers`: pointer to the index, in a batch of matrices b, of the matrix for each row of a.

    ROWS: the number of rows of a, stored one after another. Their products are added.

    B_ROW: the distance between neighbouring matrices of b.

    AHEAD: the number of steps whose weights are loaded before the program waits for earlier kernels
    (programmatic dependent launch); those kernels must not write weights. After the wait the next
    kernel may start.
    """
    totals = ()
    for _ in tl.static_range(len(accs)):
        totals = totals + (tl.zeros((BLOCK_K, accs[0].shape[1]), SUM_TYPE),)
    for row in tl.static_range(ROWS):
        b_place = 0
        if numbers is not None:
            # Bypass the L1 cache, which may hold old numbers before the wait.
            number = tl.load(numbers + row, cache_modifier=".cg" if AHEAD > 0 else "")
            b_place = number.to(tl.int64) * B_ROW
        if AHEAD > 0 and row == 0:
            ahead = ()
            for step in tl.static_range(AHEAD):
                k = first + step * BLOCK_K
                ahead = ahead + (load_columns(b_columns, b_place, k, K, B_STEP, BLOCK_K),)
            wait_for_earlier_kernels()
            start_next_kernel()
            for step in tl.static_range(AHEAD):
                k = first + step * BLOCK_K
                totals = add_row_products(totals, a_row, ahead[step], k, K, A_STEP, BLOCK_K)
        if ROWS > 1 and K <= STEPS * BLOCK_K:
            for step in tl.static_range(AHEAD if row == 0 else 0, STEPS):
                b = load_columns(b_columns, b_place, step * BLOCK_K, K, B_STEP, BLOCK_K)
                x = a_row + row * K
                totals = add_row_products(totals, x, b, step * BLOCK_K, K, A_STEP, BLOCK_K)
        else:
            start = first + (AHEAD * BLOCK_K if row == 0 else 0)
            for k in tl.range(bound(start), last, BLOCK_K, loop_unroll_factor=STEPS):
                b = load_columns(b_columns, b_place, k, K, B_STEP, BLOCK_K)
                totals = add_row_products(totals, a_row + row * K, b, k, K, A_STEP, BLOCK_K)
    found = ()
    for i in tl.static_range(len(accs)):
        found = found + (accs[i] + tl.sum(totals[i], 0)[None, :],)
    return found


@triton.jit
def load_box(
    descriptor, corner, k, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, K_IS_LAST: tl.constexpr
):
    """Load a tile of ROWS x BLOCK_K elements through a TMA descriptor, from k on.

    `corner` has the coordinates in the other dimensions. K_IS_LAST states whether K is the last
    dimension of the tensor or the first.
    """
    if K_IS_LAST:
        return tl.reshape(descriptor.load(corner + (k,)), (ROWS, BLOCK_K))
    else:
        return tl.trans(tl.reshape(descriptor.load((k,) + corner), (BLOCK_K, ROWS)))


@triton.jit
def tma_multiply(
    accs,
    a,
    a_row,
    bs,
    b_corners,
    first,
    last,
    A_K_IS_LAST: tl.constexpr,
    B_K_IS_LAST: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HAS_FLOAT8: tl.constexpr = False,
    IS_FAST: tl.constexpr = False,
    b_first=0,
    a_scales=None,
    b_scales=None,
    SCALED: tl.constexpr = 0,
):
    """Return each of accs plus a @ b over K from `first` to `last`, with tiles loaded by TMA.

    `a` is a descriptor and `bs` a tuple of descriptors, one for each acc. `a_row` and `b_corners`
    are the coordinates of the tiles in the dimensions other than K. A_K_IS_LAST and B_K_IS_LAST
    state whether K is the last dimension, as in a stored as M x K and b stored as N x K.

    `b_first`: the index in b where K begins.

    HAS_FLOAT8, IS_FAST, SCALED, `a_scales`, `b_scales`: see `multiply`.
    """
    for k in range(first, last, BLOCK_K):
        a_tile = load_box(a, (a_row,), k, BLOCK_M, BLOCK_K, A_K_IS_LAST)
        sums = ()
        for i in tl.static_range(len(accs)):
            b_tile = load_box(bs[i], b_corners[i], b_first + k, BLOCK_N, BLOCK_K, B_K_IS_LAST)
            b = tl.trans(b_tile)
            if SCALED:
                total = scaled_dot(a_tile, b, accs[i], a_scales, b_scales[i], k // SCALED)
            else:
                total = dot(a_tile, b, accs[i], HAS_FLOAT8, IS_FAST)
            sums = sums + (total,)
        accs = sums
    return accs


@triton.jit
def tma_multiply_last(
    accs,
    a,
    a_row,
    bs,
    b_corners,
    first,
    last,
    A_K_IS_LAST: tl.constexpr,
    B_K_IS_LAST: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HAS_FLOAT8: tl.constexpr = False,
    IS_FAST: tl.constexpr = False,
):
    """Return the result of `tma_multiply` for the last step of K, at most BLOCK_K elements. The
    loaded boxes may extend past `last`: elements there are masked to 0. Where K has no such step,
    return accs.

    HAS_FLOAT8, IS_FAST: see `dot`.
    """
    if first < last:
        is_inside = tl.expand_dims(first + tl.arange(0, BLOCK_K) < last, 0)
        a_tile = load_box(a, (a_row,), first, BLOCK_M, BLOCK_K, A_K_IS_LAST)
        a_tile = tl.where(is_inside, a_tile, 0.0)
        sums = ()
        for i in tl.static_range(len(accs)):
            b_tile = load_box(bs[i], b_corners[i], first, BLOCK_N, BLOCK_K, B_K_IS_LAST)
            b_tile = tl.where(is_inside, b_tile, 0.0)
            sums = sums + (dot(a_tile, tl.trans(b_tile), accs[i], HAS_FLOAT8, IS_FAST),)
        accs = sums
    return accs


@triton.jit
def wait_for_earlier_kernels():
    """Wait for the end and the stores of earlier kernels (programmatic dependent launch)."""
    if not INTERPRET:
        gdc_wait()


@triton.jit
def start_next_kernel():
    """Allow the next kernel on the stream to start as programs of this one finish (programmatic
    dependent launch). It waits for the results of this one itself.
    """
    if not INTERPRET:
        gdc_launch_dependents()


@triton.jit
def row_partials(pointer, row, TILES: tl.constexpr, WIDTH: tl.constexpr, IDENTITY: tl.constexpr):
    """Load the TILES partial results of each row, padded with IDENTITY to WIDTH columns."""
    tile = tl.arange(0, WIDTH)[None, :]
    return tl.load(pointer + row[:, None] * TILES + tile, mask=tile < TILES, other=IDENTITY)


@triton.jit
def depths_of_split(K, split, SPLIT_K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return the start and the end of K for a program of split K. Each of the SPLIT_K parts has the
    same whole number of steps of BLOCK_K; the last ones may have fewer, or none.
    """
    extent = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    first = split * extent
    return bound(first), bound(tl.minimum(first + extent, K))


@triton.jit
def store_partial(pointer, acc, row_mask):
    """Store a tile of partial sums over one part of K, for the last program of the tile to add."""
    column = tl.arange(0, acc.shape[1])[None, :]
    place = tl.arange(0, acc.shape[0])[:, None] * acc.shape[1] + column
    tl.store(pointer + place, acc, mask=row_mask[:, None])


@triton.jit
def is_last_of_tile(counter, SPLIT_K: tl.constexpr):
    """Return whether this is the last of the SPLIT_K programs of a tile to arrive. The partial sums
    of all others are then visible to it.

    `counter` points to the number of programs of the tile that have arrived. The last program
    resets it to 0 for the next launch.
    """
    tl.debug_barrier()
    is_last = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == SPLIT_K - 1
    if is_last:
        tl.store(counter, 0)
    return is_last


@triton.jit
def sum_of_partials(
    pointer, row_mask, COLUMNS: tl.constexpr, STRIDE: tl.constexpr, SPLIT_K: tl.constexpr
):
    """Return the sum of the partial sums over all SPLIT_K parts of K, STRIDE elements apart. They
    are added in the order of K, so the result does not depend on which program is last.
    """
    column = tl.arange(0, COLUMNS)[None, :]
    place = pointer + tl.arange(0, row_mask.shape[0])[:, None] * COLUMNS + column
    mask = row_mask[:, None]
    acc = tl.load(place, mask=mask, other=0.0, cache_modifier=".cg").to(SUM_TYPE)
    if SPLIT_K * STRIDE <= 16384:
        # Unrolled, the loads overlap as far as there are registers.
        for split in tl.static_range(1, SPLIT_K):
            acc += tl.load(place + split * STRIDE, mask=mask, other=0.0, cache_modifier=".cg")
    else:
        for split in tl.range(1, SPLIT_K, num_stages=1):
            acc += tl.load(place + split * STRIDE, mask=mask, other=0.0, cache_modifier=".cg")
    return acc.to(tl.float32)
