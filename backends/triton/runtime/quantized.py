# pyright: basic, reportGeneralTypeIssues=false, reportArgumentType=false, reportAssignmentType=false
"""Device functions of the main loop that dequantizes weights of few bits."""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.device import SUM_TYPE, dot
from coda_ir.backends.triton.runtime.header import INTERPRET
from coda_ir.backends.triton.runtime.main_loops import load_depth, wide


@triton.jit
def shift_of(index, POSITIONS: tl.constexpr):
    """The first bit of element `index` of a word of four-bit elements: 4 * position.

    The positions are those in POSITIONS, four bits for each.
    """
    if POSITIONS == 0x76543210 or POSITIONS == 0x10:
        return 4 * index
    else:
        return 4 * (((index * 0 + POSITIONS) >> (4 * index)) & 15)


@triton.jit
def load_elements(
    pointers,
    shifts,
    k,
    K,
    STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ALONG_K: tl.constexpr,
    PACKED: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """Elements k to k + BLOCK_K of each column, zeros past K: from words of PACKED of them along K,
    or else along N, where `shifts` has the place of each column.
    """
    if PACKED == 1:
        return load_depth(pointers, k, K, STEP, BLOCK_K, 0, True)
    elif ALONG_K:
        words = load_depth(pointers, k // PACKED, K // PACKED, STEP, BLOCK_K // PACKED, 0, True)
        shifts = shift_of(tl.arange(0, PACKED), POSITIONS)[None, :, None]
        elements = (words.to(tl.int32)[:, None, :] >> shifts) & 15
        return tl.reshape(elements, (BLOCK_K, words.shape[1]))
    else:
        words = load_depth(pointers, k, K, STEP, BLOCK_K, 0, True)
        return (words.to(tl.int32) >> shifts) & 15


@triton.jit
def load_zeros(pointers, shifts):
    """The zero points of columns, which are in words of eight where they are of 32 bits."""
    zeros = tl.load(pointers).to(tl.int32)
    if pointers.dtype.element_ty == tl.int32:
        return (zeros >> shifts) & 15
    else:
        return zeros


@triton.jit
def multiply_quantized(
    accs,
    a_rows,
    b_columns,
    first,
    last,
    K,
    A_STEP: tl.constexpr,
    B_STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    b_scales,
    b_zeros=None,
    b_shifts=None,
    DEPTH: tl.constexpr = 128,
    SCALE_STEP: tl.constexpr = 1,
    ZERO_STEP: tl.constexpr = 1,
    OFFSET: tl.constexpr = 0,
    ALONG_K: tl.constexpr = True,
    PACKED: tl.constexpr = 1,
    POSITIONS: tl.constexpr = 0,
):
    """Each of accs + a @ b over K from `first` to `last`, as `multiply` does, with a dequantized b.

    DEPTH elements of a column of b share a scale and a zero point: (b - zero - OFFSET) * scale. The
    pointers are to those of the first group; the next are SCALE_STEP and ZERO_STEP behind. The sum
    of each step is scaled, so that what is multiplied are integers, which are exact.
    """
    for k in range(first, last, BLOCK_K):
        a = load_depth(a_rows, k, K, A_STEP, BLOCK_K, 1, True)
        group = k // DEPTH
        sums = ()
        for i in tl.static_range(len(accs)):
            shifts = None if b_shifts is None else b_shifts[i]
            b = load_elements(
                b_columns[i], shifts, k, K, B_STEP, BLOCK_K, ALONG_K, PACKED, POSITIONS
            )
            if OFFSET != 0 or b_zeros is not None:
                b = b.to(tl.int32) - OFFSET
            if b_zeros is not None:
                b = b - load_zeros(b_zeros[i] + group * ZERO_STEP, shifts)
            product = dot(a, b, tl.zeros(accs[i].shape, accs[i].dtype))
            scales = tl.load(b_scales[i] + group * SCALE_STEP)
            sums = sums + (accs[i] + product * scales.to(tl.float32),)
        accs = sums
    return accs


@triton.jit
def elements_of(words, FIRST: tl.constexpr):
    """The four bits from FIRST on of each word, as floats.

    They are the lowest bits of a float that is a power of two plus the element. A word of eight is
    shifted once, for the bits stay in place where a float has room for them.
    """
    if INTERPRET:
        return ((words >> FIRST) & 15).to(SUM_TYPE)
    else:
        PLACE: tl.constexpr = FIRST if FIRST <= 16 else FIRST - 16
        # All exponents at once, of which the mask leaves one.
        moved = (words if FIRST <= 16 else words >> 16) | 0x7F800000
        bits = moved & (15 * 2**PLACE | (150 - PLACE) * 2**23)
        return bits.to(tl.float32, bitcast=True) - 2.0 ** (23 - PLACE)


@triton.jit
def parts_of_words(x, PACKED: tl.constexpr):
    """The elements 0, 1, ... of the last dimension of x, which has PACKED of them."""
    if PACKED == 2:
        first, second = tl.split(x)
        return (first, second)
    else:
        even, odd = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], 4, 2)))
        x04, x26 = tl.split(tl.reshape(even, (x.shape[0], x.shape[1], 2, 2)))
        x15, x37 = tl.split(tl.reshape(odd, (x.shape[0], x.shape[1], 2, 2)))
        x0, x4 = tl.split(x04)
        x2, x6 = tl.split(x26)
        x1, x5 = tl.split(x15)
        x3, x7 = tl.split(x37)
        return (x0, x1, x2, x3, x4, x5, x6, x7)


