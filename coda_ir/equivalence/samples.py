"""Runs of the compared functions: which of their results are meaningful, and which differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from coda_ir.backends.reference import Trace, trace_function
from coda_ir.diagnostics import CodaError, LoweringError
from coda_ir.dialects.gemm import Combiner, CombinerAttr, FusedOp, MapOp, ResultKind
from coda_ir.equivalence.comparison import Difference, find_difference, row_maximum
from coda_ir.equivalence.draws import (
    LARGEST_DRAW,
    Draw,
    affordable,
    choose_sizes,
    draw_arguments,
    elements,
)
from coda_ir.functions import returned_values

Tensors = Sequence[torch.Tensor]

RUN_ERRORS = (CodaError, RuntimeError, IndexError, ValueError)
"""Errors of running a function on inputs that do not fit it, PyTorch's among them."""

ATTEMPTS = 4
"""Sizes that are tried before a draw is given up: a reshape may need even ones."""

_PERTURBATION = 2.0**-40


class CannotRunError(LoweringError):
    """A function that the reference backend cannot run."""


@dataclass(frozen=True)
class Sample:
    """Inputs of a function and its results."""

    draw: Draw
    sizes: Mapping[str, int]
    arguments: Tensors
    results: Tensors


@dataclass
class Baseline:
    """A function with its samples, the baseline for later functions of the same name."""

    func: FuncOp
    samples: list[Sample] = field(default_factory=list[Sample])

    @staticmethod
    def of(func: FuncOp, draws: Sequence[Draw], given: Mapping[str, int]) -> Baseline:
        """Run `func` on every draw that it accepts.

        Raises CannotRunError where that is none.
        """
        baseline, problem = Baseline(func), "its arguments are too large"
        for draw in affordable(func, draws, given):
            for attempt in range(ATTEMPTS):
                sizes = choose_sizes(func, draw, given, attempt)
                if elements(func, sizes) > LARGEST_DRAW:
                    break
                try:
                    arguments = draw_arguments(func, draw, sizes)
                    results = run(func, arguments)
                except RUN_ERRORS as error:
                    problem = error.message if isinstance(error, CodaError) else str(error)
                    continue
                baseline.samples.append(Sample(draw, sizes, arguments, results))
                break
        if not baseline.samples:
            raise CannotRunError(
                f"@{func.sym_name.data} cannot be checked: {problem}",
                "give sizes that it can take with --dim, smaller constants with --const, or write "
                "it with operators that the reference backend knows",
            )
        return baseline


def run(func: FuncOp, arguments: Tensors) -> list[torch.Tensor]:
    """Return the results of `func` in float64, with partials combined: see `meaning`."""
    return trace(func, arguments)[0]


def trace(
    func: FuncOp, arguments: Tensors, replaced: Mapping[SSAValue, torch.Tensor] | None = None
) -> tuple[list[torch.Tensor], Trace]:
    """Like `run`, with the intermediate values. Each run draws the same random numbers."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(0)
    try:
        found = trace_function(func, arguments, replaced=replaced)
    finally:
        torch.set_rng_state(state)
    return meaning(func, found), found


def meaning(func: FuncOp, found: Trace) -> list[torch.Tensor]:
    """Return the results of `func` with tile partials combined.

    How many tiles a row has is a matter of the schedule, so that a function which returns partials
    returns others after it was scheduled.
    """
    return [
        _combined(value, tensor)
        for value, tensor in zip(returned_values(func), found.results, strict=True)
    ]


def _combined(value: SSAValue, tensor: torch.Tensor) -> torch.Tensor:
    op = value.owner
    if not isinstance(op, FusedOp | MapOp):
        return tensor
    segments = op.segments()
    for segment in segments:
        for (port, _), output in zip(segment.results, segment.outputs, strict=True):
            if output is value and isinstance(port.combiner, CombinerAttr):
                axis = -2 if port.kind.data == ResultKind.PARTIAL_COL else -1
                return _combine(port.combiner.data, tensor, axis)
    return tensor


def _combine(combiner: Combiner, partial: torch.Tensor, axis: int) -> torch.Tensor:
    match combiner:
        case Combiner.ADD:
            return partial.sum(axis, keepdim=True)
        case Combiner.MAX:
            return partial.amax(axis, keepdim=True)
        case Combiner.LSE:
            return partial.logsumexp(axis, keepdim=True)


def rounding_noise(func: FuncOp, arguments: Tensors, results: Tensors) -> list[torch.Tensor]:
    """Return how far each row of the results moves when every float of the arguments moves by 2⁻⁴⁰.

    Rounding moves them by 2⁻⁵³ at each of a few hundred operations on the way: this is more than
    rounding explains and far less than any fault.
    """
    largest = [torch.zeros(()) for _ in results]
    for seed in (1, 2):
        generator = torch.Generator().manual_seed(seed)
        moved = run(func, [_perturbed(argument, generator) for argument in arguments])
        for index, (before, after) in enumerate(zip(results, moved, strict=True)):
            change = (after.double() - before.double()).abs()
            change = row_maximum(torch.where(change.isfinite(), change, 0.0))
            largest[index] = torch.maximum(largest[index], change)
    return largest


def _perturbed(argument: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not argument.is_floating_point():
        return argument
    noise = torch.randn(argument.shape, generator=generator, dtype=argument.dtype)
    return argument * (1 + _PERTURBATION * noise)


@dataclass(frozen=True)
class Mismatch:
    """A result that differs, or the reason why there is none to compare."""

    result: int | None
    problem: Difference | str


def run_after(after: FuncOp, arguments: Tensors) -> list[torch.Tensor] | Mismatch:
    """Return the results of the changed function, or how it failed."""
    try:
        return run(after, arguments)
    except RUN_ERRORS as error:
        text = error.message if isinstance(error, CodaError) else str(error)
        return Mismatch(None, f"it no longer runs: {text}")


def compare(
    before: FuncOp, arguments: Tensors, expected: Tensors, actual: Tensors
) -> Mismatch | None:
    """Return the first result that differs by more than rounding."""
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
