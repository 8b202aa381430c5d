"""Every pass preserves meaning: before and after agree in float64, on every golden and program.

With `--nightly`, all inputs are compared after every pass. Every day, each program has two of the
kinds of inputs, the second one after the other, and passes that follow each other are one step.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.daily import is_nightly, one_a_day
from support.equivalence import run_checked, run_checked_at_ends
from support.goldens import EXAMPLES, GOLDENS, Golden, goldens, programs, small_example
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from coda_ir.equivalence.draws import DRAWS
from coda_ir.passes import get_all_passes

TO_KERNELS = "coda-to-gemm,schedule{target=interpreter},plan-buffers"
FOLDED = "coda-to-gemm{fold-weights=true}"
TO_PROGRAMS = "coda-to-gemm{leftovers=graphs}"

ALL_GOLDENS, ALL_PROGRAMS = goldens(), programs()


def check(module: ModuleOp, pipeline: str, number: int) -> None:
    """Compare what a pipeline makes of the module of a number."""
    first, *others = DRAWS
    draws = [first, *one_a_day(others, number)]
    run = run_checked if is_nightly() else run_checked_at_ends
    run(module, pipeline, draws=draws)


def cases(found: Sequence[Golden | Path]) -> pytest.MarkDecorator:
    names = [each.stem if isinstance(each, Path) else each.name for each in found]
    return pytest.mark.parametrize(("number", "golden"), list(enumerate(found)), ids=names)


@pytest.mark.slow
@cases([golden for golden in ALL_GOLDENS if golden.keeps_meaning])
def test_golden(golden: Golden, number: int):
    module = golden.module()
    check(module, golden.pipeline, number)
    # Operators that a pass made in vain would count as uses of what they read.
    users = {use.operation for value in values_of(module) for use in value.uses}
    assert all(user.get_toplevel_object() is module for user in users)


def values_of(module: ModuleOp) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from op.results
        yield from (arg for region in op.regions for block in region.blocks for arg in block.args)


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


@pytest.mark.slow
@cases(ALL_PROGRAMS)
def test_program(golden: Golden, number: int):
    check(golden.module(), TO_KERNELS, number)


@pytest.mark.slow
@cases(ALL_PROGRAMS)
def test_program_that_calls_programs(golden: Golden, number: int):
    check(golden.module(), TO_PROGRAMS, number)


@pytest.mark.slow
@cases([g for g in ALL_PROGRAMS if g.has_column_scale])
def test_program_with_folded_weights(golden: Golden, number: int):
    check(golden.module(), FOLDED, number)


@pytest.mark.slow
@cases(sorted(EXAMPLES.glob("*.coda")))
@pytest.mark.parametrize("pipeline", [TO_KERNELS, FOLDED, TO_PROGRAMS])
def test_example(golden: Path, number: int, pipeline: str):
    check(small_example(golden), pipeline, number)
