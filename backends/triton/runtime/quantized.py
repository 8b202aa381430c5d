# pyright: basic, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAssignmentType=false, reportOperatorIssue=false
"""Device functions for GEMMs whose weights are quantized to four or eight bits."""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.device import SUM_TYPE, dot
from coda_ir.backends.triton.runtime.main_loops import (
    load_depth,
    start_next_kernel,
    wait_for_earlier_kernels,
    wide,
)


@triton.jit
def shift_of(index, POSITIONS: tl.constexpr):
    """Return the first bit of element `index` in a word of four-bit elements: four times its
    position, which is digit `index` of the hexadecimal number POSITIONS.
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
    """Load elements k to k + BLOCK_K of columns, with zeros past K, and unpack them.

    A word has PACKED elements, neighbours along K if ALONG_K, otherwise along N; PACKED is 1 for
    elements that are not packed. POSITIONS are the positions of elements in a word (see
    `shift_of`). For words along N, `shifts` has the first bit of each column's element.
    """
    if PACKED == 1:
        return load_depth(pointers, k, K, STEP, BLOCK_K, 0)
    elif ALONG_K:
        words = load_depth(pointers, k // PACKED, K // PACKED, STEP, BLOCK_K // PACKED, 0)
        shifts = shift_of(tl.arange(0, PACKED), POSITIONS)[None, :, None]
        elements = (words.to(tl.int32)[:, None, :] >> shifts) & 15
        return tl.reshape(elements, (BLOCK_K, words.shape[1]))
    else:
        words = load_depth(pointers, k, K, STEP, BLOCK_K, 0)
        return (words.to(tl.int32) >> shifts) & 15


@triton.jit
def load_zeros(pointers, shifts):
    """Load the zero points of columns. If `pointers` are to int32, a word packs eight zero points,
    and `shifts` has the first bit of each.
    """
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
    """Return each of accs plus a @ dequantized b over K from `first` to `last`. The other arguments
    are those of `multiply`.

    An element of b is (b - zero point - OFFSET) * scale. Tensor cores multiply the integers, which
    are exact in the type of a, and the sum of each step is scaled.

    `b_scales`: pointers to the scales of the columns in the first group of K.

    `b_zeros`: pointers to the zero points of the columns in the first group of K.

    DEPTH: the number of elements of K in a group. They share a scale and a zero point.

    SCALE_STEP: the distance from the scales of one group to those of the next.

    ZERO_STEP: the distance from the zero points of one group to those of the next.

    OFFSET: an integer that is subtracted from every element.

    ALONG_K, PACKED, POSITIONS: see `load_elements`.

    `b_shifts`: the first bit of each column's element in words along N, and of its zero point.
    """
    for k in range(first, last, BLOCK_K):
        a = load_depth(a_rows, k, K, A_STEP, BLOCK_K, 1)
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
def raised_element(words, ONES, PLACE: tl.constexpr, POSITION: tl.constexpr):
    """Return ONES with the element at POSITION of each word in the bits from PLACE on. The result
    has 16 bits.

    The element four positions away is computed at the same time, in the other half of a 32-bit
    register.
    """
    SHIFT: tl.constexpr = PLACE - 4 * (POSITION % 4)
    moved = words << SHIFT if SHIFT >= 0 else words >> (0 - SHIFT)
    both = (moved & (0x000F000F << PLACE)) | ONES
    return (both if POSITION < 4 else both >> 16).to(tl.int16)


@triton.jit
def raised_elements(words, opaque_zero, TYPE: tl.constexpr, POSITIONS: tl.constexpr):
    """Return 16 plus each of the eight elements of a word, as float16 or bfloat16: words x 2 x 2 x
    2, where index (i, j, k) is element 4i + j + 2k.

    The conversion uses no arithmetic (arXiv 2211.10017): the element becomes the upper bits of the
    mantissa of a number with the exponent of 16. `opaque_zero` is a 0 that compilers cannot fold:
    ptxas combines the mask and the exponent in one instruction only if one of them is in a
    register.
    """
    PLACE: tl.constexpr = 3 if tl.bfloat16 == TYPE else 6
    ones = (0x41804180 if tl.bfloat16 == TYPE else 0x4C004C00) | opaque_zero
    halves = ()
    for i in tl.static_range(8):
        halves = halves + (raised_element(words, ones, PLACE, (POSITIONS >> (4 * i)) & 15),)
    first = tl.join(tl.join(halves[0], halves[4]), tl.join(halves[1], halves[5]))
    second = tl.join(tl.join(halves[2], halves[6]), tl.join(halves[3], halves[7]))
    return tl.join(first, second).to(TYPE, bitcast=True)


@triton.jit
def load_groups(
    b_scales, b_zeros, b_shifts, group, SCALE_STEP: tl.constexpr, ZERO_STEP: tl.constexpr
):
    """Load the scales and the zero points of groups of K for each b: tuples of columns x groups.
    The second tuple is empty without zero points.
    """
    scales, zeros = (), ()
    for i in tl.static_range(len(b_scales)):
        scales = scales + (tl.load(tl.trans(b_scales[i]) + group * SCALE_STEP),)
        if b_zeros is not None:
            shifts = None if b_shifts is None else tl.trans(b_shifts[i])
            zeros = zeros + (load_zeros(tl.trans(b_zeros[i]) + group * ZERO_STEP, shifts),)
    return scales, zeros


@triton.jit
def load_words(places, start, word, end, STEP: tl.constexpr):
    """Load words of each b from number `start` on, with zeros from number `end` on."""
    words = ()
    for i in tl.static_range(len(places)):
        b = tl.load(places[i] + start * STEP, mask=start + word < end, other=0)
        words = words + (b.to(tl.uint32, bitcast=True),)
    return words


@triton.jit
def in_order_of_products(x):
    """Return x, columns x groups, as groups x columns in the order of `multiply_words_row`."""
    fours = tl.reshape(x, (x.shape[0] // 4, 4, x.shape[1]))
    return tl.reshape(tl.permute(fours, (2, 1, 0)), (x.shape[1], x.shape[0]))


@triton.jit
def sums_of_words(accs, totals):
    """Return each of accs plus the sum of `totals` over the parts of K. The totals are those of
    `multiply_words_row`: parts x columns x 8 equal columns.
    """
    COLUMNS: tl.constexpr = accs[0].shape[1]
    found = ()
    for i in tl.static_range(len(accs)):
        one = tl.arange(0, totals[i].shape[2])[None, :] == 0
        total = tl.sum(tl.where(one, tl.sum(totals[i], 0), 0.0), 1)
        total = tl.reshape(tl.trans(tl.reshape(total, (4, COLUMNS // 4))), (COLUMNS,))
        found = found + (accs[i] + total[None, :],)
    return found


@triton.jit
def multiply_words_row(
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
    b_numbers=None,
    N_STEP: tl.constexpr = 1,
    DEPTH: tl.constexpr = 128,
    SCALE_STEP: tl.constexpr = 1,
    ZERO_STEP: tl.constexpr = 1,
    OFFSET: tl.constexpr = 0,
    ALONG_K: tl.constexpr = True,
    PACKED: tl.constexpr = 8,
    POSITIONS: tl.constexpr = 0x76543210,
    IN_FOURS: tl.constexpr = False,
    WAITS: tl.constexpr = False,
):
    """`multiply_quantized_row` for a row of 16 bits, and words of eight four-bit elements along K.
    The other arguments are those of that function.

    Tensor cores multiply bᵀ by a, as a matrix of equal columns. K and the columns are permuted so
    that the words that a thread loads have its operands of a product: each warp has a part of K, in
    steps of 128, and 32 columns. The products are of b + 16 (see `raised_elements`); (16 + zero
    point) * sum(a) is subtracted. This difference is NaN if a has an infinite element; then
    `multiply_quantized_row` computes the sums again.

    `b_numbers`: the numbers of the columns of b; `b_columns` points to column 0.

    N_STEP: the distance between neighbouring columns of b.

    IN_FOURS: whether every four columns are neighbours and begin at a multiple of four.

    WAITS: whether the program waits for earlier kernels (programmatic dependent launch). They must
    not write weights: the first words are loaded before the wait. After it the next kernel may
    start.
    """
    TYPE: tl.constexpr = a_row.dtype.element_ty
    PART: tl.constexpr = min(DEPTH, BLOCK_K, 128)
    PARTS: tl.constexpr = BLOCK_K // PART
    WORDS: tl.constexpr = PART // 8
    COLUMNS: tl.constexpr = accs[0].shape[1]
    IS_KN: tl.constexpr = N_STEP == 1
    # a as a matrix of equal columns: 8 is the smallest number that tensor cores multiply.
    SAME: tl.constexpr = 8
    part = tl.arange(0, PARTS)
    element = tl.arange(0, PART)
    four, fours = tl.arange(0, 4), tl.arange(0, WORDS // 4)
    # A thread loads neighbouring words: of one column, or of neighbouring columns (IS_KN).
    if IS_KN:
        word = part[None, :, None] * WORDS + fours[None, None, :] * 4 + four[:, None, None]
        word = word[:, None, :, :, None]
    else:
        word = part[None, :, None] * WORDS + fours[:, None, None] * 4 + four[None, None, :]
        word = word[:, None, :, None, :]
    opaque_zero = tl.max(tl.max(a_row.to(tl.int64) >> 63, 1), 0).to(tl.uint32)
    totals = ()
    for _ in tl.static_range(len(accs)):
        totals = totals + (tl.zeros((PARTS, COLUMNS, SAME), SUM_TYPE),)
    b_places = ()
    for i in tl.static_range(len(accs)):
        columns = tl.reshape(b_numbers[i], (COLUMNS // 4, 4))
        if IN_FOURS:
            columns = tl.max_contiguous(tl.multiple_of(columns, (1, 4)), (1, 4))
        columns = columns[None, :, None, None, :] if IS_KN else columns[None, :, None, :, None]
        b_places = b_places + (b_columns[i] + (word * B_STEP + columns * N_STEP),)
    group = tl.minimum((first + part * PART) // DEPTH, (K - 1) // DEPTH)[None, :]
    scales, zeros = load_groups(b_scales, b_zeros, b_shifts, group, SCALE_STEP, ZERO_STEP)
    end = tl.minimum(last, K) // 8
    words = load_words(b_places, first // 8, word, end, B_STEP)
    if WAITS:
        wait_for_earlier_kernels()
        start_next_kernel()
    # Becomes NaN when an element of a is infinite or NaN, and is 0 otherwise.
    probe = tl.zeros((PARTS, 1), SUM_TYPE)
    for k in range(first, last, BLOCK_K):
        # Load the words of the next step before waiting for those of this one.
        depth = k + part[:, None] * PART + element[None, :]
        a = tl.load(a_row + depth, mask=depth < K, other=0.0)
        following_words = load_words(b_places, (k + BLOCK_K) // 8, word, end, B_STEP)
        group = tl.minimum((k + BLOCK_K + part * PART) // DEPTH, (K - 1) // DEPTH)[None, :]
        following = load_groups(b_scales, b_zeros, b_shifts, group, SCALE_STEP, ZERO_STEP)
        a_sum = tl.sum(wide(a), 1)[:, None]
        probe += a_sum * 0.0
        # The dimensions: part, word / 4, word % 4, and three bits of an element in its word.
        a = tl.reshape(a, (PARTS, 1, WORDS // 4, 4, 2, 2, 2))
        a = tl.permute(a, (0, 2, 5, 3, 6, 4, 1) if IS_KN else (0, 3, 5, 2, 6, 4, 1))
        a = tl.broadcast_to(tl.reshape(a, (PARTS, PART, 1)), (PARTS, PART, SAME))
        sums = ()
        for i in tl.static_range(len(accs)):
            b = tl.permute(words[i], (2, 3, 0, 4, 1) if IS_KN else (2, 0, 4, 3, 1))
            b = tl.reshape(b, (PARTS, WORDS // 4, 4, COLUMNS))
            b = raised_elements(b, opaque_zero, TYPE, POSITIONS)
            b = tl.permute(b, (0, 3, 1, 6, 2, 5, 4) if IS_KN else (0, 3, 2, 6, 1, 5, 4))
            b = tl.reshape(b, (PARTS, COLUMNS, PART))
            product = dot(b, a, tl.zeros((PARTS, COLUMNS, SAME), SUM_TYPE))
            raised = tl.full((PARTS, COLUMNS), OFFSET + 16, SUM_TYPE)
            if b_zeros is not None:
                raised += in_order_of_products(zeros[i]).to(SUM_TYPE)
            product -= (raised * a_sum)[:, :, None]
            scale = in_order_of_products(scales[i]).to(SUM_TYPE)
            sums = sums + (totals[i] + product * scale[:, :, None],)
        totals = sums
        scales, zeros = following
        words = following_words
    if tl.max(tl.max((probe != probe).to(tl.int32), 1), 0) > 0:
        places = ()
        for i in tl.static_range(len(accs)):
            places = places + (b_columns[i] + b_numbers[i][None, :] * N_STEP,)
        found = multiply_quantized_row(
            accs,
            a_row,
            places,
            first,
            last,
            K,
            A_STEP,
            B_STEP,
            16,  # a small BLOCK_K, which needs few registers
            b_scales,
            b_zeros,
            b_shifts,
            DEPTH,
            SCALE_STEP,
            ZERO_STEP,
            OFFSET,
            ALONG_K,
            PACKED,
            POSITIONS,
        )
    else:
        found = sums_of_words(accs, totals)
    return found


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
    """`multiply_quantized` for one row of a, without tensor cores: each thread keeps its own
    partial sums. A step of BLOCK_K is a multiple of a group of K, or a part of one.

    `b_zeros`: pointers to the zero points of the columns in the first group of K.

    DEPTH: the number of elements of K in a group. They share a scale and a zero point.

    SCALE_STEP: the distance from the scales of one group to those of the next.

    ZERO_STEP: the distance from the zero points of one group to those of the next.

    OFFSET: an integer that is subtracted from every element.

    ALONG_K, PACKED, POSITIONS: see `load_elements`.

    `b_shifts`: the first bit of each column's element in words along N, and of its zero point.
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
                part = tl.arange(0, SHARED)
                shifts = shift_of(part, POSITIONS)[None, None, :, None]
                x = wide(tl.load(a_places + part, mask=is_inside[:, :, None], other=0.0))
                elements = wide((b.to(tl.int32)[:, :, None, :] >> shifts) & 15)
                if b_zeros is None:
                    elements -= OFFSET
                else:
                    elements -= zeros[:, :, None, :]
                product = tl.sum(x[:, :, :, None] * elements, 2)
            else:
                # Load a copy of x for each column, so that x and b have the same layout.
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
