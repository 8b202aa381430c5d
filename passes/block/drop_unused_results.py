"""Pass `drop-unused-results`: remove results of epilogues that are not used."""

from coda_ir.dialects.gemm import FusedOp, MapOp
from coda_ir.passes.support.editing import EpilogueEditor
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class DropUnusedResultsPass(FunctionPass):
    """Removes results of `gemm.fused` and `gemm.map` that have no uses.

        %y, %z = gemm.fused ... { yield a, b }     ->     %y = gemm.fused ... { yield a }

    Always legal. Dead code elimination removes operators without any used result.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, FusedOp | MapOp):
                used = [bool(result.uses) for result in op.results]
                if any(used) and not all(used):
                    EpilogueEditor(op, rewriter.order).commit()
