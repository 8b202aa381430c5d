"""The sources of a generator's decisions: a seed, a recording of an earlier run, or hypothesis.

A generator is a function of `Choices`. Every decision is a number of which 0 is the simplest, so
that one shrinker works for all generators: fewer and smaller numbers are simpler programs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices(ABC):
    """A source of decisions; the first option is the simplest one."""

    @abstractmethod
    def below(self, count: int) -> int:
        """A number from 0 to count - 1, which must not be empty."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True in `percent` of all cases; False is simpler."""
        return self.below(100) >= 100 - percent

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """An option by its weight."""
        place = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            place -= weight
            if place < 0:
                return option
        raise AssertionError("the weights are not positive")

    def recent(self, options: Sequence[T]) -> T:
        """One of `options`, mostly one of the last."""
        depth = len(options) if self.chance(20) else min(3, len(options))
        return options[-1 - self.below(depth)]

    def subset(self, options: Sequence[T]) -> list[T]:
        return [option for option in options if self.chance(50)]


class SeededChoices(Choices):
    """Decisions that follow from a seed, and a record of them."""

    def __init__(self, seed: int):
        self._random = Random(seed)
        self.record: list[int] = []

    def below(self, count: int) -> int:
        number = self._random.randrange(count)
        self.record.append(number)
        return number

    def copy(self) -> SeededChoices:
        """Another source with the same past and the same future."""
        return deepcopy(self)


class ReplayedChoices(Choices):
    """Recorded decisions, which may have been changed: 0 where the record ends."""

    def __init__(self, record: Sequence[int]):
        self._pending = iter(record)
        self.record: list[int] = []

    def below(self, count: int) -> int:
        number = min(next(self._pending, 0), count - 1)
        self.record.append(number)
        return number


class DrawnChoices(Choices):
    """Decisions of hypothesis, by a function that draws a number below a limit."""

    def __init__(self, draw: Callable[[int], int]):
        self._draw = draw

    def below(self, count: int) -> int:
        return self._draw(count)
