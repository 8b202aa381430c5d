"""GEMMs whose rows are in groups: emitted kernels against float64, and compiled ahead of time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support import gemm_programs as programs
from support.compiled_kernels import compiled, scheduled
from support.device import DEVICE
from support.kernel_harness import (
    check_against_reference,
    function_of,
    parse_module,
    random_arguments,
    run_text,
)
from support.row_group_arguments import arguments_of_groups

from coda_ir.api import compile
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.layout.schedule import SchedulePass

pytestmark = pytest.mark.any_device

LOADS = {
    "even": [16, 32, 48, 64],
    "ragged": [5, 23, 24, 64],
    "empty first and last groups": [0, 40, 40, 64],
    "every row in one group": [0, 0, 64, 64],
    "every row in the first group": [64, 64, 64, 64],
    "every row in the last group": [0, 0, 0, 64],
    "one row": [0, 0, 1, 1],
    "a tile and a row": [17, 34, 51, 68],
}


def schedule(loop: str = "pointer", tile: str = "16x32x16", split_k: int = 1) -> str:
    return f'{loop}, "{tile}", warps = 4, stages = 3, group_m = 2, split_k = {split_k}'


def check(text: str, ends: Sequence[int], folder: Path) -> EmittedKernel:
    """Return the kernel of `text`, which agrees with float64 for groups that end so."""
    arguments = arguments_of_groups(text, ends[-1], ends)
    return check_against_reference(text, [ends[-1]], folder, arguments=arguments)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["pointer", "tma"])
@pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
def test_pairs(ends: list[int], loop: str, tmp_path: Path) -> None:
    """Columns and depths that no tile divides: what is past them belongs to another group."""
    check(programs.grouped_swiglu("bf16", 40, 24, 4, schedule(loop)), ends, tmp_path)


@pytest.mark.parametrize("ends", [[1, 1, 3, 4], [0, 2, 2, 2]])
def test_tiles_of_one_row(ends: list[int], tmp_path: Path) -> None:
    """Rows of one group, and groups without rows; ports of each row."""
    one_row = schedule("one_row", "1x8x16")
    kernel = check(programs.grouped_swiglu("bf16", 40, 24, 4, one_row, packed=True), ends, tmp_path)
    assert str(kernel.grid.count(4)) == "24"
    check(programs.grouped_residual("f16", 33, 21, 4, one_row), ends, tmp_path)


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("depth", [40, 48])
def test_numbered_rows(depth: int, summed: bool, tmp_path: Path) -> None:
    """Steps that divide the K of a row or end past it, and columns past the last one."""
    text = programs.numbered_rows("bf16", depth, 21, schedule("one_row", "1x8x16"), summed=summed)
    arguments = random_arguments(function_of(parse_module(text)), [2], torch.Generator())
    arguments[2] = torch.tensor([3, 0, 3, 1, 2, 0])
    kernel = check_against_reference(text, [2], tmp_path, arguments=arguments)
    assert "rows_of_tile" not in kernel.source
    assert ("numbers=" in kernel.source) == summed


def test_numbered_rows_need_tiles_of_one_row() -> None:
    text = programs.numbered_rows("bf16", 40, 21, "", summed=True)
    with pytest.raises(CodaError, match="the main loop is pointer, expected one_row"):
        SchedulePass(tile="16x32x16").apply(make_context(), parse_module(text))


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("ends", [LOADS["ragged"], LOADS["one row"]])
def test_ports(ends: list[int], layout: str, dtype: str, tmp_path: Path) -> None:
    """Rows by group, one factor for each row, a residual, and sums by row."""
    check(programs.grouped_residual(dtype, 33, 21, 4, schedule(), layout), ends, tmp_path)


@pytest.mark.parametrize("loop", ["pointer", "tma"])
def test_packed_halves(loop: str, tmp_path: Path) -> None:
    text = programs.grouped_swiglu("bf16", 40, 24, 4, schedule(loop), packed=True)
    check(text, LOADS["ragged"], tmp_path)


@pytest.mark.parametrize(
    ("columns", "tile", "split_k"),
    [(48, "16x32x16", 2), (24, "16x32x16", 1), (21, "16x32x16", 1), (72, "128x128x16", 1)],
)
def test_neighbours(columns: int, tile: str, split_k: int, tmp_path: Path) -> None:
    """Pairs of a K x N weight are loaded together: in whole tiles, in one with pairs past the last,
    and in one whose epilogue has subtiles.
    """
    text = programs.grouped_neighbours("bf16", 40, columns, 4, schedule("pointer", tile, split_k))
    kernel = check(text, LOADS["ragged"], tmp_path)
    assert "tl.split" in kernel.source
    has_rest = 2 * columns % int(tile.split("x")[1]) > 0
    assert (f"% {2 * columns}\n" in kernel.source) == has_rest
    assert ("column_subtile" in kernel.source) == (tile == "128x128x16")


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 3, 128])
def test_numbers_of_groups(groups: int, tmp_path: Path) -> None:
    ends = [7 * (number + 1) // 2 for number in range(groups)]
    check(programs.grouped_residual("bf16", 16, 16, groups, schedule()), ends, tmp_path)


@pytest.mark.parametrize("ends", [LOADS["ragged"], LOADS["one row"]])
def test_shared_tiles(ends: list[int], tmp_path: Path) -> None:
    """Several programs share K: those of tiles without rows leave nothing behind."""
    text = programs.grouped_residual("bf16", 96, 24, 4, schedule(split_k=3))
    check(text, ends, tmp_path)


@pytest.mark.parametrize("ends", [LOADS["ragged"], LOADS["a tile and a row"]])
def test_boxes_of_rows_of_weights(ends: list[int], tmp_path: Path) -> None:
    """Steps that divide K read rows of one group of a K x N weight."""
    check(programs.grouped_residual("bf16", 48, 24, 4, schedule("tma"), "kn"), ends, tmp_path)


@pytest.mark.parametrize("tiles", [schedule(), schedule("one_row", "1x8x16")])
def test_rows_in_no_group_are_not_stored(tiles: str, tmp_path: Path) -> None:
    text = programs.grouped_swiglu("f32", 16, 16, 2, tiles)
    (result,) = run_text(text, arguments_of_groups(text, 20, [3, 9]), tmp_path)
    assert result[:9].isfinite().all() and result[9:].isnan().all()


def test_ends_past_the_rows_are_cut(tmp_path: Path) -> None:
    """Whatever the ends are, kernels read and write rows that exist."""
    text = programs.grouped_swiglu("f32", 16, 16, 3, schedule())
    (result,) = run_text(text, arguments_of_groups(text, 20, [-5, 9, 900]), tmp_path)
    assert result.isfinite().all()


@pytest.mark.parametrize(
    ("target", "loop"),
    [("sm_80", "pointer"), ("sm_90", "pointer"), ("sm_90", "tma"), ("gfx942", "pointer")],
)
def test_compiled_ahead(target: str, loop: str) -> None:
    """Experts of Qwen3-MoE, whose gate and up projection is packed."""
    text = programs.grouped_swiglu("bf16", 2048, 768, 128, "", packed=True)
    compiled(scheduled(text, target, loop), target)


def test_symbolic_number_of_groups() -> None:
    module = parse_module(programs.grouped_swiglu("bf16", 16, 16, "?", ""))
    with pytest.raises(CodaError, match=r"the number of groups of gemm\.fused is symbolic"):
        SchedulePass().apply(make_context(), module)


def test_experts_of_two_tokens() -> None:
    """Rows that are sorted by group at the GEMM level name their groups in kernels."""
    text = Path(__file__).parents[2] / "filecheck/passes/number_groups.mlir"
    func = text.read_text().split("// CHECK")[0].split("\n\n", 2)[2].replace("xf32", "xbf16")
    function: Any = compile(func, device=DEVICE, schedule="target=sm_90")
    assert "group_order" not in function.source and "numbers=" in function.source
    shapes = [(2, 8), (2, 4), (4, 12, 8), (4, 16, 6), (2, 16), (4,)]
    given = [torch.randn(shape).to(torch.bfloat16) for shape in shapes]
    given[1] = torch.randperm(8).reshape(2, 4).to(torch.bfloat16)
    x, scores, w, v, residual, s = (value.double() for value in given)
    ids = scores.topk(2).indices.flatten()
    gate, up = (w[ids] @ x.repeat_interleave(2, 0)[:, :, None]).chunk(2, 1)
    rows = (gate * up).flatten(1) * s[:, None]
    sums = (v[ids] @ rows[:, :, None]).reshape(2, 2, 16).sum(1)
    got = function(*(value.to(DEVICE) for value in given)).cpu().double()
    # Elements may cancel out, but not what their rows are rounded to.
    error, size = got - sums - residual, sums + residual
    assert error.square().sum() < 1e-4 * size.square().sum()
