"""The interface for compiling and measuring candidates, which tests implement without a GPU."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coda_ir.cache.decision import LIBRARY, Configured, Form
from coda_ir.diagnostics import MachineError
from coda_ir.dialects.gemm import ScheduleAttr
from coda_ir.tuning.problem import Problem


def configured(schedule: ScheduleAttr, form: Form = "fused") -> Configured:
    """Return a form and a schedule as plain data."""
    return Configured(
        schedule.mainloop,
        schedule.tile,
        schedule.warps.data,
        schedule.stages.data,
        schedule.group_m.data,
        schedule.split_k.data,
        form,
    )


def schedule_of(found: Configured) -> ScheduleAttr:
    """Return the schedule of a kernel; the library's GEMM has none.

    Raises ValueError for an unknown main loop, and VerifyException for a wrong tile.
    """
    return ScheduleAttr.get(
        found.mainloop,
        found.tile,
        warps=found.warps,
        stages=found.stages,
        group_m=found.group_m,
        split_k=found.split_k,
    )


class MeasurementError(MachineError):
    """A candidate that cannot be compiled, does not fit the device, or computes something else."""


@dataclass(frozen=True)
class Candidate:
    """A GEMM in one form, under one schedule."""

    problem: Problem
    schedule: ScheduleAttr | None
    """None where the library computes the products."""
    predicted_us: float
    form: Form = "fused"

    @property
    def configured(self) -> Configured:
        """The form and the schedule as plain data."""
        return LIBRARY if self.schedule is None else configured(self.schedule, self.form)


@dataclass(frozen=True)
class Deadline:
    """A point in time, in seconds of `clock`."""

    at: float
    clock: Callable[[], float] = time.monotonic

    @property
    def left(self) -> float:
        """The seconds left, at least 0."""
        return max(0.0, self.at - self.clock())

    @property
    def is_over(self) -> bool:
        return self.left == 0.0


class Measurer(Protocol):
    """Compiles and measures candidates on one device."""

    @property
    def device(self) -> str:
        """The name of the device that results are stored for."""
        ...

    @property
    def clock(self) -> Callable[[], float]:
        """A function that returns the time in seconds, for budgets."""
        ...

    def prepare(
        self,
        candidates: Sequence[Candidate],
        deadline: Deadline,
        done: Callable[[Candidate, str | None], None],
    ) -> None:
        """Compile in order, in parallel. Calls `done` for each finished candidate, with the reason
        if it failed; those not finished at the deadline are given up.
        """
        ...

    def measure(self, candidate: Candidate) -> float:
        """Return the median microseconds of a prepared candidate. Raises MeasurementError."""
        ...

    def check(self, candidate: Candidate, expected: Candidate) -> None:
        """Raise MeasurementError if the two compute different results."""
        ...
