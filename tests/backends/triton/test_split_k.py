"""Tiles whose K several programs share: against float64, in any order of the programs."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from support import gemm_programs as programs, gradient_programs as gradients
from support.emitted import load_module
from support.kernel_harness import (
    DEVICE,
    check_against_reference,
    function_of,
    gemms_of,
    parse_module,
    random_arguments,
    run_kernel,
)

from coda_ir.backends.triton import emit_module
from coda_ir.backends.triton.aot import compile_kernels
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.diagnostics import CodaError

pytestmark = pytest.mark.any_device


def schedule(bm: int, bn: int, bk: int, split_k: int, warps: int = 4, loop: str = "pointer") -> str:
    tile = f'"{bm}x{bn}x{bk}"'
    return f"{loop}, {tile}, warps = {warps}, stages = 3, group_m = 2, split_k = {split_k}"


@pytest.mark.parametrize("split_k", [2, 7])
@pytest.mark.parametrize("k", [1, 70])
@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_every_depth(layout: str, k: int, split_k: int, tmp_path: Path) -> None:
    """Also programs for which no step of K is left."""
    text = programs.residual_norm("bf16", k, 33, schedule(16, 16, 16, split_k), layout)
    check_against_reference(text, [17], tmp_path, seed=k)


@pytest.mark.parametrize("rows", [[1], [2, 3, 5]])
@pytest.mark.parametrize("pairing", ["two weights", "halves, 12"])
def test_pairs(pairing: str, rows: list[int], tmp_path: Path) -> None:
    text = programs.swiglu("bf16", 48, 36, schedule(16, 32, 16, 2), pairing)
    check_against_reference(text, rows, tmp_path)


def test_norm_per_head_in_subtiles(tmp_path: Path) -> None:
    """Several ranges of columns, padded groups, and an epilogue of one subtile after the other."""
    text = programs.qkv_rope("f32", 24, 12, (21, 5), schedule(64, 128, 16, 2, warps=1), norm=True)
    kernel = check_against_reference(text, [18], tmp_path)
    assert "for subtile in tl.static_range(8):" in kernel.source


def test_logsumexp_and_target(tmp_path: Path) -> None:
    check_against_reference(
        programs.lm_head("bf16", 40, 70, schedule(16, 32, 16, 3)), [9], tmp_path
    )


@pytest.mark.parametrize("loop", ["pointer", "tma"])
def test_sums_of_products(loop: str, tmp_path: Path) -> None:
    """Each program takes a part of each K."""
    text = gradients.input_gradient("bf16", (72, 24), 72, schedule(32, 32, 16, 3, loop=loop))
    check_against_reference(text, [3, 11], tmp_path)


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("loop", ["pointer", "tma"])
def test_weight_gradients(loop: str, rows: int, tmp_path: Path) -> None:
    text = gradients.merged_weight_gradients("bf16", 56, (24, 40), schedule(32, 32, 16, 3, 4, loop))
    check_against_reference(text, [rows], tmp_path)


def test_weight_gradients_of_no_rows_are_zeros(tmp_path: Path) -> None:
    text = gradients.weight_gradient("f16", 24, 40, schedule(16, 16, 16, 2))
    arguments = [torch.empty(0, 24).half(), torch.empty(0, 40).half()]
    _, results = run_kernel(function_of(parse_module(text)), arguments, tmp_path)
    assert torch.equal(results[0], torch.zeros(24, 40).half())


def test_by_tma(tmp_path: Path) -> None:
    text = programs.residual_norm("bf16", 72, 40, schedule(16, 32, 16, 2, loop="tma"))
    check_against_reference(text, [17], tmp_path)


@contextmanager
def programs_in_order(order: Sequence[int]) -> Generator[None]:
    """Has the interpreter run the programs of a grid of this size in this order."""
    interpreter: Any = import_module("triton.runtime.interpreter")
    builder = interpreter.interpreter_builder
    set_index = builder.set_grid_idx

    def set_index_of(x: int, y: int, z: int) -> None:
        set_index(order[x], y, z)

    builder.set_grid_idx = set_index_of
    try:
        yield
    finally:
        builder.set_grid_idx = set_index


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU has an order of its own")
def test_results_do_not_depend_on_who_comes_last(tmp_path: Path) -> None:
    text = programs.residual_norm("f32", 96, 40, schedule(16, 16, 16, 4))
    func = function_of(parse_module(text))
    arguments = random_arguments(func, [21], torch.Generator().manual_seed(0))
    programs_of_grid = 2 * 3 * 4
    forward = list(range(programs_of_grid))
    orders = [
        forward,
        forward[::-1],
        *(Random(seed).sample(forward, len(forward)) for seed in "ab"),
    ]
    results: list[list[torch.Tensor]] = []
    for order in orders:
        with programs_in_order(order):
            _, outputs = run_kernel(func, arguments, tmp_path)
        results.append(outputs[:3])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


TWO_LINEAR_MAPS = """
func.func @f(%x: tensor<?x48xf32>, %u: tensor<40x48xf32>, %w: tensor<24x40xf32>)
    -> tensor<?x24xf32> {{
  %y = gemm.fused %x : tensor<?x48xf32> schedule<{first}>
      columns(%u : tensor<40x48xf32>) -> (tile : tensor<?x40xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  %z = gemm.fused %y : tensor<?x40xf32> schedule<{second}>
      columns(%w : tensor<24x40xf32>) -> (tile : tensor<?x24xf32>) {{
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }}
  func.return %z : tensor<?x24xf32>
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_the_host_gives_kernels_where_to_meet(rows: int, direct: bool) -> None:
    text = TWO_LINEAR_MAPS.format(first=schedule(16, 16, 16, 3), second=schedule(16, 16, 16, 2))
    module = load_module(emit_module(parse_module(text), direct_launch=direct))
    generator = torch.Generator().manual_seed(rows)
    x, u, w = (torch.randn(s, generator=generator) for s in ((rows, 48), (40, 48), (24, 40)))
    for _ in range(2):
        z = module.run(*(each.to(DEVICE) for each in (x, u, w)))
        torch.testing.assert_close(z.cpu(), x @ u.T @ w.T, rtol=1e-4, atol=1e-4)


def test_what_the_programs_share_is_dropped_after_the_launch() -> None:
    text = TWO_LINEAR_MAPS.format(first=schedule(16, 16, 16, 3), second=schedule(32, 16, 16, 2))
    source = emit_module(parse_module(text))
    run = source[source.index("def run(") :]
    assert "// 16 * 3\n" in run
    assert "counters = tile_counters(tiles_1, device, counters)" in run
    assert "del partials" in run


def test_programs_share_parts_of_the_workspace() -> None:
    """Where the number of rows is known, their sums take no allocation."""
    text = TWO_LINEAR_MAPS.format(first=schedule(16, 16, 16, 3), second=schedule(16, 16, 16, 2))
    module = parse_module(text.replace("?", "40"))
    source = emit_module(module, direct_launch=True)
    run = source[source.index("def run(") :]
    assert "partials" not in run and "tile_counters(9, device)" in run
    x, u, w = (torch.randn(shape) for shape in ((40, 48), (40, 48), (24, 40)))
    z = load_module(source).run(*(each.to(DEVICE) for each in (x, u, w)))
    torch.testing.assert_close(z.cpu(), x @ u.T @ w.T, rtol=1e-4, atol=1e-4)


def test_an_order_of_the_sum_is_not_split() -> None:
    text = programs.residual_norm("f32", 32, 32, schedule(16, 16, 16, 2))
    order = "order<depth = 16, columns = 16, rows = 16>"
    (op,) = gemms_of(parse_module(text.replace("split_k = 2>", f"split_k = 2> {order}")))
    with pytest.raises(CodaError, match="split_k is 2, expected 1: K is summed in order"):
        emit_gemm(op, NameAllocator())


@pytest.mark.parametrize(
    ("target", "loop", "stages"),
    [("sm_80", "pointer", 4), ("sm_90", "tma", 5), ("gfx942", "pointer", 2)],
)
def test_compiles_ahead_of_time(target: str, loop: str, stages: int) -> None:
    """One row times a weight, and a small gradient of one."""
    names = NameAllocator()
    texts = (
        programs.residual_norm("bf16", 4096, 4096, schedule(16, 32, 128, 4, 4, loop)),
        gradients.weight_gradient("bf16", 512, 512, schedule(128, 128, 64, 8, 8, loop)),
    )
    depth = (f"stages = {stages}", f"stages = {min(stages, 3)}")
    kernels = [
        emit_gemm(gemms_of(parse_module(text.replace("stages = 3", each)))[0], names)
        for text, each in zip(texts, depth, strict=True)
    ]
    level = "ptx" if target == "sm_90" else None
    compiled = compile_kernels(kernels, target, level)
    assert all(each.resources.fits and not each.resources.spills for each in compiled), compiled
    if level is not None:
        assert_published(compiled[0].text)


def assert_published(ptx: str) -> None:
    """Every warp has stored its sums before one thread counts, at a scope that others see."""
    lines = [line.strip() for line in ptx.splitlines()]
    count = next(i for i, line in enumerate(lines) if "atom.global.gpu.acq_rel.add" in line)
    stores = [i for i, line in enumerate(lines) if "st.global" in line]
    barriers = [i for i, line in enumerate(lines) if line.startswith("bar.sync")]
    assert any(max(i for i in stores if i < count) < barrier < count for barrier in barriers)
    loads = [i for i, line in enumerate(lines) if "ld.global.cg" in line]
    assert loads and min(loads) > next(barrier for barrier in barriers if barrier > count)
