"""Elementwise operators with NumPy broadcasting, constants and casts."""

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp, FoldsAway
from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    broadcast_shapes,
    element_type_of,
    expect_element_type,
    expect_shape,
    float_type,
    format_shape,
    shape_of,
    tensor_type,
)


class ElementwiseOp(CodaOp, ABC):
    """An operator that maps elements to elements, after broadcasting its operands."""

    result = result_def(TensorType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        shape = broadcast_operands(self.name, self.operands)
        expect_shape("result", self.result, shape)
        expect_element_type("result", self.result, element_type_of(self.operands[0]))
        for index, operand in enumerate(self.operands[1:], 1):
            expect_element_type(f"operand {index}", operand, element_type_of(self.operands[0]))


def broadcast_operands(name: str, operands: Sequence[SSAValue]) -> tuple[int, ...]:
    """The common shape of `operands`; raises where they do not broadcast."""
    shape: tuple[int, ...] = ()
    for index, operand in enumerate(operands):
        merged = broadcast_shapes(shape, shape_of(operand))
        if merged is None:
            raise VerifyException(
                f"{name}: operand {index} of shape {format_shape(shape_of(operand))} "
                f"does not broadcast with shape {format_shape(shape)}"
            )
        shape = merged
    return shape


class UnaryOp(ElementwiseOp, ABC):
    operand = operand_def(TensorType)

    def __init__(self, operand: SSAValue | Operation, **properties: Attribute):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[value.type], properties=dict(properties))


class BinaryOp(ElementwiseOp, ABC):
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        left, right = SSAValue.get(lhs), SSAValue.get(rhs)
        shape = broadcast_operands(self.name, (left, right))
        super().__init__(
            operands=[left, right],
            result_types=[TensorType(element_type_of(left), shape)],
        )


@irdl_op_definition
class AddOp(BinaryOp):
    """Sum: `coda.add %a, %b : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>`."""

    name = "coda.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """Difference of two tensors."""

    name = "coda.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """Elementwise product."""

    name = "coda.mul"
    traits = traits_def(Pure(), FoldsAway())


@irdl_op_definition
class DivOp(BinaryOp):
    """Quotient of two tensors."""

    name = "coda.div"
    traits = traits_def(Pure(), FoldsAway())


@irdl_op_definition
class MaximumOp(BinaryOp):
    """Larger of two elements; NaN wins, as in `torch.maximum`."""

    name = "coda.maximum"


@irdl_op_definition
class MinimumOp(BinaryOp):
    """Smaller of two elements; NaN wins, as in `torch.minimum`."""

    name = "coda.minimum"


@irdl_op_definition
class NegOp(UnaryOp):
    """Negation."""

    name = "coda.neg"
    traits = traits_def(Pure(), FoldsAway())


@irdl_op_definition
class AbsOp(UnaryOp):
    """Absolute value."""

    name = "coda.abs"


@irdl_op_definition
class ExpOp(UnaryOp):
    """Natural exponential."""

    name = "coda.exp"


@irdl_op_definition
class LogOp(UnaryOp):
    """Natural logarithm."""

    name = "coda.log"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """Square root."""

    name = "coda.sqrt"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """Reciprocal square root."""

    name = "coda.rsqrt"


@irdl_op_definition
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""

    name = "coda.tanh"


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """Logistic function 1 / (1 + exp(-x))."""

    name = "coda.sigmoid"


@irdl_op_definition
class SiluOp(UnaryOp):
    """x * sigmoid(x), also called swish (arXiv 1702.03118)."""

    name = "coda.silu"


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(x, 0); NaN propagates."""

    name = "coda.relu"


@irdl_op_definition
class Relu2Op(UnaryOp):
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
class DetachOp(UnaryOp):
    """x as a constant of the backward, as `torch.Tensor.detach` and `jax.lax.stop_gradient`.

    Computes nothing. `derive-gradient` lets no gradient through; `coda-to-gemm` removes it with
    the pass `drop-detach`.

    `%h1 = coda.detach %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>`
    """

    name = "coda.detach"


@irdl_op_definition
class CastOp(CodaOp):
    """Conversion of the element type, rounding to nearest even.

    `coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xbf16>`
    """

    name = "coda.cast"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), FoldsAway())

    def __init__(self, operand: SSAValue | Operation, element_type: Attribute):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value],
            result_types=[TensorType(element_type, shape_of(value))],
        )

    def verify_(self) -> None:
        expect_shape("result", self.result, shape_of(self.operand))


@irdl_op_definition
class ConstantOp(CodaOp):
    """A scalar constant: `coda.constant {value = 0.5 : f64} : tensor<bf16>`.

    The value is kept in double precision and rounded to the element type where it is used.
    """

    name = "coda.constant"
    value = prop_def(FloatAttr | IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, value: float | int, element_type: Attribute):
        attr = IntegerAttr(value, 64) if isinstance(value, int) else FloatAttr(value, 64)
        super().__init__(properties={"value": attr}, result_types=[TensorType(element_type, ())])

    @property
    def number(self) -> float | int:
        return self.value.value.data

    def verify_(self) -> None:
        if shape_of(self.result):
            raise VerifyException(
                f"result has shape {format_shape(shape_of(self.result))}, expected a scalar tensor"
            )
        if isinstance(self.value, FloatAttr):
            float_type_or_error(tensor_type(self.result))


def float_type_or_error(type: AnyTensor) -> None:
    try:
        float_type(type.element_type)
    except AssertionError as error:
        raise VerifyException(
            f"a floating-point constant has element type {type.element_type}, expected a float type"
        ) from error


ELEMENTWISE_OPS: tuple[type[ElementwiseOp], ...] = (
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    NegOp,
    AbsOp,
    ExpOp,
    LogOp,
    SqrtOp,
    RsqrtOp,
    TanhOp,
    SigmoidOp,
    SiluOp,
    ReluOp,
    Relu2Op,
    GeluOp,
    SoftcapOp,
    DetachOp,
)
