"""GEMMs that gather rows of x and scatter rows of results: emitted kernels against float64."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support import gemm_programs as programs
from support.compiled_kernels import compiled, scheduled
from support.kernel_harness import (
    check_against_reference,
)
from support.row_group_arguments import arguments_of_groups

pytestmark = pytest.mark.any_device

MOVES = ("gather", "scatter", "gather scatter")

LOADS = {
    "ragged": [5, 23, 24, 64],
    "empty first and last groups": [0, 40, 40, 40],
    "every row in one group": [0, 0, 64, 64],
    "a tile and a row": [17, 34, 51, 68],
    "one row": [0, 0, 1, 1],
}


def schedule(loop: str = "pointer", split_k: int = 1) -> str:
    return f'{loop}, "16x32x16", warps = 4, stages = 3, group_m = 2, split_k = {split_k}'


def check(text: str, rows: int, folder: Path, ends: Sequence[int] = ()) -> None:
    arguments = arguments_of_groups(text, rows, ends)
    check_against_reference(text, [rows], folder, arguments=arguments)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("rows", [1, 16, 37])
@pytest.mark.parametrize("moves", MOVES)
def test_rows(moves: str, rows: int, dtype: str, tmp_path: Path) -> None:
    """Columns and depths that no tile divides."""
    check(programs.moved_rows(dtype, 33, 21, schedule(), rows=moves), rows, tmp_path)


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
def test_rows_in_groups(ends: list[int], moves: str, tmp_path: Path) -> None:
    text = programs.moved_rows("bf16", 40, 24, schedule(), rows=moves, groups=4)
    check(text, ends[-1], tmp_path, ends)


@pytest.mark.parametrize(
    "tiles", [schedule(), 'one_row, "1x8x16", warps = 4, stages = 1, group_m = 2']
)
def test_the_only_row(tiles: str, tmp_path: Path) -> None:
    """The experts of one token: all ids are 0, and are not loaded."""
    text = programs.moved_rows("bf16", 40, 24, tiles, rows="gather scatter", groups=4, of_x=1)
    x, w, factors, ids, *others = arguments_of_groups(text, 4, [1, 1, 3, 4])
    arguments = [x, w, factors, ids * 0, *others]
    kernel = check_against_reference(text, [4], tmp_path, arguments=arguments)
    assert "gather" not in " ".join(argument.name for argument in kernel.arguments)


@pytest.mark.parametrize("move", ["gather", "scatter"])
@pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
def test_columns_of_moved_rows(ends: list[int], move: str, tmp_path: Path) -> None:
    """Factors are loaded by the numbers of the rows."""
    column = f"{move}_col"
    text = programs.moved_rows(
        "bf16", 40, 24, schedule(), rows="gather scatter", groups=4, column=column
    )
    check(text, ends[-1], tmp_path, ends)


def test_scattered_from_boxes(tmp_path: Path) -> None:
    text = programs.moved_rows("bf16", 40, 24, schedule("tma"), rows="scatter", groups=4)
    check(text, 64, tmp_path, LOADS["ragged"])


@pytest.mark.parametrize("moves", MOVES)
def test_shared_tiles(moves: str, tmp_path: Path) -> None:
    text = programs.moved_rows("bf16", 96, 24, schedule(split_k=3), rows=moves, groups=4)
    check(text, 64, tmp_path, LOADS["ragged"])


@pytest.mark.parametrize(
    ("moves", "loop"), [("gather", "pointer"), ("gather scatter", "pointer"), ("scatter", "tma")]
)
def test_compiled_ahead(moves: str, loop: str) -> None:
    """A main loop that cannot gather leaves the GEMM to the pointer main loop."""
    text = programs.moved_rows("bf16", 2048, 768, "", rows=moves, groups=128, of_x=4096)
    compiled(scheduled(text, "sm_90", "tma", expected=loop), "sm_90")
