"""Products with operands of 8 bits: emitted kernels and the reference against float64."""

import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
import torch
from support.device import DEVICE, on_device
from support.elements import DTYPES
from support.kernel_harness import (
    assert_rounded,
    check_against_reference,
    gemms_of,
    parse_module,
)

import coda_ir
from coda_ir.backends.triton.aot import CompiledKernel, compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass

Target: TypeAlias = Literal["triton", "reference"]

TARGETS: tuple[Target, ...] = ("triton", "reference")

MLIR = {"f8e4m3": "f8E4M3FN", "f8e5m2": "f8E5M2", "u8": "ui8"}

PRODUCTS = (
    *(("f8e4m3", "f8e4m3"), ("f8e4m3", "f8e5m2"), ("f8e5m2", "f8e4m3"), ("f8e5m2", "f8e5m2")),
    *(("bf16", "i8"), ("bf16", "u8"), ("bf16", "f8e4m3"), ("bf16", "f8e5m2")),
    *(("f16", "i8"), ("f16", "f8e4m3"), ("f16", "f8e5m2"), ("f32", "i8"), ("f32", "f8e5m2")),
)
"""The element types of x and of a weight."""


def drawn(element: str, *shape: int, seed: int = 0) -> torch.Tensor:
    """Every number that the type has may occur, but for NaN and infinity."""
    generator = torch.Generator().manual_seed(seed)
    dtype = DTYPES[element]
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        return torch.randint(limits.min, limits.max + 1, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def gemm(x: str, w: str, layout: str, schedule: str, k: int = 64, n: int = 48) -> str:
    """Scales of rows and columns and a bias, after which rows have a largest element."""
    x, w = MLIR.get(x, x), MLIR.get(w, w)
    shape = f"{n}x{k}" if layout == "nk" else f"{k}x{n}"
    types = f"tensor<?x{k}x{x}>", f"tensor<{shape}x{w}>", "tensor<?x1xf32>", f"tensor<{n}xf32>"
    results = f"tensor<?x{n}xbf16>, tensor<?x?xf32>"
    return f"""
func.func @f(%x: {types[0]}, %w: {types[1]}, %sx: {types[2]}, %sw: {types[3]}) -> ({results}) {{
  %y, %top = gemm.fused %x : {types[0]}
      schedule<{schedule}>
      columns(%w : {types[1]}) {layout if layout == "kn" else ""} col(%sx : {types[2]})
        row(%sw : {types[3]}) -> (tile : tensor<?x{n}xbf16>, partial_row<max> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32, %r : f32, %c : f32):
    %0 = arith.mulf %acc, %r : f32
    %1 = arith.mulf %0, %c : f32
    gemm.yield %1, %1 : f32, f32
  }}
  func.return %y, %top : {results}
}}
"""


@pytest.mark.slow
@pytest.mark.any_device
@pytest.mark.parametrize("mainloop", ["pointer", "tma"])
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize(("x", "w"), PRODUCTS)
def test_products(x: str, w: str, layout: str, mainloop: str, tmp_path: Path) -> None:
    if x == "f32" and mainloop == "tma":
        pytest.skip("tensor cores do not multiply float32")
    text = gemm(x, w, layout, f'{mainloop}, "32x32x32", warps = 4, stages = 1, group_m = 2')
    shape = (48, 64) if layout == "nk" else (64, 48)
    scales = drawn("f32", 37, 1, seed=2), drawn("f32", 48, seed=3)
    arguments = [drawn(x, 37, 64), drawn(w, *shape, seed=1), *scales]
    check_against_reference(text, [37], tmp_path, arguments=arguments)


@pytest.mark.any_device
@pytest.mark.parametrize("k", [16, 33, 70])
def test_steps_past_the_depth(k: int, tmp_path: Path) -> None:
    text = gemm("f8e4m3", "f8e5m2", "nk", 'pointer, "16x16x32", warps = 4, stages = 1', k=k)
    check_against_reference(text.replace("stages = 1", "stages = 1, group_m = 2"), [5], tmp_path)


@pytest.mark.any_device
@pytest.mark.parametrize("target", TARGETS)
def test_nan_and_infinity(target: Target) -> None:
    """They propagate: f8e4m3 has NaN, f8e5m2 has both."""
    text = "fn f(x: f8e4m3[M, 32], w: f8e5m2[16, 32]) { return linear(x, w) }"
    x, w = drawn("f8e4m3", 5, 32), drawn("f8e5m2", 16, 32, seed=1)
    x[1, 3], w[2, 4], w[3, 5] = float("nan"), float("inf"), float("nan")
    y = on_device(coda_ir.compile(text, target=target, device=DEVICE))(x, w)
    expected = x.double() @ w.double().T
    assert isinstance(y, torch.Tensor) and y.dtype == torch.float32
    # Hopper's tensor cores add up products of float8 with fewer bits than float32 has.
    bound = 1e-6 if DEVICE == "cpu" else 2e-3
    torch.testing.assert_close(y.double(), expected, rtol=bound, atol=bound, equal_nan=True)
    assert y[1].isnan().all() and y[:, 3].isnan().all() and y[0, 2].isinf()


@pytest.mark.parametrize("target", TARGETS)
def test_scaled_block(target: Target) -> None:
    """Scales, bias, activation and residual of a product of float8 are one kernel with it."""
    text = """
    fn f(
        x: f8e4m3[M, 64], w: f8e4m3[48, 64],
        sx: f32[M, 1], sw: f32[48], b: bf16[48], r: bf16[M, 48],
    ) {
        y = linear(x, w) * sx * sw + cast(b, f32)
        return r + cast(silu(y), bf16)
    }
    """
    x, w = drawn("f8e4m3", 37, 64), drawn("f8e4m3", 48, 64, seed=1)
    sx, sw = drawn("f32", 37, 1, seed=2).abs(), drawn("f32", 48, seed=3).abs()
    b, r = drawn("bf16", 48, seed=4), drawn("bf16", 37, 48, seed=5)
    compiled = coda_ir.compile(text, target=target, device=DEVICE)
    y = on_device(compiled)(x, w, sx, sw, b, r)
    product = x.double() @ w.double().T * sx.double() * sw.double() + b.double()
    expected = r.double() + torch.nn.functional.silu(product)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y.double(), expected, rtol=2**-7, atol=2**-7)
    if target == "triton":
        assert compiled.kernels == ("gemm_row_scale_scale_bias_residual_silu",)


