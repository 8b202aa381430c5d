"""A few dozen random programs; `make random` checks many more of the same."""

from collections.abc import Sequence

import pytest
from generator.case import Case
from generator.check import Tally, check_program
from generator.choices import Choices, ReplayedChoices, SeededChoices
from generator.properties import KINDS, PROPERTIES, SHARES, make_case
from generator.strategies import block_cases, choices, gemm_cases
from hypothesis import HealthCheck, given, settings, strategies as st

SEED = 2026

PROGRAMS = len(SHARES)
"""Checked by the seed, as in the nightly run of 20,000: of each kind its share."""

GROUPS = 4

few = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
"""For hypothesis, which shrinks what fails."""


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_programs_by_seed(group: int):
    tally = Tally()
    for number in range(group, PROGRAMS, GROUPS):
        check_program(SEED, number, tally)
    assert not tally.failures, "\n\n".join(f"{f.message}\n{f.module}" for f in tally.failures)
    assert sum(tally.programs.values()) == PROGRAMS // GROUPS


@pytest.mark.slow
@few
@given(block_cases(), choices(), st.sampled_from(sorted(PROPERTIES)))
def test_block_programs(case: Case, source: Choices, name: str):
    PROPERTIES[name].check(case, source)


@pytest.mark.slow
@few
@given(gemm_cases(), choices(), st.sampled_from(sorted(PROPERTIES)))
def test_gemm_programs(case: Case, source: Choices, name: str):
    PROPERTIES[name].check(case, source)


@pytest.mark.parametrize("kind", KINDS)
def test_programs_follow_from_the_seed(kind: str):
    first, second = SeededChoices(5), SeededChoices(5)
    text = str(make_case(first, kind).program.module)
    assert text == str(make_case(second, kind).program.module)
    assert text == str(make_case(ReplayedChoices(first.record), kind).program.module)
    assert text != str(make_case(SeededChoices(6), kind).program.module)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("record", [(), (7,) * 300, (0, 99) * 200], ids=["empty", "7", "0 99"])
def test_every_record_is_a_program(kind: str, record: Sequence[int]):
    make_case(ReplayedChoices(record), kind)


def test_shares_cover_the_kinds():
    assert set(SHARES) == set(KINDS)
