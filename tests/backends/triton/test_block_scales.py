"""Products of float8 with scales of blocks: emitted kernels and the reference against float64."""

from pathlib import Path
from typing import Literal

import pytest
import torch
from support.block_programs import E4M3, E5M2, gated_blocks, scaled_blocks
from support.compiled_kernels import compiled, scheduled
from support.device import DEVICE, on_device
from support.kernel_harness import check_against_reference, gemms_of, parse_module

import coda_ir
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm.tiling import ColumnCuts
from coda_ir.dialects.gemm.warp_specialized import staging
from coda_ir.float64 import relative_error


def portable(tile: str, loop: str = "pointer", split_k: int = 1) -> str:
    split = f", split_k = {split_k}" if split_k > 1 else ""
    return f'{loop}, "{tile}", warps = 4, stages = 1, group_m = 2{split}'


def hopper(columns: int = 256, loop: str = "split_rows") -> str:
    return f'{loop}, "128x{columns}x128", warps = 8, stages = 3, group_m = 2'


@pytest.mark.any_device
@pytest.mark.parametrize("loop", ["pointer", "tma"])
class TestPortable:
    @pytest.mark.slow
    @pytest.mark.parametrize(("x", "w"), [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)])
    def test_types(self, loop: str, x: str, w: str, tmp_path: Path):
        check_against_reference(scaled_blocks(portable("32x64x64", loop), x=x, w=w), [70], tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("k", "n", "depth", "columns", "tile"),
        [
            (400, 72, 128, 128, "32x32x128"),
            (144, 144, 64, 32, "32x64x32"),
            (80, 40, 32, 1, "16x16x32"),
            (272, 48, 256, 16, "32x32x64"),
            (16, 16, 128, 128, "16x16x32"),
        ],
    )
    def test_blocks(
        self, loop: str, k: int, n: int, depth: int, columns: int, tile: str, tmp_path: Path
    ):
        """The last block of a row or a column is smaller, and tiles have some or many blocks."""
        text = scaled_blocks(portable(tile, loop), k=k, n=n, depth=depth, columns=columns)
        check_against_reference(text, [37], tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("pairing", ["two weights", "halves"])
    def test_pairs(self, loop: str, pairing: str, tmp_path: Path):
        check_against_reference(gated_blocks(portable("32x64x64", loop), pairing), [37], tmp_path)

    def test_programs_share_the_depth(self, loop: str, tmp_path: Path):
        text = scaled_blocks(portable("16x32x64", loop, 3), k=784, n=48)
        check_against_reference(text, [20], tmp_path)


class TestWarpSpecialized:
    @pytest.mark.slow
    @pytest.mark.parametrize("columns", [64, 128, 256])
    def test_tiles(self, columns: int, tmp_path: Path):
        kernel = check_against_reference(scaled_blocks(hopper(columns)), [130], tmp_path)
        assert kernel.language == "gluon" and "BLOCKS=3" in kernel.source

    def test_eight_warps_together(self, tmp_path: Path):
        text = scaled_blocks(hopper(loop="warp_specialized"), k=400, columns=256, y="f32")
        check_against_reference(text, [130], tmp_path)

    @pytest.mark.parametrize("pairing", ["two weights", "halves", "halves, 128"])
    def test_pairs(self, pairing: str, tmp_path: Path):
        check_against_reference(gated_blocks(hopper(), pairing), [130], tmp_path)

    @pytest.mark.parametrize(
        ("tile", "pairing", "n", "parts"),
        [(128, "two weights", 256, 2), (256, "halves", 192, 4), (256, "halves, 64", 128, 8)],
    )
    def test_pairs_of_several_blocks(
        self, tile: int, pairing: str, n: int, parts: int, tmp_path: Path
    ):
        """A piece of 128 columns of a tile has columns of two blocks or more."""
        text = gated_blocks(hopper(tile), pairing, n=n)
        kernel = check_against_reference(text, [70], tmp_path)
        scales = kernel.source.partition("b_scales = ")[2].partition("acc, step")[0]
        assert scales.count("gl.minimum(") == parts

    def test_fast_sums_are_scaled_too(self, tmp_path: Path):
        fast = 'attributes {coda.numerics = #gemm.numerics<"fast">}'
        text = scaled_blocks(hopper(), n=136).replace(") {\n  %", f") {fast} {{\n  %", 1)
        assert fast in text
        check_against_reference(text, [70], tmp_path)


REFUSED = {
    "its scales are for 256 of K, expected 128": scaled_blocks(hopper(), depth=256),
    "its scales are for 1 columns, expected 32 or more": scaled_blocks(hopper(), columns=1),
    "columns of two blocks are paired with their neighbours": gated_blocks(hopper(), "adjacent"),
    "its scales are for 16 columns": gated_blocks(hopper(), "halves", n=144),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    (op,) = gemms_of(parse_module(REFUSED[reason]))
    assert op.schedule is not None
    found = staging(ColumnCuts(op), op.schedule)
    assert isinstance(found, str) and reason in found


def test_steps_of_several_blocks() -> None:
    (op,) = gemms_of(parse_module(scaled_blocks(portable("32x32x128"), depth=64, k=128)))
    with pytest.raises(CodaError, match="BK is 128, expected a divisor of 64, K of a block"):
        emit_gemm(op, NameAllocator())


class TestAheadOfTime:
    @pytest.mark.parametrize("architecture", ["sm_89", "sm_90", "sm_100", "gfx942"])
    def test_portable(self, architecture: str):
        level = "amdgcn" if architecture.startswith("gfx") else "ptx"
        text = scaled_blocks(portable("64x64x128"), k=512, n=512)
        compiled(text, architecture, level)

    def test_hopper(self):
        """A product and its scale are one multiplication and addition, without spilling."""
        kernel = compiled(scaled_blocks(hopper(), k=4096, n=4096), "sm_90", "ptx")
        assert "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3" in kernel.text
        assert kernel.text.count("fma.rn.f32") >= 256


def test_default_on_hopper() -> None:
    text = scaled_blocks(hopper(), k=4096, n=4096)
    op = scheduled(text, "sm_90", "warp_specialized", expected="split_rows")
    assert op.schedule is not None and op.schedule.tile == (128, 256, 128)


PROGRAM = """
fn f(
    x: f8e4m3[M, 200], w: f8e4m3[136, 200], v: f8e4m3[136, 200],
    sx: f32[M, 2], sw: f32[2, 2], sv: f32[2, 2], r: bf16[M, 136],
) {
    y = silu(scaled_linear(x, w, sx, sw)) * scaled_linear(x, v, sx, sv)
    return r + cast(y, bf16)
}
"""


def dequantized(x: torch.Tensor, scales: torch.Tensor, rows: int = 1) -> torch.Tensor:
    """The elements of x in float64, in blocks of `rows` x 128 with scales."""
    wide = scales.double().repeat_interleave(rows, 0).repeat_interleave(128, 1)
    return x.double() * wide[: x.shape[0], : x.shape[1]]


@pytest.mark.any_device
@pytest.mark.parametrize("target", ["triton", "reference"])
def test_siblings_share_a_kernel(target: Literal["triton", "reference"]) -> None:
    generator = torch.Generator().manual_seed(7)
    x, w, v = (
        torch.randn(rows, 200, generator=generator).to(torch.float8_e4m3fn)
        for rows in (37, 136, 136)
    )
    sx, sw, sv = (torch.rand(rows, 2, generator=generator) / 10 for rows in (37, 2, 2))
    r = torch.randn(37, 136, generator=generator).bfloat16()
    compiled = coda_ir.compile(PROGRAM, target=target, device=DEVICE)
    y = on_device(compiled)(x, w, v, sx, sw, sv, r)
    wide = dequantized(x, sx)
    gate, up = wide @ dequantized(w, sw, 128).T, wide @ dequantized(v, sv, 128).T
    expected = r.double() + torch.nn.functional.silu(gate) * up
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y.double(), expected, rtol=2**-7, atol=2**-7)
    if target == "triton":
        assert len(compiled.kernels) == 1 and "blocks" in compiled.kernels[0]


@pytest.mark.any_device
@pytest.mark.parametrize("numerics", ["eager-exact", "deterministic", "fast"])
def test_modes(numerics: str) -> None:
    """Every mode has the scales, and a deterministic sum does not depend on the rows."""
    text = """
    fn f(x: f8e4m3[M, 300], w: f8e4m3[40, 300], sx: f32[M, 3], sw: f32[1, 3]) {
        return scaled_linear(x, w, sx, sw)
    }
    """
    generator = torch.Generator().manual_seed(8)
    x, w = (torch.randn(n, 300, generator=generator).to(torch.float8_e4m3fn) for n in (33, 40))
    sx, sw = (torch.rand(rows, 3, generator=generator) for rows in (33, 1))
    compiled = on_device(coda_ir.compile(text, device=DEVICE, numerics=numerics))
    y = compiled(x, w, sx, sw)
    expected = dequantized(x, sx) @ dequantized(w, sw, 128).T
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y.double(), expected, rtol=1e-3, atol=1e-3)
    if numerics == "deterministic":
        few = compiled(x[:5], w, sx[:5], sw)
        assert isinstance(few, torch.Tensor) and torch.equal(few, y[:5])


