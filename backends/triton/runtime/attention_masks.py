# pyright: basic, reportOptionalMemberAccess=false, reportArgumentType=false
"""Masks in the form that PyTorch's attention kernels can add to the scores."""

import torch
import triton
import triton.language as tl

LOWEST = -(2.0**99)
"""The lowest number that a mask may add, except for hidden keys. Its small multiples are finite in
float32 and bfloat16; float16 has a higher lowest number, which is used instead."""


@triton.jit
def bound_mask(
    mask_ptr, bounded_ptr, top_ptr, share_ptr, COLUMNS, REPEATS, LOWEST, HIDDEN, BLOCK: tl.constexpr
):
    """Compute a row of `bounded_mask`: raise finite numbers below LOWEST to LOWEST, and replace
    -inf and false by HIDDEN. Store the largest number of the row, and the reciprocal of the number
    of keys that have it. Each column of the mask applies to REPEATS keys.
    """
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((), float("-inf"), tl.float32)
    count = tl.zeros((), tl.int32)
    start = 0
    while start < COLUMNS:
        columns = start + tl.arange(0, BLOCK)
        places, is_there = row * COLUMNS + columns, columns < COLUMNS
        x = tl.load(mask_ptr + places, is_there, 0)
        if mask_ptr.dtype.element_ty == tl.int1:
            x = tl.where(x != 0, 0.0, HIDDEN)
        else:
            # This order of comparisons keeps NaN.
            x = x.to(tl.float32)
            x = tl.where(x == float("-inf"), HIDDEN, tl.where(x < LOWEST, LOWEST, x))
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


def bounded_mask(mask, keys, dtype, hidden=float("-inf")):
    """Return the mask in a form that PyTorch's kernels can add to the scores, the largest number of
    each row, and the reciprocal of the number of keys that have it.

    Hidden keys get the number `hidden`, and lower numbers than LOWEST are raised to it: the kernels
    multiply scores by log2(e), and would return 0 or NaN where the product overflows.
    """
    mask = mask.contiguous()
    bounded, columns = torch.empty_like(mask, dtype=dtype), mask.shape[-1]
    top, shares = (mask.new_empty(mask.shape[:-1], dtype=torch.float32) for _ in range(2))
    lowest = max(LOWEST, torch.finfo(dtype).min)
    block = min(triton.next_power_of_2(columns), 4096)
    if mask.numel():
        sizes = columns, keys // columns
        grid = (top.numel(),)
        bound_mask[grid](mask, bounded, top, shares, *sizes, lowest, hidden, BLOCK=block)
    return bounded, top, shares


@triton.jit
def clear_unseen(
    y_ptr,
    lse_ptr,
    ROWS,
    HEADS,
    QUERIES,
    batch_stride,
    head_stride,
    row_stride,
    COLUMNS: tl.constexpr,
    LANES: tl.constexpr,
    BOUND: tl.constexpr,
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
