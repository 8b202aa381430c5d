# pyright: basic, reportGeneralTypeIssues=false
# pyright: reportArgumentType=false, reportOperatorIssue=false
"""Device functions that emitted kernels call.

Portable `tl` only: no libdevice, no inline assembly. In Triton's CPU interpreter bf16 arithmetic
is wrong and float32 -> bfloat16 truncates, so that `dot` and `to_bf16` take other ways there. A sum
over K is rounded once there, where no order is stated: it has the accuracy of the program, whatever
the processor and its BLAS are.
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.header import INTERPRET

# The type of the sums of a tile. The interpreter rounds them to float32 at the end.
SUM_TYPE: tl.constexpr = tl.constexpr(tl.float64 if INTERPRET.value else tl.float32)


@triton.jit
def dot(a, b, acc, HAS_FLOAT8: tl.constexpr = False, IS_FAST: tl.constexpr = False):
    """acc + a @ b in the type of acc, with b converted to the type of a.

    HAS_FLOAT8: one of them is float8. Hopper adds products of float8 with 14 bits of precision,
    and at most 128 of them before they are added to acc.

    IS_FAST: it may add any number of them so.
    """
    if INTERPRET:
        if HAS_FLOAT8:
            a, b = as_float64(a), as_float64(b)
        else:
            a, b = a.to(tl.float32).to(tl.float64), b.to(tl.float32).to(tl.float64)
        return tl.dot(a, b, acc.to(tl.float64), out_dtype=tl.float64).to(acc.dtype)
    elif not HAS_FLOAT8 or not a.dtype.is_fp8():
        return tl.dot(a, b.to(a.dtype), acc, input_precision="ieee")
    elif IS_FAST:
        return tl.dot(a, b, acc)
    else:
        return tl.dot(a, b, acc, max_num_imprecise_acc=min(a.shape[1], 128))


@triton.jit
def scaled_dot(a, b, acc, a_scales, b_scales, block):
    """acc + a @ b for a block of K in float8, which has a scale for each row of a and for each
    column of b. The pointers are to the scales of the first block.
    """
    product = dot(a, b, tl.zeros(acc.shape, acc.dtype), True, True)
    return acc + product * tl.load(a_scales + block) * tl.load(b_scales + block)


@triton.jit
def as_float64(x):
    """x in the interpreter, which does not know every float8."""
    if x.dtype == tl.float8e4nv:
        return from_f8e4m3(x).to(tl.float64)
    elif x.dtype == tl.float8e5:
        return from_f8e5m2(x).to(tl.float64)
    else:
        return x.to(tl.float32).to(tl.float64)


@triton.jit
def bound(n):
    """An extent that is known at run time, as a bound of a range: the interpreter's is an array."""
    if INTERPRET:
        return n.handle.data.item()
    else:
        return n


@triton.jit
def to_bf16(x):
    """x rounded to the nearest bfloat16, ties to even."""
    if INTERPRET:
        bits = x.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet_nan = (bits >> 16) | 0x40
        return tl.where(x == x, rounded, quiet_nan).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(tl.bfloat16)


