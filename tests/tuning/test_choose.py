"""The choice between candidates, whatever the times are: with a measurer that makes them up."""

import pytest
from support.fake_measurer import FakeMeasurer, Times

import coda_ir
from coda_ir.cache.decision import FORMS, LIBRARY, Configured, Decision
from coda_ir.context import make_context
from coda_ir.cost_model import DEVICES, Space
from coda_ir.cost_model.rows import RowCounts
from coda_ir.dialects.gemm import FusedOp
from coda_ir.lowering import Lowering
from coda_ir.passes.block.set_numerics import SetNumericsPass
from coda_ir.tuning import candidates as candidates_module
from coda_ir.tuning.buckets import bucket
from coda_ir.tuning.candidates import Request, candidates_of
from coda_ir.tuning.choice import NOISE, UNFINISHED, Choice
from coda_ir.tuning.measurer import Candidate, Deadline
from coda_ir.tuning.problem import Problem

PROGRAM = "fn f(x: bf16[B, T, 512], w: bf16[1024, 512]) {\n    return silu(linear(x, w))\n}"


def problem(program: str = PROGRAM, **sizes: int) -> Problem:
    module = Lowering(coda_ir.parse(program)).module("gemm")
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    found = Problem.of(op, RowCounts(sizes))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    space = Space(("tma",))
    return candidates_of(Request(problem(B=2, T=8192), "f", space, DEVICES["sm_90"]))


def number(candidates: list[Candidate], index: int) -> Configured:
    return candidates[index].configured


def decide(candidates: list[Candidate], measurer: FakeMeasurer, budget: float = 1e9) -> Decision:
    found = Choice(candidates, {}, measurer, Deadline(budget, measurer.clock)).decide()
    assert found is not None
    return found


def times(fast: Configured, ratio: float) -> Times:
    return lambda configured: 100.0 * ratio if configured == fast else 100.0


def test_candidates_are_the_models_best_and_variants_of_them(candidates: list[Candidate]):
    assert candidates[0].configured.mainloop == "tma"  # what the options ask for
    fused = [each.configured for each in candidates if each.form == "fused"]
    assert len(set(fused)) == len(fused) >= 6
    loops = {configured.mainloop for configured in fused}
    assert loops >= {"tma", "ping_pong"} and "pointer" not in loops  # which is far from the best
    assert len({configured.tile for configured in fused}) > 2
    assert {configured.group_m for configured in fused} == {8, 16}
    assert {configured.stages for configured in fused} > {3, 6}


@pytest.mark.slow
def test_few_rows_are_tuned_over_programs_that_share_a_tile():
    deep = PROGRAM.replace("512", "8192")
    request = Request(problem(deep, B=1, T=16), "f", Space(("tma",)), DEVICES["sm_90"])
    fused = [each.configured for each in candidates_of(request) if each.form == "fused"]
    assert len(set(fused)) == len(fused) <= 12
    assert len({each.split_k for each in fused}) >= 3
    assert len({(each.mainloop, each.tile, each.warps) for each in fused}) >= 5


def other_forms(program: str, **sizes: int) -> dict[str, Candidate]:
    request = Request(problem(program, **sizes), "f", Space(("tma",)), DEVICES["sm_90"])
    return {each.form: each for each in candidates_of(request) if each.form != "fused"}


@pytest.mark.slow
def test_other_forms_are_candidates_with_the_bytes_that_they_move():
    deep = PROGRAM.replace("512", "8192")
    few, many = other_forms(deep, B=1, T=16), other_forms(deep, B=2, T=8192)
    assert few.keys() == many.keys() == {"library", "unfused"}
    assert few["library"].configured == LIBRARY and few["unfused"].configured.form == "unfused"
    # Products of 16384 x 1024 in float32 are written and read, the result is written: 3.35 TB/s.
    moved_us = 16384 * 1024 * (4 + 4 + 2) / 3.35e6
    assert many["library"].predicted_us - few["library"].predicted_us > moved_us
    assert "unfused" not in other_forms(PROGRAM, B=2, T=8192)  # K is short: the bytes are all


def test_a_gemm_without_an_epilogue_is_unfused_already():
    bare = PROGRAM.replace("silu(linear(x, w))", "linear(x, w)")
    assert other_forms(bare, B=1, T=16).keys() == {"library"}


def test_a_stated_order_leaves_no_other_form():
    block = coda_ir.parse(PROGRAM)
    SetNumericsPass("deterministic").apply(make_context(), block)
    op = next(op for op in Lowering(block).module("gemm").walk() if isinstance(op, FusedOp))
    found = Problem.of(op, RowCounts({"B": 1, "T": 16}))
    assert found is not None and op.order is not None
    assert [form for form in FORMS if found.has_form(form)] == ["fused"]


@pytest.mark.slow
def test_the_library_is_no_candidate_where_it_may_round(monkeypatch: pytest.MonkeyPatch):
    in_f32 = PROGRAM.replace("bf16", "f32")
    assert "library" in other_forms(in_f32, B=1, T=16)
    monkeypatch.setattr(candidates_module, "library_rounds_float32", lambda: True)
    assert "library" not in other_forms(in_f32, B=1, T=16)
    assert "library" in other_forms(PROGRAM, B=1, T=16)


def test_the_fastest_is_taken(candidates: list[Candidate]):
    fast = number(candidates, 3)
    found = decide(candidates, FakeMeasurer(times(fast, 0.8)))
    assert found.chosen == fast
    assert found.measured_us == pytest.approx(80)
    assert found.model_us == pytest.approx(100)
    assert found.gain == pytest.approx(1.25)
    assert found.is_complete


