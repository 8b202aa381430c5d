"""Kernels of GEMMs that are compiled ahead of time, for a GPU that need not be there."""

from coda_ir.backends.triton.aot import CompiledKernel, MachineLevel, compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.layout.schedule import SchedulePass
from support.kernel_harness import gemms_of, parse_module


def scheduled(text: str, target: str, mainloop: str, expected: str | None = None) -> FusedOp:
    """The only GEMM of `text`, scheduled with the main loop that is asked for, or `expected`."""
    module = parse_module(text)
    SchedulePass(target=target, mainloop=mainloop).apply(make_context(), module)
    (op,) = gemms_of(module)
    assert op.schedule is not None and op.schedule.mainloop == (expected or mainloop)
    return op


def compiled(gemm: str | FusedOp, target: str, level: MachineLevel | None = None) -> CompiledKernel:
    """The kernel of the only GEMM of a text, or of a GEMM, which fits and spills nothing."""
    (op,) = gemms_of(parse_module(gemm)) if isinstance(gemm, str) else (gemm,)
    (kernel,) = compile_kernels([emit_gemm(op, NameAllocator())], target, level, jobs=1)
    assert kernel.resources.fits and not kernel.resources.spills, kernel.resources
    return kernel
