"""Pass `drop-barriers`: remove barriers from operators that are in their final order."""

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class DropBarriersPass(FunctionPass):
    """Removes every `coda.barrier`, when no later pass reorders operators.

        %h1 = coda.barrier %h, %dw0
        %z1 = gemm.fused %h1 ...         ->    %z1 = gemm.fused %h ...

    Always legal: operators run in the order in which they are written. The pass runs after the
    passes that merge kernels, because kernels that a barrier kept apart may read the same tensor
    afterwards.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.BarrierOp):
            rewriter.order.give_way(op, [op.x])
