"""Every pass preserves meaning: before and after agree in float64, on every golden and program."""

import re
import shlex
from pathlib import Path

import pytest
from support.equivalence import run_checked
from support.goldens import EXAMPLES, GOLDENS, Golden, goldens, programs, small_example

from coda_ir.passes import get_all_passes

TO_KERNELS = "coda-to-gemm,schedule{target=interpreter},plan-buffers"
FOLDED = "coda-to-gemm{fold-weights=true}"
TO_PROGRAMS = "coda-to-gemm{leftovers=graphs}"

NOT_SCHEDULED = {"shapes-symbolic_columns"}
"""Programs with GEMMs whose columns are a symbol, which kernels cannot have."""

ALL_GOLDENS, ALL_PROGRAMS = goldens(), programs()


def stem(path: Path) -> str:
    return path.stem


def cases(found: list[Golden]) -> list[object]:
    return [pytest.param(golden, id=golden.name) for golden in found]


@pytest.mark.parametrize("golden", cases([g for g in ALL_GOLDENS if g.keeps_meaning]))
def test_golden(golden: Golden):
    run_checked(golden.module(), golden.pipeline)


def test_every_pass_has_a_golden():
    covered = {
        name for golden in ALL_GOLDENS for name in re.findall(r"[a-z][a-z0-9-]+", golden.pipeline)
    }
    assert set(get_all_passes()) <= covered
    assert len({golden.name for golden in ALL_GOLDENS}) > 100


def test_every_run_line_with_passes_is_tested():
    """A RUN line that `goldens` does not understand is not left out unseen."""
    tested = [golden.pipeline for golden in ALL_GOLDENS]
    for path in GOLDENS.glob("passes/*.mlir"):
        for line in path.read_text().splitlines():
            if line.startswith("// RUN: coda-opt") and " -p " in line:
                pipeline = shlex.split(line.removeprefix("// RUN:").partition("|")[0])[3]
                assert any(each.startswith(pipeline) for each in tested), line


@pytest.mark.parametrize("golden", cases(ALL_PROGRAMS))
def test_program(golden: Golden):
    run_checked(golden.module(), "coda-to-gemm" if golden.name in NOT_SCHEDULED else TO_KERNELS)


@pytest.mark.parametrize("golden", cases(ALL_PROGRAMS))
def test_program_that_calls_programs(golden: Golden):
    run_checked(golden.module(), TO_PROGRAMS)


@pytest.mark.parametrize("golden", cases([g for g in ALL_PROGRAMS if g.has_column_scale]))
def test_program_with_folded_weights(golden: Golden):
    run_checked(golden.module(), FOLDED)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.coda")), ids=stem)
@pytest.mark.parametrize("pipeline", [TO_KERNELS, FOLDED, TO_PROGRAMS])
def test_example(path: Path, pipeline: str):
    run_checked(small_example(path), pipeline)
