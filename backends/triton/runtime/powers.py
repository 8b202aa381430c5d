# pyright: basic, reportGeneralTypeIssues=false
"""The power function for exponents that are tensors."""

import triton
import triton.language as tl


@triton.jit
def power_of(a, b):
    """Return a to the power b, with the special cases of C's `pow`. The logarithm is computed in
    float64, so that its error, which the exponent multiplies, stays below the rounding error of
    float32.
    """
    # Convert a scalar operand to a tensor.
    a, b = tl.where(b == b, a, a), tl.where(a == a, b, b)
    size = tl.exp2(tl.log2(tl.abs(a).to(tl.float64)) * b.to(tl.float64)).to(tl.float32)
    half = tl.floor(b * 0.5)
    is_odd = (tl.abs(b) < 16777216.0) & (b - 2.0 * half == 1.0)
    size = tl.where(is_odd & (a.to(tl.int32, bitcast=True) < 0), -size, size)
    is_real = (a >= 0.0) | (a == float("-inf")) | (tl.floor(b) == b)
    is_one = (b == 0.0) | (a == 1.0) | ((a == -1.0) & (tl.abs(b) == float("inf")))
    return tl.where(is_one, 1.0, tl.where(is_real, size, float("nan")))
