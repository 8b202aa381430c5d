"""Delta debugging on IR: tries smaller candidates and keeps the smallest interesting one.

Source: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, TSE 2002.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from coda_ir.diagnostics import CheckError
from coda_ir.reduction.candidate import Candidate
from coda_ir.reduction.strategies import (
    Strategy,
    drop_arguments,
    drop_attributes,
    drop_functions,
    drop_operators,
    drop_results,
    merge_arguments,
    replace_results_by_operands,
    shrink_extents,
)

MAX_TESTS = 1000

IsInteresting: TypeAlias = Callable[[ModuleOp], bool]

STRATEGIES: tuple[Strategy, ...] = (
    drop_functions,
    drop_operators,
    replace_results_by_operands,
    drop_results,
    merge_arguments,
    drop_arguments,
    drop_attributes,
    shrink_extents,
)
"""In the order in which they are tried: what removes most comes first."""


class NotInterestingError(CheckError):
    """The module to reduce does not show the fault that the test looks for."""


@dataclass(frozen=True)
class Progress:
    """The progress of a reduction."""

    strategy: str
    """The current strategy, such as `drop operators`."""
    tests: int
    operators: int
    """Operators of the smallest module so far."""


class _TestsExhausted(Exception):
    """The limit on the number of tests is reached."""


def reduce_module(
    module: ModuleOp,
    is_interesting: IsInteresting,
    *,
    max_tests: int = MAX_TESTS,
    on_progress: Callable[[Progress], None] | None = None,
) -> ModuleOp:
    """Return the smallest module found for which `is_interesting` holds, after at most `max_tests`
    tests.

    `module` is not changed. Every candidate verifies; `is_interesting` must be deterministic and
    must not change the candidate (run passes on a clone). Deterministic. Raises NotInterestingError
    if `module` itself is not interesting.
    """
    search = _Search(module.clone(), is_interesting, max_tests, on_progress)
    with suppress(_TestsExhausted):
        search.run()
    return search.module


@dataclass
class _Search:
    """The search: the smallest interesting module so far, and the candidates that were tested."""

    module: ModuleOp
    is_interesting: IsInteresting
    max_tests: int
    on_progress: Callable[[Progress], None] | None
    tests: int = 0
    seen: set[bytes] = field(default_factory=set[bytes])

    def run(self) -> None:
        """Try every strategy repeatedly, until none makes the module smaller."""
        if not self._test(self.module, "test the input"):
            raise NotInterestingError(
                "the input is not interesting: the test does not hold for it",
                "a module is interesting if the command exits with 0",
            )
        improved = True
        while improved:
            improved = False
            for strategy in STRATEGIES:
                improved |= self._sweep(strategy)

    def _sweep(self, strategy: Strategy) -> bool:
        """Try the edits of a strategy: all of them, then halves of them, down to single ones."""
        improved = False
        count = len(strategy(Candidate(self.module)))
        size = count if strategy is not shrink_extents else min(count, 1)
        while size:
            start = 0
            while start < count:
                if self._attempt(strategy, range(start, min(start + size, count))):
                    improved = True
                    before, count = count, len(strategy(Candidate(self.module)))
                    # The edits that follow have moved up, if there are fewer.
                    start += 0 if count < before else size
                else:
                    start += size
            size = min(size, count) // 2 if size > 1 else 0
        return improved

    def _attempt(self, strategy: Strategy, chosen: range) -> bool:
        """Apply some of the edits to a copy, which becomes the module if it is interesting."""
        candidate = Candidate(self.module.clone())
        try:
            for edit in strategy(candidate)[chosen.start : chosen.stop]:
                edit()
            candidate.finish()
            candidate.module.verify()
        except VerifyException:
            return False
        return self._test(candidate.module, strategy.__name__.replace("_", " "))

    def _test(self, candidate: ModuleOp, title: str) -> bool:
        key = sha256(str(candidate).encode()).digest()
        if key in self.seen:
            return False
        self.seen.add(key)
        if self.tests >= self.max_tests:
            raise _TestsExhausted
        self.tests += 1
        interesting = self.is_interesting(candidate)
        if interesting:
            self.module = candidate
        if self.on_progress is not None:
            self.on_progress(Progress(title, self.tests, _size(self.module)))
        return interesting


def _size(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk()) - 1
