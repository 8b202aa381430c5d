"""Products of float8 in warp-specialized kernels: simulated against float64, and compiled."""

from pathlib import Path

import pytest
from support import gemm_programs as programs, gradient_programs as gradients
from support.compiled_kernels import compiled, scheduled
from support.kernel_harness import check_against_reference, gemms_of, parse_module

from coda_ir.dialects.gemm.tiling import ColumnCuts
from coda_ir.dialects.gemm.warp_specialized import staging

E4M3, E5M2 = "f8E4M3FN", "f8E5M2"
FAST = 'attributes {coda.numerics = #gemm.numerics<"fast">}'


def schedule(columns: int = 256, stages: int = 3, loop: str = "split_rows") -> str:
    return f'{loop}, "128x{columns}x128", warps = 8, stages = {stages}, group_m = 2'


def float8(text: str, k: int, x: str = E4M3, w: str = E4M3) -> str:
    """A program with float8 in place of bfloat16 where rows have `k` elements: its operands."""
    return text.replace(f"<?x{k}xbf16>", f"<?x{k}x{x}>").replace(f"x{k}xbf16>", f"x{k}x{w}>")


def scaled(
    how: str, *, k: int = 272, n: int = 136, x: str = E4M3, w: str = E4M3, y: str = "bf16"
) -> str:
    """Scales of rows and columns, and the largest element of each row of a tile."""
    types = f"tensor<?x{k}x{x}>", f"tensor<{n}x{k}x{w}>", "tensor<?x1xf32>", f"tensor<{n}xf32>"
    results = f"tensor<?x{n}x{y}>, tensor<?x?xf32>"
    return f"""
func.func @f(%x: {types[0]}, %w: {types[1]}, %sx: {types[2]}, %sw: {types[3]}) -> ({results}) {{
  %y, %top = gemm.fused %x : {types[0]} schedule<{how}>
      columns(%w : {types[1]}) col(%sx : {types[2]}) row(%sw : {types[3]})
      -> (tile : tensor<?x{n}x{y}>, partial_row<max> : tensor<?x?xf32>) {{
  ^epilogue(%acc : f32, %r : f32, %c : f32):
    %0 = arith.mulf %acc, %r : f32
    %1 = arith.mulf %0, %c : f32
    gemm.yield %1, %1 : f32, f32
  }}
  func.return %y, %top : {results}
}}
"""


def quantized(how: str, y: str = E4M3, *, k: int = 144, n: int = 256) -> str:
    """Elements of float8, and the scale of each block of 128 of them."""
    types = f"tensor<?x{k}x{E4M3}>", f"tensor<{n}x{k}x{E4M3}>"
    results = f"tensor<?x{n}x{y}>, tensor<?x{n // 128}xf32>"
    q, s = results.split(", ")
    return f"""
func.func @f(%x: {types[0]}, %w: {types[1]}) -> ({results}) {{
  %q, %s = gemm.fused %x : {types[0]} schedule<{how}>
      columns(%w : {types[1]}) -> (tile : {q}, group<128> : {s}) {{
  ^epilogue(%acc : f32):
    %a = math.absf %acc : f32
    %top = gemm.group_reduce max %a over 128 : f32
    %largest = arith.constant 448.0 : f32
    %ratio = arith.divf %top, %largest : f32
    %tiny = arith.constant 1.0e-30 : f32
    %scale = arith.maximumf %ratio, %tiny : f32
    %y = arith.divf %acc, %scale : f32
    gemm.yield %y, %scale : f32, f32
  }}
  func.return %q, %s : {results}
}}
"""


def fast(text: str) -> str:
    """The same with the tensor core's own sums."""
    return text.replace(" {\n  %", f" {FAST} {{\n  %", 1)


