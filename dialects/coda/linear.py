"""Linear maps: what becomes GEMMs."""

from xdsl.dialects.builtin import (
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.shapes import (
    dims_agree,
    element_type_of,
    expect_element_type,
    expect_rank_at_least,
    expect_shape,
    format_shape,
    is_float,
    optional_operand,
    shape_of,
)


def _verify_linear(
    x: SSAValue, weight: SSAValue, bias: SSAValue | None, result: SSAValue, *, k: int
) -> None:
    """Check x (... x K), weight with K in dimension `k`, bias (N) and result (... x N)."""
    expect_rank_at_least("operand x", x, 1)
    if len(shape_of(weight)) != 2:
        raise VerifyException(f"operand weight has rank {len(shape_of(weight))}, expected 2")
    inner, outer = shape_of(weight)[k], shape_of(weight)[1 - k]
    if not dims_agree(shape_of(x)[-1], inner):
        raise VerifyException(
            f"operand weight of shape {format_shape(shape_of(weight))} has K = {inner} in "
            f"dimension {k}, expected {shape_of(x)[-1]}, the last dimension of operand x"
        )
    expect_element_type("operand weight", weight, element_type_of(x))
    if bias is not None:
        expect_shape("operand bias", bias, (outer,))
        expect_element_type("operand bias", bias, element_type_of(x))
    expect_shape("result", result, (*shape_of(x)[:-1], outer))
    if not is_float(element_type_of(x)) or not is_float(element_type_of(result)):
        raise VerifyException("linear maps need floating-point operands and results")


PATCHES = "coda.patches"
"""The attribute of a linear map of the patches of an image, which was a convolution."""


@irdl_op_definition
class LinearOp(CodaOp):
    """x · Wᵀ (+ b) with the weight as PyTorch stores it: W is N x K.

    Accumulates in float32; the result may have a wider element type than the operands.

    `%y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>`
    """

    name = "coda.linear"
    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        x: SSAValue | Operation,
        weight: SSAValue | Operation,
        bias: SSAValue | Operation | None = None,
        *,
        result_element_type: Attribute | None = None,
    ):
        x, weight = SSAValue.get(x), SSAValue.get(weight)
        element_type = result_element_type or element_type_of(x)
        shape = (*shape_of(x)[:-1], shape_of(weight)[0])
        super().__init__(
            operands=[x, weight, optional_operand(bias)],
            result_types=[TensorType(element_type, shape)],
        )

    def verify_(self) -> None:
        _verify_linear(self.x, self.weight, self.bias, self.result, k=1)


@irdl_op_definition
class MatmulOp(CodaOp):
    """x · W with W a K x N matrix (the layout of GPT-2's Conv1D). Accumulates in float32.

    `%y = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>`
    """

    name = "coda.matmul"
    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        x: SSAValue | Operation,
        weight: SSAValue | Operation,
        *,
        result_element_type: Attribute | None = None,
    ):
        x, weight = SSAValue.get(x), SSAValue.get(weight)
        element_type = result_element_type or element_type_of(x)
        shape = (*shape_of(x)[:-1], shape_of(weight)[-1])
        super().__init__(operands=[x, weight], result_types=[TensorType(element_type, shape)])

    def verify_(self) -> None:
        _verify_linear(self.x, self.weight, None, self.result, k=0)
