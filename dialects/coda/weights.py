"""Weights: the arguments of a function that are the same tensors in every call."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

WEIGHT = "coda.weight"
"""The attribute of such an argument."""


def is_weight(value: SSAValue) -> bool:
    """Return whether a value is an argument of its function that is marked as a weight."""
    if not isinstance(value, BlockArgument):
        return False
    func = value.block.parent_op()
    if not isinstance(func, FuncOp) or func.arg_attrs is None:
        return False
    entries = func.arg_attrs.data
    return value.index < len(entries) and WEIGHT in entries[value.index].data
