"""Resources of kernels: figures for known kernels, and errors of ahead-of-time compilation."""

from dataclasses import replace

import pytest

import coda_ir
from coda_ir.api import Lowering
from coda_ir.backends.triton.aot import (
    KernelResources,
    check_fits,
    compile_kernels,
    find_architecture,
    resources_table,
)
from coda_ir.backends.triton.aot.compiler import KernelCompilationError
from coda_ir.backends.triton.architectures import ARCHITECTURES
from coda_ir.backends.triton.host_values import constant, nth_operand
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.diagnostics import CodaError
from coda_ir.options import CompileOptions

PROGRAM = "fn f(x: bf16[M, 64], weight w: bf16[64, 64]) -> bf16[M, 64] { return linear(x, w) }"

KERNEL = KernelResources("k", "sm_90", 128, 0, 100 * 1024, 8, 3)


class TestOccupancy:
    """Computed by hand from the limits that NVIDIA publishes: one SM of an H100 has 64 warps, 65536
    registers and 228 KiB of shared memory, of which every program takes 1 KiB more than it wants.
    """

    @pytest.mark.parametrize(
        "changes, programs, limit",
        [
            ({"registers": 32, "shared_memory": 0}, 8, "warps"),
            ({"registers": 128, "shared_memory": 0}, 2, "registers"),
            ({"registers": 129, "shared_memory": 0}, 1, "registers"),
            ({"registers": 168, "shared_memory": 0, "warps": 12}, 1, "registers"),
            ({"registers": 32, "shared_memory": 75 * 1024}, 3, "shared memory"),
            ({"registers": 32, "shared_memory": 75 * 1024 + 1}, 2, "shared memory"),
            ({"registers": 16, "shared_memory": 0, "warps": 1}, 32, "programs"),
            ({"shared_memory": 227 * 1024}, 1, "shared memory"),
            ({"shared_memory": 227 * 1024 + 1}, 0, "shared memory"),
        ],
    )
    def test_hopper(self, changes: dict[str, int], programs: int, limit: str):
        kernel = replace(KERNEL, **changes)
        assert (kernel.programs, kernel.limited_by) == (programs, limit)
        assert kernel.occupancy == programs * kernel.warps / 64

    def test_mi300(self):
        kernel = KernelResources("k", "gfx942", 128, 0, 32 * 1024, 4, 2)
        assert (kernel.programs, kernel.limited_by, kernel.occupancy) == (2, "shared memory", 0.25)

    def test_what_does_not_fit(self):
        kernel = replace(KERNEL, arch="sm_86")
        message = r"sm_86, which has 101376 bytes .* k needs 102400 bytes"
        with pytest.raises(CodaError, match=message):
            check_fits([kernel, replace(kernel, shared_memory=0)])
        assert "does not fit" in resources_table(kernel.architecture, [kernel])


class TestArchitectures:
    @pytest.mark.parametrize("name", ARCHITECTURES)
    def test_schedules_exist(self, name: str):
        module = coda_ir.parse(PROGRAM)
        module = Lowering(module, CompileOptions(ARCHITECTURES[name].schedule)).module("scheduled")
        assert "schedule<" in str(module)

    def test_unknown(self):
        with pytest.raises(CodaError) as caught:
            find_architecture("h100")
        assert "unknown architecture 'h100'" in str(caught.value)
        assert "sm_90 (H100, H200), " in str(caught.value)


def kernel(body: str, name: str = "k") -> EmittedKernel:
    source = f"@triton.jit\ndef {name}(x_ptr):\n    {body}\n"
    return EmittedKernel(
        name, source, (KernelArgument("x_ptr", "*fp32", nth_operand(0)),), constant(1), num_warps=1
    )


class TestCompiler:
    def test_nothing_to_compile(self):
        assert compile_kernels([], "sm_90") == []

    def test_text_and_resources(self):
        (compiled,) = compile_kernels([kernel("tl.store(x_ptr, 1.0)")], "sm_80", "ptx")
        assert ".target sm_80" in compiled.text and compiled.name == "k"
        assert compiled.resources.warps == 1 and compiled.resources.shared_memory == 0
        assert 0 < compiled.resources.registers <= 16

    def test_a_kernel_that_does_not_compile(self):
        right = kernel("tl.store(x_ptr, 1.0)", "right")
        with pytest.raises(KernelCompilationError) as caught:
            compile_kernels([right, kernel("tl.store(x_ptr, unknown)")], "sm_80")
        message = str(caught.value)
        assert message.startswith("kernel k does not compile for sm_80:\n")
        assert "unknown is not defined" in message

    def test_a_module_that_does_not_load(self):
        with pytest.raises(KernelCompilationError, match="kernel k does not compile") as caught:
            compile_kernels([kernel("break")], "sm_80")
        assert "SyntaxError" in str(caught.value)

    def test_assembly_of_the_other_vendor(self):
        with pytest.raises(CodaError, match="gfx942 has no sass"):
            compile_kernels([], "gfx942", "sass")
        with pytest.raises(CodaError, match="sm_90 has no amdgcn"):
            compile_kernels([], "sm_90", "amdgcn")


def test_resources_of_a_compiled_function():
    layer = coda_ir.compile(PROGRAM, device="cpu")
    (used,) = layer.resources("gfx942")
    assert used.kernel in layer.kernels and used.fits and not used.spills
    with pytest.raises(CodaError, match="unknown architecture"):
        layer.resources("cpu")
