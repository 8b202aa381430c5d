"""The combinations that `make test` runs of tests with several lists of parameters."""

from collections import Counter
from itertools import product

import pytest
from support.daily import SLOW_SHARES, each_choice

pytest_plugins = ["pytester"]


def cases(*sizes: int) -> dict[object, frozenset[tuple[int, int]]]:
    return {case: frozenset(enumerate(case)) for case in product(*map(range, sizes))}


@pytest.mark.parametrize("sizes", [(1,), (5,), (3, 3), (2, 7), (4, 3, 2), (2, 2, 2, 2)])
def test_every_element_is_in_a_case_and_no_case_is_too_many(sizes: tuple[int, ...]):
    all_cases = cases(*sizes)
    chosen = each_choice(all_cases)
    assert len(chosen) == max(sizes)
    assert frozenset().union(*(all_cases[case] for case in chosen)) == {
        (place, element) for place, size in enumerate(sizes) for element in range(size)
    }


def test_elements_are_used_alike():
    uses = Counter(second for _, second in each_choice(cases(9, 3)))
    assert uses == {0: 3, 1: 3, 2: 3}


CONFTEST = """
import pytest
from support.daily import run_daily


@pytest.fixture(params=["x", "y"])
def fixture(request):
    return request.param


def pytest_collection_modifyitems(items):
    kept = run_daily(items)
    items[:] = [item for item in items if item in kept]
"""

TESTS = """
import pytest
from support.daily import daily


def test_alone():
    pass


@pytest.mark.parametrize("a", range(4))
def test_list(a):
    pass


@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize(("b", "c"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_product(a, b, c):
    pass


@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize("b", [1, 2])
class TestClass:
    @pytest.mark.parametrize("c", [1, 2])
    def test_method(self, a, b, c):
        pass

    def test_fixture(self, a, b, fixture):
        pass


@daily(lambda a, b: a == b == 1)
@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize("b", [1, 2])
def test_chosen(a, b):
    pass
"""


def test_selection(pytester: pytest.Pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-q", "--collect-only", "-p", "no:cacheprovider")
    found = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert found == [
        "test_alone",
        *(f"test_list[{a}]" for a in range(4)),
        "test_product[1-1-1]",
        "test_product[1-2-2]",
        "test_product[2-1-3]",
        "test_product[2-2-1]",
        "TestClass::test_method[1-1-1]",
        "TestClass::test_method[2-2-2]",
        "TestClass::test_fixture[x-1-1]",
        "TestClass::test_fixture[y-2-2]",
        "test_chosen[1-1]",
    ]


SLOW = """
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("case", range(5))
def test_cases(case):
    pass


@pytest.mark.slow
def test_alone():
    pass


def test_fast():
    pass
"""
SLOW_CONFTEST = """
from support.daily import share_of_slow_tests


def pytest_addoption(parser):
    parser.addoption("--share", type=int)


def pytest_collection_modifyitems(config, items):
    chosen = share_of_slow_tests(items, config.getoption("--share"))
    items[:] = [item for item in items if item in chosen]
"""


def test_shares_have_each_slow_test_once_and_the_others_always(pytester: pytest.Pytester):
    pytester.makeconftest(SLOW_CONFTEST)
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(test_slow=SLOW)
    runs = Counter[str]()
    for share in range(SLOW_SHARES):
        result = pytester.runpytest_inprocess("-v", "-p", "no:cacheprovider", "--share", str(share))
        passed = [line.split()[0] for line in result.outlines if " PASSED" in line]
        assert len(passed) - 1 in (6 // SLOW_SHARES, 6 // SLOW_SHARES + 1)
        runs.update(name.partition("::")[2] for name in passed)
    assert runs.pop("test_fast") == SLOW_SHARES
    assert runs == {"test_alone": 1, **{f"test_cases[{case}]": 1 for case in range(5)}}
