"""GEMMs that sum over the rows of each group: emitted kernels against float64."""

from pathlib import Path

import pytest
import torch
from support import gemm_programs as programs
from support.compiled_kernels import compiled, scheduled
from support.kernel_harness import (
    check_against_reference,
    gemms_of,
    parse_module,
    run_text,
)
from support.row_group_arguments import arguments_of_groups

from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.passes.layout.schedule import SchedulePass

pytestmark = pytest.mark.any_device

LOADS = {
    "ragged": [5, 23, 24, 64],
    "empty first and last groups": [0, 40, 40, 40],
    "every row in one group": [0, 0, 64, 64],
    "rows in no group": [16, 20, 20, 48],
    "one row": [0, 0, 1, 1],
    "no rows": [0, 0, 0, 0],
}


def schedule(loop: str = "pointer", split_k: int = 1) -> str:
    return f'{loop}, "16x32x16", warps = 4, stages = 3, group_m = 2, split_k = {split_k}'


def check(text: str, ends: list[int], folder: Path) -> None:
    rows = max(ends[-1], 7)
    arguments = arguments_of_groups(text, rows, ends)
    check_against_reference(text, [rows], folder, arguments=arguments)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["pointer", "tma"])
@pytest.mark.parametrize("ends", LOADS.values(), ids=LOADS)
def test_loads(ends: list[int], loop: str, tmp_path: Path) -> None:
    """The last step of a group has rows of the next one, which are not summed."""
    check(programs.summed_rows("bf16", 24, 40, 4, schedule(loop)), ends, tmp_path)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("gather", ["", "x", "weights"])
@pytest.mark.parametrize("ends", [LOADS["ragged"], LOADS["no rows"]])
def test_gathered_rows(ends: list[int], gather: str, dtype: str, tmp_path: Path) -> None:
    """Rows and columns that no tile divides."""
    check(programs.summed_rows(dtype, 21, 33, 4, schedule(), gather=gather), ends, tmp_path)


@pytest.mark.parametrize("loop", ["pointer", "tma"])
def test_other_groups_are_not_read(loop: str, tmp_path: Path) -> None:
    """NaN and infinity in one group stay there."""
    text = programs.summed_rows("bf16", 16, 16, 2, schedule(loop), ports=False)
    arguments = arguments_of_groups(text, 24, [5, 24])
    arguments[0][7] = torch.inf
    arguments[1][9] = torch.nan
    (result,) = run_text(text, arguments, tmp_path)
    assert result[0].isfinite().all() and not result[1].isfinite().any()


def test_ends_past_the_rows_are_cut(tmp_path: Path) -> None:
    """Whatever the ends are, kernels read rows that exist."""
    text = programs.summed_rows("f32", 16, 16, 3, schedule(), ports=False)
    (result,) = run_text(text, arguments_of_groups(text, 20, [-5, 9, 900]), tmp_path)
    assert result.isfinite().all() and (result[0] == 0).all()


@pytest.mark.parametrize("split_k", [2])
def test_a_group_is_not_shared(split_k: int) -> None:
    text = programs.summed_rows("bf16", 16, 16, 2, schedule(split_k=split_k))
    (op,) = gemms_of(parse_module(text))
    with pytest.raises(CodaError, match="split_k is 2, expected 1: each group of rows has its own"):
        emit_gemm(op, NameAllocator())


@pytest.mark.parametrize(
    ("target", "gather", "loop"),
    [
        ("sm_80", "", "pointer"),
        ("sm_90", "", "tma"),
        ("sm_90", "x", "pointer"),
        ("sm_90", "weights", "pointer"),
        ("gfx942", "", "pointer"),
    ],
)
def test_compiled_ahead(target: str, gather: str, loop: str) -> None:
    """Gradients of the experts of Qwen3-MoE."""
    text = programs.summed_rows("bf16", 1536, 2048, 128, "", gather=gather)
    compiled(scheduled(text, target, loop), target)


def test_symbolic_number_of_groups() -> None:
    module = parse_module(programs.summed_rows("bf16", 16, 16, "?", "", ports=False))
    with pytest.raises(CodaError, match=r"the number of groups of gemm\.fused is symbolic"):
        SchedulePass().apply(make_context(), module)
