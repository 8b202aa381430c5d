"""Warp-specialized kernels of rows in groups, gathered or scattered: in the simulator against
float64, and compiled ahead of time.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from support import gemm_programs as programs
from support.compiled_kernels import compiled
from support.kernel_harness import (
    check_against_reference,
    gemms_of,
    parse_module,
    run_text,
)
from support.row_group_arguments import arguments_of_groups

from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.diagnostics import CodaError

pytestmark = pytest.mark.any_device

LOADS = {
    "ragged": [5, 150, 151, 330],
    "whole tiles": [128, 256, 384, 512],
    "empty first and last groups": [0, 140, 140, 140],
    "every row in one group": [0, 0, 300, 300],
    "one row": [0, 0, 1, 1],
    "one row each": [1, 2, 3, 4],
    "a tile and a row": [129, 258, 387, 516],
}


def schedule(columns: int = 128, stages: int = 3, group_m: int = 2) -> str:
    return (
        f'warp_specialized, "128x{columns}x64", warps = 8, stages = {stages}, group_m = {group_m}'
    )


def check(text: str, ends: Sequence[int], folder: Path, rows: int | None = None) -> EmittedKernel:
    """The kernel of `text` agrees with float64 for groups that end so."""
    rows = max(ends) if rows is None else rows
    arguments = arguments_of_groups(text, rows, ends)
    return check_against_reference(text, [rows], folder, arguments=arguments)


class TestRowsInGroups:
    @pytest.mark.slow
    @pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
    def test_pairs(self, ends: list[int], tmp_path: Path) -> None:
        """Columns and depths that no tile divides: what is past them belongs to another group."""
        kernel = check(programs.grouped_swiglu("bf16", 72, 88, 4, schedule()), ends, tmp_path)
        assert "group_of_tile" in kernel.source and "store_rows" not in kernel.source

    @pytest.mark.parametrize("packed", [False, True])
    def test_wide_tiles(self, packed: bool, tmp_path: Path) -> None:
        text = programs.grouped_swiglu("f16", 72, 136, 4, schedule(256), packed=packed)
        check(text, LOADS["ragged"], tmp_path)

    @pytest.mark.parametrize(("layout", "depth"), [("nk", 136), ("kn", 128)])
    @pytest.mark.parametrize("ends", [LOADS["ragged"], LOADS["one row"]])
    def test_ports(self, ends: list[int], layout: str, depth: int, tmp_path: Path) -> None:
        """Rows by group, one factor for each row, a residual, and sums by row."""
        text = programs.grouped_residual("bf16", depth, 264, 4, schedule(), layout)
        check(text, ends, tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize(("columns", "width"), [(128, 72), (256, 136), (64, 32)])
    def test_neighbours(self, columns: int, width: int, tmp_path: Path) -> None:
        """Both columns of a pair are neighbours in a row of a K x N weight."""
        text = programs.grouped_neighbours("bf16", 128, width, 4, schedule(columns))
        kernel = check(text, LOADS["ragged"], tmp_path)
        assert "split_neighbours" in kernel.source

    def test_tiles_of_192_columns(self, tmp_path: Path) -> None:
        check(
            programs.grouped_residual("bf16", 72, 192, 4, schedule(192)),
            [5, 150, 151, 330],
            tmp_path,
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("group_m", [1, 2, 8])
    def test_orders_of_tiles(self, group_m: int, tmp_path: Path) -> None:
        """The next tile of a group may have rows before those of this one."""
        text = programs.moved_rows("bf16", 72, 264, schedule(group_m=group_m), groups=4)
        check(text, [100, 400, 410, 800], tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("groups", [1, 3, 33])
    def test_numbers_of_groups(self, groups: int, tmp_path: Path) -> None:
        """Also more than a warp has threads."""
        ends = [7 * (number + 1) // 2 for number in range(groups)]
        check(programs.moved_rows("bf16", 72, 64, schedule(), groups=groups), ends, tmp_path)

    def test_rows_in_no_group_are_not_stored(self, tmp_path: Path) -> None:
        text = programs.grouped_swiglu("bf16", 72, 64, 2, schedule())
        (result,) = run_text(text, arguments_of_groups(text, 20, [3, 9]), tmp_path)
        assert result[:9].isfinite().all() and result[9:].isnan().all()

    def test_ends_past_the_rows_are_cut(self, tmp_path: Path) -> None:
        text = programs.grouped_swiglu("bf16", 72, 64, 3, schedule())
        (result,) = run_text(text, arguments_of_groups(text, 20, [-5, 9, 900]), tmp_path)
        assert result.isfinite().all()


class TestMovedRows:
    @pytest.mark.parametrize("column", ["gather_col", "scatter_col"])
    def test_columns(self, column: str, tmp_path: Path) -> None:
        """Factors are loaded by the numbers of the rows."""
        text = programs.moved_rows(
            "bf16", 72, 136, schedule(), rows="gather scatter", groups=4, column=column
        )
        check(text, LOADS["ragged"], tmp_path)

    @pytest.mark.parametrize("groups", [0, 4])
    @pytest.mark.parametrize("rows", ["gather", "scatter", "gather scatter"])
    @pytest.mark.parametrize("depth", [72, 200])
    def test_rows(self, depth: int, rows: str, groups: int, tmp_path: Path) -> None:
        text = programs.moved_rows("bf16", depth, 136, schedule(), rows=rows, groups=groups)
        kernel = check(text, LOADS["ragged"], tmp_path)
        assert kernel.language == "gluon"

    @pytest.mark.slow
    @pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
    def test_loads(self, ends: list[int], tmp_path: Path) -> None:
        text = programs.moved_rows("bf16", 72, 64, schedule(), rows="gather scatter", groups=4)
        check(text, ends, tmp_path)


class TestGroupsOfWarpsInTurns:
    """`ping_pong`: two groups of warps compute every other tile."""

    SCHEDULES = (
        'ping_pong, "128x128x64", warps = 8, stages = 3, group_m = 2',
        'ping_pong, "64x256x64", warps = 8, stages = 3, group_m = 2',
    )

    @pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
    def test_loads(self, ends: list[int], tmp_path: Path) -> None:
        """Empty groups, groups of several tiles, and groups of which one ends within a tile."""
        moves = partial(programs.moved_rows, rows="scatter", groups=4, column="scatter_col")
        text = moves("bf16", 136, 264, self.SCHEDULES[0])
        kernel = check(text, ends, tmp_path)
        assert "turns.index(" in kernel.source and "scattered_rows(" in kernel.source

    @pytest.mark.parametrize("rows", ["gather", "gather scatter"])
    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_moved_rows(self, schedule: str, rows: str, tmp_path: Path) -> None:
        text = programs.moved_rows("bf16", 72, 264, schedule, rows=rows, groups=4)
        check(text, LOADS["ragged"], tmp_path)

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_ports(self, schedule: str, tmp_path: Path) -> None:
        text = programs.grouped_residual("bf16", 136, 264, 4, schedule)
        check(text, LOADS["ragged"], tmp_path)

    def test_pairs(self, tmp_path: Path) -> None:
        text = programs.grouped_swiglu("bf16", 72, 88, 4, self.SCHEDULES[1])
        check(text, LOADS["a tile and a row"], tmp_path)


class TestSummedRows:
    @pytest.mark.slow
    @pytest.mark.parametrize("gather", ["", "x", "weights"])
    @pytest.mark.parametrize("ends", [*LOADS.values(), [0, 0, 0, 0]], ids=[*LOADS, "no rows"])
    def test_loads(self, ends: list[int], gather: str, tmp_path: Path) -> None:
        """The last step of a group has rows of the next one, which are not summed."""
        text = programs.summed_rows("bf16", 128, 136, 4, schedule(), gather=gather)
        kernel = check(text, ends, tmp_path, max(7, *ends))
        assert kernel.language == "gluon" and "tma_store" in kernel.source

    @pytest.mark.slow
    @pytest.mark.parametrize("gather", ["", "x", "weights"])
    @pytest.mark.parametrize("columns", [128, 192, 256])
    def test_rows_that_no_tile_divides(self, columns: int, gather: str, tmp_path: Path) -> None:
        text = programs.summed_rows("bf16", 136, 264, 4, schedule(columns), gather=gather)
        kernel = check(text, LOADS["ragged"], tmp_path)
        assert "tma_store" in kernel.source and "store_rows" not in kernel.source

    @pytest.mark.parametrize("gather", ["", "x", "weights"])
    def test_other_groups_are_not_read(self, gather: str, tmp_path: Path) -> None:
        """NaN and infinity in one group stay there."""
        text = programs.summed_rows("bf16", 64, 64, 2, schedule(), gather=gather, ports=False)
        arguments = arguments_of_groups(text, 24, [5, 24])
        if gather:
            arguments[4] = torch.cat([torch.arange(5), torch.full([19], 8)])
        arguments[0][8 if gather == "x" else 7] = torch.inf
        arguments[1][8 if gather == "weights" else 9] = torch.nan
        (result,) = run_text(text, arguments, tmp_path)
        assert result[0].isfinite().all() and not result[1].isfinite().any()

    def test_ends_past_the_rows_are_cut(self, tmp_path: Path) -> None:
        text = programs.summed_rows("bf16", 64, 64, 3, schedule(), ports=False)
        (result,) = run_text(text, arguments_of_groups(text, 20, [-5, 9, 900]), tmp_path)
        assert result.isfinite().all() and (result[0] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        programs.grouped_swiglu("bf16", 2048, 768, 128, schedule(256), packed=True),
        programs.grouped_neighbours("bf16", 2880, 2880, 32, schedule(256)),
        programs.grouped_residual("bf16", 768, 2048, 128, schedule(256), "kn"),
        programs.moved_rows("bf16", 768, 2048, schedule(256), rows="scatter", groups=128),
        programs.moved_rows("bf16", 2048, 1536, schedule(256), rows="gather", groups=128),
        *(
            programs.summed_rows("bf16", 1536, 2048, 128, schedule(256), gather=gather, ports=False)
            for gather in ("", "x", "weights")
        ),
    ],
)
def test_compiled_ahead(text: str) -> None:
    """Experts of Qwen3-MoE."""
    compiled(text, "sm_90")


@pytest.mark.parametrize(
    ("loop", "text", "reason"),
    [
        ("ping_pong", programs.summed_rows("bf16", 64, 64, 2, schedule()), "numbers of steps"),
        ("split_rows", programs.moved_rows("bf16", 72, 64, schedule(), groups=4), "share a tile"),
    ],
)
def test_refusals(loop: str, text: str, reason: str) -> None:
    (op,) = gemms_of(parse_module(text.replace("warp_specialized", loop)))
    with pytest.raises(CodaError, match=reason):
        emit_gemm(op, NameAllocator())
