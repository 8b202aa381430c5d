"""Elementwise operators with NumPy broadcasting.

A new operator is a class here; its derivative is in `passes/gradient/derivatives/elementwise.py`.
The first argument of `elementwise` names the operator of PyTorch that computes it: raising,
the reference backend and float64 follow. The second is the operator of `arith` or `math` that
computes an element: fusion and Triton follow. What needs several of them has a formula, or scalar
code in `dialects/gemm/scalar_code.py`.
"""

from abc import ABC
from math import isfinite, sqrt
from typing import Any, ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, StringAttr, i1
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.arithmetic import (
    AddOp as AddOp,
    DivOp as DivOp,
    MulOp as MulOp,
    NegOp as NegOp,
    SubOp as SubOp,
    Term,
)
from coda_ir.dialects.coda.elementwise_op import (
    ELEMENTWISE_OPS,
    BinaryOp,
    Elements,
    ElementwiseOp,
    FunctionOfTwo,
    Predicate,
    RealFunction,
    Selection,
    UnaryOp,
    elementwise,
)
from coda_ir.dialects.coda.shapes import element_type_of, expect_one_of

SHARED_TIES = "coda.shared_ties"
"""The attribute of an extremum that gives half of its gradient to each of two equal elements, as
`torch.maximum` does, also where one operand is a number. Without it a number is a bound, as in
`torch.clamp`: the other operand has all of the gradient where it is on the bound.
"""


@elementwise("maximum.default", arith.MaximumfOp, elements=Elements.NUMBERS, zero_at_zero=True)
class MaximumOp(FunctionOfTwo):
    """Larger of two elements; NaN propagates, as in `torch.maximum`. See `SHARED_TIES` for ties."""


@elementwise("minimum.default", arith.MinimumfOp, elements=Elements.NUMBERS, zero_at_zero=True)
class MinimumOp(FunctionOfTwo):
    """Smaller of two elements; NaN propagates, as in `torch.minimum`. See also `SHARED_TIES`."""


@elementwise(
    "remainder.Tensor", aliases=("remainder.Scalar",), elements=Elements.NUMBERS, jumps=True
)
class RemainderOp(FunctionOfTwo):
    """a − floor(a / b) · b, which has the sign of b, as `torch.remainder` and Python's `%`.

    Of floats it is exact where the quotient is below 2^20. No integer b may be 0.
    """


@elementwise(
    "div.Tensor_mode",
    options={"rounding_mode": "floor"},
    aliases=(*("div.Scalar_mode", "floor_divide.default", "floor_divide.Scalar"),),
    elements=Elements.NUMBERS,
    jumps=True,
)
class FloorDivideOp(FunctionOfTwo):
    """Largest whole number that is not above a / b, as `torch.floor_divide` and Python's `//`.

    Of floats it is exact below 2^20. No integer b may be 0.
    """


@elementwise("atan2.default", math.Atan2Op, aliases=("arctan2.default",), jumps=True)
class Atan2Op(FunctionOfTwo):
    """Angle between the first axis and the point (b, a), from −π to π."""


@elementwise("pow.Tensor_Tensor", math.PowFOp, aliases=("pow.Scalar",), jumps=True)
class PowerOp(FunctionOfTwo):
    """a to the power b, 1 where b is 0: NaN where a is below 0 and b is not whole."""


@elementwise("abs.default", math.AbsFOp, elements=Elements.NUMBERS, zero_at_zero=True)
class AbsOp(RealFunction):
    """Absolute value."""


@elementwise("exp.default", math.ExpOp, costly=True)
class ExpOp(RealFunction):
    """Natural exponential."""


@elementwise("log.default", math.LogOp, of_positive=True)
class LogOp(RealFunction):
    """Natural logarithm."""


@elementwise("log2.default", math.Log2Op, of_positive=True)
class Log2Op(RealFunction):
    """Logarithm to the base 2."""


@elementwise("sqrt.default", math.SqrtOp, of_positive=True, zero_at_zero=True)
class SqrtOp(RealFunction):
    """Square root."""


@elementwise("rsqrt.default", math.RsqrtOp, of_positive=True)
class RsqrtOp(RealFunction):
    """Reciprocal square root."""


@elementwise("silu.default", gates=True, zero_at_zero=True, costly=True)
class SiluOp(RealFunction):
    """x * sigmoid(x), also called swish (arXiv 1702.03118)."""


def _gelu(x: Term[Any]) -> Term[Any]:
    return x / 2.0 * ((x * sqrt(0.5)).of(ErfOp) + 1.0)


