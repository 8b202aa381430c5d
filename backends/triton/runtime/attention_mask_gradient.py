# pyright: basic, reportGeneralTypeIssues=false
"""The device functions of the gradient for a mask that is added to the scores of attention."""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.attention_heads import dot_parts, head_rows
from coda_ir.backends.triton.runtime.attention_tiles import (
    head_numbers,
    is_seen,
    keys_of_queries,
    mask_bias,
    scores_of,
    weights_of,
)
from coda_ir.backends.triton.runtime.device import LOG2_E, bound, narrowed


@triton.jit
def dmask_of_tile(
    d_out_rows,
    moment_pointer,
    lse_pointer,
    q_rows,
    k_rows,
    v_rows,
    mask,
    batch,
    head,
    start,
    queries,
    keys,
    at,
    split,
    batches,
    SPLIT: tl.constexpr,
    HEADS: tl.constexpr,
    SHARED: tl.constexpr,
    HEAD: tl.constexpr,
    VALUE: tl.constexpr,
    PITCHES: tl.constexpr,
    MASK_DIMS: tl.constexpr,
    ADDED: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    FAST: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return the gradient for a tile of the mask: BLOCK_M queries from `start` on, and BLOCK_N keys
    from `at` on, in float32.

    The sums are over all batches if the mask has one for all, and so for heads: over part `split`
    of SPLIT of them. The other parameters are those of `o_of_tile`.
    """
    UNIT: tl.constexpr = (SOFTCAP if SOFTCAP > 0 else SCALE) * LOG2_E
    EACH: tl.constexpr = 1 if MASK_DIMS[1] else HEADS
    bias = mask_bias(
        *(mask, batch, head, start, at, queries, HEADS, MASK_DIMS, ADDED),
        *(BLOCK_M, BLOCK_N, False),
    )
    first, _, _, last = keys_of_queries(start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL, WINDOW)
    count = tl.where((at < first) | (at >= last), 0, EACH if MASK_DIMS[0] else EACH * batches)
    zeros = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    total = zeros
    for number in range(bound(split * count // SPLIT), bound((split + 1) * count // SPLIT)):
        of_batch, of_queries = batch + number // EACH, head + number % EACH
        of_keys, of_head = of_queries // SHARED, of_batch * HEADS + of_queries
        q = head_rows(q_rows, of_batch, start, queries, of_queries, PITCHES[1], BLOCK_M, HEAD)
        k = head_rows(k_rows, of_batch, at, keys, of_keys, PITCHES[2], BLOCK_N, HEAD)
        d_out = head_rows(
            d_out_rows, of_batch, start, queries, of_queries, PITCHES[0], BLOCK_M, VALUE
        )
        v = head_rows(v_rows, of_batch, at, keys, of_keys, PITCHES[3], BLOCK_N, VALUE)
        lse = head_numbers(lse_pointer, of_head, start, queries, BLOCK_M, float("inf"), 1)
        moment = head_numbers(moment_pointer, of_head, start, queries, BLOCK_M, 0.0, 2)
        share = head_numbers(moment_pointer + 1, of_head, start, queries, BLOCK_M, 0.0, 2)
        scores = scores_of(dot_parts(q, k, zeros, HEAD), SCALE, SOFTCAP, FAST)
        weights = weights_of(scores, lse[:, None], bias, ADDED, UNIT) * share[:, None]
        total += weights * (dot_parts(d_out, v, zeros, VALUE) - moment[:, None])
    return total


@triton.jit
def store_dmask(
    d_mask,
    total,
    batch,
    head,
    start,
    queries,
    keys,
    at,
    HEADS: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Store a tile of a mask with HEADS heads at `d_mask`: a pointer to numbers of all queries and
    keys, and the number of keys of a row. Hidden scores have zeros.
    """
    row = (start + tl.arange(0, total.shape[0]))[:, None]
    key = (at + tl.arange(0, total.shape[1]))[None, :]
    total = tl.where(is_seen(row + keys - queries, key, keys, CAUSAL, WINDOW), total, 0.0)
    place = ((batch.to(tl.int64) * HEADS + head) * queries + row) * d_mask[1] + key
    total = narrowed(total, d_mask[0].dtype.element_ty)
    tl.store(d_mask[0] + place, total, mask=(row < queries) & (key < keys))
