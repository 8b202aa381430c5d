"""Pass `drop-barriers`: operators in their final order need no barriers."""

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class DropBarriersPass(FunctionPass):
    """Removes `coda.barrier`, once no later pass moves operators past one another.

        %h1 = coda.barrier %h, %dw0
        %z1 = gemm.fused %h1 ...         ->    %z1 = gemm.fused %h ...

    Always legal: operators run in the order in which they are written. Kernels that a barrier kept
    apart may read the same tensor from here on, so this comes after the passes that merge them.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.BarrierOp):
            op.result.replace_all_uses_with(op.x)
            rewriter.order.erase(op)
