"""Which values share memory: views, results that take the place of an operand, and the roots."""

from xdsl.dialects.builtin import IntAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects.coda import BarrierOp, BroadcastOp, ReshapeOp, SliceOp, TransposeOp
from coda_ir.dialects.gemm import FinalizeOp, FusedOp, MapOp, ResultKind
from coda_ir.dialects.torch import CallOp

DONATED = "coda.donated"
"""The attribute of an argument that its caller gives up: results may be stored in its memory."""

BOXED = "coda.boxed"
"""The attribute of a function that takes a list of its arguments and empties it: what nobody else
holds is freed after its last use.
"""

VIEW_OPS = (ReshapeOp, TransposeOp, SliceOp, BroadcastOp, BarrierOp)


def is_view(owner: object) -> bool:
    """Whether the results of an operator may share the memory of its first operand."""
    is_call_with_view = isinstance(owner, CallOp) and owner.view is not None and owner.inputs
    return isinstance(owner, VIEW_OPS) or bool(is_call_with_view)


def overwritten(value: SSAValue) -> SSAValue | None:
    """The operand in whose memory a kernel stores its result `value`: that of an `accumulate`."""
    op = value.owner
    if not isinstance(op, FusedOp | MapOp):
        return None
    attrs = op.segment_attrs.data if isinstance(op, FusedOp) else (op.segment_attr,)
    outputs, first_port = iter(op.outputs), 0
    for attr in attrs:
        for port, output in zip(attr.results, outputs, strict=False):
            if output is value and port.kind.data == ResultKind.ACCUMULATE:
                assert isinstance(port.index, IntAttr)
                return op.ports[first_port + port.index.data]
        first_port += len(attr.ports)
    return None


def storage_root(value: SSAValue) -> SSAValue:
    """The value whose memory `value` shares; `value` itself where it has its own."""
    while True:
        if is_view(value.owner):
            assert isinstance(value.owner, Operation)
            value = value.owner.operands[0]
        elif (operand := overwritten(value)) is not None:
            value = operand
        else:
            return value


def is_donated(argument: BlockArgument) -> bool:
    """Whether the caller of a function gives up the memory of an argument."""
    func = argument.owner.parent_op()
    if not isinstance(func, FuncOp) or func.arg_attrs is None:
        return False
    return DONATED in func.arg_attrs.data[argument.index].data


def may_be_overwritten(value: SSAValue) -> bool:
    """Whether nobody else needs the memory of `value`, whose only use stores a result there: that
    of a kernel's result, or of a donated argument, without other views.
    """
    while is_view(value.owner):
        assert isinstance(value.owner, Operation)
        value = value.owner.operands[0]
        if len(list(value.uses)) > 1:
            return False
    if isinstance(value, BlockArgument):
        return is_donated(value)
    return isinstance(value.owner, FusedOp | MapOp | FinalizeOp)
