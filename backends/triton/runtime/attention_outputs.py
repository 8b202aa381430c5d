# pyright: basic, reportGeneralTypeIssues=false, reportAssignmentType=false
"""Device functions of the attention forward: the sums over the keys for a tile of queries
(FlashAttention-2, arXiv 2307.08691, section 3.1).
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.attention_heads import (
    add_parts,
    dot_parts,
    head_rows,
    scaled_parts,
    zero_parts,
)
from coda_ir.backends.triton.runtime.attention_tiles import (
    is_seen,
    is_seen_in,
    keys_of_queries,
    mask_bias,
    part_of,
    scores_of,
)
from coda_ir.backends.triton.runtime.device import LOG2_E, bound, narrowed


@triton.jit
def o_of_tile(
    lse_pointer,
    q_rows,
    k_rows,
    v_rows,
    mask,
    sinks,
    batch,
    head,
    start,
    queries,
    keys,
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
    """Return attention of BLOCK_M queries of a head, as float32 parts, and store the logsumexp of
    their scores.

    The softmax is computed online: the sums are rescaled when a larger score occurs. For a query
    that sees no key the result is 0 and the logsumexp is inf. A sink is added to the sum of the
    weights after the last key.

    SHARED is the number of query heads that share a key head. HEAD and VALUE describe the columns
    of the heads of q and k, and of v. PITCHES are the distances between rows of q, k and v, or 0
    for TMA descriptors. ADDED states whether the mask is added to the scores; otherwise it is
    boolean. WINDOW is 0 without a window, and SOFTCAP is 0 without a cap. FAST selects `fast_tanh`.
    """
    # Weights are exp2(scores * UNIT). Without a mask, scores are in units of the scale or the cap.
    # With a boolean mask they are multiplied by log2(e), and with an added one they are in natural
    # units, where the lowest number of a type stays finite.
    FACTOR: tl.constexpr = (SOFTCAP if SOFTCAP > 0 else SCALE) * (1.0 if ADDED else LOG2_E)
    UNIT: tl.constexpr = LOG2_E if ADDED else (FACTOR if mask is None else 1.0)
    row = start + tl.arange(0, BLOCK_M)
    q = head_rows(q_rows, batch, start, queries, head, PITCHES[0], BLOCK_M, HEAD)
    query, column = (row + keys - queries)[:, None], tl.arange(0, BLOCK_N)
    zeros = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    acc = zero_parts(BLOCK_M, VALUE)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    first, whole, edge, last = keys_of_queries(
        start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    of_keys = head // SHARED
    # One loop that branches at the edges, instead of three, where it was measured to be faster.
    ONE_LOOP: tl.constexpr = WINDOW > 0 and SOFTCAP == 0 and mask is None
    PARTS: tl.constexpr = (3, 4) if ONE_LOOP else (0 if WINDOW > 0 else 1, 3)
    for part in tl.static_range(PARTS[0], PARTS[1]):
        begin, end = part_of(part, first, whole, edge, last)
        for at in range(bound(begin), bound(end), BLOCK_N):
            k = head_rows(k_rows, batch, at, keys, of_keys, PITCHES[1], BLOCK_N, HEAD)
            v = head_rows(v_rows, batch, at, keys, of_keys, PITCHES[2], BLOCK_N, VALUE)
            bias = None
            if mask is not None:
                # Load the mask before the products, so that the load overlaps with them.
                bias = mask_bias(
                    *(mask, batch, head, start, at, queries, HEADS, MASK_DIMS, ADDED),
                    *(BLOCK_M, BLOCK_N, part == 1),
                )
            scores = scores_of(dot_parts(q, k, zeros, HEAD), SCALE, SOFTCAP, FAST)
            if mask is not None:
                scores = scores * FACTOR + bias
            key = (at + column)[None, :]
            if part == 3:
                if (at < whole) | (at >= edge):
                    seen = is_seen(query, key, keys, CAUSAL, WINDOW)
                    scores = tl.where(seen, scores, float("-inf"))
            elif part != 1:
                seen = is_seen_in(part, query, key, keys, CAUSAL, WINDOW)
                scores = tl.where(seen, scores, float("-inf"))
            most = tl.maximum(largest, tl.max(scores, 1))
            shift = most
            if part != 1 or mask is not None:
                shift = tl.where(most == float("-inf"), 0.0, most)
            if ADDED:
                # Subtract first: a multiple of the lowest number of a type overflows.
                weights = tl.exp2((scores - shift[:, None]) * UNIT)
            else:
                weights = tl.exp2(scores * UNIT - (shift * UNIT)[:, None])
            before = tl.exp2((largest - shift) * UNIT)
            total = total * before + tl.sum(weights, 1)
            acc = scaled_parts(acc, before[:, None], VALUE)
            acc = add_parts(narrowed(weights, v[0].dtype), v, acc, VALUE)
            largest = most
    place = (batch * HEADS + head).to(tl.int64) * queries + row
    is_empty = total == 0.0
    if sinks is not None:
        sink = tl.load(sinks + head).to(tl.float32) * (LOG2_E / UNIT)
        most = tl.maximum(largest, sink)
        share = tl.exp2((largest - most) * UNIT)
        total = total * share + tl.exp2((sink - most) * UNIT)
        acc = scaled_parts(acc, share[:, None], VALUE)
        largest = most
    lse = tl.where(is_empty, float("inf"), largest * (UNIT / LOG2_E) + tl.log(total))
    tl.store(lse_pointer + place, lse, mask=row < queries)
    return scaled_parts(acc, 1.0 / tl.where(is_empty, 1.0, total)[:, None], VALUE)
