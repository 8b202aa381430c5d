"""The derivative of convolutions, which needs nothing that they computed."""

from __future__ import annotations

from coda_ir.dialects.coda import LibraryCallOp
from coda_ir.dialects.torch import CONVOLUTION_GRAD, CallOp
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint
from coda_ir.passes.support.convolutions import Convolution


def give_convolution(op: CallOp | LibraryCallOp, adjoint: Adjoint) -> bool:
    """Give the inputs of a convolution their gradients, by one call; False for another `op`.

    PyTorch's own derivative would run the convolution again. That of samples without a batch and
    of arguments that are not numbers is left to it.
    """
    found, dy = Convolution.of(op), adjoint.d_results[0]
    if found is None or dy is None:
        return False
    operands = (found.input, found.weight, found.bias)
    wanted = {
        position: operand
        for position, operand in enumerate(operands)
        if operand is not None and adjoint.wants(operand)
    }
    bias = "None" if found.bias is None else f"[{found.channels}]"
    numbers = [list(each) for each in (found.stride, found.padding, found.dilation)]
    output_padding, mask = [0] * len(found.kernel), [position in wanted for position in range(3)]
    text = f"{{0}}, {{1}}, {{2}}, {bias}, {', '.join(map(str, numbers))}, False"
    back = CallOp(
        CONVOLUTION_GRAD,
        [dy, found.input, found.weight],
        f"{text}, {output_padding}, {found.groups}, {mask}",
        [operand.type for operand in wanted.values()],
        positions=list(wanted),
    )
    adjoint.insert(back)
    for operand, gradient in zip(wanted.values(), back.outputs, strict=True):
        adjoint.give(operand, gradient)
    return True
