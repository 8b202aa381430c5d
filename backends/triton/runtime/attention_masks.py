# pyright: basic, reportOptionalMemberAccess=false, reportArgumentType=false
"""Masks in the form that PyTorch's attention kernels can add to the scores."""

import functools

import torch
import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.direct import direct

LOWEST = -(2.0**99)
"""The lowest number that a mask may add, except for hidden keys. Its small multiples are finite in
float32 and bfloat16; float16 has a higher lowest number, which is used instead."""

ANY_DISTANCE = 2**30
"""More positions than there are between a query and a key."""


@triton.jit(do_not_specialize=["ROWS", "REPEATS", "SHIFT", "FIRST", "LAST"])
def bound_mask(
    mask_ptr,
    bounded_ptr,
    top_ptr,
    share_ptr,
    ROWS,
    COLUMNS,
    matrix_stride,
    row_stride,
    column_stride,
    REPEATS,
    SHIFT,
    FIRST,
    LAST,
    LOWEST,
    HIDDEN,
    BLOCK: tl.constexpr,
):
    """Compute a row of `bounded_mask`: raise finite numbers below LOWEST to LOWEST, and replace
    -inf, false and what is not FIRST to LAST positions back by HIDDEN; SHIFT is the position of the
    first query. Store the largest number of the row, and the reciprocal of the number of keys that
    have it. Each column of the mask applies to REPEATS keys.
    """
    number = tl.program_id(0)
    row, query = number.to(tl.int64), number % ROWS
    first_place = row // ROWS * matrix_stride + query.to(tl.int64) * row_stride
    top = tl.full((), float("-inf"), tl.float32)
    count = tl.zeros((), tl.int32)
    start = 0
    while start < COLUMNS:
        columns = start + tl.arange(0, BLOCK)
        places, is_there = row * COLUMNS + columns, columns < COLUMNS
        x = tl.load(mask_ptr + first_place + columns * column_stride, is_there, 0)
        if mask_ptr.dtype.element_ty == tl.int1:
            x = tl.where(x != 0, 0.0, HIDDEN)
        else:
            # This order of comparisons keeps NaN.
            x = x.to(tl.float32)
            x = tl.where(x == float("-inf"), HIDDEN, tl.where(x < LOWEST, LOWEST, x))
        seen = (columns >= query + SHIFT - LAST) & (columns <= query + SHIFT - FIRST)
        x = tl.where(seen, x, HIDDEN)
        tl.store(bounded_ptr + places, x.to(bounded_ptr.dtype.element_ty), is_there)
        x = tl.where(is_there, x, float("-inf"))
        block_top = tl.max(x, 0)
        block_count = tl.sum(((x == block_top) & is_there).to(tl.int32), 0)
        is_new, is_kept = block_top >= top, block_top <= top
        count = tl.where(is_kept, count, 0) + tl.where(is_new, block_count, 0)
        top = tl.maximum(top, block_top)
        start += BLOCK
    tl.store(top_ptr + row, top)
    tl.store(share_ptr + row, 1.0 / (count * REPEATS).to(tl.float32))


@functools.cache
def bound_mask_launch(types):
    """Return the launch of `bound_mask` for the element types of a mask and of the result. See also
    `operators/attention_masks.py`, which compiles the kernel ahead.
    """

    def launch(kernel, programs, *arguments):
        *numbers, mask, bounded, top, shares = arguments
        return kernel[(programs,)](mask, bounded, top, shares, *numbers, BLOCK=1024)

    return direct(bound_mask, range(4))(launch)


def bounded_mask(mask, queries, keys, dtype, distances=None, hidden=float("-inf"), stream=None):
    """Return the mask in a form that PyTorch's kernels can add to the scores, the largest number of
    each row, and the reciprocal of the number of keys that have it.

    Hidden keys get the number `hidden`, and lower numbers than LOWEST are raised to it: the kernels
    multiply scores by log2(e), and would return 0 or NaN where the product overflows. Keys that are
    not as far back as `distances` says are hidden, too (see `seen_distances`); the mask then has a
    row for each query and a column for each key.
    """
    mask = mask.contiguous() if mask.dim() > 1 else mask.contiguous()[None]
    matrix, shape = mask.shape[-2:], mask.shape
    if distances is not None:
        shape = (*shape[:-2], queries, keys)
    rows, columns = shape[-2:]
    bounded = mask.new_empty(shape, dtype=dtype)
    top, shares = (mask.new_empty(shape[:-1], dtype=torch.float32) for _ in range(2))
    first, last = distances or (-ANY_DISTANCE, ANY_DISTANCE)
    strides = matrix.numel(), matrix[1] * (matrix[0] > 1), int(matrix[1] > 1)
    lowest = max(LOWEST, torch.finfo(dtype).min)
    if bounded.numel():
        launch = bound_mask_launch((mask.dtype, dtype))
        numbers = rows, columns, *strides, keys // columns, keys - queries, first, last
        launch(stream, (top.numel(), *numbers, lowest, hidden), mask, bounded, top, shares)
    return bounded, top, shares


@triton.jit(
    do_not_specialize=["ROWS", "HEADS", "QUERIES", "batch_stride", "head_stride", "row_stride"]
)
def clear_unseen(
    y_ptr,
    lse_ptr,
    ROWS,
    HEADS,
    QUERIES,
    batch_stride,
    head_stride,
    row_stride,
    BOUND,
    COLUMNS: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store 0 and a logsumexp of inf for queries that see no key: the logsumexp is below BOUND."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_unseen = tl.load(lse_ptr + row, row < ROWS, 0.0) < BOUND
    tl.store(lse_ptr + row, float("inf"), is_unseen)
    of_head, query = (row // QUERIES).to(tl.int64), (row % QUERIES).to(tl.int64)
    place = of_head // HEADS * batch_stride + of_head % HEADS * head_stride + query * row_stride
    column = tl.arange(0, LANES)[None, :]
    tl.store(y_ptr + place[:, None] + column, 0.0, is_unseen[:, None] & (column < COLUMNS))


@functools.cache
def clear_unseen_launch(dtype, columns):
    """Return the launch of `clear_unseen` for results with an element type and some columns."""
    lanes, block = triton.next_power_of_2(columns), 128

    def launch(kernel, rows, *arguments):
        *numbers, y, lse = arguments
        constants = {"COLUMNS": columns, "LANES": lanes, "BLOCK": block}
        return kernel[(triton.cdiv(rows, block),)](y, lse, rows, *numbers, **constants)

    return direct(clear_unseen, range(2))(launch)
