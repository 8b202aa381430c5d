# pyright: basic, reportGeneralTypeIssues=false
"""Device functions of the gradients of the gated delta rule, by chunks of rows.

The names are those of the forward, in `delta_rule.py`.
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.delta_rule import (
    below_diagonal,
    block_of,
    chunk_of,
    chunk_sums,
    decays_between,
    first_states,
    load_states,
    load_tile,
    numbers_of_head,
    product,
    store_states,
    store_tile,
)
from coda_ir.backends.triton.runtime.device import bound, dot, narrowed


@triton.jit
def carry_delta_adjoints(
    program,
    q_ptr,
    k_ptr,
    d_y_ptr,
    beta_ptr,
    d_final_ptr,
    sums_ptr,
    system_ptr,
    adjoints_ptr,
    d_missing_ptr,
    d_initial_ptr,
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
    """Store the adjoint of the states after each chunk of a sample, from the last chunk on, and
    that of what (I + A)⁻¹ is multiplied with, for a block of columns of a head.

    `d_final_ptr` and `d_initial_ptr` are None where the adjoint of the last states is 0, and where
    that of the first ones is not wanted.
    """
    TYPE: tl.constexpr = d_missing_ptr.dtype.element_ty
    sample, head, block = block_of(program, HEADS, V, BLOCK_V)
    of_sample = sample * HEADS + head
    adjoint = first_states(d_final_ptr, of_sample, block, K, V, BLOCK_K, BLOCK_V)
    chunks = tl.cdiv(T, ROWS)
    for number in range(bound(chunks)):
        chunk = chunks - 1 - number
        start, count = sample * T + chunk * ROWS, tl.minimum(ROWS, T - chunk * ROWS)
        place = (sample * chunks + chunk) * HEADS + head
        narrow = narrowed(adjoint, TYPE)
        store_states(adjoints_ptr, adjoint, place, block, K, V)
        q = load_tile(q_ptr, start, count, head // MEMBERS, 0, Q_PITCH, K, ROWS, BLOCK_K)
        k = load_tile(k_ptr, start, count, head // MEMBERS, 0, K_PITCH, K, ROWS, BLOCK_K)
        d_y = load_tile(d_y_ptr, start, count, head, block, HEADS * V, V, ROWS, BLOCK_V)
        d_y = d_y.to(tl.float32)
        beta = numbers_of_head(beta_ptr, start, count, head, HEADS, ROWS)
        sums, rest, whole = chunk_sums(sums_ptr, place, ROWS)
        weights = narrowed(product(q, tl.trans(k)) * decays_between(sums), TYPE)
        d_new = tl.exp(rest)[:, None] * product(k, narrow)
        d_new = dot(tl.trans(weights), narrowed(d_y, TYPE), d_new)
        system = load_states(system_ptr, place, 0, ROWS, ROWS, ROWS, ROWS)
        d_missing = product(tl.trans(system), narrowed(d_new, TYPE))
        store_tile(d_missing_ptr, d_missing, start, count, head, block, HEADS, V)
        read = narrowed(tl.exp(sums)[:, None] * d_y, TYPE)
        adjoint = dot(tl.trans(q), read, tl.exp(whole) * adjoint)
        d_known = narrowed(-(beta * tl.exp(sums))[:, None] * d_missing, TYPE)
        adjoint = dot(tl.trans(k), d_known, adjoint)
    if d_initial_ptr is not None:
        store_states(d_initial_ptr, adjoint, of_sample, block, K, V)


@triton.jit
def delta_chunk_gradients(
    program,
    q_ptr,
    k_ptr,
    v_ptr,
    d_y_ptr,
    beta_ptr,
    sums_ptr,
    states_ptr,
    new_ptr,
    adjoints_ptr,
    d_missing_ptr,
    d_q_ptr,
    d_k_ptr,
    d_v_ptr,
    d_beta_ptr,
    d_decay_ptr,
    T,
    HEADS: tl.constexpr,
    MEMBERS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    Q_PITCH: tl.constexpr,
    K_PITCH: tl.constexpr,
    V_PITCH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Store the gradients of a chunk and a head; those of q and k for each head of values.

    The sum of the decays up to a row gets what its row of the products that D is a factor of holds,
    less its column, and so for states.
    """
    TYPE: tl.constexpr = new_ptr.dtype.element_ty
    place, start, count, head = chunk_of(program, T, HEADS, ROWS)
    beta = numbers_of_head(beta_ptr, start, count, head, HEADS, ROWS)
    sums, rest, whole = chunk_sums(sums_ptr, place * HEADS + head, ROWS)
    d_q = tl.zeros((ROWS, BLOCK_K), tl.float32)
    d_known = tl.zeros((ROWS, BLOCK_K), tl.float32)
    d_written = tl.zeros((ROWS, BLOCK_K), tl.float32)
    d_weights = tl.zeros((ROWS, ROWS), tl.float32)
    d_system = tl.zeros((ROWS, ROWS), tl.float32)
    d_beta = tl.zeros((ROWS,), tl.float32)
    through = 0.0
    for block in range((V + BLOCK_V - 1) // BLOCK_V):
        v = load_tile(v_ptr, start, count, head, block, V_PITCH, V, ROWS, BLOCK_V)
        new = load_tile(new_ptr, start, count, head, block, HEADS * V, V, ROWS, BLOCK_V)
        d_y = load_tile(d_y_ptr, start, count, head, block, HEADS * V, V, ROWS, BLOCK_V)
        d_y = narrowed(d_y.to(tl.float32), TYPE)
        d_missing = load_tile(d_missing_ptr, start, count, head, block, HEADS * V, V, ROWS, BLOCK_V)
        states = load_states(states_ptr, place * HEADS + head, block, K, V, BLOCK_K, BLOCK_V)
        adjoint = load_states(adjoints_ptr, place * HEADS + head, block, K, V, BLOCK_K, BLOCK_V)
        d_q = dot(d_y, tl.trans(states), d_q)
        d_known = dot(d_missing, tl.trans(states), d_known)
        d_written = dot(new, tl.trans(adjoint), d_written)
        d_weights = dot(d_y, tl.trans(new), d_weights)
        d_system = dot(d_missing, tl.trans(new), d_system)
        through += tl.sum(tl.sum(states.to(tl.float32) * adjoint.to(tl.float32), 1), 0)
        d_v = d_missing.to(tl.float32)
        d_beta += tl.sum(d_v * v.to(tl.float32), 1)
        store_tile(d_v_ptr, d_v * beta[:, None], start, count, head, block, HEADS, V)
    q = load_tile(q_ptr, start, count, head // MEMBERS, 0, Q_PITCH, K, ROWS, BLOCK_K)
    k = load_tile(k_ptr, start, count, head // MEMBERS, 0, K_PITCH, K, ROWS, BLOCK_K)
    decays = decays_between(sums)
    d_q *= tl.exp(sums)[:, None]
    d_known *= tl.exp(sums)[:, None]
    d_written *= tl.exp(rest)[:, None]
    d_weights *= decays
    d_system = -below_diagonal(d_system * decays)
    of_states = tl.sum(q.to(tl.float32) * d_q, 1)
    known = tl.sum(k.to(tl.float32) * d_known, 1)
    written = tl.sum(k.to(tl.float32) * d_written, 1)
    weights = product(q, tl.trans(k)) * d_weights
    system = product(k, tl.trans(k)) * d_system
    d_beta += tl.sum(system, 1) - known
    net = weights + system * beta[:, None]
    d_sums = of_states - beta * known - written + tl.sum(net, 1) - tl.sum(net, 0)
    d_whole = tl.sum(written, 0) + tl.exp(whole) * through
    d_weights = narrowed(d_weights, TYPE)
    d_system *= beta[:, None]
    d_q = dot(d_weights, k, d_q)
    store_tile(d_q_ptr, d_q, start, count, head, 0, HEADS, K)
    d_k = dot(tl.trans(d_weights), q, d_written - beta[:, None] * d_known)
    d_k = dot(narrowed(d_system + tl.trans(d_system), TYPE), k, d_k)
    store_tile(d_k_ptr, d_k, start, count, head, 0, HEADS, K)
    row = tl.arange(0, ROWS)
    places = (start * HEADS + head) + row * HEADS
    d_beta = narrowed(d_beta, d_beta_ptr.dtype.element_ty)
    tl.store(d_beta_ptr + places, d_beta, mask=row < count)
    d_decay = narrowed(tl.cumsum(d_sums, 0, reverse=True) + d_whole, d_decay_ptr.dtype.element_ty)
    tl.store(d_decay_ptr + places, d_decay, mask=row < count)
