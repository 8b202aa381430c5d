"""Constant tensors."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import static_shape
from coda_ir.dialects.torch import CallOp
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import Dims, dims_attribute


def filler(number: float, element: Attribute, dims: Dims) -> tuple[coda.ConstantOp, CallOp]:
    """Return the operators that make a constant tensor of these dimensions, whose symbols arguments
    declare.
    """
    constant = coda.ConstantOp(number, element)
    arguments = f"{{0}}, [{', '.join(map(str, dims))}]"
    type = TensorType(element, static_shape(dims))
    call = CallOp(EXPAND, [constant.result], arguments, [type], view=True)
    call.attributes["coda.dims"] = dims_attribute(dims)
    return constant, call