class TestNumbers:
    @pytest.mark.parametrize(("x", "w"), [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)])
    def test_types(self, x: str, w: str, tmp_path: Path):
        kernel = check_against_reference(scaled(schedule(128), x=x, w=w), [70], tmp_path)
        assert kernel.language == "gluon" and "accumulate_promoted(" in kernel.source

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("columns", "loop"),
        [
            *((columns, "warp_specialized") for columns in (64, 192, 256)),
            (128, "ping_pong"),
        ],
    )
    def test_fast_sums(self, columns: int, loop: str, tmp_path: Path):
        text = fast(scaled(schedule(columns, loop=loop), n=264))
        kernel = check_against_reference(text, [130], tmp_path)
        assert "accumulate_promoted" not in kernel.source

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("columns", "k", "stages"), [(64, 16, 2), (128, 400, 5), (256, 144, 3)]
    )
    def test_tiles_of_promoted_sums(self, columns: int, k: int, stages: int, tmp_path: Path):
        check_against_reference(scaled(schedule(columns, stages), k=k, n=264), [130], tmp_path)

    def test_eight_warps_together(self, tmp_path: Path):
        text = scaled(schedule(loop="warp_specialized"), k=144, n=264)
        check_against_reference(text, [130], tmp_path)

    @pytest.mark.parametrize("y", [E4M3, E5M2, "f16", "f32"])
    def test_results(self, y: str, tmp_path: Path):
        check_against_reference(scaled(schedule(), y=y, n=144), [70], tmp_path)

    def test_residual_and_statistics(self, tmp_path: Path):
        text = float8(programs.residual_norm("bf16", 144, 264, schedule()), 144)
        check_against_reference(text, [130], tmp_path)

    @pytest.mark.parametrize("pairing", ["two weights", "halves", "adjacent"])
    def test_gated_activation(self, pairing: str, tmp_path: Path):
        text = float8(programs.swiglu("bf16", 144, 264, schedule(), pairing), 144, w=E5M2)
        check_against_reference(text, [70], tmp_path)

    def test_tiles_that_are_loaded(self, tmp_path: Path):
        """The residual is float8 as well, and its buffer that of the result."""
        text = float8(programs.residual_norm("bf16", 144, 272, schedule()), 144)
        text = text.replace("<?x272xbf16>", f"<?x272x{E5M2}>")
        check_against_reference(text, [70], tmp_path)

    @pytest.mark.parametrize("columns", [128, 256])
    def test_scales_of_blocks(self, columns: int, tmp_path: Path):
        check_against_reference(quantized(schedule(columns)), [70], tmp_path)

    @pytest.mark.parametrize("group", [32, 64])
    def test_several_groups_in_a_subtile(self, group: int, tmp_path: Path):
        text = quantized(schedule(), "bf16", n=192).replace("128>", f"{group}>")
        text = text.replace("over 128", f"over {group}").replace("x1xf32", f"x{192 // group}xf32")
        check_against_reference(text, [70], tmp_path)


REFUSED = {
    "its weights are K x N: store them as N x K": scaled(schedule())
    .replace("tensor<136x272", "tensor<272x136")
    .replace(") col(", ") kn col("),
    "a tile of 192 columns for promoted sums, expected 64, 128 or 256": scaled(
        schedule(192, loop="warp_specialized")
    ),
    "its sums are not promoted, and eight warps compute them together": fast(scaled(schedule())),
    "it sums the rows of a tile, which two groups of warps share": float8(
        gradients.input_gradient("bf16", (144,), 264, schedule(), "nk"), 144
    ),
    "its promoted sums need the registers of eight warps": scaled(schedule(128, loop="ping_pong")),
    "its weights have 8 bits and its input more": scaled(
        schedule(loop="warp_specialized").replace("x128", "x64"), x="bf16"
    ),
    "in steps of 64, expected 64 to 256 in steps of 128": scaled(schedule().replace("x128", "x64")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    (op,) = gemms_of(parse_module(REFUSED[reason]))
    assert op.schedule is not None
    found = staging(ColumnCuts(op), op.schedule)
    assert isinstance(found, str) and reason in found


class TestAheadOfTime:
    @pytest.mark.parametrize(
        ("how", "product", "sums"),
        [("", "m64n128k32.f32.e4m3.e5m2", 256), ("fast", "m64n256k32.f32.e4m3.e5m2", 0)],
    )
    def test_products(self, how: str, product: str, sums: int):
        """Promoted sums are added in the loop, 128 elements of each thread of two groups."""
        loop = "warp_specialized" if how else "split_rows"
        text = scaled(schedule(loop=loop), k=4096, n=4096, w=E5M2)
        found = compiled(fast(text) if how else text, "sm_90", "ptx")
        assert f"wgmma.mma_async.sync.aligned.{product}" in found.text
        assert found.text.count("add.f32") == sums

    def test_quantized(self):
        compiled(quantized(schedule(), k=4096, n=4096), "sm_90")


def test_default_on_hopper() -> None:
    """The cost model takes wide tiles, which the other main loops have no registers for."""
    text = scaled(schedule(), k=4096, n=4096)
    op = scheduled(text, "sm_90", "warp_specialized", expected="split_rows")
    assert op.schedule is not None and op.schedule.tile == (128, 256, 128)
