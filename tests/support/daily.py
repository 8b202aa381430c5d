"""The combinations of a test's parameters that `make test` runs; `pytest --nightly` runs all.

Of a test with several independent lists of parameters, every element of every list runs in at least
one combination: each-choice coverage, as Ammann and Offutt (Introduction to Software Testing) call
it. The marker `daily` says instead which combinations run, where others matter.

Of the tests with the marker `slow`, which take most of the time, each for itself or with all its
cases, `make test` runs a third, another one each day, so that three days run all.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from inspect import signature
from typing import Any, TypeVar
from zlib import crc32

import pytest

T = TypeVar("T")


def daily(
    predicate: Callable[[Any], bool] | Callable[[Any, Any], bool] | Callable[[Any, Any, Any], bool],
) -> pytest.MarkDecorator:
    """Run the test without `--nightly` only where `predicate` is true of its parameters.

    The predicate names the parameters that it needs. What the other combinations are made of, other
    combinations or tests run every day.
    """
    return pytest.mark.daily.with_args(predicate)


_nightly = True


def set_nightly(nightly: bool) -> None:
    """Say whether everything runs, as it does in processes that are not told."""
    global _nightly
    _nightly = nightly


def is_nightly() -> bool:
    return _nightly


def one_a_day(values: Sequence[T], number: int) -> Sequence[T]:
    """Return all `values` in the nightly run, else the one that a test of this number takes."""
    return values if is_nightly() else [values[number % len(values)]]


def run_daily(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that run every day."""
    chosen: set[pytest.Item] = set()
    combinations: dict[str, dict[pytest.Item, frozenset[Hashable]]] = defaultdict(dict)
    for item in items:
        marker = item.get_closest_marker("daily")
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            chosen.add(item)
        elif marker is None:
            combinations[item.nodeid.partition("[")[0]][item] = frozenset(_elements(item))
        elif _fits(item, marker.args[0]):
            chosen.add(item)
    for cases in combinations.values():
        chosen |= each_choice(cases)
    return chosen


SLOW_SHARES = 3
"""The days in which all slow tests run once."""


def share_of_the_day() -> int:
    """Return which share of the slow tests runs today, in UTC."""
    return datetime.now(UTC).toordinal() % SLOW_SHARES


def share_of_slow_tests(items: Sequence[pytest.Item], share: int) -> set[pytest.Item]:
    """Return the tests that are not slow, and one of `SLOW_SHARES` shares of those that are.

    Each share has neighbors of the others: cases of the same tests, tests of the same files. Which
    cases go together is as good as random: a share has not always the same one of three types.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    slow.sort(key=lambda item: (item.nodeid.partition("[")[0], crc32(item.nodeid.encode())))
    return set(items).difference(slow) | set(slow[share::SLOW_SHARES])


def _fits(item: pytest.Function, predicate: Callable[..., bool]) -> bool:
    return predicate(*(item.callspec.params[name] for name in signature(predicate).parameters))


def _elements(item: pytest.Function) -> Iterable[Hashable]:
    """Return which element each list of parameters gives to a test."""
    params, rest = item.callspec.params, set(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        stated: str | Sequence[str] = mark.args[0]
        names = stated.replace(",", " ").split() if isinstance(stated, str) else stated
        yield *names, *(id(params[name]) for name in names)
        rest -= set(names)
    # Those of fixtures.
    for name in rest:
        yield name, id(params[name])


def each_choice(cases: Mapping[Any, frozenset[Hashable]]) -> set[Any]:
    """Return some cases whose elements are the elements of all cases; the first ones that will do.

    Each case is one that has the most elements which those before it lack, and of those with as
    many, one whose elements those before it have the least often.
    """
    chosen: set[Any] = set()
    uses = Counter[Hashable]()
    numbers = Counter(element for elements in cases.values() for element in elements)
    missing = set(numbers)
    if all(any(numbers[element] == 1 for element in case) for case in cases.values()):
        return set(cases)

    def value(case: Any) -> tuple[int, int]:
        return len(cases[case] & missing), -sum(uses[element] for element in cases[case])

    while missing:
        best = max(cases, key=value)
        chosen.add(best)
        uses.update(cases[best])
        missing -= cases[best]
    return chosen
