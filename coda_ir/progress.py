"""Progress of long work: bars on stderr for a person who watches."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

DELAY_S = 2.0
"""Seconds after which bars appear."""


class Progress:
    """Progress bars by title. They appear after two seconds, and only on a terminal.

    `Progress({"compiling kernels": 12})` has one bar of 12 steps.
    """

    def __init__(self, totals: dict[str, int]):
        self._start = time.monotonic()
        self._totals = totals
        self._done = dict.fromkeys(totals, 0)
        self._shown: Any = None
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def advance(self, title: str, text: str | None = None, steps: int = 1) -> None:
        """Advance a bar, and show `text` in place of its title."""
        self._done[title] += steps
        if self._shown is None and self._is_watched():
            self._show()
        if self._shown is not None:
            description = text or title
            self._shown.update(
                self._bars[title], completed=self._done[title], description=description
            )

    def print(self, line: str) -> None:
        """Print a line above the bars, to stderr."""
        if self._shown is None:
            print(line, file=sys.stderr)
        else:
            self._shown.console.print(line, highlight=False, markup=False)

    def _is_watched(self) -> bool:
        return sys.stderr.isatty() and time.monotonic() - self._start >= DELAY_S

    def _show(self) -> None:
        # What nobody sees costs no import.
        from rich import progress
        from rich.console import Console

        self._shown = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        for title, total in self._totals.items():
            bar = self._shown.add_task(title, total=total, completed=self._done[title])
            self._bars[title] = bar
        self._shown.start()