QUANTIZED = """
fn f(x: bf16[M, 64], w: bf16[256, 64], u: bf16[256, 64], v: f8e4m3[72, 256], sv: f32[1, 2]) {
    hidden = silu(linear(x, w)) * linear(x, u)
    blocks = cast(reshape(hidden, [M, 2, 128]), f32)
    scales = maximum(max(abs(blocks)) / 448, 1e-30)
    q = reshape(cast(blocks / scales, f8e4m3, saturate=true), [M, 256])
    return scaled_linear(q, v, reshape(scales, [M, 2]), sv)
}
"""


@pytest.mark.any_device
def test_blocks_are_quantized_in_the_epilogue_of_a_product() -> None:
    """Scales have a dimension of one element after the reduction, which a view drops."""
    generator = torch.Generator().manual_seed(9)
    x, w, u = (torch.randn(n, 64, generator=generator).bfloat16() for n in (33, 256, 256))
    v = torch.randn(72, 256, generator=generator).to(torch.float8_e4m3fn)
    sv = torch.rand(1, 2, generator=generator)
    compiled = coda_ir.compile(QUANTIZED, device=DEVICE)
    y = on_device(compiled)(x, w, u, v, sv)
    hidden = torch.nn.functional.silu(x.double() @ w.double().T) * (x.double() @ u.double().T)
    exact = hidden @ dequantized(v, sv, 128).T
    assert isinstance(y, torch.Tensor) and len(compiled.kernels) == 2
    # Rounding to float8 has 3 bits after the point: 2.6 % for elements on average.
    assert relative_error(y, exact) <= 0.04
