# pyright: basic, reportGeneralTypeIssues=false
# pyright: reportArgumentType=false, reportOperatorIssue=false
"""Device functions that emitted kernels call.

They are portable: no libdevice, no inline assembly. Triton's CPU interpreter computes bfloat16
arithmetic wrongly and truncates float32 to bfloat16, so `dot` and `to_bf16` have a second
implementation for it. Where no order of summation is specified, the interpreter's sums over K are
computed in float64 and rounded once: their accuracy does not depend on the processor or its BLAS.
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.header import INTERPRET

# The accumulator type of a tile: float32, or float64 in the interpreter, rounded at the end.
SUM_TYPE: tl.constexpr = tl.constexpr(tl.float64 if INTERPRET.value else tl.float32)

# log2(e): a GPU has an instruction for exp2, but not for exp.
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def dot(a, b, acc, HAS_FLOAT8: tl.constexpr = False, IS_FAST: tl.constexpr = False):
    """Return acc + a @ b in the type of acc; b is converted to the type of a.

    HAS_FLOAT8: whether an operand is float8. Hopper's tensor cores accumulate float8 products with
    14 bits of precision, so at most 128 products are summed before they are added to acc.

    IS_FAST: whether any number of float8 products may be accumulated with that precision.
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
def leading(x):
    """Return float32 x without the last 16 bits of its mantissa, as bfloat16 has it."""
    return (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def parts(x):
    """Return three tensors of bfloat16 whose sum is x, the largest first."""
    first = leading(x)
    second = leading(x - first)
    third = x - first - second
    if INTERPRET:
        return first, second, third
    else:
        return first.to(tl.bfloat16), second.to(tl.bfloat16), third.to(tl.bfloat16)


@triton.jit
def dot_in_parts(a, b, acc):
    """Return acc + a @ b of float32, by tensor cores: the products of `parts` of a and b without
    the three smallest, which are less than 2**-21 of a * b. The largest one is added last, and the
    sum is added to acc, because tensor cores truncate what they add up.
    """
    a0, a1, a2 = parts(a)
    b0, b1, b2 = parts(b)
    zeros = tl.zeros(acc.shape, acc.dtype)
    small = dot(a0, b1, dot(a1, b0, dot(a1, b1, dot(a0, b2, dot(a2, b0, zeros)))))
    # An infinite element has a NaN in its other parts, and times a part that is zero.
    if INTERPRET:
        small = tl.where(small == small, small, 0.0)
    else:
        # Of a number and a NaN, GPUs return the number: one instruction instead of two.
        small = tl.maximum(small, -3.4028234663852886e38)
    return acc + dot(a0, b0, small)


@triton.jit
def scaled_dot(a, b, acc, a_scales, b_scales, block):
    """Return acc + a @ b for one block of K of float8 operands with block scales: one scale for
    each row of a and one for each column of b. `a_scales` and `b_scales` are pointers to the scales
    of block 0.
    """
    product = dot(a, b, tl.zeros(acc.shape, acc.dtype), True, True)
    return acc + product * tl.load(a_scales + block) * tl.load(b_scales + block)


@triton.jit
def as_float64(x):
    """Convert x to float64, in the interpreter only. The interpreter converts some float8 values
    wrongly, so float8 types are converted separately.
    """
    if x.dtype == tl.float8e4nv:
        return from_f8e4m3(x).to(tl.float64)
    elif x.dtype == tl.float8e5:
        return from_f8e5m2(x).to(tl.float64)
    else:
        return x.to(tl.float32).to(tl.float64)


@triton.jit
def bound(n):
    """Return n as a loop bound: the interpreter's n is an array, which `range` does not accept."""
    if INTERPRET:
        return n.handle.data.item()
    else:
        return n


@triton.jit
def to_bf16(x):
    """Round x to the nearest bfloat16, ties to even."""
    if INTERPRET:
        bits = x.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet_nan = (bits >> 16) | 0x40
        return tl.where(x == x, rounded, quiet_nan).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(tl.bfloat16)


@triton.jit
def narrowed(x, type: tl.constexpr):
    """Round x, float32, to a type."""
    if type == tl.bfloat16:
        return to_bf16(x)
    else:
        return x.to(type)


@triton.jit
def f8_bits(x, MANTISSA: tl.constexpr, BIAS: tl.constexpr, LARGEST: tl.constexpr):
    """Return the bits of x rounded to the nearest float8, ties to even.

    The format has MANTISSA mantissa bits and exponent bias BIAS. Magnitudes above LARGEST, given as
    bits, become LARGEST. NaN becomes 0x7F.
    """
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
    """Round x to the nearest float8_e4m3fn. The type has no infinity: larger values become 448."""
    if INTERPRET:
        return f8_bits(x, 3, 7, 0x7E).to(tl.float8e4nv, bitcast=True)
    else:
        return x.to(tl.float8e4nv)


@triton.jit
def from_f8e4m3(x):
    """Convert x from float8_e4m3fn to float32. The interpreter would convert NaN to 480."""
    if INTERPRET:
        is_nan = (x.to(tl.uint8, bitcast=True) & 0x7F) == 0x7F
        return tl.where(is_nan, float("nan"), x.to(tl.float32))
    else:
        return x.to(tl.float32)


@triton.jit
def from_f8e5m2(x):
    """Convert x from float8_e5m2, the upper half of a float16, to float32. The interpreter would
    convert infinity and NaN to finite numbers.
    """
    if INTERPRET:
        bits = x.to(tl.uint8, bitcast=True).to(tl.uint16) << 8
        return bits.to(tl.float16, bitcast=True).to(tl.float32)
    else:
        return x.to(tl.float32)


@triton.jit
def to_f8e5m2(x):
    """Round x to the nearest float8_e5m2; infinity is separate: the GPU saturates to 57344."""
    if INTERPRET:
        return f8_bits(x, 2, 15, 0x7C).to(tl.float8e5, bitcast=True)
    else:
        bits = x.to(tl.float8e5).to(tl.uint8, bitcast=True)
        is_infinite = tl.abs(x) >= 61440.0
        return tl.where(is_infinite, (bits & 0x80) | 0x7C, bits).to(tl.float8e5, bitcast=True)


@triton.jit
def tanh(x):
    """Return tanh(x), to about 2 ulp: an odd polynomial near 0 (Cephes), else the exponential."""
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
def normal_cdf(x):
    """Return the probability that a standard normal number is below x, to 1e-7. A polynomial in |x|
    approximates the logarithm, to the base 2, of the probability that it is above |x|.
    """
    magnitude = tl.abs(x)
    series = -2.05173703e-6 * magnitude + 3.00832581e-5
    series = series * magnitude - 1.42533962e-4
    series = series * magnitude - 2.40736433e-4
    series = series * magnitude + 7.19606332e-3
    series = series * magnitude - 5.25848625e-2
    series = series * magnitude - 4.59180733e-1
    series = series * magnitude - 1.15110797
    tail = tl.exp2(series * magnitude - 1.0)
    return tl.where(x < 0.0, tail, 1.0 - tail)


@triton.jit
def softplus(x):
    """Return log(1 + exp(x)), to a few ulp. For y = exp(-|x|) and s = y / (2 + y), log(1 + y) is
    2 atanh(s), a polynomial in the square of s, which is 1/9 at most.
    """
    y = tl.exp(-tl.abs(x))
    s = y / (2.0 + y)
    square = s * s
    series = 0.281569586 * square + 0.279778937
    series = series * square + 0.400224806
    series = series * square + 0.666664139
    return tl.maximum(x, 0.0) + s * (series * square + 2.0)


@triton.jit
def floor_quotient(a, b):
    """Return floor(a / b) of integers. Triton's `//` rounds toward 0."""
    quotient = a // b
    return tl.where((quotient * b != a) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def floor_division(a, b):
    """Return floor(a / b) and a - floor(a / b) * b of float32; exact for quotients below 2^20."""
    quotient = tl.floor(a / b)
    sign = tl.where(b > 0.0, 1.0, tl.where(b < 0.0, -1.0, 0.0))
    # The rounded quotient may be too large or too small by 1.
    rest = multiply_add(-quotient, b, a)
    below = multiply_add(1.0 - quotient, b, a)
    above = multiply_add(-1.0 - quotient, b, a)
    is_high, is_low = rest * sign < 0.0, above * sign >= 0.0
    rest = tl.where(is_high, below, tl.where(is_low, above, rest))
    quotient += tl.where(is_high, -1.0, tl.where(is_low, 1.0, 0.0))
    is_infinite, is_below = tl.abs(b) == float("inf"), a * sign < 0.0
    rest = tl.where(is_infinite, tl.where(is_below, b, a), rest)
    quotient = tl.where(is_infinite, tl.where(is_below, -1.0, 0.0), quotient)
    # a - a is 0, or NaN where a is infinite or NaN.
    return tl.where(b == 0.0, a / b, quotient + (a - a)), rest + (a - a)


@triton.jit
def floor_divide(a, b):
    """Return floor(a / b) of float32 values."""
    quotient, _ = floor_division(a, b)
    return quotient


@triton.jit
def remainder(a, b):
    """Return a - floor(a / b) * b, which has the sign of b."""
    _, rest = floor_division(a, b)
    return rest


@triton.jit
def multiply_add(a, b, c):
    """Return a * b + c, rounded once: in float64 in the interpreter, which would round twice."""
    if INTERPRET:
        product = tl.cast(a, tl.float64) * tl.cast(b, tl.float64)
        return (product + tl.cast(c, tl.float64)).to(tl.float32)
    else:
        return tl.fma(a, b, c)


@triton.jit
def round_even(x):
    """Round x to the nearest integer, ties to even: as sums with 2^23 are, if x is smaller."""
    size = tl.abs(x)
    nearest = (size + 8388608.0) - 8388608.0
    return tl.where(size < 8388608.0, tl.where(x < 0.0, -1.0 * nearest, nearest), x)


@triton.jit
def trunc(x):
    """Round x toward 0 to an integer."""
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))


