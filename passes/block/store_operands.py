"""Pass `store-operands`: compute discontinuous functions of values as they are stored."""

from collections.abc import Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.jumps import MOVES, read_as_stored, values_before_jumps

_ROUNDED = (
    *(*MOVES, coda.ConstantOp, coda.StoredOp),
    *(coda.EmbeddingOp, coda.LibraryCallOp, CallOp),
)
"""Operators whose results need no rounding: what is only moved has the rounding of an operand."""


class StoreOperandsPass(FunctionPass):
    """Rounds the 16-bit values from which a discontinuous function is computed.

        %s = coda.add %h, %p : ...bf16           %s = coda.add %h, %p : ...bf16
                                           ->    %r = coda.stored %s : ...bf16
        %c = coda.compare %s, %one ...           %c = coda.compare %r, %one ...

    A kernel that computes a value has it in float32, and other kernels, also those of the backward,
    have it as it was stored. For a continuous function both are almost the same. A comparison, a
    rounding to a whole number or a conversion to an integer may give different results, of which
    the kernels, together, would make a wrong one. If all operators before it round, up to products,
    attention and calls of PyTorch, it has the same operands in every kernel, which are those of
    eager PyTorch. The mode `eager-exact` rounds all values without this pass.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        if numerics_mode(rewriter.func) == NumericsMode.EAGER_EXACT:
            return
        for value in values_to_store(rewriter.ops):
            read_as_stored(value)


def values_to_store(ops: Sequence[Operation]) -> list[SSAValue]:
    """Return the values that the pass rounds in a function of `ops`."""
    before = values_before_jumps(ops)
    values = [value for op in ops for value in op.results]
    return [value for value in values if value in before and _needs_rounding(value)]


def _needs_rounding(value: SSAValue) -> bool:
    """Return whether a kernel may compute with another number than the one that it would store."""
    if not isinstance(element_type_of(value), BFloat16Type | Float16Type):
        return False
    is_rounded = all(isinstance(use.operation, coda.StoredOp) for use in value.uses)
    return not is_rounded and not isinstance(value.owner, _ROUNDED)
