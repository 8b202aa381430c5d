"""Progress bars on stderr for long work."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any


class Progress(ExitStack):
    """Progress bars by title, shown on a terminal while the context lasts.

    `Progress({"compiling kernels": 12})` has one bar of 12 steps.
    """

    def __init__(self, totals: dict[str, int]):
        super().__init__()
        self._totals = totals
        self._shown: Any = None
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            # Import nothing if no progress is shown.
            from rich import progress
            from rich.console import Console

            columns = progress.TextColumn("{task.description}"), progress.BarColumn()
            times = progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
            console = Console(stderr=True)
            bars = progress.Progress(*columns, *times, console=console, transient=True)
            self._shown = self.enter_context(bars)
            self._bars = {title: bars.add_task(title, total=n) for title, n in self._totals.items()}
        return self

    def advance(self, title: str, text: str | None = None, steps: int = 1) -> None:
        """Advance a bar, and show `text` in place of its title."""
        if self._shown is not None:
            self._shown.update(self._bars[title], advance=steps, description=text or title)
