"""Operators that compute from weights alone, before the first call."""

from abc import ABC, abstractmethod
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    expect_shape,
    expect_tensor,
    shape_of,
    tensor_type,
)
from coda_ir.dialects.gemm.attrs import Layout, LayoutAttr


class WeightVectorOp(IRDLOperation, ABC):
    """A computation on a weight and an optional vector, done once and kept until they change."""

    weight = operand_def(TensorType)
    vector = opt_operand_def(TensorType)
    layout = prop_def(LayoutAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    NEEDS_VECTOR: ClassVar[bool] = True
    assembly_format = "$layout operands attr-dict `:` functional-type(operands, results)"

    def __init__(
        self, weight: SSAValue | Operation, vector: SSAValue | Operation | None, layout: Layout
    ):
        weight = SSAValue.get(weight)
        super().__init__(
            operands=[weight, vector],
            properties={"layout": LayoutAttr(layout)},
            result_types=[self.result_type(weight, layout)],
        )

    @classmethod
    @abstractmethod
    def result_type(cls, weight: SSAValue, layout: Layout) -> AnyTensor:
        """Return the type of the result for a weight."""

    def verify_(self) -> None:
        expect_rank("weight", self.weight, 2)
        k = shape_of(self.weight)[1 if self.layout.data == Layout.NK else 0]
        if self.vector is not None:
            expect_shape("vector", self.vector, (k,))
        elif self.NEEDS_VECTOR:
            raise VerifyException("a weight is given, expected a vector of its K elements as well")
        expected = self.result_type(self.weight, self.layout.data)
        expect_tensor("result", self.result, expected.get_shape(), expected.element_type)


@irdl_op_definition
class PackWeightOp(WeightVectorOp):
    """v[n] = sum_k W[n, k] · vector[k] in float32; without a vector, v[n] = sum_k W[n, k].

    The deferral of LayerNorm needs u = W·gamma and c0 = W·beta.

    `%u = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>`
    """

    name = "gemm.pack_weight"
    NEEDS_VECTOR: ClassVar[bool] = False

    @classmethod
    def result_type(cls, weight: SSAValue, layout: Layout) -> AnyTensor:
        return TensorType(f32, (shape_of(weight)[0 if layout == Layout.NK else 1],))


@irdl_op_definition
class ScaleWeightOp(WeightVectorOp):
    """v[n, k] = W[n, k] · vector[k], rounded to the weight's type: the scale of a norm folded into
    a frozen weight ahead of time.

    `%v = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>`
    """

    name = "gemm.scale_weight"

    @classmethod
    def result_type(cls, weight: SSAValue, layout: Layout) -> AnyTensor:
        return tensor_type(weight)