@triton.jit
def f8_bits(x, MANTISSA: tl.constexpr, BIAS: tl.constexpr, LARGEST: tl.constexpr):
    """x rounded to the nearest float8, ties to even, as its bits: at most LARGEST, or NaN."""
    bits = x.to(tl.uint32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    is_normal = magnitude >= (128 - BIAS) << 23
    dropped = 23 - MANTISSA
    half = (1 << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1)
    normal = ((magnitude + half) >> dropped) - ((127 - BIAS) << MANTISSA)
    small = tl.where(is_normal, 0.0, tl.abs(x)) * (1 << (BIAS - 1 + MANTISSA))
    rounded = tl.where(is_normal, normal, round_even(small).to(tl.uint32))
    code = tl.where(x == x, tl.minimum(rounded, LARGEST), 0x7F)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def to_f8e4m3(x):
    """x rounded to the nearest float8_e4m3fn, which has no infinity: at most 448."""
    if INTERPRET:
        return f8_bits(x, 3, 7, 0x7E).to(tl.float8e4nv, bitcast=True)
    else:
        return x.to(tl.float8e4nv)


@triton.jit
def from_f8e4m3(x):
    """x as a float32; the interpreter takes NaN for 480."""
    if INTERPRET:
        is_nan = (x.to(tl.uint8, bitcast=True) & 0x7F) == 0x7F
        return tl.where(is_nan, float("nan"), x.to(tl.float32))
    else:
        return x.to(tl.float32)


@triton.jit
def from_f8e5m2(x):
    """x as a float32: the upper half of a float16; the interpreter knows no infinity and NaN."""
    if INTERPRET:
        bits = x.to(tl.uint8, bitcast=True).to(tl.uint16) << 8
        return bits.to(tl.float16, bitcast=True).to(tl.float32)
    else:
        return x.to(tl.float32)


@triton.jit
def to_f8e5m2(x):
    """x rounded to the nearest float8_e5m2; the conversion of a GPU has 57344 for infinity."""
    if INTERPRET:
        return f8_bits(x, 2, 15, 0x7C).to(tl.float8e5, bitcast=True)
    else:
        bits = x.to(tl.float8e5).to(tl.uint8, bitcast=True)
        is_infinite = tl.abs(x) >= 61440.0
        return tl.where(is_infinite, (bits & 0x80) | 0x7C, bits).to(tl.float8e5, bitcast=True)


@triton.jit
def tanh(x):
    """Hyperbolic tangent to about 2 ulp: odd polynomial near 0 (Cephes), exponential elsewhere."""
    square = x * x
    series = -5.70498872745e-3 * square + 2.06390887954e-2
    series = series * square - 5.37397155531e-2
    series = series * square + 1.33314422036e-1
    series = series * square - 3.33332819422e-1
    small = x + x * square * series
    magnitude = tl.abs(x)
    large = 1.0 - 2.0 / (tl.exp(2.0 * magnitude) + 1.0)
    return tl.where(magnitude < 0.625, small, tl.where(x < 0.0, -large, large))


@triton.jit
def floor_quotient(a, b):
    """The largest integer that is not above the quotient of two integers."""
    quotient = a // b
    return tl.where((quotient * b != a) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def floor_division(a, b):
    """floor(a / b) and the rest of a, exactly where the quotient is below 2^20."""
    quotient = tl.floor(a / b)
    sign = tl.where(b > 0.0, 1.0, tl.where(b < 0.0, -1.0, 0.0))
    # The rounded quotient may be off by one to either side.
    rest = multiply_add(-quotient, b, a)
    below = multiply_add(1.0 - quotient, b, a)
    above = multiply_add(-1.0 - quotient, b, a)
    is_high, is_low = rest * sign < 0.0, above * sign >= 0.0
    rest = tl.where(is_high, below, tl.where(is_low, above, rest))
    quotient += tl.where(is_high, -1.0, tl.where(is_low, 1.0, 0.0))
    is_infinite, is_below = tl.abs(b) == float("inf"), a * sign < 0.0
    rest = tl.where(is_infinite, tl.where(is_below, b, a), rest)
    quotient = tl.where(is_infinite, tl.where(is_below, -1.0, 0.0), quotient)
    # NaN where a is infinite.
    return tl.where(b == 0.0, a / b, quotient + (a - a)), rest + (a - a)


@triton.jit
def floor_divide(a, b):
    """The largest whole number that is not above a / b."""
    quotient, _ = floor_division(a, b)
    return quotient


@triton.jit
def remainder(a, b):
    """a - floor(a / b) * b, which has the sign of b."""
    _, rest = floor_division(a, b)
    return rest


@triton.jit
def multiply_add(a, b, c):
    """a * b + c, rounded once; the interpreter rounds the product as well, so it goes through
    float64."""
    if INTERPRET:
        product = tl.cast(a, tl.float64) * tl.cast(b, tl.float64)
        return (product + tl.cast(c, tl.float64)).to(tl.float32)
    else:
        return tl.fma(a, b, c)


@triton.jit
def round_even(x):
    """The nearest whole number, the even one at a tie."""
    below = tl.floor(x)
    rest = x - below
    is_odd = below - 2.0 * tl.floor(below * 0.5) != 0.0
    return tl.where((rest > 0.5) | ((rest == 0.5) & is_odd), below + 1.0, below)


@triton.jit
def trunc(x):
    """The whole number toward 0."""
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))


