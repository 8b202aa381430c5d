# pyright: basic, reportGeneralTypeIssues=false
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false
"""Device functions of the attention backward for Hopper, in Gluon: those of `attention_tiles.py`
with asynchronous products, each of which is waited for where its result is used.

A tile has rows a of q and c of dO, or of k and v. A step has rows b and d of the others. Both sums
take the products a @ bᵀ, the scores, and c @ dᵀ, the gradients of the weights. The sums of a step
are computed while the scores of the next one are.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from coda_ir.backends.triton.runtime.attention_tiles import (
    inside_cap as gluon_inside_cap,
    is_seen as gluon_is_seen,
    keys_of_queries as gluon_keys_of_queries,
    next_block as gluon_next_block,
    queries_of_keys as gluon_queries_of_keys,
    scores_of as gluon_scores_of,
    weights_of as gluon_weights_of,
)
from coda_ir.backends.triton.runtime.device import LOG2_E as gluon_LOG2_E
from coda_ir.backends.triton.runtime.warp_groups import loaded_stage, tma_load


@gluon.constexpr_function
def products_layout(ROWS, COLUMNS, WARPS):
    """Return the layout of ROWS x COLUMNS products. Four warps compute 64 rows, and further ones
    other rows, or other columns of the same rows.
    """
    ACROSS = max(1, 16 * WARPS // ROWS)
    return gl.NVMMADistributedLayout(
        version=[3, 0],
        warps_per_cta=[WARPS // ACROSS, ACROSS],
        instr_shape=[16, COLUMNS // ACROSS, 16],
    )


@gluon.constexpr_function
def epilogue_layout(COLUMNS, WARPS):
    """Return the layout of sums for an epilogue, also of a second part of a head: a thread has 8
    neighbouring columns, and those in the other half of the COLUMNS.
    """
    LANES = min(8, COLUMNS // 16)
    return gl.BlockedLayout([1, 8], [32 // LANES, LANES], [WARPS, 1], [1, 0])


@gluon.jit
def head_boxes(x, COUNT: gl.constexpr):
    """Return shared memory for COUNT boxes of each part of a head."""
    boxes = ()
    for part in gl.static_range(len(x)):
        boxes = boxes + (part_boxes(x[part], COUNT),)
    return boxes


@gluon.jit
def part_boxes(x, COUNT: gl.constexpr):
    """Return shared memory for COUNT boxes of a TMA descriptor."""
    SHAPE: gl.constexpr = [COUNT] + x.block_type.shape
    return gl.allocate_shared_memory(x.dtype, SHAPE, x.layout)


@gluon.jit
def load_head(x, boxes, index, barrier, batch, head, start, is_there, HEAD: gl.constexpr):
    """Start to load the rows of a head from `start` on to the boxes number `index`."""
    for part in gl.static_range(len(x)):
        corner = [batch, head, start, part * HEAD[1]]
        tma_load(x[part], corner, barrier, boxes[part].index(index), pred=is_there)


@gluon.jit
def rows_in(boxes, index):
    """Return the parts of rows of a head in the boxes number `index`: rows x columns."""
    parts = ()
    for part in gl.static_range(len(boxes)):
        box = boxes[part].index(index)
        parts = parts + (box.reshape([box.shape[2], box.shape[3]]),)
    return parts


@gluon.jit
def head_dot(a, b, zeros):
    """Begin to compute a @ bᵀ of rows of heads, one product for each part."""
    products = zeros
    for part in gl.static_range(len(a)):
        transposed = b[part].permute((1, 0))
        products = warpgroup_mma(a[part], transposed, products, use_acc=part > 0, is_async=True)
    return products


@gluon.jit
def add_head(weights, rows, sums):
    """Begin to add weights @ rows to the sums, for each part."""
    added = ()
    for part in gl.static_range(len(rows)):
        added = added + (add_part(weights, rows[part], sums[part]),)
    return added


@gluon.jit
def add_part(weights, rows, total):
    """Begin to add weights @ rows to the sums of a part."""
    PARENT: gl.constexpr = products_layout(weights.shape[0], rows.shape[1], gl.num_warps())
    weights = gl.convert_layout(weights.to(rows.dtype), gl.DotOperandLayout(0, PARENT, 2))
    return warpgroup_mma(weights, rows, total, is_async=True)


@gluon.jit
def zero_head(ROWS: gl.constexpr, HEAD: gl.constexpr, IS_THERE: gl.constexpr = True):
    """Return zeros for the sums of ROWS rows of a head, for each part; none unless IS_THERE."""
    sums = ()
    for part in gl.static_range((1 if HEAD[2] == 0 else 2) if IS_THERE else 0):
        sums = sums + (zero_part(ROWS, HEAD[1 + part]),)
    return sums


@gluon.jit
def zero_part(ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Return zeros for the sums of a part of a head."""
    LAYOUT: gl.constexpr = products_layout(ROWS, COLUMNS, gl.num_warps())
    return warpgroup_mma_init(gl.zeros((ROWS, COLUMNS), gl.float32, LAYOUT))


