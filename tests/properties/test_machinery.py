"""The machinery finds faults: a wrong pass is caught, reduced, written to a file and replayed."""

import math
import os
import re
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from generator.__main__ import main
from generator.case import Case
from generator.check import Failure, Tally, check_program, replay, shrink_failure
from generator.choices import SeededChoices
from generator.coda_programs import draw_text
from generator.features import MOTIFS, motifs_of
from generator.layouts import LAYOUTS, laid_out
from generator.operators import DOMAIN
from generator.program import Program
from generator.properties import SHARES, make_case
from generator.rounding import Rounding
from generator.run import Report, write_failure
from generator.shrink import shrink
from generator.summary import seldom_fired
from generator.triton_mode import use_interpreter
from generator.violations import Violation, expected_to_work
from support.daily import daily
from support.processor_time import processor_time_limit
from support.programs import parse_mlir

from coda_ir.dialects.gemm import ScalarBuilder
from coda_ir.frontends.coda_text.elementwise import INFIX
from coda_ir.frontends.coda_text.epilogue_body import SIGNATURES
from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES

BLOCK_PROGRAMS = [number for number in range(40) if number % 20 < 12]


def test_shrink_finds_the_smallest_record():
    def fails(record: Sequence[int]) -> list[int] | None:
        return list(record) if sum(number >= 10 for number in record) >= 2 else None

    assert shrink([3, 50, 0, 7, 12, 99, 4], fails) == [10, 10]


def test_shrink_keeps_what_cannot_be_simpler():
    assert shrink([5, 6], lambda record: [5, 6] if list(record) == [5, 6] else None) == [5, 6]


def test_limits_count_time_on_the_processor():
    with processor_time_limit(0.05, TimeoutError()):
        time.sleep(0.1)
    with pytest.raises(TimeoutError), processor_time_limit(0.05, TimeoutError()):
        while True:
            pass


def test_signatures_ignore_names_and_numbers():
    first = Violation("p", "pass", "result 1 of f0 has an error of 2.5e-01\nmore")
    second = Violation("p", "pass", "result 0 of f1 has an error of 1.0e+00")
    assert first.signature == second.signature
    assert first.signature != Violation("p", "other", first.message).signature


def test_crashes_are_violations():
    with pytest.raises(Violation, match=r"ValueError: oops"), expected_to_work("p", "here"):
        raise ValueError("oops")