@triton.jit
def multiply_quantized_row(
    accs,
    a_row,
    b_columns,
    first,
    last,
    K,
    A_STEP: tl.constexpr,
    B_STEP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    b_scales,
    b_zeros=None,
    b_shifts=None,
    DEPTH: tl.constexpr = 128,
    SCALE_STEP: tl.constexpr = 1,
    ZERO_STEP: tl.constexpr = 1,
    OFFSET: tl.constexpr = 0,
    ALONG_K: tl.constexpr = True,
    PACKED: tl.constexpr = 1,
    POSITIONS: tl.constexpr = 0,
):
    """`multiply_quantized` for one row of a, without tensor cores.

    Steps have whole groups of K, or a part of one. Each thread keeps sums of its own.
    """
    GROUPS: tl.constexpr = BLOCK_K // DEPTH if BLOCK_K > DEPTH else 1
    SHARED: tl.constexpr = PACKED if ALONG_K else 1
    WORDS: tl.constexpr = BLOCK_K // GROUPS // SHARED
    COLUMNS: tl.constexpr = accs[0].shape[1]
    groups = tl.arange(0, GROUPS)
    words = tl.arange(0, WORDS)[None, :] + groups[:, None] * WORDS
    totals = ()
    for _ in tl.static_range(len(accs)):
        totals = totals + (tl.zeros((GROUPS, WORDS, COLUMNS), SUM_TYPE),)
    for k in range(first, last, BLOCK_K):
        word = k // SHARED + words
        is_inside = word < K // SHARED
        group = tl.minimum(k // DEPTH + groups, (K - 1) // DEPTH)[:, None, None]
        a_places = a_row[:, :, None] + word[:, :, None] * SHARED
        sums = ()
        for i in tl.static_range(len(accs)):
            b_places = b_columns[i][None, :, :] + word[:, :, None] * B_STEP
            b = tl.load(b_places, mask=is_inside[:, :, None], other=0.0)
            scales = tl.load(b_scales[i][None, :, :] + group * SCALE_STEP).to(tl.float32)
            shifts = None if b_shifts is None else b_shifts[i][None, :, :]
            zeros = OFFSET
            if b_zeros is not None:
                zeros = load_zeros(b_zeros[i][None, :, :] + group * ZERO_STEP, shifts) + OFFSET
                zeros = zeros.to(tl.float32)
            if SHARED > 1:
                part = tl.arange(0, SHARED)[None, None, :]
                x = tl.load(a_places + part, mask=is_inside[:, :, None], other=0.0)
                parts = parts_of_words(x.to(tl.float32), SHARED)
                b = b.to(tl.int32)
                product = tl.zeros((GROUPS, WORDS, COLUMNS), SUM_TYPE)
                total = tl.zeros((GROUPS, WORDS), SUM_TYPE)
                for j in tl.static_range(SHARED):
                    q = elements_of(b, ((POSITIONS >> (4 * j)) & 15) * 4)
                    product += parts[j][:, :, None] * q
                    total += parts[j]
                product -= zeros * total[:, :, None]
            else:
                # x is loaded for each column, as b is, so that both are in the same threads.
                places = tl.broadcast_to(a_places, (GROUPS, WORDS, COLUMNS))
                x = tl.load(places, mask=is_inside[:, :, None], other=0.0).to(tl.float32)
                if PACKED > 1:
                    b = (b >> shifts) & 15
                product = x * (wide(b) - zeros)
            sums = sums + (totals[i] + product * scales,)
        totals = sums
    found = ()
    for i in tl.static_range(len(accs)):
        found = found + (accs[i] + tl.sum(tl.sum(totals[i], 0), 0)[None, :],)
    return found
