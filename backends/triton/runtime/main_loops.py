# pyright: basic, reportGeneralTypeIssues=false, reportArgumentType=false
"""Device functions of the main loops of GEMMs: pointers and TMA, and sums over parts of K."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from coda_ir.backends.triton.runtime.device import SUM_TYPE, as_float64, bound, dot, scaled_dot
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
    """Elements k to k + BLOCK_K of each row (AXIS 1) or column (AXIS 0), zeros past K.

    IS_KNOWN: K is a constant of the kernel; otherwise it is a number of rows.

    `ids`: the rows that K counts, where they are not the first ones.

    `inside`: which rows to load; the others are zeros.
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
):
    """Each of accs + a @ b for K from `first` to `last`.

    `a_rows` are pointers to the first elements of rows of a, `b_columns` to those of columns of
    each b: there is one b for each acc. A_STEP is the distance of two elements of a row, B_STEP
    that of two elements of a column. Each step of BLOCK_K is rounded to the type of acc.

    IS_KNOWN: K is a constant of the kernel; otherwise it is a number of rows.

    `a_ids`, `b_ids`: the rows that K counts, where they are not the first ones.

    HAS_FLOAT8, IS_FAST: as of `dot`.

    SCALED: the number of elements of K that share a scale in a row and in a column.

    `a_scales`, `b_scales`: pointers to the first scales of rows and columns.

    `a_inside`: which rows of a to load; the others are zeros.
    """
    for k in range(first, last, BLOCK_K):
        a = load_depth(a_rows, k, K, A_STEP, BLOCK_K, 1, IS_KNOWN, a_ids, a_inside)
        sums = ()
        for i in tl.static_range(len(accs)):
            b = load_depth(b_columns[i], k, K, B_STEP, BLOCK_K, 0, IS_KNOWN, b_ids)
            if SCALED:
                total = scaled_dot(a, b, accs[i], a_scales, b_scales[i], k // SCALED)
            else:
                total = dot(a, b, accs[i], HAS_FLOAT8, IS_FAST)
            sums = sums + (total,)
        accs = sums
    return accs


@triton.jit
def wide(x):
    """x in the type of sums."""
    if INTERPRET:
        return as_float64(x)
    else:
        return x.to(tl.float32)


@triton.jit
def add_row_products(totals, a_row, bs, k, K, A_STEP: tl.constexpr, BLOCK_K: tl.constexpr):
    """Each of totals + the elements k to k + BLOCK_K of a row times those of columns."""
    sums = ()
    for i in tl.static_range(len(totals)):
        # a is loaded for each column, as b is, so that both are in the same threads.
        a_rows = tl.broadcast_to(a_row, (1, totals[0].shape[1]))
        a = load_depth(a_rows, k, K, A_STEP, BLOCK_K, 0)
        sums = sums + (totals[i] + wide(a) * wide(bs[i]),)
    return sums


@triton.jit
def load_columns(columns, place, k, K, STEP: tl.constexpr, BLOCK_K: tl.constexpr):
    """Elements k to k + BLOCK_K of the columns `place` elements behind each of these."""
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
    """`multiply` for one row of a, without tensor cores: each thread keeps sums of its own.

    The weights of so many STEPS are loaded at a time. Of ROWS rows of a side by side, each is
    multiplied by the b with one of `numbers`; these are B_ROW elements apart. The weights of AHEAD
    steps, of at most all, are on their way before the kernel waits for earlier ones, which write
    none; the next kernel may begin at once.
    """
    totals = ()
    for _ in tl.static_range(len(accs)):
        totals = totals + (tl.zeros((BLOCK_K, accs[0].shape[1]), SUM_TYPE),)
    for row in tl.static_range(ROWS):
        b_place = 0
        if numbers is not None:
            # Before the wait, the L1 cache may have them as they were before.
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
    descriptor,
    corner,
    k,
    ROWS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    K_IS_LAST: tl.constexpr,
):
    """ROWS x BLOCK_K elements: k of the last or the first dimension, `corner` of all others."""
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
    """Each of accs + a @ b over K from `first` to `last`, from descriptors of a and b, or of views.

    K is the last dimension of a stored as M x K and of b stored as N x K.

    `b_first` is where K begins in b.

    HAS_FLOAT8, IS_FAST, SCALED, `a_scales` and `b_scales` are those of `multiply`.
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
    """`tma_multiply` in one step, whose boxes have elements behind the last k as well, or none."""
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
    """Until the kernels before have finished, and what they wrote can be read."""
    if not INTERPRET:
        gdc_wait()


@triton.jit
def start_next_kernel():
    """The next kernel may take the place of programs that are done; it waits by itself."""
    if not INTERPRET:
        gdc_launch_dependents()


@triton.jit
def row_partials(pointer, row, TILES: tl.constexpr, WIDTH: tl.constexpr, IDENTITY: tl.constexpr):
    """The TILES partials of each row side by side, and IDENTITY in their place up to WIDTH."""
    tile = tl.arange(0, WIDTH)[None, :]
    return tl.load(pointer + row[:, None] * TILES + tile, mask=tile < TILES, other=IDENTITY)


@triton.jit
def depths_of_split(K, split, SPLIT_K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return the start and the end of the part of K of a split: whole steps, equally many but at
    the end."""
    extent = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    first = split * extent
    return bound(first), bound(tl.minimum(first + extent, K))


@triton.jit
def store_partial(pointer, acc, row_mask):
    """Leaves the sum over a part of K for the last program of the tile."""
    column = tl.arange(0, acc.shape[1])[None, :]
    place = tl.arange(0, acc.shape[0])[:, None] * acc.shape[1] + column
    tl.store(pointer + place, acc, mask=row_mask[:, None])


@triton.jit
def is_last_of_tile(counter, SPLIT_K: tl.constexpr):
    """True if all other programs of the tile have stored their sums, which are then visible.

    The counter is 0 before the first of them and after the last one.
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
    """The sums over all parts of K, added in the order of K whichever program comes last."""
    column = tl.arange(0, COLUMNS)[None, :]
    place = pointer + tl.arange(0, row_mask.shape[0])[:, None] * COLUMNS + column
    mask = row_mask[:, None]
    acc = tl.load(place, mask=mask, other=0.0, cache_modifier=".cg").to(SUM_TYPE)
    if SPLIT_K * STRIDE <= 16384:
        # The loads do not wait for one another, as far as there are registers.
        for split in tl.static_range(1, SPLIT_K):
            acc += tl.load(place + split * STRIDE, mask=mask, other=0.0, cache_modifier=".cg")
    else:
        for split in tl.range(1, SPLIT_K, num_stages=1):
            acc += tl.load(place + split * STRIDE, mask=mask, other=0.0, cache_modifier=".cg")
    return acc.to(tl.float32)
