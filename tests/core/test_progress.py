"""Bars of long work, which only a person at a terminal sees."""

import io
import sys

import pytest

from coda_ir.progress import Progress


class Terminal(io.StringIO):
    """A stderr that is a terminal, or says that it is none."""

    def __init__(self, is_terminal: bool):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bars_are_for_a_terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool):
    stderr = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    with Progress({"compiling": 4, "measuring": 2}) as progress:
        progress.advance("compiling", steps=2)
        progress.advance("measuring", "GEMM: 3.0 us")
    text = stderr.getvalue()
    assert ("2/4" in text and "GEMM: 3.0 us" in text) == is_terminal
    assert is_terminal or not text
