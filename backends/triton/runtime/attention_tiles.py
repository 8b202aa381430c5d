# pyright: basic, reportGeneralTypeIssues=false
"""Device functions of the attention backward: the sums over the keys for a tile of queries, and
over the queries for a tile of keys (FlashAttention-2, arXiv 2307.08691, section 3.2).

Heads lie side by side in the columns. The last query has the position of the last key. A query that
sees no key has a logsumexp of inf, so its weights are 0, and so are those of rows past the end.
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.attention_heads import (
    add_parts,
    corrected_parts,
    dot_parts,
    head_products,
    head_rows,
    scaled_parts,
    seen_parts,
    zero_parts,
)
from coda_ir.backends.triton.runtime.device import LOG2_E, bound, dot, narrowed, to_bf16


@triton.jit
def attend_keys(acc, largest, total, scores, values):
    """Update the sums of attention with a block of keys, by an online softmax (arXiv 1805.02867).

    `acc` is the sum of weighted values, `largest` the largest score, and `total` the sum of the
    weights, which are exp(score - largest). Returns all three. Scores of -inf have weight 0.
    """
    most = tl.maximum(largest, tl.max(scores, 1))
    shift = tl.where(most == float("-inf"), 0.0, most)
    weights = tl.exp(scores - shift[:, None])
    before = tl.exp(largest - shift)
    total = total * before + tl.sum(weights, 1)
    if values.dtype == tl.bfloat16:
        weights = to_bf16(weights)
    return dot(weights.to(values.dtype), values, acc * before[:, None]), most, total


@triton.jit
def combine_attended(acc, largest, total, pointer, row_mask):
    """Combine the sums of attention (see `attend_keys`) with those of other keys, which another
    program has stored at `pointer`: acc, then `largest`, then `total`.
    """
    row = tl.arange(0, acc.shape[0])
    statistics = pointer + acc.shape[0] * acc.shape[1] + row
    other = tl.load(statistics, cache_modifier=".cg")
    most = tl.maximum(largest, other)
    shift = tl.where(most == float("-inf"), 0.0, most)
    before, after = tl.exp(largest - shift), tl.exp(other - shift)
    total = total * before + after * tl.load(statistics + acc.shape[0], cache_modifier=".cg")
    place = pointer + row[:, None] * acc.shape[1] + tl.arange(0, acc.shape[1])[None, :]
    others = tl.load(place, mask=row_mask[:, None], other=0.0, cache_modifier=".cg")
    acc = acc * before[:, None] + after[:, None] * others
    return acc, most, total


@triton.jit
def tile_of_heads(program, blocks, heads, GROUP: tl.constexpr):
    """Return the head and the block of a program.

    Programs take one block of each of GROUP heads before the next block, so that the longest blocks
    start first and the tensors of few heads stay in the L2 cache.
    """
    first = program // (GROUP * blocks) * GROUP
    count = tl.minimum(heads - first, GROUP)
    within = program % (GROUP * blocks)
    return first + within % count, within // count


@triton.jit
def head_numbers(x, head, start, rows, ROWS: tl.constexpr, OTHER: tl.constexpr, STEP: tl.constexpr):
    """Load a number for each of ROWS queries of a head, from row `start` on, with OTHER past the
    last query. The numbers of neighbouring queries are STEP elements apart.

    If STEP is 0, `x` is a TMA descriptor with boxes of 1 x ROWS, of heads of all batches and of
    queries, and numbers past the last query are zeros.
    """
    if STEP == 0:
        return tl.reshape(x.load((head, start)), (ROWS,))
    else:
        row = start + tl.arange(0, ROWS)
        return tl.load(x + (head.to(tl.int64) * rows + row) * STEP, mask=row < rows, other=OTHER)


@triton.jit
def is_seen(query, key, keys, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Return whether the key exists and the query sees it, by position. WINDOW is 0 without one."""
    if CAUSAL:
        # No query is past the last key.
        seen = key <= query
    else:
        seen = key < keys
        if WINDOW > 0:
            seen = seen & (key < query + WINDOW)
    if WINDOW > 0:
        seen = seen & is_in_window(query, key, WINDOW)
    return seen


@triton.jit
def is_in_window(query, key, WINDOW: tl.constexpr):
    """Return whether the key is not before the window of the query."""
    return key > query - WINDOW