@pytest.mark.parametrize("margin, is_taken", [(NOISE + 0.01, True), (NOISE - 0.01, False)])
def test_what_is_faster_by_less_than_noise_is_not_taken(
    candidates: list[Candidate], margin: float, is_taken: bool
):
    found = decide(candidates, FakeMeasurer(times(number(candidates, 2), 1 - margin)))
    assert found.keeps_model is not is_taken


@pytest.mark.parametrize("of_best, is_taken", [(0.96, True), (0.98, False), (1.2, False)])
def test_the_library_has_to_be_faster_than_the_best_kernel(
    candidates: list[Candidate], of_best: float, is_taken: bool
):
    best = number(candidates, 3)
    measured = {best: 80.0, LIBRARY: 80.0 * of_best}
    found = decide(candidates, FakeMeasurer(lambda configured: measured.get(configured, 100.0)))
    assert found.chosen == (LIBRARY if is_taken else best)
    assert found.measured_us == pytest.approx(measured[found.chosen])


def test_what_is_fast_only_once_is_not_taken(candidates: list[Candidate]):
    lucky, seen = number(candidates, 2), list[Configured]()

    def once(configured: Configured) -> float:
        seen.append(configured)
        return 50.0 if configured == lucky and seen.count(lucky) == 1 else 100.0

    assert decide(candidates, FakeMeasurer(once)).keeps_model


def test_a_clock_that_slows_down_steadily_favours_nobody(candidates: list[Candidate]):
    measurer = FakeMeasurer(times(number(candidates, 0), 1.0), speed=lambda i: 1 + i / 50)
    found = decide(candidates, measurer)
    assert found.keeps_model
    assert all(tried.ratio == pytest.approx(1, abs=0.01) for tried in found.tried)


def test_a_comparison_across_a_jump_of_the_clock_is_repeated(candidates: list[Candidate]):
    # Twice as slow from the fourth measurement on, which is the incumbent's after a candidate.
    measurer = FakeMeasurer(lambda _: 100.0, speed=lambda i: 1.0 if i < 4 else 2.0)
    found = decide(candidates, measurer)
    assert [tried.ratio for tried in found.tried] == [1.0] * len(candidates)


def test_a_clock_that_never_keeps_still_skips_candidates(candidates: list[Candidate]):
    measurer = FakeMeasurer(lambda _: 100.0, speed=lambda i: 1.0 if i % 4 < 2 else 2.0)
    found = decide(candidates, measurer)
    assert found.keeps_model
    assert "was not stable" in (found.tried[1].skipped or "")


def test_candidates_that_fail_are_skipped_with_the_reason(candidates: list[Candidate]):
    broken, wrong, fast = (number(candidates, index) for index in (1, 2, 3))
    measurer = FakeMeasurer(
        lambda c: 50.0 if c in (broken, wrong) else 80.0 if c == fast else 100.0,
        launch_failures=lambda c: "OutOfResources: shared memory" if c == broken else None,
        is_wrong=lambda c: c == wrong,
    )
    found = decide(candidates, measurer)
    assert found.chosen == fast
    assert found.tried[1].skipped == "OutOfResources: shared memory"
    assert "not that of the model's choice" in (found.tried[2].skipped or "")
    assert found.tried[1].ratio is None and found.is_complete


def test_where_the_models_choice_cannot_run_the_next_is_compared_with(candidates: list[Candidate]):
    first = number(candidates, 0)
    measurer = FakeMeasurer(
        lambda _: 100.0, launch_failures=lambda c: "too large" if c == first else None
    )
    found = decide(candidates, measurer)
    assert found.chosen == number(candidates, 1)
    assert found.tried[0].skipped == "too large"


def test_a_budget_that_ends_keeps_the_models_choice(candidates: list[Candidate]):
    fast = number(candidates, 5)
    found = decide(candidates, FakeMeasurer(times(fast, 0.5), measure_s=1.0), budget=4.0)
    assert found.keeps_model and not found.is_complete
    assert found.tried[5].skipped == UNFINISHED


def test_nothing_is_decided_without_any_time(candidates: list[Candidate]):
    measurer = FakeMeasurer(lambda _: 100.0)
    assert Choice(candidates, {}, measurer, Deadline(0.0, measurer.clock)).decide() is None


def test_buckets_are_powers_of_two_and_what_lies_halfway():
    assert [bucket(rows) for rows in (1, 16, 17, 24, 25, 33, 48, 49, 1000, 8192, 8193)] == [
        *(16, 16, 24, 24, 32, 48, 48, 64, 1024, 8192, 12288)
    ]
    assert bucket(10**9) == bucket(1 << 17)
    for rows in range(17, 5000):
        assert rows <= bucket(rows) < 1.5 * rows
        assert bucket(bucket(rows)) == bucket(rows)


def test_equal_gemms_have_one_text():
    renamed = PROGRAM.replace("f(x", "g(activations").replace("linear(x", "linear(activations")
    renamed = renamed.replace("B, T", "N, L").replace("w", "weight").replace("eight:", "eight :")
    first, second = problem(B=2, T=8192), problem(renamed, N=4, L=4000)
    assert first.text == second.text
    assert first.bucket == second.bucket == 16384
    assert problem(PROGRAM.replace("silu", "relu"), B=2, T=8192).text != first.text


def test_types_may_say_all_sizes():
    fixed = problem(PROGRAM.replace("B, T", "2, 8192"))
    assert fixed.rows == 16384 and not fixed.sizes


def test_sizes_that_are_not_known_give_no_problem():
    module = Lowering(coda_ir.parse(PROGRAM)).module("gemm")
    op = next(op for op in module.walk() if isinstance(op, FusedOp))
    assert Problem.of(op, RowCounts({"B": 2})) is None
