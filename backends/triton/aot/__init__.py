"""Ahead-of-time compilation of emitted kernels: assembly, registers, spills, shared memory."""

from coda_ir.backends.triton.aot.architectures import (
    complete_schedule,
    default_schedule,
    find_architecture,
)
from coda_ir.backends.triton.aot.compiler import (
    CompiledKernel,
    MachineLevel,
    check_level,
    compile_kernels,
)
from coda_ir.backends.triton.aot.resources import KernelResources, check_fits, resources_table

__all__ = [
    "CompiledKernel",
    "KernelResources",
    "MachineLevel",
    "check_fits",
    "check_level",
    "compile_kernels",
    "complete_schedule",
    "default_schedule",
    "find_architecture",
    "resources_table",
]
