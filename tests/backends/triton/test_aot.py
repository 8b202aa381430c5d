"""GEMM kernels compile ahead of time, without spills, under the schedules that we choose."""

import pytest
from support import gemm_programs as programs, gradient_programs as gradients
from support.kernel_harness import gemms_of, parse_module

from coda_ir.backends.triton.aot import KernelResources, compile_kernels
from coda_ir.backends.triton.finalize_kernel import emit_finalize
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.dialects.gemm import FinalizeOp
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


def compiled(schedule: SchedulePass, text: str, target: str) -> list[KernelResources]:
    names, module = NameAllocator(), parse_module(text)
    schedule.apply(make_context(), module)
    kernels = [emit_gemm(op, names) for op in gemms_of(module)]
    assert kernels
    return [kernel.resources for kernel in compile_kernels(kernels, target)]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_portable_schedule(name: str, target: str) -> None:
    kernels = compiled(SchedulePass(target="portable"), PROGRAMS[name], target)
    assert all(kernel.fits for kernel in kernels), kernels
    if target != "sm_80":
        assert not any(kernel.spills for kernel in kernels), kernels


@pytest.mark.slow
@pytest.mark.parametrize("mainloop", ["pointer", "tma"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_hopper_schedule(name: str, mainloop: str) -> None:
    schedule = SchedulePass(target="sm_90", mainloop=mainloop)
    kernels = compiled(schedule, PROGRAMS[name], "sm_90")
    assert all(kernel.fits and not kernel.spills for kernel in kernels), kernels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "mainloop"), [("sm_90", "tma"), ("sm_90", "pointer"), ("gfx942", "pointer")]
)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, target: str, mainloop: str) -> None:
    schedule = SchedulePass(target=target, mainloop=mainloop)
    resources = compiled(schedule, GRADIENTS[name], target)
    assert all(each.fits and not each.spills for each in resources), resources


PARTIALS = """
func.func @f(%a: tensor<1x16xf32>, %b: tensor<?x16xf32>) -> tensor<16xbf16> {
  %y = gemm.finalize col (add %a : tensor<1x16xf32>, add %b : tensor<?x16xf32>)
      -> (tensor<16xbf16>) {
  ^epilogue(%x: f32, %z: f32):
    %0 = arith.addf %x, %z : f32
    gemm.yield %0 : f32
  }
  func.return %y : tensor<16xbf16>
}
"""


def test_partials_of_one_tile_and_of_any_number_of_tiles() -> None:
    module = parse_module(PARTIALS)
    (finalize,) = (op for op in module.walk() if isinstance(op, FinalizeOp))
    kernel = emit_finalize(finalize, NameAllocator(), (1, None), 16)
    (compiled,) = compile_kernels([kernel], "sm_90")
    assert compiled.resources.fits
