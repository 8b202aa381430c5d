"""Float constants of regions: the value rounded to float32, in which kernels compute, and the exact
value.

    arith.constant {gemm.exact = 1.000000e-01 : f64} 1.000000e-01 : f32

A float32 constant cannot represent every number of a program. Levels of the IR are compared in
float64, which needs the exact number.
"""

from ctypes import c_float
from math import isfinite

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32, f64
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

EXACT = "gemm.exact"
"""The attribute with the number that a constant was rounded from."""


def float_constant(number: float) -> arith.ConstantOp:
    """Return the number in f32, infinite if it is out of range, as in PyTorch."""
    rounded = c_float(number).value
    op = arith.ConstantOp(FloatAttr(rounded, f32))
    if isfinite(number) and rounded != number:
        op.attributes[EXACT] = FloatAttr(number, f64)
    return op


def exact_number(op: arith.ConstantOp) -> float:
    """Return the value of a float constant without rounding."""
    attr = op.attributes.get(EXACT, op.value)
    assert isinstance(attr, FloatAttr)
    return attr.value.data


def verify_exact_number(op: Operation) -> None:
    """Raise VerifyException for an exact value that does not round to the constant."""
    exact = op.attributes.get(EXACT)
    if exact is None:
        return
    value = op.value if isinstance(op, arith.ConstantOp) else None
    if not isinstance(value, FloatAttr) or value.type != f32:
        raise VerifyException(f"{op.name} has {EXACT}, expected it on constants of type f32 only")
    if not isinstance(exact, FloatAttr) or exact.type != f64:
        raise VerifyException(f"{EXACT} is {exact}, expected a number of type f64")
    if c_float(exact.value.data).value != value.value.data:
        raise VerifyException(f"{EXACT} is {exact}, expected a number that is {value} in float32")
