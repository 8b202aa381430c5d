"""Which arguments of a function are weights: the same tensors in every call."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

WEIGHT = "coda.weight"
"""The attribute of such an argument."""


def is_weight(value: SSAValue) -> bool:
    """Whether a value is an argument of its function that is marked as a weight."""
    func = value.block.parent_op() if isinstance(value, BlockArgument) else None
    if not isinstance(value, BlockArgument) or not isinstance(func, FuncOp):
        return False
    entries = () if func.arg_attrs is None else func.arg_attrs.data
    return value.index < len(entries) and WEIGHT in entries[value.index].data
