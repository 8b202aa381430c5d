"""Shrinking of inputs that show a difference: few rows, mostly zeros, small integers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.equivalence.draws import Draw, draw_arguments, elements
from coda_ir.equivalence.samples import RUN_ERRORS, Mismatch, Sample, compare, run, run_after
from coda_ir.signatures import stated_dtype

MAX_RUNS = 150
MAX_ELEMENTS = 2**27
"""Elements of the arguments of all runs together, which limits the runs of large functions."""

HALVINGS = 6
"""Times that a tensor is cut into halves, of which one may be zero."""


@dataclass(frozen=True)
class Failure:
    """Inputs on which two functions differ."""

    sizes: Mapping[str, int]
    arguments: Sequence[torch.Tensor]
    mismatch: Mismatch


@dataclass
class Shrinker:
    """The search: keeps inputs that are smaller and still fail in the same way."""

    before: FuncOp
    after: FuncOp
    draw: Draw
    failure: Failure
    runs: int = 0

    def shrink(self, fixed: Mapping[str, int]) -> Failure:
        """Return the smallest failure found; sizes in `fixed`, given by the user, stay."""
        size = max(1, elements(self.before, self.failure.sizes))
        self.most_runs = min(MAX_RUNS, MAX_ELEMENTS // size)
        for symbol in self.failure.sizes:
            if symbol not in fixed:
                self._shrink_size(symbol)
        for index in range(len(self.failure.arguments)):
            self._simplify(index)
        return self.failure

    def _shrink_size(self, symbol: str) -> None:
        """Try smaller sizes, the smallest first; values are drawn anew."""
        for size in range(1, self.failure.sizes[symbol]):
            if size > 8 and size.bit_count() > 1:
                continue
            sizes = {**self.failure.sizes, symbol: size}
            try:
                arguments = draw_arguments(self.before, self.draw, sizes)
            except RUN_ERRORS:
                continue
            if self._accept(sizes, arguments):
                return

    def _simplify(self, index: int) -> None:
        """Try simpler values of one argument: the simplest that fail, then fewer of them."""
        argument = self.failure.arguments[index]
        for simpler in _simplifications(argument, stated_dtype(self.before.args[index].type)):
            if self._accept_argument(index, simpler):
                break
        for parts in (2**halving for halving in range(1, HALVINGS + 1)):
            for part in range(parts):
                current = self.failure.arguments[index]
                if current.numel() >= parts:
                    self._accept_argument(index, _without_part(current, part, parts))

    def _accept_argument(self, index: int, argument: torch.Tensor) -> bool:
        if torch.equal(argument, self.failure.arguments[index]):
            return False
        arguments = list(self.failure.arguments)
        arguments[index] = argument
        return self._accept(self.failure.sizes, arguments)

    def _accept(self, sizes: Mapping[str, int], arguments: Sequence[torch.Tensor]) -> bool:
        """Return whether the failure persists on these inputs, which are kept if it does."""
        if self.runs >= self.most_runs:
            return False
        self.runs += 1
        mismatch = mismatch_on(self.before, self.after, arguments)
        if mismatch is None or not mismatch.is_like(self.failure.mismatch):
            return False
        self.failure = Failure(sizes, arguments, mismatch)
        return True


def shrink(
    before: FuncOp, after: FuncOp, sample: Sample, mismatch: Mismatch, fixed: Mapping[str, int]
) -> Failure:
    """Return a small failure like that of `sample`."""
    failure = Failure(sample.sizes, sample.arguments, mismatch)
    return Shrinker(before, after, sample.draw, failure).shrink(fixed)


def mismatch_on(
    before: FuncOp, after: FuncOp, arguments: Sequence[torch.Tensor]
) -> Mismatch | None:
    """Return how the two functions differ; None if they agree, or if `before` does not run."""
    try:
        expected = run(before, arguments)
    except RUN_ERRORS:
        return None
    actual = run_after(after, arguments)
    if isinstance(actual, Mismatch):
        return actual
    return compare(before, arguments, expected, actual)


def _simplifications(argument: torch.Tensor, stated: torch.dtype) -> Iterator[torch.Tensor]:
    """Yield simpler tensors, the simplest first; the last ones are rounded to the stated type."""
    yield torch.zeros_like(argument)
    if not argument.is_floating_point():
        return
    yield torch.ones_like(argument)
    integers = argument.round()
    if not integers.any():
        integers = argument.sign()
    yield integers.clamp(-4, 4)
    yield ((4 * argument).round() / 4).clamp(-4, 4)
    yield argument.to(stated).to(argument.dtype)


def _without_part(argument: torch.Tensor, part: int, parts: int) -> torch.Tensor:
    """Return `argument` with one of its `parts` equal parts (in row-major order) set to zero."""
    smaller = argument.clone().flatten()
    start, stop = smaller.numel() * part // parts, smaller.numel() * (part + 1) // parts
    smaller[start:stop] = 0
    return smaller.reshape(argument.shape)
