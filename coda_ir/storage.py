"""Which values share memory: views, and the values that they are views of."""

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects.coda import ReshapeOp, SliceOp, TransposeOp
from coda_ir.dialects.torch import CallOp

VIEW_OPS = (ReshapeOp, TransposeOp, SliceOp)


def is_view(owner: object) -> bool:
    """Whether the results of an operator may share the memory of its first operand."""
    is_call_with_view = isinstance(owner, CallOp) and owner.view is not None and owner.inputs
    return isinstance(owner, VIEW_OPS) or bool(is_call_with_view)


def storage_root(value: SSAValue) -> SSAValue:
    """The value whose memory `value` is a view of; `value` itself where it is not a view."""
    while is_view(value.owner):
        assert isinstance(value.owner, Operation)
        value = value.owner.operands[0]
    return value
