"""GEMM kernels compile ahead of time, without spills, under the schedules that we choose."""

import functools
from collections.abc import Mapping

import pytest
from support import gemm_programs as programs
from support import gradient_programs as gradients
from support.kernel_harness import gemms_of, parse_module

from coda_ir.backends.triton.aot import KernelResources, compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.passes.layout.schedule import SchedulePass

TARGETS = ("sm_80", "sm_90", "gfx942")
D = 2048

PROGRAMS = {
    "residual": programs.residual_norm("bf16", D, D, ""),
    "residual of K x N": programs.residual_norm("f16", 768, 2304, "", "kn"),
    "swiglu": programs.swiglu("bf16", D, 5632, ""),
    "rope": programs.qkv_rope("bf16", D, 128, (16, 4), ""),
    "qk norm": programs.qkv_rope("bf16", D, 96, (16, 4), "", norm=True),
    "wide qk norm": programs.qkv_rope("f16", D, 256, (4, 2), "", norm=True),
    "lm head": programs.lm_head("bf16", D, 50257, ""),
    "float32": programs.qkv_rope("f32", D, 64, (8, 2), "", norm=True),
    "small float32": programs.swiglu("f32", 40, 56, ""),
}


GRADIENTS = {
    "swiglu": gradients.swiglu_gradient("bf16", (D, 512), 5632, ""),
    "weights": gradients.merged_weight_gradients("bf16", D, (D, 512), ""),
}


def emit_scheduled(
    schedule: SchedulePass, programs: Mapping[str, str] = PROGRAMS
) -> list[EmittedKernel]:
    names = NameAllocator()
    kernels: list[EmittedKernel] = []
    for text in programs.values():
        module = parse_module(text)
        schedule.apply(make_context(), module)
        kernels += [emit_gemm(op, names) for op in gemms_of(module)]
    return kernels


@functools.cache
def compiled(target: str, schedule: SchedulePass) -> list[KernelResources]:
    return [kernel.resources for kernel in compile_kernels(emit_scheduled(schedule), target)]


@pytest.mark.parametrize("target", TARGETS)
def test_portable_schedule(target: str) -> None:
    kernels = compiled(target, SchedulePass(target="portable"))
    assert len(kernels) == len(PROGRAMS)
    assert all(kernel.fits for kernel in kernels), kernels
    if target != "sm_80":
        assert not any(kernel.spills for kernel in kernels), kernels


@pytest.mark.parametrize("mainloop", ["pointer", "tma"])
def test_hopper_schedule(mainloop: str) -> None:
    kernels = compiled("sm_90", SchedulePass(target="sm_90", mainloop=mainloop))
    assert all(kernel.fits and not kernel.spills for kernel in kernels), kernels


@pytest.mark.parametrize(
    ("target", "mainloop"), [("sm_90", "tma"), ("sm_90", "pointer"), ("gfx942", "pointer")]
)
def test_gradients(target: str, mainloop: str) -> None:
    kernels = emit_scheduled(SchedulePass(target=target, mainloop=mainloop), GRADIENTS)
    resources = [kernel.resources for kernel in compile_kernels(kernels, target)]
    assert all(each.fits and not each.spills for each in resources), resources
