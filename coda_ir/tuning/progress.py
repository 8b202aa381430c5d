"""What tuning tells while it runs, on stderr and only to a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from coda_ir.cache.decision import Decision
from coda_ir.tuning.measurer import Candidate


class Progress:
    """Bars of the candidates that are compiled and of the GEMMs that are measured."""

    def __init__(self, candidates: int, gemms: int):
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Bar(
            *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
        )
        self._compiling = self._bar.add_task("compiling candidates", total=candidates)
        self._measuring = self._bar.add_task("measuring GEMMs", total=gemms)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def compiled(self, candidate: Candidate) -> None:
        self._bar.advance(self._compiling)

    def measured(self, name: str, decision: Decision | None) -> None:
        text = "not measured" if decision is None else f"{decision.measured_us:.1f} us"
        self._bar.update(self._measuring, advance=1, description=f"{name}: {text}")
