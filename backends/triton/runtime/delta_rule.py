# pyright: basic, reportGeneralTypeIssues=false
"""Device functions of the gated delta rule, by chunks of rows (arXiv 2412.06464, section 3.3).

Within a chunk, G are the sums of the logarithms of decays up to each row, D[i, j] = exp(G[i] −
G[j]) for i ≥ j, and S are the states before the chunk. The rows of

    new = (I + A)⁻¹ · (beta · (v − exp(G) · k · S)),  A[i, j] = beta[i] · (k[i] · k[j]) · D[i, j]

are what each row writes for its key, where A is 0 for i ≤ j. Then y = exp(G) · q · S + (q · kᵀ ⊙
D) · new, and the states after the chunk are exp(G[-1]) · S + (exp(G[-1] − G) · k)ᵀ · new.

The heads of a tensor lie side by side in its columns. Rows past the end are 0: they write nothing,
and neither do they decay. Operands of products have the type of q, k and v; sums, decays and states
that are carried are float32.
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.device import bound, dot, narrowed
from coda_ir.backends.triton.runtime.header import INTERPRET


@triton.jit
def product(a, b):
    """Return a @ b in float32."""
    return dot(a, b, tl.zeros((a.shape[0], b.shape[1]), tl.float32))


@triton.jit
def wide_product(a, b, IS_EXACT: tl.constexpr):
    """Return a @ b of float32. Unless IS_EXACT, the operands have 16 bits of precision."""
    if INTERPRET or IS_EXACT:
        return product(a, b)
    else:
        return tl.dot(a, b, input_precision="bf16x3")


@triton.jit
def head_tile(
    x_ptr,
    start,
    count,
    head,
    block,
    PITCH: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return the pointers of ROWS rows from `start` on and of a block of a head's WIDTH columns,
    and which of them exist: `count` rows.
    """
    row, column = tl.arange(0, ROWS), tl.arange(0, BLOCK) + block * BLOCK
    places = x_ptr + (start * PITCH + head * WIDTH) + (row[:, None] * PITCH + column[None, :])
    return places, (row < count)[:, None] & (column < WIDTH)[None, :]