@triton.jit
def is_seen_in(part: tl.constexpr, query, key, keys, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Return whether the query sees the key, in a part of the blocks of keys (see `part_of`). In
    part 0 only the start of the window hides keys.
    """
    if part == 0:
        return is_in_window(query, key, WINDOW)
    else:
        return is_seen(query, key, keys, CAUSAL, WINDOW)


@triton.jit
def mask_bias(
    mask,
    batch,
    head,
    first_query,
    first_key,
    queries,
    HEADS: tl.constexpr,
    DIMS: tl.constexpr,
    ADDED: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WHOLE: tl.constexpr,
    ROWS_OF_KEYS: tl.constexpr = False,
):
    """Return the numbers to add to the scores of QUERIES queries of a head and KEYS keys: -inf
    where a boolean mask is false. Queries have rows and keys columns, unless ROWS_OF_KEYS.

    Queries past the last one get the numbers of the last one. Keys past the last one get numbers
    that the caller must not use; the caller states WHOLE if there are none.

    `mask` has a pointer, and the number of elements of a row. DIMS has 1 for each dimension of the
    mask (batches, heads, queries, keys), and 0 where it has one element for the whole dimension.
    """
    pointer, pitch = mask[0], mask[1]
    query = tl.arange(0, QUERIES if DIMS[2] else 1)
    key = tl.arange(0, KEYS if DIMS[3] else 1)
    if ROWS_OF_KEYS:
        query, key = query[None, :], key[:, None]
    else:
        query, key = query[:, None], key[None, :]
    place = batch.to(tl.int64) * DIMS[0]
    place = place * (DIMS[1] * HEADS + 1 - DIMS[1]) + head * DIMS[1]
    place = place * (DIMS[2] * queries + 1 - DIMS[2]) + first_query * DIMS[2]
    place = place * pitch + first_key * DIMS[3]
    query = tl.minimum(query, queries - 1 - first_query)
    within = query * (DIMS[2] * pitch) + key * DIMS[3]
    if WHOLE or DIMS[3] == 0:
        found = tl.load(pointer + place + within)
    else:
        found = tl.load(pointer + place + within, mask=first_key + key < pitch, other=0)
    return found.to(tl.float32) if ADDED else tl.where(found != 0, 0.0, float("-inf"))


@triton.jit
def weights_of(scores, lse, bias, ADDED: tl.constexpr, UNIT: tl.constexpr):
    """Return the weights exp(score - lse). The scores are `scores * UNIT` in base 2.

    If ADDED, `bias` is added to the scores, in natural units so that the sum is rounded as in the
    forward. Otherwise the weights are 0 where `bias` is not 0.
    """
    if ADDED:
        return tl.exp2((scores * (UNIT / LOG2_E) + bias - lse) * LOG2_E)
    elif bias is not None:
        return tl.where(bias == 0.0, tl.exp2(scores * UNIT - lse * LOG2_E), 0.0)
    else:
        return tl.exp2(scores * UNIT - lse * LOG2_E)


@triton.jit
def scores_of(products, SCALE: tl.constexpr, SOFTCAP: tl.constexpr, FAST: tl.constexpr):
    """Return the scores in units of SCALE, which are the products; with a softcap, in units of
    SOFTCAP: tanh(SCALE * product / SOFTCAP), to 1e-7. SOFTCAP is 0 without a cap.

    FAST: whether `fast_tanh` computes the tanh. Its error is an eighth of a unit in the last place
    of bfloat16.
    """
    if SOFTCAP > 0 and FAST:
        return fast_tanh(products * (SCALE / SOFTCAP))
    elif SOFTCAP > 0:
        power = tl.exp2(products * (2 * SCALE * LOG2_E / SOFTCAP))
        return 1.0 - 2.0 / (power + 1.0)
    else:
        return products


@triton.jit
def fast_tanh(x):
    """Return the hyperbolic tangent by one PTX instruction, with a relative error of 2^-11."""
    return tl.inline_asm_elementwise(
        "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def inside_cap(weights, scores, SOFTCAP: tl.constexpr):
    """Return the weights times the derivative of the softcap, 1 - (score / cap)². The scores are in
    units of the cap. SOFTCAP is 0 without a cap.
    """
    if SOFTCAP > 0:
        return weights * (1.0 - scores * scores)
    else:
        return weights


@triton.jit
def keys_of_queries(
    start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    """Return `first`, `begin`, `end` and `last`. Some of the BLOCK_M queries from `start` on see
    the keys from `first` to `last`. All of them see all keys of the blocks of BLOCK_N keys from
    `begin` to `end`, which need no causal mask and no window.
    """
    shift = keys - queries
    first, last = tl.full((), 0, tl.int32), keys
    begin, end = first, last // BLOCK_N * BLOCK_N
    if CAUSAL:
        last = tl.minimum(keys, start + BLOCK_M + shift)
        end = tl.minimum(end, tl.maximum(start + shift + 1, 0) // BLOCK_N * BLOCK_N)
    if WINDOW > 0:
        first = tl.maximum(start + shift - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
        last = tl.minimum(last, start + BLOCK_M + shift + WINDOW - 1)
        begin = tl.cdiv(tl.maximum(start + BLOCK_M + shift - WINDOW, 0), BLOCK_N) * BLOCK_N
        end = tl.minimum(end, tl.maximum(start + shift + WINDOW, 0) // BLOCK_N * BLOCK_N)
        end = tl.maximum(end, first)
        begin = tl.minimum(begin, end)
    return first, begin, end, last


@triton.jit
def part_of(part: tl.constexpr, first, whole, edge, last):
    """Return the start and the end of a part of the blocks: 0 for those before the blocks that need
    no mask, 1 for these, 2 for those after them, 3 for all.
    """
    if part == 0:
        return first, whole
    elif part == 1:
        return whole, edge
    else:
        return (first if part == 3 else edge), last


@triton.jit
def dq_of_tile(
    d_out_rows,
    out_rows,
    lse_pointer,
    moment_pointer,
    q_rows,
    k_rows,
    v_rows,
    mask,
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
    EXACT: tl.constexpr,
):
    """Return the gradient for BLOCK_M queries of a head, as float32 parts.

    Stores sum(dO * O) of each query at `moment_pointer`; if EXACT, the sum of its weights times
    their gradients, which is the same but for the rounding of O. If the mask is ADDED, the factor
    that makes the sum of its weights 1 is stored beside it. The other parameters are those of
    `o_of_tile`.
    """
    UNIT: tl.constexpr = (SOFTCAP if SOFTCAP > 0 else SCALE) * LOG2_E
    d_out = head_rows(d_out_rows, batch, start, queries, head, PITCHES[0], BLOCK_M, VALUE)
    out = head_rows(out_rows, batch, start, queries, head, PITCHES[1], BLOCK_M, VALUE)
    moment = head_products(d_out, out, VALUE)
    of_head, row = batch * HEADS + head, start + tl.arange(0, BLOCK_M)
    place = (of_head.to(tl.int64) * queries + row) * (1 + ADDED)
    tl.store(moment_pointer + place, moment, mask=row < queries)
    lse = head_numbers(lse_pointer, of_head, start, queries, BLOCK_M, float("inf"), 1)
    q = head_rows(q_rows, batch, start, queries, head, PITCHES[2], BLOCK_M, HEAD)
    query, column = (row + keys - queries)[:, None], tl.arange(0, BLOCK_N)
    zeros = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    first, whole, edge, last = keys_of_queries(
        start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    dq = zero_parts(BLOCK_M, HEAD)
    mean_key = zero_parts(BLOCK_M, HEAD)
    total = tl.zeros((BLOCK_M,), tl.float32)
    exact = tl.zeros((BLOCK_M,), tl.float32)
    of_keys = head // SHARED
    for part in tl.static_range(0 if WINDOW > 0 else 1, 3):
        begin, end = part_of(part, first, whole, edge, last)
        for at in range(bound(begin), bound(end), BLOCK_N):
            k = head_rows(k_rows, batch, at, keys, of_keys, PITCHES[3], BLOCK_N, HEAD)
            v = head_rows(v_rows, batch, at, keys, of_keys, PITCHES[4], BLOCK_N, VALUE)
            bias = None
            if mask is not None:
                bias = mask_bias(
                    *(mask, batch, head, start, at, queries, HEADS, MASK_DIMS, ADDED),
                    *(BLOCK_M, BLOCK_N, part == 1),
                )
            scores = scores_of(dot_parts(q, k, zeros, HEAD), SCALE, SOFTCAP, FAST)
            weights = weights_of(scores, lse[:, None], bias, ADDED, UNIT)
            if part != 1:
                key = (at + column)[None, :]
                seen = is_seen_in(part, query, key, keys, CAUSAL, WINDOW)
                weights = tl.where(seen, weights, 0.0)
            if ADDED:
                total += tl.sum(weights, 1)
            d_weights = dot_parts(d_out, v, zeros, VALUE)
            if EXACT:
                exact += tl.sum(weights * d_weights, 1)
            weights = inside_cap(weights, scores, SOFTCAP)
            d_scores = weights * (d_weights - moment[:, None])
            dq = add_parts(narrowed(d_scores, k[0].dtype), k, dq, HEAD)
            if EXACT:
                mean_key = add_parts(narrowed(weights, k[0].dtype), k, mean_key, HEAD)
    share = tl.full((BLOCK_M,), 1.0, tl.float32)
    if ADDED:
        # Normalize where lse is of such magnitude that it cannot resolve the sum of the weights.
        share = tl.where((lse < -1e3) & (total > 0), 1 / total, 1.0)
        tl.store(moment_pointer + place + 1, share, mask=row < queries)
    if EXACT:
        exact *= share
        tl.store(moment_pointer + place, exact, mask=row < queries)
        dq = corrected_parts(dq, mean_key, (moment - exact)[:, None], HEAD)
    if ADDED:
        dq = scaled_parts(dq, share[:, None], HEAD)
    return scaled_parts(dq, SCALE, HEAD)


@triton.jit
def queries_of_keys(
    start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    """Return `first`, `begin`, `end` and `last`. The queries from `first` to `last` see some of the
    BLOCK_M keys from `start` on. The queries from `begin` to `end`, in blocks of BLOCK_N, see all
    of them, and need no causal mask and no window.
    """
    shift = keys - queries
    first, last = tl.full((), 0, tl.int32), queries
    begin = first
    if CAUSAL:
        first = tl.maximum(start - shift, 0)
        begin = tl.maximum(start + BLOCK_M - 1 - shift, first // BLOCK_N * BLOCK_N + 1)
    if WINDOW > 0:
        if not CAUSAL:
            first = tl.maximum(start - shift - WINDOW + 1, 0)
            begin = tl.maximum(start + BLOCK_M - WINDOW - shift, 0)
        last = tl.maximum(tl.minimum(last, start + BLOCK_M + WINDOW - 1 - shift), 0)
    end = last
    first = first // BLOCK_N * BLOCK_N
    if WINDOW > 0:
        end = tl.minimum(last, tl.maximum(start + WINDOW - shift, 0)) // BLOCK_N * BLOCK_N
        end = tl.maximum(end, first)
    begin = tl.minimum(tl.cdiv(begin, BLOCK_N), tl.cdiv(end, BLOCK_N)) * BLOCK_N
    return first, begin, end, last


@triton.jit
def next_block(at, head, begin, end, STEP: tl.constexpr, SHARED: tl.constexpr):
    """Return the rows and the head STEP rows after `at`: the next head's first rows after `end`."""
    at += STEP
    if SHARED > 1:
        is_done = at >= end
        at = tl.where(is_done, begin, at)
        head += is_done.to(tl.int32)
    return at, head


@triton.jit
def dkv_of_tile(
    d_out_rows,
    moment_numbers,
    lse_numbers,
    q_rows,
    k_rows,
    v_rows,
    mask,
    batch,
    head,
    start,
    queries,
    keys,
    of_first,
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
    """Return the gradients for BLOCK_M keys and values of a head, each as float32 parts.

    The sums are over SHARED heads of queries from `of_first` on, one head after another. The last
    of PITCHES is 0 where `moment_numbers` and `lse_numbers` are TMA descriptors, and otherwise 1.
    The other parameters are those of `o_of_tile`.
    """
    UNIT: tl.constexpr = (SOFTCAP if SOFTCAP > 0 else SCALE) * LOG2_E
    # Whether the mask hides keys from all queries. Their gradients are cleared at the end.
    ROWS_HIDDEN: tl.constexpr = (
        mask is not None and not ADDED and MASK_DIMS[2] == 0 and (MASK_DIMS[1] == 0 or SHARED == 1)
    )
    k = head_rows(k_rows, batch, start, keys, head, PITCHES[2], BLOCK_M, HEAD)
    v = head_rows(v_rows, batch, start, keys, head, PITCHES[3], BLOCK_M, VALUE)
    key = (start + tl.arange(0, BLOCK_M))[:, None]
    column, zeros = tl.arange(0, BLOCK_N), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    first, whole, edge, last = queries_of_keys(
        start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    dk = zero_parts(BLOCK_M, HEAD)
    dv = zero_parts(BLOCK_M, VALUE)
    # Without a window, the first loop has steps. It is important that the compiler knows it: where
    # sums may skip a loop, it waits for each product before it begins the next one.
    IS_WIDE: tl.constexpr = HEAD[1] + HEAD[2] > 128
    ONE_LOOP: tl.constexpr = IS_WIDE and CAUSAL and WINDOW == 0 and SOFTCAP == 0 and mask is None
    BEGINS: tl.constexpr = 3 if ONE_LOOP else (0 if CAUSAL or WINDOW > 0 else 1)
    PARTS: tl.constexpr = (3, 4) if ONE_LOOP else (BEGINS, 3 if WINDOW > 0 else 2)
    for part in tl.static_range(PARTS[0], PARTS[1]):
        begin, end = part_of(part, first, whole, edge, last)
        fewest = 1 if WINDOW == 0 and part == BEGINS else 0
        steps = tl.maximum(tl.cdiv(end - begin, BLOCK_N), fewest)
        # Count rows and heads instead of dividing by `steps`. The pipeline moves the first loads
        # ahead of the loop if it has steps, and a division would imply that it has.
        at, of_queries = begin, of_first
        for _ in range(0, bound(steps * SHARED)):
            q = head_rows(q_rows, batch, at, queries, of_queries, PITCHES[1], BLOCK_N, HEAD)
            d_out = head_rows(
                d_out_rows, batch, at, queries, of_queries, PITCHES[0], BLOCK_N, VALUE
            )
            of_head = batch * HEADS + of_queries
            lse = head_numbers(lse_numbers, of_head, at, queries, BLOCK_N, float("inf"), PITCHES[4])
            moment = head_numbers(
                moment_numbers, of_head, at, queries, BLOCK_N, 0.0, PITCHES[4] * (1 + ADDED)
            )
            bias = None
            if mask is not None and not ROWS_HIDDEN:
                bias = mask_bias(
                    *(mask, batch, of_queries, at, start, queries, HEADS, MASK_DIMS, ADDED),
                    *(BLOCK_N, BLOCK_M, False, True),
                )
            scores = scores_of(dot_parts(k, q, zeros, HEAD), SCALE, SOFTCAP, FAST)
            weights = weights_of(scores, lse[None, :], bias, ADDED, UNIT)
            query = (at + column + keys - queries)[None, :]
            if part == 3:
                if at < whole:
                    seen = is_seen(query, key, keys, CAUSAL, WINDOW)
                    weights = tl.where(seen, weights, 0.0)
            elif part != 1:
                seen = is_seen(query, key, keys, CAUSAL, WINDOW)
                weights = tl.where(seen, weights, 0.0)
            if ADDED:
                share = head_numbers(moment_numbers + 1, of_head, at, queries, BLOCK_N, 0.0, 2)
                weights *= share[None, :]
            dv = add_parts(narrowed(weights, q[0].dtype), d_out, dv, VALUE)
            weights = inside_cap(weights, scores, SOFTCAP)
            d_scores = weights * (dot_parts(v, d_out, zeros, VALUE) - moment[None, :])
            dk = add_parts(narrowed(d_scores, q[0].dtype), q, dk, HEAD)
            at, of_queries = next_block(at, of_queries, begin, end, BLOCK_N, SHARED)
    if ROWS_HIDDEN:
        bias = mask_bias(
            *(mask, batch, of_first, 0, start, queries, HEADS, MASK_DIMS, ADDED),
            *(1, BLOCK_M, False, True),
        )
        dk, dv = seen_parts(dk, bias, HEAD), seen_parts(dv, bias, VALUE)
    return scaled_parts(dk, SCALE, HEAD), dv