@gluon.jit
def corrected_head(sums, others, factor):
    """Wait for both sums, and return sums + factor * others, given a factor for each row."""
    parts = ()
    for part in gl.static_range(len(sums)):
        total = warpgroup_mma_wait(0, deps=(sums[part],))
        other = warpgroup_mma_wait(0, deps=(others[part],))
        of_rows = gl.convert_layout(factor, gl.SliceLayout(1, other.type.layout))[:, None]
        parts = parts + (total + of_rows * other,)
    return parts


@gluon.jit
def finished_head(sums, factor, COLUMNS: gl.constexpr):
    """Wait for the sums, and return them times a factor in `epilogue_layout`."""
    parts = ()
    for part in gl.static_range(len(sums)):
        total = warpgroup_mma_wait(0, deps=(sums[part],)) * factor
        parts = parts + (gl.convert_layout(total, epilogue_layout(COLUMNS, gl.num_warps())),)
    return parts


@gluon.jit
def tile_boxes(tensors, PARTS: gl.constexpr, BYTES: gl.constexpr, batch, head, start):
    """Start to load the rows of a tile from several tensors. Return the parts of each, and the
    barrier at which all of them, BYTES, arrive.
    """
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    fence_async_shared()
    mbarrier.expect(loaded, BYTES)
    tiles = ()
    for number in gl.static_range(len(tensors)):
        x, boxes = tensors[number], head_boxes(tensors[number], 1)
        load_head(x, boxes, 0, loaded, batch, head, start, True, PARTS[number])
        tiles = tiles + (rows_in(boxes, 0),)
    return tiles, loaded


@gluon.jit
def step_boxes(tensors, STAGES: gl.constexpr):
    """Return shared memory for the boxes of STAGES steps from several tensors, and a barrier for
    the loads of each step.
    """
    boxes = ()
    for number in gl.static_range(len(tensors)):
        boxes = boxes + (head_boxes(tensors[number], STAGES),)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(STAGES):
        mbarrier.init(full.index(number), count=1)
    fence_async_shared()
    return boxes, full


@gluon.jit
def load_step(
    tensors,
    boxes,
    full,
    step,
    is_there,
    batch,
    head,
    at,
    HEADS: gl.constexpr,
    HEAD: gl.constexpr,
    VALUE: gl.constexpr,
):
    """Start to load the rows from `at` on for a step: b, d, and the numbers of queries, if any."""
    STAGES: gl.constexpr = full.shape[0]
    ROWS: gl.constexpr = boxes[0][0].shape[3]
    COLUMNS: gl.constexpr = HEAD[1] + HEAD[2] + VALUE[1] + VALUE[2]
    BYTES: gl.constexpr = (2 * COLUMNS + 4 * len(tensors[2])) * ROWS
    stage = step % STAGES
    barrier = full.index(stage)
    mbarrier.expect(barrier, BYTES, pred=is_there)
    load_head(tensors[0], boxes[0], stage, barrier, batch, head, at, is_there, HEAD)
    load_head(tensors[1], boxes[1], stage, barrier, batch, head, at, is_there, VALUE)
    for number in gl.static_range(len(tensors[2])):
        corner = [batch * HEADS + head, at]
        box = boxes[2][number].index(stage)
        tma_load(tensors[2][number], corner, barrier, box, pred=is_there)


@gluon.jit
def steps_between(first, last, BLOCK_N: gl.constexpr):
    """Return the first row and the number of steps of a range, at least 1. The compiler has to know
    that there is one: where sums may skip a loop, it waits for each product before the next one.
    """
    return first, gl.maximum(gl.cdiv(last - first, BLOCK_N), 1)


@gluon.jit
def place_of(index, ranges, BLOCK_N: gl.constexpr):
    """Return the first row of step number `index` of a head. `ranges` has the first row and the
    number of steps of one or two ranges.
    """
    if len(ranges) == 1:
        return ranges[0][0] + index * BLOCK_N
    else:
        others = ranges[1][0] + (index - ranges[0][1]) * BLOCK_N
        return gl.where(index < ranges[0][1], ranges[0][0] + index * BLOCK_N, others)