@elementwise(
    "gelu.default",
    options={"approximate": "none"},
    formula=_gelu,
    gates=True,
    zero_at_zero=True,
    costly=True,
)
class GeluOp(RealFunction):
    """Gaussian error linear unit by the error function (arXiv 1606.08415)."""


@elementwise(
    "gelu.default",
    options={"approximate": "tanh"},
    gates=True,
    zero_at_zero=True,
    costly=True,
)
class GeluTanhOp(RealFunction):
    """Gaussian error linear unit, approximated by a hyperbolic tangent (arXiv 1606.08415)."""


@elementwise("relu.default", gates=True, zero_at_zero=True)
class ReluOp(RealFunction):
    """max(x, 0); NaN propagates."""


def _squared_relu(x: Term[Any]) -> Term[Any]:
    positive = x.of(ReluOp)
    return positive * positive


@elementwise(formula=_squared_relu, gates=True, zero_at_zero=True)
class Relu2Op(RealFunction):
    """Squared ReLU, max(x, 0)^2 (arXiv 2109.08668)."""


@elementwise("sigmoid.default", gates=True, costly=True)
class SigmoidOp(RealFunction):
    """Logistic function 1 / (1 + exp(-x))."""


@elementwise("tanh.default", math.TanhOp, gates=True, zero_at_zero=True, costly=True)
class TanhOp(RealFunction):
    """Hyperbolic tangent."""


def _softcap(x: Term[Any], cap: float) -> Term[Any]:
    return (x / cap).of(TanhOp) * cap


@elementwise(numbers={"cap": None}, formula=_softcap, costly=True)
class SoftcapOp(RealFunction):
    """cap * tanh(x / cap), the logit soft cap of Gemma 2 (arXiv 2408.00118)."""

    cap = prop_def(FloatAttr)

    def check(self) -> None:
        super().check()
        if not self.cap.value.data > 0:
            raise VerifyException(
                f"property cap is {self.cap.value.data}, expected a positive number"
            )


@elementwise("sin.default", math.SinOp)
class SinOp(RealFunction):
    """Sine of an angle in radians."""


@elementwise("cos.default", math.CosOp)
class CosOp(RealFunction):
    """Cosine of an angle in radians."""


@elementwise("erf.default", math.ErfOp)
class ErfOp(RealFunction):
    """Error function."""


@elementwise("log1p.default", math.Log1pOp, of_positive=True)
class Log1pOp(RealFunction):
    """log(1 + x), accurate near 0."""


@elementwise("exp2.default", math.Exp2Op)
class Exp2Op(RealFunction):
    """2 to the power of x."""


@elementwise("expm1.default", math.ExpM1Op)
class Expm1Op(RealFunction):
    """exp(x) - 1, accurate near 0."""


@elementwise("softplus.default", options={"beta": 1, "threshold": 20})
class SoftplusOp(RealFunction):
    """log(1 + exp(x)), and x above 20, as `torch.nn.functional.softplus`."""


@elementwise("isnan.default", jumps=True)
class IsnanOp(Predicate):
    """True where x is not a number."""


@elementwise("isinf.default", jumps=True)
class IsinfOp(Predicate):
    """True where x, rounded to its element type, is infinite."""


@elementwise("floor.default", math.FloorOp, jumps=True)
class FloorOp(RealFunction):
    """Largest whole number that is not above x."""


@elementwise("ceil.default", math.CeilOp, jumps=True)
class CeilOp(RealFunction):
    """Smallest whole number that is not below x."""


@elementwise("round.default", math.RoundEvenOp, jumps=True)
class RoundOp(RealFunction):
    """Nearest whole number, the even one at a tie."""


@elementwise("trunc.default", math.TruncOp, aliases=("fix.default",), jumps=True)
class TruncOp(RealFunction):
    """x rounded toward 0 to a whole number."""


@elementwise("sign.default", jumps=True)
class SignOp(RealFunction):
    """-1, 0 or 1; 0 for NaN."""


@elementwise("elu.default", numbers={"alpha": 1.0}, options={"scale": 1, "input_scale": 1})
class EluOp(RealFunction):
    """x, or alpha * (exp(x) - 1) where x is not above 0 (arXiv 1511.07289)."""

    alpha = prop_def(FloatAttr)


