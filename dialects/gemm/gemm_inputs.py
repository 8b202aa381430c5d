"""The inputs of operators that are GEMMs."""

from abc import ABC
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, opt_operand_def, opt_prop_def, var_operand_def

from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of


class GemmInputs(IRDLOperation, ABC):
    """An operator whose `inputs` are M x K, or K x M if they are `transposed`.

    Their rows may be in `groups`, each with a separate product.
    """

    inputs = var_operand_def(TensorType)
    weights = var_operand_def(TensorType)
    groups = opt_operand_def(TensorType)
    transposed = opt_prop_def(UnitAttr)

    @property
    def x(self) -> SSAValue:
        """The first input."""
        return self.inputs[0]

    @property
    def is_transposed(self) -> bool:
        """True if the inputs are K x M instead of M x K."""
        return self.transposed is not None

    @property
    def has_one_type(self) -> bool:
        """True if inputs and weights have one float type, and none has 8 bits."""
        types = {element_type_of(value) for value in (*self.inputs, *self.weights)}
        return len(types) == 1 and is_float(element_type_of(self.inputs[0]))

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The dimensions of the accumulator's rows, which flatten to M."""
        shape = shape_of(self.inputs[0])
        if self.transposed is None:
            return shape[:-1]
        return (*(() if self.groups is None else shape_of(self.groups)), shape[-1])

    @property
    def has_ragged_depth(self) -> bool:
        """True if each group of rows is summed into a separate accumulator."""
        return self.transposed is not None and self.groups is not None

    def depth(self, index: int) -> int:
        """K of an input, or `DYNAMIC_INDEX`."""
        shape = shape_of(self.inputs[index])
        if self.transposed is None:
            return shape[-1]
        return DYNAMIC_INDEX if DYNAMIC_INDEX in shape[:-1] else prod(shape[:-1])
