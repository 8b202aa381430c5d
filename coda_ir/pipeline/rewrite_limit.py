"""A limit for rewriting that would never end.

xDSL's `PatternRewriteWalker` applies patterns until none matches. Two patterns that undo each
other never stop. `rewrite_module` runs a walker whose rewrites are counted. Inside
`limit_rewrites` it stops at a limit, with an error that names the patterns.

Counting decides nothing: the walker tries the same patterns on the same operators in the same
order. The limit is a context variable, so it does not reach other threads.
"""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Operation, Region
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern

from coda_ir.remarks import format_location

BASE_LIMIT, LIMIT_PER_OPERATOR = 10_000, 100
"""Rewrites that one pass may do: far above what a pass that ends needs."""

SHOWN_PATTERNS = 6

FOLDING = "folding and dead code elimination"
"""The rewrites of a greedy applier beside its patterns."""


class RewriteLoopError(Exception):
    """More rewrites by patterns than the limit allows; most likely, some undo others."""


class _StopRewriting(BaseException):
    """Ends all walks. It is not an Exception, because walkers annotate those with the whole
    module.
    """


@dataclass
class _Budget:
    limit: int | None
    """None until something is rewritten."""
    total: int = 0
    fired: Counter[str] = field(default_factory=Counter[str])
    last: tuple[str, LocationAttr] = ("", UnknownLoc())
    """Name and location of the operator that was rewritten last."""

    def count(self, pattern: str, operator: tuple[str, LocationAttr]) -> None:
        self.fired[pattern] += 1
        self.last = operator
        self.total += 1
        if self.limit is not None and self.total > self.limit:
            raise _StopRewriting

    def __str__(self) -> str:
        shown = [f"{name} ({times} times)" for name, times in self.fired.most_common()]
        left_out = len(shown) - SHOWN_PATTERNS
        more = f", and {left_out} more" if left_out > 0 else ""
        operator, place = self.last[0], format_location(self.last[1])
        return (
            f"rewriting did not finish after {self.limit} rewrites; patterns that rewrote: "
            f"{', '.join(shown[:SHOWN_PATTERNS])}{more}; last at {operator} ({place})"
        )


_budget: ContextVar[_Budget | None] = ContextVar("coda_ir_rewrite_budget", default=None)


@contextmanager
def limit_rewrites(limit: int | None = None) -> Generator[None]:
    """Allow at most `limit` rewrites by `rewrite_module` in the `with` block. The default is
    generous for the size of the module. Raises RewriteLoopError beyond the limit; the module stays
    as the last rewrite left it.
    """
    budget = _Budget(limit)
    token = _budget.set(budget)
    try:
        yield
    except _StopRewriting:
        raise RewriteLoopError(str(budget)) from None
    finally:
        _budget.reset(token)


def rewrite_module(
    module: ModuleOp,
    pattern: RewritePattern,
    post_walk: Callable[[Region, PatternRewriterListener], bool] | None = None,
) -> bool:
    """Apply `pattern` to all operators of `module` until it matches none of them, and `post_walk`
    after each round. Returns whether anything changed. `limit_rewrites` limits the rewrites.
    """
    budget = _budget.get()
    if budget is not None and budget.limit is None:
        budget.limit = BASE_LIMIT + LIMIT_PER_OPERATOR * sum(1 for _ in module.walk())
    counted = pattern if budget is None else _counted(pattern, budget)
    return PatternRewriteWalker(counted, post_walk_func=post_walk).rewrite_module(module)


@dataclass(eq=False, repr=False)
class _Counted(RewritePattern):
    """`pattern`, counted under its name whenever it changes an operator."""

    pattern: RewritePattern
    name: str
    budget: _Budget

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        before = self.budget.total
        # Before the rewrite, since the operator may be gone after it.
        operator = (op.name, op.location)
        self.pattern.match_and_rewrite(op, rewriter)
        if rewriter.has_done_action and self.budget.total == before:
            self.budget.count(self.name, operator)


@dataclass(eq=False, repr=False)
class _CountedCanonicalization(RewritePattern):
    """xDSL's CanonicalizationRewritePattern, with the patterns of an operator counted
    separately.
    """

    budget: _Budget

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        traits = op.get_traits_of_type(HasCanonicalizationPatternsTrait)
        patterns = [
            _counted(pattern, self.budget)
            for trait in traits
            for pattern in trait.get_patterns(type(op))
        ]
        if len(patterns) == 1:
            patterns[0].match_and_rewrite(op, rewriter)
        elif patterns:
            GreedyRewritePatternApplier(patterns).match_and_rewrite(op, rewriter)


def _counted(pattern: RewritePattern, budget: _Budget) -> RewritePattern:
    """Return an equivalent pattern that counts under the names of the innermost patterns."""
    match pattern:
        case _Counted() | _CountedCanonicalization():
            return pattern
        case CanonicalizationRewritePattern():
            return _CountedCanonicalization(budget)
        case GreedyRewritePatternApplier():
            inner = [_counted(each, budget) for each in pattern.rewrite_patterns]
            return _Counted(replace(pattern, rewrite_patterns=inner), FOLDING, budget)
        case _:
            return _Counted(pattern, type(pattern).__name__, budget)
