"""Makes failing programs small: removes and lowers decisions while the failure stays."""

import math
import time
from collections.abc import Callable, Generator, Sequence

Fails = Callable[[Sequence[int]], list[int] | None]
"""The decisions that were taken for given ones, where the failure stays; None where it does not."""


def shrink(
    record: Sequence[int], fails: Fails, seconds: float = 60.0, attempts: float = math.inf
) -> list[int]:
    """The simplest decisions that were found to fail, within a time and a number of attempts."""
    best = list(record)
    deadline = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        for candidate in _simpler(best):
            if attempts <= 0 or time.monotonic() > deadline:
                return best
            attempts -= 1
            taken = fails(candidate)
            if taken is not None and _key(taken) < _key(best):
                best, improved = taken, True
                break
    return best


def _key(record: Sequence[int]) -> tuple[int, Sequence[int]]:
    return len(record), record


def _simpler(record: Sequence[int]) -> Generator[list[int]]:
    """Shorter records first, then smaller numbers."""
    size = max(1, len(record) // 2)
    while size:
        for start in range(len(record) - size, -1, -max(1, size // 2)):
            yield [*record[:start], *record[start + size :]]
        size //= 2
    for size in (8, 3, 1):
        for start in range(0, len(record), size):
            part = record[start : start + size]
            if any(part):
                yield [*record[:start], *[0] * len(part), *record[start + size :]]
    for index, number in enumerate(record):
        for smaller in (number // 2, number - 1):
            if 0 < smaller < number:
                yield [*record[:index], smaller, *record[index + 1 :]]
