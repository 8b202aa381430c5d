"""Launches with stand-ins for their tensors: what Triton compiles is known before there are any.

    gemm_residual[(1,)](
        TensorDescriptor(tensor("bf16"), [16, 11008], [11008, 1], [128, 64]),
        tensor("fp32"),
        16,
        num_warps=8,
        num_stages=3,
    )

Triton compiles a kernel for the types of its arguments, for addresses that are multiples of 16, as
those of dense tensors are, and for numbers that it specializes on. Only strides are such numbers.
`coda_ir/launching/kernels_ahead.py` evaluates the text.
"""

from __future__ import annotations

from dataclasses import replace

from coda_ir.backends.triton.host_values import ROWS, constant
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import is_specialized

NUMBER = "16"
"""Stands for extents, which no kernel is specialized on."""


def stand_in_launch(kernel: EmittedKernel) -> str | None:
    """The expression of a launch; None for a kernel that is specialized on strides of a tensor."""
    if any(map(is_specialized, kernel.arguments)):
        return None
    arguments = [replace(each, value=constant(_stand_in(each))) for each in kernel.arguments]
    launched = replace(kernel, arguments=tuple(arguments), grid=constant(1))
    return "\n".join(launched.launch({}))


def _stand_in(argument: KernelArgument) -> str:
    """The text that is passed for an argument."""
    if argument.type == "i32":
        return NUMBER
    pointee = argument.type.removeprefix("*").removeprefix("tensordesc<").partition("[")[0]
    stand_in = f'tensor("{pointee}")'
    tensors = dict.fromkeys(argument.value.places, stand_in)
    return argument.value.text({**tensors, ROWS: NUMBER})
