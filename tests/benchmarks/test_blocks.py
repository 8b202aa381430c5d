"""The blocks of `tests/blocks`: training steps at tiny sizes, compared with float64."""

from pathlib import Path

import pytest
import torch
from fleet.measure import CODA, EAGER, measure
from fleet.members import members_of
from fleet.models import Member, Setting
from support.daily import daily

FILES = sorted(Path(__file__).parents[1].glob("blocks/*.py"))
MEMBERS = [
    member for file in FILES if "MEMBERS = " in file.read_text() for member in members_of(str(file))
]

QUICK = ("canon", "derf", "kan", "ppo")
"""The blocks that run every day; the others run in `make nightly`."""


def _measure_nothing(*_: object) -> None:
    """Replace what measures times."""


def test_names_differ() -> None:
    """A zoo of all files has each name once."""
    assert len({member.name for member in MEMBERS}) == len(MEMBERS)


@pytest.mark.slow
@daily(lambda member: member.name in QUICK)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_a_step_is_as_accurate_as_in_eager_pytorch(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.measure._time", _measure_nothing)
    setting = Setting("cpu", torch.float32, small=True)
    record = measure(member, "training", setting, (EAGER, CODA))
    assert not record.notes
    assert record.errors[CODA] < max(1e-5, 3 * record.errors[EAGER])
