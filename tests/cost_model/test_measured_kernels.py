"""Tiles and times of weight gradients and of losses, compared with kernels on an H200."""

import pytest
from xdsl.dialects.builtin import ModuleOp

import coda_ir
from coda_ir.cost_model import DEVICES, Ranked, Space, rank
from coda_ir.dialects.gemm import FusedOp
from coda_ir.lowering import Lowering


def best(module: ModuleOp, main_loop: str, rows: int) -> Ranked:
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    return rank(op, Space((main_loop,)), DEVICES["h200"], rows)[0]


def gradient(n: int, k: int) -> ModuleOp:
    x, y = (f"tensor<?x{extent}xbf16>" for extent in (n, k))
    return coda_ir.parse(f"""
func.func @f(%x: {x}, %y: {y}) -> tensor<{n}x{k}xbf16> {{
  %z = gemm.fused transposed %x : {x}
    columns(%y : {y}) kn -> (tile : tensor<{n}x{k}xbf16>) {{
    ^epilogue(%acc: f32):
      gemm.yield %acc : f32
    }}
  func.return %z : tensor<{n}x{k}xbf16>
}}""")


@pytest.mark.parametrize("columns, programs", [(8, 64), (64, 16)])
def test_sums_over_many_rows_have_as_many_programs_as_the_last_one_loads(
    columns: int, programs: int
):
    found = best(gradient(columns, columns), "tma", 614656)
    assert found.schedule.split_k.data == programs


@pytest.mark.parametrize(
    ("shape", "tile", "programs", "measured_us"),
    [
        ((256, 256, 8192), (64, 64, 128), 8, 12.4),
        ((512, 512, 8192), (64, 64, 128), 2, 14.9),
        ((768, 768, 4096), (64, 128, 128), 1, 14.0),
        ((768, 768, 16384), (128, 128, 64), 3, 36.9),
        ((1024, 1024, 8192), (64, 128, 128), 1, 27.1),
        ((1536, 512, 16384), (64, 128, 128), 1, 50.5),
        ((2048, 2048, 4096), (128, 256, 64), 1, 45.5),
    ],
)
def test_weight_gradients(
    shape: tuple[int, int, int], tile: tuple[int, int, int], programs: int, measured_us: float
):
    """These tiles were the fastest of about 15 each."""
    n, k, rows = shape
    found = best(gradient(n, k), "warp_specialized", rows)
    assert (found.schedule.tile, found.schedule.split_k.data) == (tile, programs)
    assert found.us == pytest.approx(measured_us, rel=0.2)


LOSS = """
fn f(x: bf16[M, {k}], t: i64[M], weight w: bf16[{n}, {k}]) -> (f32[], bf16[M, {n}]) {{
    z = linear(x, w)
    return cross_entropy(z, t), z
}}
"""


@pytest.mark.parametrize(
    ("shape", "measured_us"), [((1024, 16384, 1024), 55.0), ((4096, 50304, 768), 589.0)]
)
def test_logits_with_their_loss(shape: tuple[int, int, int], measured_us: float):
    rows, n, k = shape
    module = Lowering(coda_ir.parse(LOSS.format(n=n, k=k))).module("gemm")
    found = best(module, "warp_specialized", rows)
    assert found.us == pytest.approx(measured_us, rel=0.2)