@triton.jit
def power(x, EXPONENT: tl.constexpr):
    """Return x to a constant power. The logarithm is computed in float64, so that its error, which
    the exponent multiplies, stays below the rounding error of float32.
    """
    size = tl.exp2(tl.log2(tl.abs(x).to(tl.float64)) * EXPONENT).to(tl.float32)
    if EXPONENT % 1 != 0:
        return tl.where((x < 0.0) & (x > float("-inf")), float("nan"), size)
    elif EXPONENT % 2 != 0:
        return tl.where(x.to(tl.int32, bitcast=True) < 0, -size, size)
    else:
        return size


@triton.jit
def atan2(a, b):
    """Return the angle of the point (b, a), to about 2 ulp: an odd polynomial for angles up to 45
    degrees, the others by symmetry.
    """
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
    """Return log(1 + x), to a few ulp: the log of the rounded sum, plus its rounding error."""
    total = 1.0 + x
    lost = tl.where(tl.abs(x) < 1.0, x - (total - 1.0), 0.0)
    return tl.log(total) + lost


@triton.jit
def expm1(x):
    """Return exp(x) - 1, to a few ulp: its Taylor series for |x| < 1, the difference elsewhere."""
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
    """Return the larger of two elements, or NaN if one is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    """Return the smaller of two elements, or NaN if one is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def checked_index(index, EXTENT, IGNORED: tl.constexpr):
    """Return index, after asserting that it is in [0, EXTENT) or equal to IGNORED.

    The assertion exists in kernels compiled with `debug=True` only. On a CPU the host has checked
    the index.
    """
    is_column = (index >= 0) & (index < EXTENT)
    tl.device_assert(is_column | (index == IGNORED), "an index is out of range")
    return index


@triton.jit
def run_number(index, COUNT: tl.constexpr):
    """Return index as a number in [0, COUNT), as is asserted. Negative ones count from the end."""
    return checked_index(tl.where(index < 0, index + COUNT, index), COUNT, 0)


@triton.jit
def float_order(x):
    """Return int32 keys that are ordered as the float32 values x. The bits of negative numbers are
    inverted, except the sign; NaN has the largest key, and -0 the key of 0, which it equals.
    """
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return tl.where(x != x, 0x7FFFFFFF, order)


@triton.jit
def float_at(order):
    """Return the float32 value with a key of `float_order`."""
    bits = tl.where(order < 0, order ^ 0x7FFFFFFF, order)
    return bits.to(tl.float32, bitcast=True)