@triton.jit
def power(x, EXPONENT: tl.constexpr):
    """x to a constant power, through a float64: in it an error of the logarithm is small enough."""
    size = tl.exp2(tl.log2(tl.abs(x).to(tl.float64)) * EXPONENT).to(tl.float32)
    if EXPONENT % 1 != 0:
        return tl.where((x < 0.0) & (x > float("-inf")), float("nan"), size)
    elif EXPONENT % 2 != 0:
        return tl.where(x.to(tl.int32, bitcast=True) < 0, -size, size)
    else:
        return size


@triton.jit
def atan2(a, b):
    """The angle of the point (b, a), to about 2 ulp: odd polynomial for angles up to 45 degrees."""
    rise, run = tl.abs(a), tl.abs(b)
    smaller, larger = minimum(rise, run), maximum(rise, run)
    slope = tl.where(smaller == larger, 1.0, smaller / larger)
    slope = tl.where(larger == 0.0, 0.0, slope)
    square = slope * slope
    series = 2.920692433e-3 * square - 1.636792880e-2
    series = series * square + 4.321186209e-2
    series = series * square - 7.552214391e-2
    series = series * square + 1.066600469e-1
    series = series * square - 1.421105532e-1
    series = series * square + 1.999377284e-1
    series = series * square - 3.333315274e-1
    angle = slope + slope * square * series
    angle = tl.where(rise > run, 1.5707963267948966 - angle, angle)
    angle = tl.where(b.to(tl.int32, bitcast=True) < 0, 3.141592653589793 - angle, angle)
    return tl.where(a.to(tl.int32, bitcast=True) < 0, -angle, angle)


@triton.jit
def log1p(x):
    """log(1 + x) to a few ulp: the logarithm of the rounded sum, and what the rounding lost."""
    total = 1.0 + x
    lost = tl.where(tl.abs(x) < 1.0, x - (total - 1.0), 0.0)
    return tl.log(total) + lost


@triton.jit
def expm1(x):
    """exp(x) - 1 to a few ulp: its power series near 0, the difference elsewhere."""
    series = x * 2.755731922e-7 + 2.755731922e-6
    series = series * x + 2.480158730e-5
    series = series * x + 1.984126984e-4
    series = series * x + 1.388888889e-3
    series = series * x + 8.333333333e-3
    series = series * x + 4.166666667e-2
    series = series * x + 1.666666667e-1
    series = series * x + 0.5
    return tl.where(tl.abs(x) < 1.0, x * (series * x + 1.0), tl.exp(x) - 1.0)


@triton.jit
def maximum(a, b):
    """The larger of two elements; NaN wins."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    """The smaller of two elements; NaN wins."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def checked_index(index, EXTENT, IGNORED: tl.constexpr):
    """index, which is a column or IGNORED; on a GPU another one ends the program with an error.

    It has an effect in kernels with `debug=True` only. On a CPU the host has checked it.
    """
    is_column = (index >= 0) & (index < EXTENT)
    tl.device_assert(is_column | (index == IGNORED), "an index is out of range")
    return index


