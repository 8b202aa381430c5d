"""Emission of the operators of a function in order."""

from collections.abc import Mapping

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.kernel import ElementTypeError
from coda_ir.backends.triton.operators import (
    block_level,
    concatenation,
    gemm_level,
    gradients,
    state_spaces,
    torch_calls,
)
from coda_ir.backends.triton.operators.launching import Writer
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda import BroadcastOp, ConstantOp, ReshapeOp, is_of_extents
from coda_ir.remarks import format_location
from coda_ir.storage import is_placed


def emit_operators(host: HostProgram) -> None:
    """Emit the operators of the function in order. Raises CodaError for one without a kernel."""
    for op in host.func.body.block.ops:
        if isinstance(op, ReturnOp):
            host.returned(op)
            return
        if all(not result.uses for result in op.results):
            continue
        if _is_known(op):
            if isinstance(op, ReshapeOp):
                host.extents.bind_quotient(host.dims(op.result), host.dims(op.x))
            continue
        host.begin_operator()
        _emit(host, op)
        host.end_operator(op)


def _is_known(op: Operation) -> bool:
    """Return whether kernels contain the result in their code; other readers make a tensor."""
    if isinstance(op, BroadcastOp):
        return isinstance(op.x.owner, ConstantOp) and not is_placed(op.result)
    return isinstance(op, ConstantOp) or any(map(is_of_extents, op.results))


def _emit(host: HostProgram, op: Operation) -> None:
    try:
        _writer(op)(host, op)
    except ElementTypeError as error:
        place = format_location(op.location)
        raise LoweringError(f"{place}: {op.name}: {error.message}", error.remedy) from error


def _writer(op: Operation) -> Writer:
    for base in type(op).__mro__:
        if base in WRITERS:
            return WRITERS[base]
    raise LoweringError(
        f"{format_location(op.location)}: the triton backend cannot run {op.name}",
        "run a pass that lowers the operator, such as lower-to, or use the reference target",
    )


WRITERS: Mapping[type, Writer] = {
    **gemm_level.WRITERS,
    **block_level.WRITERS,
    **torch_calls.WRITERS,
    **concatenation.WRITERS,
    **gradients.WRITERS,
    **state_spaces.WRITERS,
}
"""Emitters by type of the operator, or a base class of it."""
