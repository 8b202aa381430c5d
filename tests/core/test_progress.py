"""Bars of long work, which only a person at a terminal sees."""

import io
import sys
from types import SimpleNamespace

import pytest

from coda_ir.progress import Progress


class Terminal(io.StringIO):
    """A stderr that is a terminal, or says that it is none."""

    def __init__(self, is_terminal: bool):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "seconds", "is_shown"),
    [(True, 3.0, True), (True, 1.0, False), (False, 3.0, False)],
)
def test_bars_are_for_a_person_who_waits(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, seconds: float, is_shown: bool
):
    clock = SimpleNamespace(now=0.0)
    stderr = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("coda_ir.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    with Progress({"compiling": 4, "measuring": 2}) as progress:
        progress.advance("compiling")
        clock.now = seconds
        progress.advance("compiling")
        progress.advance("measuring", "GEMM: 3.0 us")
        progress.print("a line")
    text = stderr.getvalue()
    assert "a line" in text
    assert ("2/4" in text and "GEMM: 3.0 us" in text) == is_shown
    assert is_shown or text == "a line\n"
