"""Pass `drop-detach`: a program that will not be differentiated needs no `coda.detach`."""

from xdsl.ir import Block

from coda_ir.dialects import coda
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class DropDetachPass(FunctionPass):
    """Replaces every `coda.detach` by its operand, so that patterns see through it.

        %h1 = coda.detach %h
        %y = coda.mul %h, %h1            ->    %y = coda.mul %h, %h

    Always legal for the function itself, whose derivative is another one from here on:
    `differentiate` comes first.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        drop_detach(rewriter.func.body.block)


def drop_detach(block: Block) -> None:
    """Replace every `coda.detach` of a block by its operand."""
    for op in list(block.ops):
        if isinstance(op, coda.DetachOp):
            op.result.replace_all_uses_with(op.operand)
            block.erase_op(op)