@triton.jit
def run_number(index, COUNT: tl.constexpr):
    """index, one of COUNT runs, which count from the last one where it is negative."""
    return checked_index(tl.where(index < 0, index + COUNT, index), COUNT, 0)


@triton.jit
def sum_rows(x):
    """The sum of each column; the interpreter would add row after row in float32."""
    if INTERPRET:
        return tl.sum(x.to(tl.float64), 0).to(tl.float32)
    else:
        return tl.sum(x, 0)


@triton.jit
def store_sample_sums(pointers, mask, x, rows, tile, M, LENGTH, TILES, N: tl.constexpr):
    """Store the sum of each column over the rows of each sample, of LENGTH rows, in a tile.

    A sample has TILES sums of a column, one for each tile that has rows of it. It may have one tile
    less: the last one stores 0 for that.
    """
    BLOCK_M: tl.constexpr = rows.shape[0]
    first = tile * BLOCK_M
    last = tl.minimum(first + BLOCK_M, M) - 1
    sample = first // LENGTH
    while sample * LENGTH <= last:
        start = sample * LENGTH
        number = tile - start // BLOCK_M
        place = (number + sample * TILES).to(tl.int64) * N
        is_of_sample = (rows >= start) & (rows < start + LENGTH)
        total = sum_rows(tl.where(is_of_sample[:, None], x, 0.0))
        tl.store(pointers + place, total, mask=mask)
        if (last + 1 >= start + LENGTH) & (number + 1 < TILES):
            tl.store(pointers + place + N, tl.zeros_like(total), mask=mask)
        sample += 1


@triton.jit
def reduce_max(x, axis: tl.constexpr):
    """Maximum over an axis; NaN wins."""
    if INTERPRET:
        numbers = tl.max(tl.where(x == x, x, float("-inf")), axis)
        return tl.where(tl.sum((x != x).to(tl.int32), axis) > 0, float("nan"), numbers)
    else:
        return tl.reduce(x, axis, maximum)


@triton.jit
def reduce_lse(x, axis: tl.constexpr):
    """log(sum(exp(x))) over an axis: -inf where all are -inf, NaN where one is NaN or +inf."""
    largest = tl.max(x, axis)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    return shift + tl.log(tl.sum(tl.exp(x - tl.expand_dims(shift, axis)), axis))


@triton.jit
def with_exponentials(largest, total, x):
    """The largest element of a row, and the sum of exp(element - largest), with those of x."""
    most = tl.maximum(largest, tl.max(x, 1))
    shift = tl.where(most == float("-inf"), 0.0, most)
    more = tl.sum(tl.exp(x - tl.expand_dims(shift, 1)), 1)
    return most, total * tl.exp(largest - shift) + more


@triton.jit
def wide_logarithm(largest, total):
    """log(total · exp(largest)) in float64."""
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    return shift.to(tl.float64) + tl.log(total).to(tl.float64)


@triton.jit
def wide_lse(x, axis: tl.constexpr):
    """reduce_lse in float64: the largest element, and the logarithm in float32."""
    largest = tl.max(x, axis)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    rest = tl.log(tl.sum(tl.exp(x - tl.expand_dims(shift, axis)), axis))
    return shift.to(tl.float64) + rest.to(tl.float64)


@triton.jit
def wide_tree_lse(x, axis: tl.constexpr):
    """wide_lse, summed as `tree_sum` does."""
    largest = tl.max(x, axis)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    rest = tl.log(tree_sum(tl.exp(x - tl.expand_dims(shift, axis)), axis))
    return shift.to(tl.float64) + rest.to(tl.float64)


@triton.jit
def lse_of_two(a, b):
    """log(exp(a) + exp(b)): -inf where both are -inf, NaN where one is NaN or +inf."""
    largest = tl.maximum(a, b)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    return shift + tl.log(tl.exp(a - shift) + tl.exp(b - shift))


