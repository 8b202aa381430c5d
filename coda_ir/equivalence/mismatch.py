"""How two functions differ on given inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.diagnostics import CodaError
from coda_ir.equivalence.comparison import Difference, find_difference
from coda_ir.equivalence.samples import RUN_ERRORS, rounding_noise, run

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Mismatch:
    """One result that differs, or why there is none to compare."""

    result: int | None
    problem: Difference | str

    @property
    def size(self) -> float:
        """The relative difference; infinite where no number tells it."""
        return self.problem.relative if isinstance(self.problem, Difference) else float("inf")

    def is_like(self, other: Mismatch) -> bool:
        """Return whether both may have the same cause, judged by kind and size."""
        if isinstance(self.problem, str) or isinstance(other.problem, str):
            return type(self.problem) is type(other.problem)
        if other.size == float("inf"):
            return self.size == float("inf")
        return min(1.0, other.size) * 1e-3 <= self.size < float("inf")


def run_after(after: FuncOp, arguments: Tensors) -> list[torch.Tensor] | Mismatch:
    """The results of the changed function, or how it failed to run."""
    try:
        return run(after, arguments)
    except RUN_ERRORS as error:
        text = error.message if isinstance(error, CodaError) else str(error)
        return Mismatch(None, f"it does not run any more: {text}")


def compare(
    before: FuncOp, arguments: Tensors, expected: Tensors, actual: Tensors
) -> Mismatch | None:
    """The first result that differs by more than rounding explains."""
    found = _first_difference(actual, expected, None)
    if found is None or isinstance(found.problem, str):
        return found
    return _first_difference(actual, expected, rounding_noise(before, arguments, expected))


def _first_difference(actual: Tensors, expected: Tensors, noise: Tensors | None) -> Mismatch | None:
    if len(actual) != len(expected):
        return Mismatch(None, f"it has {len(actual)} results, expected {len(expected)}")
    for index, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
        if got.shape != wanted.shape:
            shapes = f"{tuple(got.shape)}, expected {tuple(wanted.shape)}"
            return Mismatch(index, f"it has the shape {shapes}")
        difference = find_difference(got, wanted, None if noise is None else noise[index])
        if difference is not None:
            return Mismatch(index, difference)
    return None
