"""Pass `split-bias`: add the bias of a convolution in pointwise code."""

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import numerics_mode
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal

ROUNDED = Refusal(
    "the compiler chooses the rounding between operators", "the program states where it rounds"
)
DEPTHWISE = Refusal(
    "PyTorch adds the bias to the stored result",
    "PyTorch's kernel for single channels adds the bias itself",
)
NOT_POINTWISE = Refusal(
    "pointwise code reads the result", "no operator that reads the result is pointwise"
)


class SplitBiasPass(FunctionPass):
    """Moves the bias of a convolution into the pointwise code that reads the result.

        %c = coda.convolution %x, %w, %b           %0 = coda.convolution %x, %w
        %y = coda.relu %c                 ->       %1 = coda.reshape %b : O x 1 x 1
                                                   %c = coda.add %0, %1
                                                   %y = coda.relu %c

    cuDNN's convolutions have no bias, so PyTorch reads and writes the whole result once more to add
    it. Legal iff the program leaves rounding to the compiler, because the sum may be rounded once
    or twice. Worth it iff an operator that reads the result is pointwise, and cuDNN runs the
    convolution, which it does not for groups of single channels.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.ConvolutionOp):
            message = "pointwise code adds the bias"
            if op.bias is not None and rewriter.accepts(op, _refusal(op), message):
                _split(op, op.bias, rewriter)


def _refusal(op: coda.ConvolutionOp) -> Refusal | None:
    if numerics_mode(op).is_strict:
        return ROUNDED
    if op.given["groups"] > 1 and shape_of(op.weight)[1] == 1:
        return DEPTHWISE
    readers = [use.operation for use in op.result.uses]
    is_read = any(isinstance(reader, coda.ElementwiseOp | coda.CastOp) for reader in readers)
    return None if is_read and op.channels != DYNAMIC_INDEX else NOT_POINTWISE


def _split(op: coda.ConvolutionOp, bias: SSAValue, rewriter: FunctionRewriter) -> None:
    insert = rewriter.before(op)
    steps = (op.given[name] for name in ("stride", "padding", "dilation", "groups"))
    alone = insert.insert(coda.ConvolutionOp(op.x, op.weight, None, *steps), op.result.name_hint)
    column = insert.reshape(bias, (op.channels, *(1 for _ in op.kernel)))
    rewriter.replace(op, insert.add(alone, column, op.result.name_hint))
