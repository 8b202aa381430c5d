"""Constant tensors."""

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute

from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import Dims, dims_attribute


def filler(number: float, element: Attribute, dims: Dims) -> tuple[coda.ConstantOp, CallOp]:
    """Return the operators that make a constant tensor of these dimensions, whose symbols arguments
    declare.
    """
    constant = coda.ConstantOp(number, element)
    shape = [dim if isinstance(dim, int) else DYNAMIC_INDEX for dim in dims]
    arguments = f"{{0}}, [{', '.join(map(str, dims))}]"
    call = CallOp(EXPAND, [constant.result], arguments, [TensorType(element, shape)], view=True)
    call.attributes["coda.dims"] = dims_attribute(dims)
    return constant, call
