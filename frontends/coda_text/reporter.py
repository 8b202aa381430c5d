"""Collects the diagnostics of one run of the frontend."""

import sys

from coda_ir.diagnostics import MAX_REPORTED, Diagnostic, DiagnosticError, SourceRange
from coda_ir.frontends.coda_text.syntax import Span


class Reporter:
    """The errors so far, without repetitions, and the texts that they refer to.

    `limit` errors end the run; None for as many as there are. `inlining_left` is how much work
    calls may still be (see `lower_program`).
    """

    sources: dict[str, str]
    inlining_left: int = 0

    def __init__(self, limit: int | None = MAX_REPORTED) -> None:
        self.sources = {}
        self.limit = limit
        self._lines: dict[str, list[str]] = {}
        self._diagnostics: dict[Diagnostic, None] = {}

    @property
    def count(self) -> int:
        return len(self._diagnostics)

    def lines(self, file: str) -> list[str]:
        """The lines of a file, split once."""
        if file not in self._lines:
            self._lines[file] = self.sources[file].split("\n")
        return self._lines[file]

    def error(self, file: str, span: Span, message: str, remedy: str, code: str) -> None:
        """Record an error. Raises DiagnosticError when there are enough of them."""
        place = source_range(file, span)
        self._diagnostics[Diagnostic("error", place, message, remedy, code)] = None
        if self.limit is not None and self.count >= self.limit:
            raise self._failure()

    def raise_if_errors(self) -> None:
        """Raise DiagnosticError if there are errors, in the order of the source files."""
        if self._diagnostics:
            raise self._failure()

    def _failure(self) -> DiagnosticError:
        order = {file: index for index, file in enumerate(self.sources)}

        def position(diagnostic: Diagnostic) -> tuple[int, int, int]:
            place = diagnostic.range
            if place is None:
                return (-1, 0, 0)
            return (order.get(place.file, 0), place.line, place.column)

        diagnostics = sorted(self._diagnostics, key=position)
        return DiagnosticError(diagnostics, self.sources)


def source_range(file: str, span: Span) -> SourceRange:
    """The first line of `span`, to its end or the end of the line."""
    end = span.end_column if span.end_line == span.line else sys.maxsize
    return SourceRange(file, span.line, span.column, end)
