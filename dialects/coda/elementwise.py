"""Elementwise operators with NumPy broadcasting.

A new operator is a class here and an entry in `ELEMENTWISE_OPS`; its derivative is in
`passes/gradient/derivatives/elementwise.py`. `ATEN` names the operator of PyTorch that computes it:
the exporter, the reference backend and float64 follow. `SCALAR` is the operator of `arith` or
`math` that computes an element: fusion and Triton follow. What needs several of them has scalar
code in `dialects/gemm/scalar_code.py`.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.elementwise_op import (
    BinaryOp,
    Elements,
    ElementwiseOp,
    FunctionOfTwo,
    RealFunction,
    Scalar,
    UnaryOp,
    broadcast_operands,
)
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_element_type,
)


@irdl_op_definition
class AddOp(BinaryOp):
    """Sum: `coda.add %a, %b : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>`."""

    name = "coda.add"
    ATEN: ClassVar[str | None] = "add.Tensor"
    SCALAR: ClassVar[Scalar | None] = arith.AddfOp
    ALIASES: ClassVar[tuple[str, ...]] = ("add.Scalar",)
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class SubOp(BinaryOp):
    """Difference of two tensors."""

    name = "coda.sub"
    ATEN: ClassVar[str | None] = "sub.Tensor"
    SCALAR: ClassVar[Scalar | None] = arith.SubfOp
    ALIASES: ClassVar[tuple[str, ...]] = ("sub.Scalar",)
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class MulOp(BinaryOp):
    """Elementwise product."""

    name = "coda.mul"
    ATEN: ClassVar[str | None] = "mul.Tensor"
    SCALAR: ClassVar[Scalar | None] = arith.MulfOp
    ALIASES: ClassVar[tuple[str, ...]] = ("mul.Scalar",)
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class DivOp(BinaryOp):
    """Quotient of two tensors."""

    name = "coda.div"
    ATEN: ClassVar[str | None] = "div.Tensor"
    SCALAR: ClassVar[Scalar | None] = arith.DivfOp
    ALIASES: ClassVar[tuple[str, ...]] = ("div.Scalar",)


@irdl_op_definition
class MaximumOp(FunctionOfTwo):
    """Larger of two elements; NaN wins, as in `torch.maximum`."""

    name = "coda.maximum"
    ATEN: ClassVar[str | None] = "maximum.default"
    SCALAR: ClassVar[Scalar | None] = arith.MaximumfOp
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class MinimumOp(FunctionOfTwo):
    """Smaller of two elements; NaN wins, as in `torch.minimum`."""

    name = "coda.minimum"
    ATEN: ClassVar[str | None] = "minimum.default"
    SCALAR: ClassVar[Scalar | None] = arith.MinimumfOp
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class RemainderOp(FunctionOfTwo):
    """a − floor(a / b) · b, which has the sign of b, as `torch.remainder` and Python's `%`.

    Of floats it is exact where the quotient is below 2^20. No integer b may be 0.
    """

    name = "coda.remainder"
    ATEN: ClassVar[str | None] = "remainder.Tensor"
    ALIASES: ClassVar[tuple[str, ...]] = ("remainder.Scalar",)
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class FloorDivideOp(FunctionOfTwo):
    """Largest whole number that is not above a / b, as `torch.floor_divide` and Python's `//`.

    Of floats it is exact below 2^20. No integer b may be 0.
    """

    name = "coda.floor_divide"
    ATEN: ClassVar[str | None] = "div.Tensor_mode"
    ATEN_OPTIONS: ClassVar[Mapping[str, str]] = {"rounding_mode": "floor"}
    ALIASES: ClassVar[tuple[str, ...]] = (
        *("div.Scalar_mode", "floor_divide.default", "floor_divide.Scalar"),
    )
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class Atan2Op(FunctionOfTwo):
    """Angle between the first axis and the point (b, a), from −π to π."""

    name = "coda.atan2"
    ATEN: ClassVar[str | None] = "atan2.default"
    SCALAR: ClassVar[Scalar | None] = math.Atan2Op
    ALIASES: ClassVar[tuple[str, ...]] = ("arctan2.default",)
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class NegOp(UnaryOp):
    """Negation."""

    name = "coda.neg"
    ATEN: ClassVar[str | None] = "neg.default"
    SCALAR: ClassVar[Scalar | None] = arith.NegfOp
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class AbsOp(RealFunction):
    """Absolute value."""

    name = "coda.abs"
    ATEN: ClassVar[str | None] = "abs.default"
    SCALAR: ClassVar[Scalar | None] = math.AbsFOp
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS


@irdl_op_definition
class ExpOp(RealFunction):
    """Natural exponential."""

    name = "coda.exp"
    ATEN: ClassVar[str | None] = "exp.default"
    SCALAR: ClassVar[Scalar | None] = math.ExpOp


@irdl_op_definition
class LogOp(RealFunction):
    """Natural logarithm."""

    name = "coda.log"
    ATEN: ClassVar[str | None] = "log.default"
    SCALAR: ClassVar[Scalar | None] = math.LogOp


@irdl_op_definition
class SqrtOp(RealFunction):
    """Square root."""

    name = "coda.sqrt"
    ATEN: ClassVar[str | None] = "sqrt.default"
    SCALAR: ClassVar[Scalar | None] = math.SqrtOp


@irdl_op_definition
class RsqrtOp(RealFunction):
    """Reciprocal square root."""

    name = "coda.rsqrt"
    ATEN: ClassVar[str | None] = "rsqrt.default"
    SCALAR: ClassVar[Scalar | None] = math.RsqrtOp


@irdl_op_definition
class TanhOp(RealFunction):
    """Hyperbolic tangent."""

    name = "coda.tanh"
    ATEN: ClassVar[str | None] = "tanh.default"
    SCALAR: ClassVar[Scalar | None] = math.TanhOp


@irdl_op_definition
class SigmoidOp(RealFunction):
    """Logistic function 1 / (1 + exp(-x))."""

    name = "coda.sigmoid"
    ATEN: ClassVar[str | None] = "sigmoid.default"


@irdl_op_definition
class SiluOp(RealFunction):
    """x * sigmoid(x), also called swish (arXiv 1702.03118)."""

    name = "coda.silu"
    ATEN: ClassVar[str | None] = "silu.default"


@irdl_op_definition
class ReluOp(RealFunction):
    """max(x, 0); NaN propagates."""

    name = "coda.relu"
    ATEN: ClassVar[str | None] = "relu.default"


@irdl_op_definition
class Relu2Op(RealFunction):
    """Squared ReLU, max(x, 0)^2 (arXiv 2109.08668)."""

    name = "coda.relu2"


@irdl_op_definition
class GeluOp(UnaryOp):
    """Gaussian error linear unit (arXiv 1606.08415), exact (`none`) or by `tanh`.

    `coda.gelu %x {approximate = "tanh"} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>`
    """

    name = "coda.gelu"
    approximate = prop_def(StringAttr)

    def __init__(self, operand: SSAValue | Operation, approximate: str = "none"):
        super().__init__(operand, approximate=StringAttr(approximate))

    def verify_(self) -> None:
        super().verify_()
        if self.approximate.data not in ("none", "tanh"):
            raise VerifyException(
                f'property approximate is "{self.approximate.data}", expected "none" or "tanh"'
            )


@irdl_op_definition
class SoftcapOp(UnaryOp):
    """cap * tanh(x / cap), the logit soft cap of Gemma 2 (arXiv 2408.00118)."""

    name = "coda.softcap"
    cap = prop_def(FloatAttr)

    def __init__(self, operand: SSAValue | Operation, cap: float):
        super().__init__(operand, cap=FloatAttr(cap, 64))

    def verify_(self) -> None:
        super().verify_()
        if not self.cap.value.data > 0:
            raise VerifyException(
                f"property cap is {self.cap.value.data}, expected a positive number"
            )


@irdl_op_definition
class SinOp(RealFunction):
    """Sine of an angle in radians."""

    name = "coda.sin"
    ATEN: ClassVar[str | None] = "sin.default"
    SCALAR: ClassVar[Scalar | None] = math.SinOp


@irdl_op_definition
class CosOp(RealFunction):
    """Cosine of an angle in radians."""

    name = "coda.cos"
    ATEN: ClassVar[str | None] = "cos.default"
    SCALAR: ClassVar[Scalar | None] = math.CosOp


@irdl_op_definition
class ErfOp(RealFunction):
    """Error function."""

    name = "coda.erf"
    ATEN: ClassVar[str | None] = "erf.default"
    SCALAR: ClassVar[Scalar | None] = math.ErfOp


@irdl_op_definition
class Log1pOp(RealFunction):
    """log(1 + x), accurate near 0."""

    name = "coda.log1p"
    ATEN: ClassVar[str | None] = "log1p.default"
    SCALAR: ClassVar[Scalar | None] = math.Log1pOp


@irdl_op_definition
class Exp2Op(RealFunction):
    """2 to the power of x."""

    name = "coda.exp2"
    ATEN: ClassVar[str | None] = "exp2.default"
    SCALAR: ClassVar[Scalar | None] = math.Exp2Op


@irdl_op_definition
class Expm1Op(RealFunction):
    """exp(x) - 1, accurate near 0."""

    name = "coda.expm1"
    ATEN: ClassVar[str | None] = "expm1.default"
    SCALAR: ClassVar[Scalar | None] = math.ExpM1Op


@irdl_op_definition
class SoftplusOp(RealFunction):
    """log(1 + exp(x)), and x above 20, as `torch.nn.functional.softplus`."""

    name = "coda.softplus"
    ATEN: ClassVar[str | None] = "softplus.default"


@irdl_op_definition
class FloorOp(RealFunction):
    """Largest whole number that is not above x."""

    name = "coda.floor"
    ATEN: ClassVar[str | None] = "floor.default"
    SCALAR: ClassVar[Scalar | None] = math.FloorOp
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class CeilOp(RealFunction):
    """Smallest whole number that is not below x."""

    name = "coda.ceil"
    ATEN: ClassVar[str | None] = "ceil.default"
    SCALAR: ClassVar[Scalar | None] = math.CeilOp
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class RoundOp(RealFunction):
    """Nearest whole number, the even one at a tie."""

    name = "coda.round"
    ATEN: ClassVar[str | None] = "round.default"
    SCALAR: ClassVar[Scalar | None] = math.RoundEvenOp
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class TruncOp(RealFunction):
    """x without what is behind its point: the whole number toward 0."""

    name = "coda.trunc"
    ATEN: ClassVar[str | None] = "trunc.default"
    SCALAR: ClassVar[Scalar | None] = math.TruncOp
    ALIASES: ClassVar[tuple[str, ...]] = ("fix.default",)
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class SignOp(RealFunction):
    """-1, 0 or 1; 0 for NaN."""

    name = "coda.sign"
    ATEN: ClassVar[str | None] = "sign.default"
    JUMPS: ClassVar[bool] = True


@irdl_op_definition
class EluOp(UnaryOp):
    """x, or alpha * (exp(x) - 1) where x is not above 0 (arXiv 1511.07289)."""

    name = "coda.elu"
    alpha = prop_def(FloatAttr)

    def __init__(self, operand: SSAValue | Operation, alpha: float = 1.0):
        super().__init__(operand, alpha=FloatAttr(alpha, 64))


@irdl_op_definition
class PowOp(UnaryOp):
    """x to a constant power other than 0: NaN where x is below 0 and the exponent is not whole.

    `coda.pow %x {exponent = 0.3 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>`
    """

    name = "coda.pow"
    exponent = prop_def(FloatAttr)

    def __init__(self, operand: SSAValue | Operation, exponent: float):
        super().__init__(operand, exponent=FloatAttr(exponent, 64))

    def verify_(self) -> None:
        super().verify_()
        if not (exponent := self.exponent.value.data) or not isfinite(exponent):
            raise VerifyException(f"property exponent is {exponent}, expected a number but 0")


class _BooleanOp(ElementwiseOp, ABC):
    """An operator on truth values."""

    ELEMENTS: ClassVar[Elements] = Elements.BOOLEANS


@irdl_op_definition
class LogicalNotOp(UnaryOp, _BooleanOp):
    """True where the operand is false."""

    name = "coda.logical_not"
    ATEN: ClassVar[str | None] = "logical_not.default"
    ALIASES: ClassVar[tuple[str, ...]] = ("bitwise_not.default",)


@irdl_op_definition
class LogicalAndOp(FunctionOfTwo, _BooleanOp):
    """True where both operands are."""

    name = "coda.logical_and"
    ATEN: ClassVar[str | None] = "logical_and.default"
    SCALAR: ClassVar[Scalar | None] = arith.AndIOp
    ALIASES: ClassVar[tuple[str, ...]] = ("bitwise_and.Tensor", "bitwise_and.Scalar")


@irdl_op_definition
class LogicalOrOp(FunctionOfTwo, _BooleanOp):
    """True where one of the operands is, or both are."""

    name = "coda.logical_or"
    ATEN: ClassVar[str | None] = "logical_or.default"
    SCALAR: ClassVar[Scalar | None] = arith.OrIOp
    ALIASES: ClassVar[tuple[str, ...]] = ("bitwise_or.Tensor", "bitwise_or.Scalar")


@irdl_op_definition
class LogicalXorOp(FunctionOfTwo, _BooleanOp):
    """True where one of the operands is, but not both."""

    name = "coda.logical_xor"
    ATEN: ClassVar[str | None] = "logical_xor.default"
    SCALAR: ClassVar[Scalar | None] = arith.XOrIOp
    ALIASES: ClassVar[tuple[str, ...]] = ("bitwise_xor.Tensor", "bitwise_xor.Scalar")


@irdl_op_definition
class CompareOp(BinaryOp):
    """Comparison of two elements of one type; with NaN, only `ne` holds.

    `coda.compare %a, %b {relation = "lt"} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xi1>`
    """

    name = "coda.compare"
    ELEMENTS: ClassVar[Elements] = Elements.ANY
    relation = prop_def(StringAttr)

    RELATIONS: ClassVar[tuple[str, ...]] = ("eq", "ne", "lt", "le", "gt", "ge")

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, relation: str):
        super().__init__(lhs, rhs, relation=StringAttr(relation))

    @classmethod
    def result_element_type(cls, operand: SSAValue) -> Attribute:
        return i1

    def verify_(self) -> None:
        super().verify_()
        if self.relation.data not in self.RELATIONS:
            raise VerifyException(
                f'property relation is "{self.relation.data}", expected one of '
                f"{', '.join(self.RELATIONS)}"
            )
        is_ordered = self.relation.data not in ("eq", "ne")
        if is_ordered and element_type_of(self.lhs) == i1:
            raise VerifyException(
                f'property relation is "{self.relation.data}", expected eq or ne for booleans'
            )


@irdl_op_definition
class WhereOp(ElementwiseOp):
    """The first value where the condition holds, else the second one.

    `coda.where %c, %a, %b : (tensor<?x8xi1>, tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>`
    """

    name = "coda.where"
    ATEN: ClassVar[str | None] = "where.self"
    SCALAR: ClassVar[Scalar | None] = arith.SelectOp
    ALIASES: ClassVar[tuple[str, ...]] = ("where.ScalarOther", "where.ScalarSelf")
    ELEMENTS: ClassVar[Elements] = Elements.ANY
    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    def __init__(
        self,
        condition: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
    ):
        values = [SSAValue.get(value) for value in (condition, lhs, rhs)]
        shape = broadcast_operands(self.name, values)
        super().__init__(
            operands=values, result_types=[TensorType(element_type_of(values[1]), shape)]
        )

    @property
    def elements_of_one_type(self) -> Sequence[SSAValue]:
        return (self.lhs, self.rhs)

    def verify_(self) -> None:
        super().verify_()
        expect_element_type("operand 0", self.condition, i1)


@irdl_op_definition
class DetachOp(RealFunction):
    """x as a constant of the backward, as `torch.Tensor.detach` and `jax.lax.stop_gradient`.

    Computes nothing. `derive-gradient` lets no gradient through; `coda-to-gemm` removes it with
    the pass `drop-detach`.

    `%h1 = coda.detach %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>`
    """

    name = "coda.detach"
    ATEN: ClassVar[str | None] = "detach.default"


ELEMENTWISE_OPS: tuple[type[ElementwiseOp], ...] = (
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    RemainderOp,
    FloorDivideOp,
    Atan2Op,
    NegOp,
    AbsOp,
    ExpOp,
    Exp2Op,
    Expm1Op,
    LogOp,
    Log1pOp,
    SqrtOp,
    RsqrtOp,
    SinOp,
    CosOp,
    ErfOp,
    TanhOp,
    FloorOp,
    CeilOp,
    RoundOp,
    TruncOp,
    SignOp,
    SigmoidOp,
    SiluOp,
    SoftplusOp,
    EluOp,
    PowOp,
    ReluOp,
    Relu2Op,
    GeluOp,
    SoftcapOp,
    CompareOp,
    WhereOp,
    LogicalNotOp,
    LogicalAndOp,
    LogicalOrOp,
    LogicalXorOp,
    DetachOp,
)

REAL_FUNCTIONS: dict[str, type[RealFunction]] = {
    op.name.removeprefix("coda."): op for op in ELEMENTWISE_OPS if issubclass(op, RealFunction)
}
"""By their names in `.coda`."""

FUNCTIONS_OF_TWO: dict[str, type[FunctionOfTwo]] = {
    op.name.removeprefix("coda."): op for op in ELEMENTWISE_OPS if issubclass(op, FunctionOfTwo)
}
"""By their names in `.coda`."""

BY_OVERLOAD: dict[str, type[ElementwiseOp]] = {
    overload: op
    for op in ELEMENTWISE_OPS
    for overload in (op.ATEN, *op.ALIASES)
    if overload is not None
}
"""By the overload of ATen: what the exporter and the pass `raise-elementwise` look up."""
