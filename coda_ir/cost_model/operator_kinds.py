"""The kinds of operators that estimates distinguish: products, attention, and the rest."""

from collections.abc import Sequence

from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda, gemm, torch
from coda_ir.storage import is_placed, is_stored_by_kernel

VIEWS = (coda.ReshapeOp, coda.TransposeOp, coda.SliceOp, coda.ConstantOp, coda.BarrierOp, ReturnOp)
ATTENTION = (coda.AttentionOp, coda.AttentionGradOp, gemm.AttentionSumOp)
LIBRARY = (
    *(coda.LinearOp, coda.MatmulOp, coda.GroupedLinearMap, coda.WeightGradientOp),
    *(coda.ScaledLinearOp, coda.QuantizedLinearOp, coda.LowBitLinearOp),
    coda.GroupedWeightGradientOp,
    gemm.LibraryOp,
)

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
    """Return the values that PyTorch moves in a kernel before that of `op`: a norm of groups reads
    its operand for the statistics, and a derivative computes the operator again.
    """
    if isinstance(op, coda.GroupNormOp):
        return [op.x]
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
