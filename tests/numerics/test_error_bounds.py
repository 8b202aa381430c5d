"""The errors of every mode are below the a-priori bounds, and near those of eager PyTorch."""

import pytest
import torch
from numerics import MODES, Case, cases, error_in_ulps, main, measure, table
from support.daily import daily, each_choice

GRID = [case for case in cases(small=True) if case.group != "overflow"]
EDGES = [case for case in cases(small=True) if case.group == "overflow"]


def name_of(case: Case) -> str:
    return f"{case.group}-{case.name}-{case.dtype}".replace("torch.", "")


DAILY = each_choice(
    {name_of(case): frozenset([(case.group, case.name), case.dtype]) for case in GRID}
)
"""Each operator at each place of the grid, and each type."""


@pytest.mark.slow
@daily(lambda case: name_of(case) in DAILY)
@pytest.mark.parametrize("case", GRID, ids=name_of)
def test_errors_are_bounded(case: Case):
    row = measure(case)
    for mode in MODES:
        if row.bound is not None:
            assert row.modes[mode] <= row.bound, mode
        assert row.ratio(mode) <= 1.75, mode


@pytest.mark.slow
@pytest.mark.parametrize("case", EDGES, ids=name_of)
def test_overflow_is_that_of_eager_or_less(case: Case):
    """`eager-exact` overflows where eager does; the others only where the result does."""
    row = measure(case)
    assert row.modes["eager-exact"] == row.eager
    assert row.modes["fp32-epilogue"] <= row.eager


def test_an_error_in_ulps():
    exact = torch.tensor([[1.0, 0.5], [8.0, 70000.0]], dtype=torch.float64)
    got = torch.tensor([[1 + 2.0**-10, 0.5], [8.0, torch.inf]], dtype=torch.float16)
    assert error_in_ulps(got, exact, torch.float16) == 1
    assert error_in_ulps(got.clamp(max=60000), exact, torch.float16) == float("inf")


@pytest.mark.slow
def test_the_report(capsys: pytest.CaptureFixture[str]):
    assert main(["--small", "--group", "overflow"]) == 0
    assert capsys.readouterr().out.count("\n") == 2 + len(EDGES)
    assert table([]).startswith("| operator | case | type | eager | fp32-epilogue | fast |")
