"""Constant tensors."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import static_shape
from coda_ir.dialects.torch import CallOp
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import Dims, dims_attribute


def filler(number: float, element: Attribute, dims: Dims) -> tuple[coda.ConstantOp, CallOp]:
    """Return the operators that make a constant tensor of these declared dimensions."""
    constant = coda.ConstantOp(number, element)
    type = TensorType(element, static_shape(dims))
    return constant, expanded(constant.result, dims, type)


def expanded(x: SSAValue, dims: Dims, type: Attribute) -> CallOp:
    """Return a view of `x` repeated to these dimensions, whose symbols arguments declare."""
    arguments = f"{{0}}, [{', '.join(map(str, dims))}]"
    call = CallOp(EXPAND, [x], arguments, [type], view=True)
    call.attributes["coda.dims"] = dims_attribute(dims)
    return call
