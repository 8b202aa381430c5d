# pyright: basic, reportGeneralTypeIssues=false, reportArgumentType=false
"""Device functions of the main loop that dequantizes weights of few bits."""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.device import dot
from coda_ir.backends.triton.runtime.main_loops import load_depth


@triton.jit
def shift_of(index, POSITIONS: tl.constexpr):
    """Where the bits of element `index` of a word of four-bit elements begin: 4 * position.

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
