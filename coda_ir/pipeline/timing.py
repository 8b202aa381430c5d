"""Where the time of a pipeline goes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp

from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun

WIDTH = 79

VERIFICATION = "(verification)"


@dataclass
class Timer:
    """Seconds spent on something, and on the parts of it, in the order of their beginning."""

    name: str
    seconds: float = 0.0
    parts: dict[tuple[int, str], Timer] = field(default_factory=dict[tuple[int, str], "Timer"])

    def part(self, name: str, index: int = 0) -> Timer:
        """The part of this name, made where it does not exist; `index` tells equal names apart."""
        return self.parts.setdefault((index, name), Timer(name))

    def last_part(self, name: str) -> Timer:
        """The part of this name, moved behind the others."""
        self.parts[0, name] = self.parts.pop((0, name), Timer(name))
        return self.parts[0, name]

    @contextmanager
    def running(self) -> Generator[Timer]:
        """Add the time of the `with` block, also where it raises."""
        begin = perf_counter()
        try:
            yield self
        finally:
            self.seconds += perf_counter() - begin

    def report(self) -> str:
        """A tree with seconds and shares, as mlir-opt prints it."""
        rest = self.seconds - sum(part.seconds for part in self.parts.values())
        lines = [*heading("Execution time report"), f"  Total time: {self.seconds:.4f} seconds", ""]
        lines.append("  ---- Wall time ----  ---- Name ----")
        for part in self.parts.values():
            lines += part.lines(self.seconds, 0)
        lines += Timer("Rest", rest).lines(self.seconds, 0)
        lines += Timer("Total", self.seconds).lines(self.seconds, 0)
        return "\n".join(lines) + "\n"

    def lines(self, total: float, depth: int) -> list[str]:
        share = 100 * self.seconds / total if total else 0.0
        own = f"  {self.seconds:9.4f} ({share:5.1f}%)  {'  ' * depth}{self.name}"
        return [
            own,
            *(line for part in self.parts.values() for line in part.lines(total, depth + 1)),
        ]


def heading(title: str) -> list[str]:
    """The title of a report on stderr."""
    ruler = f"==={'-' * (WIDTH - 6)}==="
    return [ruler, f"... {title} ...".center(WIDTH).rstrip(), ruler]


class TimePasses(PassInstrumentation):
    """Measures each pass, below the pipeline passes that it is a step of, and all verification.

    Belongs innermost, so that it does not measure what other instrumentations do.
    """

    def __init__(self, timer: Timer):
        self._timer = timer
        self._measured: tuple[Timer, ...] = ()
        """What the time since `_begin` belongs to."""
        self._begin = 0.0

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        timers = [self._timer]
        for parent in run.parents:
            timers.append(timers[-1].part(parent))
        self._measure(*timers[1:], timers[-1].part(str(run), run.index + 1))

    def before_verify(self, run: PassRun, module: ModuleOp) -> None:
        self._stop()
        self._measure(self._timer.last_part(VERIFICATION))

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        self._stop()

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        self._stop()

    def _measure(self, *timers: Timer) -> None:
        self._measured, self._begin = timers, perf_counter()

    def _stop(self) -> None:
        for timer in self._measured:
            timer.seconds += perf_counter() - self._begin
        self._measured = ()
