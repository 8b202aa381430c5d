"""Pass `drop-detach`: remove `coda.detach` from a program that will not be differentiated."""

from xdsl.ir import Block

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class DropDetachPass(FunctionPass):
    """Replaces every `coda.detach` by its operand, so that patterns match across it.

        %h1 = coda.detach %h
        %y = coda.mul %h, %h1            ->    %y = coda.mul %h, %h

    Always legal for the results of the function. It changes the derivative, so it runs after
    `differentiate`.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        drop_detach(rewriter.func.body.block)


def drop_detach(block: Block) -> None:
    """Replace every `coda.detach` of a block by its operand."""
    for op in list(block.ops):
        if isinstance(op, coda.DetachOp):
            op.result.replace_all_uses_with(op.operand)
            block.erase_op(op)