@elementwise("pow.Tensor_Scalar", numbers={"exponent": None}, of_positive=True)
class PowOp(RealFunction):
    """x to a constant power other than 0: NaN where x is below 0 and the exponent is not whole.

    `coda.pow %x {exponent = 0.3 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>`
    """

    exponent = prop_def(FloatAttr)

    def check(self) -> None:
        super().check()
        if not (exponent := self.exponent.value.data) or not isfinite(exponent):
            raise VerifyException(
                f"property exponent is {exponent}, expected a number other than 0"
            )


class _BooleanOp(ElementwiseOp, ABC):
    """An operator on truth values."""

    ELEMENTS: ClassVar[Elements] = Elements.BOOLEANS


@elementwise("logical_not.default", aliases=("bitwise_not.default",))
class LogicalNotOp(UnaryOp, _BooleanOp):
    """True where the operand is false."""


@elementwise(
    "logical_and.default", arith.AndIOp, aliases=("bitwise_and.Tensor", "bitwise_and.Scalar")
)
class LogicalAndOp(FunctionOfTwo, _BooleanOp):
    """True where both operands are."""


@elementwise("logical_or.default", arith.OrIOp, aliases=("bitwise_or.Tensor", "bitwise_or.Scalar"))
class LogicalOrOp(FunctionOfTwo, _BooleanOp):
    """True where one of the operands is, or both are."""


@elementwise(
    "logical_xor.default", arith.XOrIOp, aliases=("bitwise_xor.Tensor", "bitwise_xor.Scalar")
)
class LogicalXorOp(FunctionOfTwo, _BooleanOp):
    """True where one of the operands is, but not both."""


@elementwise(elements=Elements.ANY, jumps=True)
class CompareOp(BinaryOp):
    """Comparison of two elements of one type; with NaN, only `ne` holds.

    `coda.compare %a, %b {relation = "lt"} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xi1>`
    """

    relation = prop_def(StringAttr)

    RESULT_ELEMENTS: ClassVar = (i1,)
    RELATIONS: ClassVar[tuple[str, ...]] = ("eq", "ne", "lt", "le", "gt", "ge")

    def check(self) -> None:
        super().check()
        expect_one_of("relation", self.relation.data, self.RELATIONS)
        is_ordered = self.relation.data not in ("eq", "ne")
        if is_ordered and element_type_of(self.lhs) == i1:
            raise VerifyException(
                f'property relation is "{self.relation.data}", expected eq or ne for booleans'
            )


@elementwise(
    "where.self",
    arith.SelectOp,
    aliases=("where.ScalarOther", "where.ScalarSelf"),
    elements=Elements.ANY,
)
class WhereOp(Selection):
    """The first value where the condition holds, else the second one.

    `coda.where %c, %a, %b : (tensor<?x8xi1>, tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>`
    """


@elementwise("detach.default", zero_at_zero=True)
class DetachOp(RealFunction):
    """x as a constant of the backward, as `torch.Tensor.detach` and `jax.lax.stop_gradient`.

    Computes nothing. `derive-gradient` stops gradients at it; `coda-to-gemm` removes it with the
    pass `drop-detach`.

    `%h1 = coda.detach %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>`
    """


@elementwise()
class StoredOp(UnaryOp):
    """x as it is stored in its element type, also in a kernel that computes it in float32.

    `%h1 = coda.stored %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>`
    """


REAL_FUNCTIONS: dict[str, type[RealFunction]] = {
    op.name.removeprefix("coda."): op for op in ELEMENTWISE_OPS if issubclass(op, RealFunction)
}
"""Functions by their names in `.coda`."""

FUNCTIONS_OF_TWO: dict[str, type[FunctionOfTwo]] = {
    op.name.removeprefix("coda."): op for op in ELEMENTWISE_OPS if issubclass(op, FunctionOfTwo)
}
"""Functions by their names in `.coda`."""

SELECTIONS: dict[str, type[Selection]] = {
    op.name.removeprefix("coda."): op for op in ELEMENTWISE_OPS if issubclass(op, Selection)
}
"""Functions by their names in `.coda`."""

GATES: dict[str, type[RealFunction]] = {name: op for name, op in REAL_FUNCTIONS.items() if op.GATES}
"""Functions that `coda.glu` takes for its gate."""

ACTIVATIONS = ("identity", *GATES)
"""The functions of the gate of `coda.glu`."""

BY_OVERLOAD: dict[str, type[ElementwiseOp]] = {
    overload: op
    for op in ELEMENTWISE_OPS
    for overload in (op.ATEN, *op.ALIASES)
    if overload is not None
}
"""Operators by overload of ATen, for the pass `raise-elementwise`."""
