"""Timing of a pipeline, and statistics of its passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from coda_ir.pipeline.instrumentation import PassInstrumentation, PassRun
from coda_ir.remarks import Remark

WIDTH = 79

VERIFICATION = "(verification)"


@dataclass
class Timer:
    """Seconds spent on something and on its parts, in the order in which they began."""

    name: str
    seconds: float = 0.0
    parts: dict[tuple[int, str], Timer] = field(default_factory=dict[tuple[int, str], "Timer"])

    def part(self, name: str, index: int = 0) -> Timer:
        """Return the part of this name, created if necessary; `index` distinguishes equal names."""
        return self.parts.setdefault((index, name), Timer(name))

    def last_part(self, name: str) -> Timer:
        """Return the part of this name, moved to the end."""
        self.parts[0, name] = self.parts.pop((0, name), Timer(name))
        return self.parts[0, name]

    @contextmanager
    def running(self) -> Generator[Timer]:
        """Add the time of the `with` block, even if it raises."""
        begin = perf_counter()
        try:
            yield self
        finally:
            self.seconds += perf_counter() - begin

    def report(self) -> str:
        """Return a tree with seconds and shares, in the format of mlir-opt."""
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
    """Measures each pass under its pipeline pass, and all verification.

    Belongs innermost, so that it does not measure what other instrumentations do.
    """

    def __init__(self, timer: Timer):
        self._timer = timer
        self._measured: tuple[Timer, ...] = ()
        """The timers to which the time since `_begin` belongs."""
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


class CountOperators(PassInstrumentation):
    """Writes a report to `stream`: for each pass, the number of operators before and after it,
    those created and removed, and the rewrites reported in `remarks`.

    An operator that was replaced by one of the same name counts as removed and as made.
    """

    def __init__(self, remarks: Sequence[Remark], stream: IO[str]):
        self._remarks = remarks
        self._stream = stream
        self._lines = heading("Pass statistics report")
        self._before: list[Operation] = []
        self._remarks_before = 0
        self._parents: tuple[str, ...] = ()

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        # The operators themselves, so that a new one never has the identity of an old one.
        self._before, self._remarks_before = list(module.walk()), len(self._remarks)

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        for depth, parent in enumerate(run.parents):
            if run.parents[: depth + 1] != self._parents[: depth + 1]:
                self._lines.append(f"{'  ' * depth}{parent}")
        self._parents = run.parents
        indent, after = "  " * len(run.parents), list(module.walk())
        self._lines.append(f"{indent}{run}: {self._summary(after)}")
        for verb, these, those in (("made", after, self._before), ("removed", self._before, after)):
            changed = Counter(op.name for op in set(these) - set(those))
            if changed:
                self._lines.append(f"{indent}  {verb}: {_format_counts(changed)}")

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        self._lines += [f"{run}: failed"]
        self._finish()

    def after_pipeline(self, module: ModuleOp) -> None:
        self._finish()

    def _finish(self) -> None:
        self._stream.write("\n".join(self._lines) + "\n")

    def _summary(self, after: Sequence[Operation]) -> str:
        changed = len(self._before) != len(after)
        text = f"{len(self._before)} -> {len(after)}" if changed else str(len(after))
        kinds = Counter(remark.kind for remark in self._remarks[self._remarks_before :])
        rewrites = [f"{kinds[kind]} {kind}" for kind in ("passed", "missed") if kinds[kind]]
        return "; ".join([f"{text} operators", *rewrites])


def _format_counts(counts: Counter[str]) -> str:
    by_name: Iterable[tuple[str, int]] = sorted(counts.items())
    return ", ".join(f"{name} {count}" for name, count in by_name)
