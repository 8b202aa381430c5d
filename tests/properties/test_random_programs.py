"""A few dozen random programs; `make random` checks many more of the same."""

from collections.abc import Sequence
from random import Random

import pytest
from generator.check import Tally, check_program
from generator.choices import ReplayedChoices, SeededChoices
from generator.properties import KINDS, PROPERTIES, SHARES, make_case

SEED = 2026

PROGRAMS = len(SHARES)
"""Checked by the seed, as in the nightly run of 20,000: of each kind its share."""

GROUPS = 4


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_programs_by_seed(group: int):
    tally = Tally()
    for number in range(group, PROGRAMS, GROUPS):
        check_program(SEED, number, tally)
    assert not tally.failures, "\n\n".join(f"{f.message}\n{f.module}" for f in tally.failures)
    assert sum(tally.programs.values()) == PROGRAMS // GROUPS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["block", "gemm"])
def test_simple_programs(kind: str):
    """Most decisions are the simplest ones, as in what shrinking tries."""
    random = Random(SEED)
    for number in range(8):
        records = [random.choices((0, 1, 2, 99), (6, 2, 1, 1), k=300) for _ in range(2)]
        name = random.choice(sorted(PROPERTIES))
        program, source = map(ReplayedChoices, records)
        PROPERTIES[name].check(make_case(program, kind, number), source)


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