@pytest.fixture(scope="module")
def failure() -> Generator[Failure]:
    """The first failure where the rstd of norms is its inverse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScalarBuilder, "rsqrt", ScalarBuilder.sqrt)
        tally = Tally()
        for number in BLOCK_PROGRAMS:
            check_program(1, number, tally)
            if tally.failures:
                break
        assert tally.failures, "no program has a norm in an epilogue"
        yield tally.failures[0]


@daily(lambda attempts: False)
@pytest.mark.parametrize("attempts", [12])
def test_a_fault_is_reduced_and_replayed(failure: Failure, attempts: int, tmp_path: Path):
    small = shrink_failure(failure, seconds=math.inf, attempts=attempts)
    assert small.signature == failure.signature
    assert len(small.record) < len(failure.record) and len(small.module) < len(failure.module)
    text = write_failure(tmp_path, small).read_text()
    assert "norm" in text
    with pytest.raises(Violation, match="relative error"):
        replay(text)


@pytest.mark.slow
def test_failures_of_one_cause_are_one(failure: Failure):
    report = Report()
    assert report.add(Tally(failures=[failure, failure])) == [failure]
    assert not report.add(Tally(failures=[failure]))
    assert report.counts == {failure.signature: 3}


def test_seldom_passes_are_named():
    assert "pair-rope" in seldom_fired(Report())


LINEAR = """
func.func @f(%x: tensor<1x2xbf16>, %w: tensor<1x2xbf16>) -> tensor<1x1xbf16> {
  %y = coda.linear %x, %w : (tensor<1x2xbf16>, tensor<1x2xbf16>) -> tensor<1x1xbf16>
  func.return %y : tensor<1x1xbf16>
}
"""


@pytest.mark.parametrize(
    "second, error, is_rounding",
    [(1.0, 0.01, True), (1.0, 0.1, False), (-0.9921875, 0.1, True), (-0.9921875, 100.0, False)],
)
def test_errors_are_measured_by_the_condition(second: float, error: float, is_rounding: bool):
    """1 - 0.9921875 is exact, but a rounding of either number would change most of it."""
    case = Case(Program(parse_mlir(LINEAR)))
    case.arguments["f"] = [torch.tensor([[1.0, each]]).bfloat16() for each in (1.0, second)]
    actual = {"f": [(case.exact["f"][0] * (1 + error)).bfloat16()]}
    with nullcontext() if is_rounding else pytest.raises(Violation, match="relative error"):
        Rounding(case).check(actual, "p", "here")


CANCELS = """
func.func @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %z = coda.linear %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = coda.add %x, %z : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = coda.sub %a, %z : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = coda.sub %b, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
"""


def test_a_result_of_rounding_errors():
    """(x + z) - z - x is 0, or what rounding leaves of it: another order leaves something else."""
    case = Case(Program(parse_mlir(CANCELS)))
    other = CANCELS.replace("%x, %z : (tensor<4x4xf32>, t", "%z, %x : (tensor<4x4xf32>, t")
    other = other.replace("coda.sub %a, %z", "coda.sub %a, %x").replace("%b, %x", "%b, %z")
    case.check_meaning(parse_mlir(other), "p", "another order")
    with pytest.raises(Violation, match="relative error"):
        case.check_meaning(parse_mlir(CANCELS.replace("coda.sub %a", "coda.add %a")), "p", "wrong")


ROOT = """
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = coda.sqrt %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %y : tensor<8x8xf32>
}
"""


@pytest.mark.parametrize(
    "hazards, count, passes", [((DOMAIN,), 2, True), ((DOMAIN,), 9, False), ((), 2, False)]
)
def test_few_elements_may_be_outside_of_a_domain(hazards: Sequence[str], count: int, passes: bool):
    case = Case(Program(parse_mlir(ROOT), hazards=frozenset(hazards)))
    got = case.exact["f"][0].float()
    got.view(-1)[got.view(-1).isfinite().nonzero()[:count, 0]] = float("nan")
    with nullcontext() if passes else pytest.raises(Violation, match="relative error of inf"):
        Rounding(case).check({"f": [got]}, "p", "here")


def test_no_program_begins_after_the_limit(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--programs", "20", "--seconds", "0"]) == 0
    assert "0 programs" in capsys.readouterr().out


def test_the_interpreter_sees_no_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    use_interpreter()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == os.environ["HIP_VISIBLE_DEVICES"] == ""


@pytest.mark.slow
def test_programs_have_every_motif():
    found = set[str]()
    for number in range(240):
        case = make_case(SeededChoices(number), SHARES[number % len(SHARES)], number)
        found |= motifs_of(case)
    of_calls = {motif for motif in MOTIFS if motif.startswith("argument")}
    assert found >= set(MOTIFS) - of_calls - {"finalize with a loop"}


def test_programs_call_every_operator_of_the_language():
    text = "\n".join(draw_text(SeededChoices(number))[0] for number in range(3000))
    called = set(re.findall(r"\b(\w+)\(", text))
    assert {*OPERATORS, *SIGNATURES} - called == set()
    assert {name for name in ELEMENT_TYPES if not re.search(rf"\b{name}\b", text)} <= {"f64"}
    assert {sign for sign in INFIX if f" {sign} " not in text} - called == set()


def test_arguments_have_every_layout():
    found, shapes = set[str](), ((3, 4), (5,), (2, 3, 4), ())
    for seed in range(20):
        arguments = [torch.randn(shape) for shape in shapes]
        given, kinds = laid_out(arguments, seed)
        assert all(map(torch.equal, given, arguments))
        found |= kinds
    assert found >= {f"argument: {kind}" for kind in LAYOUTS}
    assert "argument: the last one strided" not in found  # it has no dimension