@triton.jit
def rest_of(wide, rounded):
    """The rest of a float64 that a float32 is rounded from; 0 of an infinite one."""
    is_finite = tl.abs(rounded) < float("inf")
    wide, rounded = tl.where(is_finite, wide, 0.0), tl.where(is_finite, rounded, 0.0)
    return (wide - rounded.to(tl.float64)).to(tl.float32)


@triton.jit
def column_subtile(x, subtile: tl.constexpr, SUBTILES: tl.constexpr):
    """One of SUBTILES equal ranges of the columns of x: a choice of registers only."""
    if SUBTILES == 1:
        return x
    else:
        left, right = column_halves(x)
        if subtile < SUBTILES // 2:
            return column_subtile(left, subtile, SUBTILES // 2)
        else:
            return column_subtile(right, subtile - SUBTILES // 2, SUBTILES // 2)


@triton.jit
def column_halves(x):
    """The first and the second half of the columns: a choice of registers only."""
    return tl.split(tl.permute(tl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1)))


@triton.jit
def column_neighbours(x):
    """The even and the odd columns."""
    return tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))


@triton.jit
def tree_sum(x, axis: tl.constexpr):
    """Sum over an axis of a tile in a stated order: its halves are added until one is left."""
    if axis == 0:
        return tree_sum(tl.trans(x), 1)
    elif x.shape[1] == 1:
        return tl.reshape(x, (x.shape[0],))
    else:
        left, right = column_halves(x)
        return tree_sum(left + right, 1)


@triton.jit
def tree_lse(x, axis: tl.constexpr):
    """log(sum(exp(x))) over an axis of a tile, summed as `tree_sum` does."""
    largest = tl.max(x, axis)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    return shift + tl.log(tree_sum(tl.exp(x - tl.expand_dims(shift, axis)), axis))


@triton.jit
def group_tree_add(x, GROUP: tl.constexpr):
    """Sum over each group of GROUP columns in a stated order, for every column of the group."""
    groups = tl.reshape(x, (x.shape[0] * (x.shape[1] // GROUP), GROUP))
    combined = tl.expand_dims(tree_sum(groups, 1), 1)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_tree_lse(x, GROUP: tl.constexpr):
    """Logsumexp over each group of GROUP columns in a stated order, for every column of it."""
    groups = tl.reshape(x, (x.shape[0] * (x.shape[1] // GROUP), GROUP))
    combined = tl.expand_dims(tree_lse(groups, 1), 1)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_add(x, GROUP: tl.constexpr):
    """Sum over each group of GROUP neighbouring columns, for every column of the group."""
    groups = tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP))
    combined = tl.expand_dims(tl.sum(groups, 2), 2)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_max(x, GROUP: tl.constexpr):
    """Maximum over each group of GROUP neighbouring columns, for every column of the group."""
    groups = tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP))
    combined = tl.expand_dims(reduce_max(groups, 2), 2)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def group_element(x, GROUP: tl.constexpr):
    """The element of each group of GROUP neighbouring columns, which is the same on all of them."""
    return reduce_max(tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP)), 2)


@triton.jit
def group_lse(x, GROUP: tl.constexpr):
    """Logsumexp over each group of GROUP neighbouring columns, for every column of the group."""
    groups = tl.reshape(x, (x.shape[0], x.shape[1] // GROUP, GROUP))
    combined = tl.expand_dims(reduce_lse(groups, 2), 2)
    return tl.reshape(tl.broadcast_to(combined, groups.shape), x.shape)


@triton.jit
def float_order(x):
    """int32 in the order of float32: that of its bits, which fall for negative numbers. NaN has the
    largest."""
    bits = x.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return tl.where(x != x, 0x7FFFFFFF, order)


@triton.jit
def float_at(order):
    """The float32 with a `float_order`."""
    bits = tl.where(order < 0, order ^ 0x7FFFFFFF, order)
    return bits.to(tl.float32, bitcast=True)
