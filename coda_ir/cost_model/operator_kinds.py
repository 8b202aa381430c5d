"""The kinds of operators that estimates distinguish: products, attention, and the rest."""

import ast
from collections.abc import Sequence

from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda, gemm, torch
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.storage import is_placed, is_stored_by_kernel
from coda_ir.symbolic_shapes import Dims, SymbolicShapes

VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.ConstantOp, coda.BarrierOp, ReturnOp)
ATTENTION = (coda.AttentionOp, coda.AttentionGradOp, gemm.AttentionSumOp)
LIBRARY = (
    *(coda.LinearOp, coda.MatmulOp, coda.GroupedLinearMap, coda.WeightGradientOp),
    *(coda.ScaledLinearOp, coda.QuantizedLinearOp, coda.LowBitLinearOp),
    coda.GroupedWeightGradientOp,
    gemm.LibraryOp,
)

LAYER_NORM = "aten.layer_norm.default"

FUNCTIONS = (*(op for op in coda.ELEMENTWISE_OPS if op.COSTLY), coda.SoftmaxOp)
"""Operators that compute an exponential or an error function of each element."""


def computes_function(op: Operation) -> bool:
    """Return whether an operator, or the derivative of an activation, is one of `FUNCTIONS`."""
    if isinstance(op, coda.ActivationGradOp):
        return op.activation.data.startswith(("gelu", "silu"))
    return isinstance(op, FUNCTIONS)


def is_attention(op: Operation) -> bool:
    """Return whether an operator is attention or a part of its gradient."""
    if isinstance(op, torch.CallOp):
        return "attention" in op.callee.data
    return isinstance(op, ATTENTION)


def before_kernel(op: Operation) -> Sequence[SSAValue]:
    """Return the values that PyTorch computes again, in a kernel before a derivative `op`."""
    return op.operands if isinstance(op, torch.VjpOp) else ()


def is_left(op: Operation) -> bool:
    """Return whether an operator is neither a GEMM nor attention, and moves something."""
    is_stored = isinstance(op, coda.ConcatOp) and all(map(is_placed, op.parts))
    is_stored = is_stored or is_stored_by_kernel(op)
    return not (isinstance(op, VIEWS) or is_waited_for(op) or is_stored)


def is_waited_for(op: Operation) -> bool:
    """Return whether operators wait for this one: a GEMM, a call, or attention."""
    is_call = isinstance(op, (*LIBRARY, CallOp, gemm.FusedOp)) and not is_stored_by_kernel(op)
    return is_call or is_attention(op)


def is_product(op: Operation) -> bool:
    """Return whether PyTorch multiplies two batches of matrices in its library."""
    return isinstance(op, torch.CallOp) and op.callee.data in torch.PRODUCTS


def dims_of_norms(op: Operation, shapes: SymbolicShapes) -> Dims | None:
    """Return the dimensions before those over which PyTorch normalizes; None for other operators
    than its layer norms, of several dimensions, and their derivatives.
    """
    if not isinstance(op, torch.CallOp | torch.VjpOp) or op.callee.data != LAYER_NORM:
        return None
    match op.template.call.args:
        case [_, ast.List(elts=normalized), *_]:
            return shapes.dims(op.inputs[0])[: -len(normalized)]
        case _:
            return None


def has_ragged_depth(op: Operation) -> bool:
    """Return whether each group of a product of the library has its own rows to add up."""
    return isinstance(op, gemm.LibraryOp) and op.has_ragged_depth


def groups_of(op: Operation) -> int:
    """Return the number of groups of rows for which a product has weights or results."""
    if isinstance(op, coda.GroupedLinearMap):
        return max(1, shape_of(op.weight)[0])
    if isinstance(op, coda.GroupedWeightGradientOp) or has_ragged_depth(op):
        return max(1, shape_of(op.results[0])[0])
    is_grouped = isinstance(op, gemm.LibraryOp) and op.groups is not None
    return max(1, shape_of(op.operands[1])[0]) if is_grouped else 1
