"""Ahead-of-time compilation of emitted kernels: assembly, registers, spills, shared memory."""

from coda_ir.backends.triton.aot.compiler import (
    CompiledKernel as CompiledKernel,
    MachineLevel as MachineLevel,
    check_level as check_level,
    compile_kernels as compile_kernels,
)
from coda_ir.backends.triton.aot.resources import (
    KernelResources as KernelResources,
    check_fits as check_fits,
    resources_table as resources_table,
)
from coda_ir.backends.triton.architectures import (
    complete_schedule as complete_schedule,
    default_schedule as default_schedule,
    find_architecture as find_architecture,
)
