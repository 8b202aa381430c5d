"""Which combinations of a test's parameters `make test` runs; `pytest --nightly` runs all."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest


def daily(predicate: Callable[[Any], bool] | Callable[[Any, Any], bool]) -> pytest.MarkDecorator:
    """Run the test without `--nightly` only where `predicate` is true of its parameters.

    The predicate names the parameters that it needs. What the other combinations are made of, other
    combinations or tests run every day.
    """
    return pytest.mark.daily.with_args(predicate)


def is_daily(item: pytest.Item) -> bool:
    """Return whether the parameters of a test fit its predicate, if it has one."""
    marker = item.get_closest_marker("daily")
    if marker is None or not isinstance(item, pytest.Function):
        return True
    predicate: Callable[..., bool] = marker.args[0]
    return predicate(*(item.callspec.params[name] for name in signature(predicate).parameters))