@gluon.jit
def head_sums(
    a,
    c,
    tensors,
    lse,
    moment,
    loaded,
    batch,
    head,
    start,
    ranges,
    queries,
    keys,
    MASKED: gl.constexpr,
    HEADS: gl.constexpr,
    SHARED: gl.constexpr,
    HEAD: gl.constexpr,
    VALUE: gl.constexpr,
    SCALE: gl.constexpr,
    SOFTCAP: gl.constexpr,
    FAST: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
    EXACT: gl.constexpr = False,
):
    """Return the sums of d_scores @ b and, in a tile of keys, of weights @ d, over the rows of
    SHARED heads from `head` on. If EXACT, the second sums are of weights @ b, and the third is
    that of weights * d_weights, for each row.

    `ranges` has the first row and the number of steps, at least 1, of ranges of rows, and MASKED
    whether scores of a range may be hidden. `tensors` has the descriptors of b and of d, and in a
    tile of keys those of lse and moment. In a tile of queries, `lse` and `moment` have a number for
    each row, `lse` for each range. `loaded` is the barrier of a and c. The other parameters are
    those of `o_of_tile`.
    """
    OF_KEYS: gl.constexpr = len(tensors[2]) > 0
    UNIT: gl.constexpr = (SOFTCAP if SOFTCAP > 0 else SCALE) * gluon_LOG2_E
    LAYOUT: gl.constexpr = products_layout(BLOCK_M, BLOCK_N, gl.num_warps())
    boxes, full = step_boxes(tensors, STAGES)
    count = ranges[0][1]
    for number in gl.static_range(1, len(ranges)):
        count += ranges[number][1]
    ahead, of_head = 0, head
    for number in gl.static_range(STAGES - 1):
        first = place_of(ahead, ranges, BLOCK_N)
        is_there = number < count * SHARED
        load_step(tensors, boxes, full, number, is_there, batch, of_head, first, HEADS, HEAD, VALUE)
        ahead, of_head = gluon_next_block(ahead, of_head, 0, count, 1, SHARED)
    sums = zero_head(BLOCK_M, HEAD)
    weighted = zero_head(BLOCK_M, VALUE if OF_KEYS else HEAD, OF_KEYS or EXACT)
    exact = gl.zeros((BLOCK_M,), gl.float32, gl.SliceLayout(1, LAYOUT))
    zeros = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, LAYOUT)
    row = (start + gl.arange(0, BLOCK_M, gl.SliceLayout(1, LAYOUT)))[:, None]
    column = gl.arange(0, BLOCK_N, gl.SliceLayout(0, LAYOUT))[None, :]
    mbarrier.wait(loaded, 0)
    step = 0
    for _ in range(0, SHARED):
        for part in gl.static_range(len(ranges)):
            for index in range(0, ranges[part][1]):
                stage = loaded_stage(full, step)
                b, d = rows_in(boxes[0], stage), rows_in(boxes[1], stage)
                scores = head_dot(a, b, zeros)
                d_weights = head_dot(c, d, zeros)
                of_lse = boxes[2][0].index(stage).load(LAYOUT) if OF_KEYS else lse[part]
                # This waits for the sums of the step before, too, whose boxes are free then.
                scores = warpgroup_mma_wait(len(c), deps=(scores,))
                later, at = step + STAGES - 1, place_of(ahead, ranges, BLOCK_N)
                load_step(
                    *(tensors, boxes, full, later, later < count * SHARED, batch, of_head, at),
                    *(HEADS, HEAD, VALUE),
                )
                ahead, of_head = gluon_next_block(ahead, of_head, 0, count, 1, SHARED)
                scores = gluon_scores_of(scores, SCALE, SOFTCAP, FAST)
                weights = gluon_weights_of(scores, of_lse, None, False, UNIT)
                if MASKED[part]:
                    other = ranges[part][0] + index * BLOCK_N + column
                    query, key = (other, row) if OF_KEYS else (row, other)
                    seen = gluon_is_seen(query + (keys - queries), key, keys, CAUSAL, WINDOW)
                    weights = gl.where(seen, weights, 0.0)
                inside = gluon_inside_cap(weights, scores, SOFTCAP)
                if OF_KEYS:
                    weighted = add_head(weights, d, weighted)
                elif EXACT:
                    weighted = add_head(inside, b, weighted)
                d_weights = warpgroup_mma_wait(len(weighted), deps=(d_weights,))
                if EXACT:
                    exact += gl.sum(weights * d_weights, 1)
                of_moment = boxes[2][1].index(stage).load(LAYOUT) if OF_KEYS else moment
                sums = add_head(inside * (d_weights - of_moment), b, sums)
                step += 1
    return sums, weighted, exact