def test_programs_of_the_page() -> None:
    """The programs of docs/low-precision.md have one kernel for each of their GEMMs."""
    page = (Path(__file__).parents[3] / "docs" / "low-precision.md").read_text()
    texts = re.findall(r"^```coda\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    counts = [len(coda_ir.compile(text, device="cpu").kernels) for text in texts]
    assert counts == [1, 1, 1, 1, 2]


def test_accumulation_is_stated() -> None:
    """Promoted by default; the mode `fast` takes Hopper's own sums."""
    text = "fn f(x: f8e4m3[M, 64], w: f8e4m3[48, 64]) { return linear(x, w) }"
    exact = coda_ir.compile(text, device="cpu")
    fast = coda_ir.compile(text, device="cpu", numerics="fast")
    assert "IS_FAST=True" in fast.source and "IS_FAST=True" not in exact.source
    wide = coda_ir.compile(text.replace("f8e4m3", "bf16"), device="cpu", numerics="fast")
    assert "IS_FAST=True" not in wide.source
    x, w = drawn("f8e4m3", 5, 64), drawn("f8e4m3", 48, 64, seed=1)
    torch.testing.assert_close(fast(x, w), exact(x, w), rtol=0, atol=0)


def test_deterministic_order() -> None:
    """The order of sums is the same for every number of rows."""
    text = "fn f(x: f8e4m3[M, 100], w: f8e4m3[48, 100]) { return linear(x, w) }"
    f = coda_ir.compile(text, device="cpu", numerics="deterministic")
    x, w = drawn("f8e4m3", 70, 100), drawn("f8e4m3", 48, 100, seed=1)
    whole, row = f(x, w), f(x[:1], w)
    assert isinstance(whole, torch.Tensor) and isinstance(row, torch.Tensor)
    assert torch.equal(whole[:1], row)
    torch.testing.assert_close(whole.double(), x.double() @ w.double().T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["i8", "f8e4m3"])
def test_gradient_of_x(element: str) -> None:
    """A weight of 8 bits is a constant: one backward GEMM reads it, and its scale or none."""
    for scale in ("", " * s"):
        text = f"""fn f(x: bf16[M, 64], w: {element}[48, 64], s: bf16[48, 1]) {{
            return linear(x, cast(w, bf16){scale}) * reshape(s, [48])
        }}"""
        x, w, s = drawn("bf16", 9, 64), drawn(element, 48, 64, seed=1), drawn("bf16", 48, 1, seed=2)
        y: Any = coda_ir.compile(text, device="cpu", training=True)(x.requires_grad_(), w, s)
        dy = drawn("bf16", 9, 48, seed=3)
        y.backward(dy)
        factor = s.double() ** (2 if scale else 1)
        expected = dy.double() @ (w.double() * factor)
        assert x.grad is not None
        error = (x.grad.double() - expected).square().mean().sqrt()
        assert error <= 0.01 * expected.square().mean().sqrt()


PROGRAMS = {
    "rowwise": """fn f(x: f8e4m3[M, 2048], w: f8e4m3[2048, 2048], sx: f32[M, 1], sw: f32[2048]) {
        return cast(linear(x, w) * sx * sw, bf16)
    }""",
    "mixed": "fn f(x: f8e4m3[M, 512], w: f8e5m2[512, 512]) { return linear(x, w) }",
    "swiglu": """fn f(x: f8e4m3[M, 2048], w: f8e4m3[2048, 2048], v: f8e4m3[2048, 2048], s: f32[1]) {
        return cast(silu(linear(x, w) * s) * (linear(x, v) * s), bf16)
    }""",
    "of K x N": "fn f(x: f8e4m3[M, 512], w: f8e4m3[512, 512]) { return x @ w }",
    "int8 weights": "fn f(x: bf16[M, 2048], w: i8[2048, 2048]) { return linear(x, w) }",
    "int8 weights of K x N": "fn f(x: bf16[M, 512], w: i8[512, 512]) { return x @ w }",
    "float8 weights": "fn f(x: bf16[M, 2048], w: f8e4m3[2048, 2048]) { return linear(x, w) }",
    "float8 weights and float16": "fn f(x: f16[M, 64], w: f8e5m2[64, 64]) { return linear(x, w) }",
}

INSTRUCTIONS = {
    "sm_89": r"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "sm_90": r"wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3",
    "sm_100": r"tcgen05.mma.cta_group::1.kind::f8f6f4",
    "gfx942": r"v_mfma_f32_32x32x8_f16",
}
"""The type in which a product of float8 is computed: on gfx942, whose float8 is another type, as
float16."""


def compiled_for(arch: str, schedule: SchedulePass, text: str, mode: str = "") -> CompiledKernel:
    module = parse_text(text)
    CodaToGemmPass(numerics=mode or None).apply(make_context(), module)
    schedule.apply(make_context(), module)
    (kernel,) = [emit_gemm(op, NameAllocator()) for op in gemms_of(module)]
    level = "amdgcn" if arch.startswith("gfx") else "ptx"
    return compile_kernels([kernel], arch, level, jobs=1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("arch", "schedule"),
    [
        ("sm_89", SchedulePass(target="portable")),
        ("sm_90", SchedulePass(target="sm_90", mainloop="tma")),
        ("sm_90", SchedulePass(target="sm_90")),
        ("sm_100", SchedulePass(target="sm_80")),
        ("gfx942", SchedulePass(target="gfx942")),
    ],
    ids=["sm_89", "sm_90 tma", "sm_90 pointer", "sm_100", "gfx942"],
)
def test_ahead_of_time(arch: str, schedule: SchedulePass, program: str) -> None:
    kernel = compiled_for(arch, schedule, PROGRAMS[program])
    assert kernel.resources.fits and not kernel.resources.spills, kernel.resources
    if program in ("rowwise", "swiglu"):
        assert INSTRUCTIONS[arch] in kernel.text


def test_promoted_sums_on_hopper() -> None:
    """Products of a step are added in float32: without it there is no addition in the loop."""
    text, schedule = PROGRAMS["mixed"], SchedulePass(target="sm_90", mainloop="tma")
    counts = [
        compiled_for("sm_90", schedule, text, mode).text.count("add.f32") for mode in ("", "fast")
    ]
    assert counts[0] >= 64 and counts[1] == 0


def test_unscheduled_sums(tmp_path: Path) -> None:
    """Several inputs of two float8 types, with weights of both, add up in one accumulator."""
    types = "tensor<?x64xf8E4M3FN>", "tensor<?x32xf8E5M2>", "tensor<48x64xf8E5M2>"
    text = f"""
func.func @f(%x: {types[0]}, %y: {types[1]}, %w: {types[2]}, %w1: tensor<48x32xf8E4M3FN>)
    -> tensor<?x48xf32> {{
  %z = gemm.fused %x : {types[0]} + %y : {types[1]}
      schedule<pointer, "16x32x32", warps = 4, stages = 1, group_m = 2>
      columns(%w : {types[2]}) + (%w1 : tensor<48x32xf8E4M3FN>) -> (tile : tensor<?x48xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %z : tensor<?x48xf32>
}}
"""
    check_against_reference(text, [19], tmp_path)
    (op,) = gemms_of(parse_module(text))
    x, y = drawn("f8e4m3", 19, 64), drawn("f8e5m2", 19, 32)
    w, v = drawn("f8e5m2", 48, 64, seed=1), drawn("f8e4m3", 48, 32, seed=2)
    exact = x.double() @ w.double().T + y.double() @ v.double().T
    assert_rounded(op.outputs[0], exact.float().double(), exact)


@pytest.mark.any_device
def test_known_scales_of_blocks() -> None:
    """A tile has the columns of one scale, so that each of its rows loads one."""
    text = """
    fn f(x: bf16[M, 512], scales: f32[M, 4]) {
        blocks = cast(reshape(x, [M, 4, 128]), f32) / reshape(scales, [M, 4, 1])
        return cast(reshape(blocks, [M, 512]), f8e4m3)
    }
    """
    x, scales = drawn("bf16", 37, 512), drawn("f32", 37, 4, seed=1).abs() + 0.1
    function = coda_ir.compile(text, target="triton", device=DEVICE)
    assert "tiles of 16 x 128" in function.source
    y = on_device(function)(x, scales)
    expected = x.float().view(37, 4, 128) / scales.view(37, 4, 1)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y.float(), expected.view(37, 512).to(y.dtype).float())
