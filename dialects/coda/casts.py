"""Conversions of element types, and constants."""

from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.infer_type import InferTypeOp
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    shape_of,
    stores_floats,
    wrong_shape,
    wrong_type,
)


@irdl_op_definition
class CastOp(InferTypeOp):
    """Conversion of the element type, rounding to nearest even.

    `coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xbf16>`
    """

    RESULT_ELEMENTS: ClassVar = (None,)

    operand = operand_def(TensorType)

    def __init__(self, operand: SSAValue | Operation, element_type: Attribute):
        super().__init__(operand, element_type=element_type)


@irdl_op_definition
class ConstantOp(CodaOp):
    """A scalar constant: `coda.constant {value = 0.5 : f64} : tensor<bf16>`.

    The value is kept in double precision and rounded to the element type where it is used.
    """

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
            raise wrong_shape("result", shape_of(self.result), "a scalar tensor")
        if isinstance(self.value, FloatAttr):
            expect_float_constant(self.result)


def expect_float_constant(value: SSAValue) -> None:
    """Raise unless a floating-point constant may be an element of `value`."""
    if not stores_floats(element_type_of(value)):
        raise wrong_type("a floating-point constant", value, "a float type")