@gluon.jit
def gluon_dq_of_tile(
    d_out_rows,
    out_rows,
    lse_pointer,
    moment_pointer,
    q_rows,
    k_rows,
    v_rows,
    batch,
    head,
    start,
    queries,
    keys,
    HEADS: gl.constexpr,
    SHARED: gl.constexpr,
    HEAD: gl.constexpr,
    VALUE: gl.constexpr,
    SCALE: gl.constexpr,
    SOFTCAP: gl.constexpr,
    FAST: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
    EXACT: gl.constexpr,
):
    """`dq_of_tile` without a mask, with STAGES stages of k and v."""
    BYTES: gl.constexpr = 2 * BLOCK_M * (HEAD[1] + HEAD[2] + 2 * (VALUE[1] + VALUE[2]))
    PARTS: gl.constexpr = (HEAD, VALUE, VALUE)
    tensors = (q_rows, d_out_rows, out_rows)
    tile, loaded = tile_boxes(tensors, PARTS, BYTES, batch, head, start)
    q, d_out, out = tile
    mbarrier.wait(loaded, 0)
    LAYOUT: gl.constexpr = products_layout(BLOCK_M, BLOCK_N, gl.num_warps())
    ROWS: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    OF_COPY: gl.constexpr = epilogue_layout(VALUE[1], gl.num_warps())
    moment = gl.zeros((BLOCK_M,), gl.float32, ROWS)
    for part in gl.static_range(len(out)):
        products = out[part].load(OF_COPY).to(gl.float32) * d_out[part].load(OF_COPY).to(gl.float32)
        moment += gl.convert_layout(gl.sum(products, 1), ROWS)
    row = start + gl.arange(0, BLOCK_M, ROWS)
    place = (batch * HEADS + head).to(gl.int64) * queries + row
    gl.store(moment_pointer + place, moment, mask=row < queries)
    lse = gl.load(lse_pointer + place, mask=row < queries, other=float("inf"))
    first, _, edge, last = gluon_keys_of_queries(
        start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    lse = lse[:, None]
    if WINDOW > 0:
        ranges, numbers = (steps_between(first, last, BLOCK_N),), (lse,)
    else:
        edge = gl.minimum(edge, gl.maximum(last - 1, 0) // BLOCK_N * BLOCK_N)
        # Where no keys are before the edge, zeros past the last key have no weight.
        whole = gl.where(edge > 0, 0, gl.cdiv(keys, BLOCK_N) * BLOCK_N)
        numbers = lse, gl.where(edge > 0, lse, float("inf"))
        ranges = steps_between(edge, last, BLOCK_N), steps_between(whole, edge, BLOCK_N)
    MASKED: gl.constexpr = (True, False)
    dq, mean_key, exact = head_sums(
        *(q, d_out, (k_rows, v_rows, ()), numbers, moment[:, None], loaded),
        *(batch, head // SHARED, start, ranges, queries, keys, MASKED),
        *(HEADS, 1, HEAD, VALUE),
        *(SCALE, SOFTCAP, FAST, CAUSAL, WINDOW, BLOCK_M, BLOCK_N, STAGES, EXACT),
    )
    if EXACT:
        gl.store(moment_pointer + place, exact, mask=row < queries)
        dq = corrected_head(dq, mean_key, moment - exact)
    return finished_head(dq, SCALE, HEAD[1])


@gluon.jit
def gluon_dkv_of_tile(
    d_out_rows,
    moment_numbers,
    lse_numbers,
    q_rows,
    k_rows,
    v_rows,
    batch,
    head,
    start,
    queries,
    keys,
    of_first,
    HEADS: gl.constexpr,
    SHARED: gl.constexpr,
    HEAD: gl.constexpr,
    VALUE: gl.constexpr,
    SCALE: gl.constexpr,
    SOFTCAP: gl.constexpr,
    FAST: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """`dkv_of_tile` without a mask, with STAGES stages of q and dO."""
    BYTES: gl.constexpr = 2 * BLOCK_M * (HEAD[1] + HEAD[2] + VALUE[1] + VALUE[2])
    PARTS: gl.constexpr = (HEAD, VALUE)
    tile, loaded = tile_boxes((k_rows, v_rows), PARTS, BYTES, batch, head, start)
    k, v = tile
    first, whole, _, last = gluon_queries_of_keys(
        start, queries, keys, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    if WINDOW > 0 or not CAUSAL:
        ranges = (steps_between(first, last, BLOCK_N),)
    else:
        # All numbers past the last query are zeros, and add nothing.
        ranges = steps_between(first, whole, BLOCK_N), steps_between(whole, last, BLOCK_N)
    MASKED: gl.constexpr = (CAUSAL or WINDOW > 0, False)
    dk, dv, _ = head_sums(
        *(k, v, (q_rows, d_out_rows, (lse_numbers, moment_numbers)), None, None, loaded),
        *(batch, of_first, start, ranges, queries, keys, MASKED),
        *(HEADS, SHARED, HEAD, VALUE),
        *(SCALE, SOFTCAP, FAST, CAUSAL, WINDOW, BLOCK_M, BLOCK_N, STAGES),
    )
    COLUMNS: gl.constexpr = min(HEAD[1], VALUE[1])
    return finished_head(dk, SCALE, COLUMNS), finished_head(dv, 1.0, COLUMNS)