@triton.jit
def load_tile(
    x_ptr,
    start,
    count,
    head,
    block,
    PITCH: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Load a tile of a head, with zeros where there is nothing; see `head_tile`."""
    places, inside = head_tile(x_ptr, start, count, head, block, PITCH, WIDTH, ROWS, BLOCK)
    return tl.load(places, mask=inside, other=0.0)


@triton.jit
def store_tile(
    x_ptr,
    x,
    start,
    count,
    head,
    block,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Store a tile of a head of a tensor with HEADS · WIDTH columns, rounded to its type."""
    places, inside = head_tile(
        x_ptr, start, count, head, block, HEADS * WIDTH, WIDTH, x.shape[0], x.shape[1]
    )
    tl.store(places, narrowed(x, x_ptr.dtype.element_ty), mask=inside)


@triton.jit
def numbers_of_head(x_ptr, start, count, head, HEADS: tl.constexpr, ROWS: tl.constexpr):
    """Load a number for each of ROWS rows of a head in float32, with zeros past the end."""
    row = tl.arange(0, ROWS)
    places = x_ptr + (start * HEADS + head) + row * HEADS
    return tl.load(places, mask=row < count, other=0.0).to(tl.float32)


@triton.jit
def state_tile(
    states_ptr,
    place,
    block,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Return the pointers of a block of columns of the K x V states at a place, and which exist."""
    row, column = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V) + block * BLOCK_V
    places = states_ptr + place * (K * V) + (row[:, None] * V + column[None, :])
    return places, (row < K)[:, None] & (column < V)[None, :]


@triton.jit
def load_states(
    states_ptr,
    place,
    block,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Load a tile of states, with zeros where there is nothing; see `state_tile`."""
    places, inside = state_tile(states_ptr, place, block, K, V, BLOCK_K, BLOCK_V)
    return tl.load(places, mask=inside, other=0.0)


@triton.jit
def store_states(states_ptr, states, place, block, K: tl.constexpr, V: tl.constexpr):
    """Store a tile of states, rounded to the type of the tensor."""
    places, inside = state_tile(states_ptr, place, block, K, V, states.shape[0], states.shape[1])
    tl.store(places, narrowed(states, states_ptr.dtype.element_ty), mask=inside)


@triton.jit
def chunk_of(program, T, PROGRAMS: tl.constexpr, ROWS: tl.constexpr):
    """Return the chunk of a program, of PROGRAMS for each, its first row, and its rows that exist,
    and the number of the program among those of the chunk.
    """
    chunks = tl.cdiv(T, ROWS)
    place = (program // PROGRAMS).to(tl.int64)
    first = place % chunks * ROWS
    count = tl.minimum(ROWS, T - first).to(tl.int32)
    return place, place // chunks * T + first, count, program % PROGRAMS


@triton.jit
def block_of(program, HEADS: tl.constexpr, V: tl.constexpr, BLOCK_V: tl.constexpr):
    """Return the sample, the head, and the block of the head's V columns of a program that computes
    all positions of the sample.
    """
    blocks: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    part = program % (HEADS * blocks)
    return (program // (HEADS * blocks)).to(tl.int64), part // blocks, part % blocks


@triton.jit
def first_states(
    states_ptr,
    place,
    block,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Load a tile of states; they are 0 where `states_ptr` is None."""
    if states_ptr is None:
        return tl.zeros((BLOCK_K, BLOCK_V), tl.float32)
    else:
        return load_states(states_ptr, place, block, K, V, BLOCK_K, BLOCK_V)


@triton.jit
def chunk_sums(sums_ptr, place, ROWS: tl.constexpr):
    """Load the sums of decays up to each row of a chunk and after it, and over all rows; see
    `solve_delta_chunk`.
    """
    sums = sums_ptr + place * (2 * ROWS)
    row = tl.arange(0, ROWS)
    return tl.load(sums + row), tl.load(sums + ROWS + row), tl.load(sums + ROWS - 1)


@triton.jit
def decays_between(sums):
    """Return the decays from rows that write, which columns are, to rows that read."""
    row = tl.arange(0, sums.shape[0])
    sees = row[:, None] >= row[None, :]
    return tl.exp(tl.where(sees, sums[:, None] - sums[None, :], float("-inf")))


@triton.jit
def below_diagonal(x):
    """Return a square tile with zeros on and above its diagonal."""
    row = tl.arange(0, x.shape[0])
    return tl.where(row[:, None] > row[None, :], x, 0.0)


@triton.jit
def inverse_of(lower, LEVELS: tl.constexpr, IS_EXACT: tl.constexpr):
    """Return (I + lower)⁻¹ of a tile with 2 ** LEVELS rows that is 0 on and above its diagonal.

    The inverses of blocks on the diagonal give those of blocks of twice the size. A series of
    powers would have large terms that cancel where keys are alike.
    """
    row = tl.arange(0, lower.shape[0])[:, None]
    column = tl.arange(0, lower.shape[0])[None, :]
    inverse = tl.where(row == column, 1.0, 0.0)
    inverse -= tl.where((row == column + 1) & (row & 1 == 1), lower, 0.0)
    for level in range(1, LEVELS):
        is_below = ((row >> level) == (column >> level) + 1) & ((row >> level) & 1 == 1)
        added = wide_product(inverse, tl.where(is_below, lower, 0.0), IS_EXACT)
        inverse -= wide_product(added, inverse, IS_EXACT)
    return inverse


@triton.jit
def solve_delta_chunk(
    program,
    k_ptr,
    beta_ptr,
    decay_ptr,
    sums_ptr,
    system_ptr,
    T,
    HEADS: tl.constexpr,
    MEMBERS: tl.constexpr,
    K: tl.constexpr,
    K_PITCH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ROWS: tl.constexpr,
    LEVELS: tl.constexpr,
):
    """Store (I + A)⁻¹ of a chunk and a head, and the sums of decays up to each row and after it,
    whose differences would lose digits. MEMBERS heads of values share one of keys.
    """
    place, start, count, head = chunk_of(program, T, HEADS, ROWS)
    k = load_tile(k_ptr, start, count, head // MEMBERS, 0, K_PITCH, K, ROWS, BLOCK_K)
    beta = numbers_of_head(beta_ptr, start, count, head, HEADS, ROWS)
    decay = numbers_of_head(decay_ptr, start, count, head, HEADS, ROWS)
    sums, rest = tl.cumsum(decay, 0), tl.cumsum(decay, 0, reverse=True) - decay
    places = sums_ptr + (place * HEADS + head) * (2 * ROWS) + tl.arange(0, ROWS)
    tl.store(places, sums)
    tl.store(places + ROWS, rest)
    system = product(k, tl.trans(k)) * decays_between(sums) * beta[:, None]
    inverse = inverse_of(below_diagonal(system), LEVELS, k.dtype == tl.float32)
    store_states(system_ptr, inverse, place * HEADS + head, 0, ROWS, ROWS)


@triton.jit
def carry_delta_states(
    program,
    k_ptr,
    v_ptr,
    beta_ptr,
    initial_ptr,
    sums_ptr,
    system_ptr,
    states_ptr,
    new_ptr,
    final_ptr,
    T,
    HEADS: tl.constexpr,
    MEMBERS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    K_PITCH: tl.constexpr,
    V_PITCH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Store the states before each chunk of a sample and `new`, for a block of columns of a head.

    `initial_ptr` and `final_ptr` are None where the first states are 0, and where the last ones are
    not wanted.
    """
    TYPE: tl.constexpr = new_ptr.dtype.element_ty
    sample, head, block = block_of(program, HEADS, V, BLOCK_V)
    of_sample = sample * HEADS + head
    states = first_states(initial_ptr, of_sample, block, K, V, BLOCK_K, BLOCK_V)
    chunks = tl.cdiv(T, ROWS)
    for chunk in range(bound(chunks)):
        start, count = sample * T + chunk * ROWS, tl.minimum(ROWS, T - chunk * ROWS)
        place = (sample * chunks + chunk) * HEADS + head
        narrow = narrowed(states, TYPE)
        store_states(states_ptr, states, place, block, K, V)
        k = load_tile(k_ptr, start, count, head // MEMBERS, 0, K_PITCH, K, ROWS, BLOCK_K)
        v = load_tile(v_ptr, start, count, head, block, V_PITCH, V, ROWS, BLOCK_V)
        beta = numbers_of_head(beta_ptr, start, count, head, HEADS, ROWS)
        sums, rest, whole = chunk_sums(sums_ptr, place, ROWS)
        missing = v.to(tl.float32) - tl.exp(sums)[:, None] * product(k, narrow)
        system = load_states(system_ptr, place, 0, ROWS, ROWS, ROWS, ROWS)
        new = product(system, narrowed(beta[:, None] * missing, TYPE))
        store_tile(new_ptr, new, start, count, head, block, HEADS, V)
        written = narrowed(tl.exp(rest)[:, None] * new, TYPE)
        states = dot(tl.trans(k), written, tl.exp(whole) * states)
    if final_ptr is not None:
        store_states(final_ptr, states, of_sample, block, K, V)


@triton.jit
def read_delta_chunk(
    program,
    q_ptr,
    k_ptr,
    sums_ptr,
    states_ptr,
    new_ptr,
    y_ptr,
    T,
    HEADS: tl.constexpr,
    MEMBERS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    Q_PITCH: tl.constexpr,
    K_PITCH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Store the results of a chunk, for a block of columns of a head."""
    blocks: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    place, start, count, part = chunk_of(program, T, HEADS * blocks, ROWS)
    head, block = part // blocks, part % blocks
    q = load_tile(q_ptr, start, count, head // MEMBERS, 0, Q_PITCH, K, ROWS, BLOCK_K)
    k = load_tile(k_ptr, start, count, head // MEMBERS, 0, K_PITCH, K, ROWS, BLOCK_K)
    sums, _, _ = chunk_sums(sums_ptr, place * HEADS + head, ROWS)
    states = load_states(states_ptr, place * HEADS + head, block, K, V, BLOCK_K, BLOCK_V)
    y = tl.exp(sums)[:, None] * product(q, states)
    weights = product(q, tl.trans(k)) * decays_between(sums)
    new = load_tile(new_ptr, start, count, head, block, HEADS * V, V, ROWS, BLOCK_V)
    y = dot(narrowed(weights, new.dtype), new, y)
    store_tile(y_ptr, y, start, count, head, block, HEADS, V)


@triton.jit
def step_delta_states(
    program,
    q_ptr,
    k_ptr,
    v_ptr,
    beta_ptr,
    decay_ptr,
    initial_ptr,
    y_ptr,
    final_ptr,
    HEADS: tl.constexpr,
    MEMBERS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    Q_PITCH: tl.constexpr,
    K_PITCH: tl.constexpr,
    V_PITCH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Store the result of the only position of a sample and the states after it, for a block of
    columns of a head; see `carry_delta_states`.
    """
    sample, head, block = block_of(program, HEADS, V, BLOCK_V)
    row = tl.arange(0, BLOCK_K)
    column = tl.arange(0, BLOCK_V) + block * BLOCK_V
    of_key = head // MEMBERS * K + row
    q = tl.load(q_ptr + sample * Q_PITCH + of_key, mask=row < K, other=0.0).to(tl.float32)
    k = tl.load(k_ptr + sample * K_PITCH + of_key, mask=row < K, other=0.0).to(tl.float32)
    places = v_ptr + sample * V_PITCH + head * V + column
    new = tl.load(places, mask=column < V, other=0.0).to(tl.float32)
    of_sample = sample * HEADS + head
    beta = tl.load(beta_ptr + of_sample).to(tl.float32)
    states = tl.zeros((BLOCK_K, BLOCK_V), tl.float32)
    if initial_ptr is not None:
        states = load_states(initial_ptr, of_sample, block, K, V, BLOCK_K, BLOCK_V)
        states *= tl.exp(tl.load(decay_ptr + of_sample).to(tl.float32))
        new -= tl.sum(k[:, None] * states, 0)
    states += k[:, None] * (beta * new)[None, :]
    y = narrowed(tl.sum(q[:, None] * states, 0), y_ptr.dtype.element_ty)
    tl.store(y_ptr + of_sample * V + column, y, mask=column < V)
    if final_ptr is not None:
        store_states(final_ptr, states, of_sample, block, K, V)
