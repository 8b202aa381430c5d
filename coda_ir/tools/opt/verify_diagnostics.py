"""Warnings on stderr; `--verify-diagnostics` compares diagnostics with comments in the input."""

import argparse
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from coda_ir.diagnostics import (
    CheckError,
    Diagnostic,
    DiagnosticError,
    Severity,
    SourceRange,
    collect_diagnostics,
)
from coda_ir.error_diagnostics import diagnostics_of
from coda_ir.remarks import Remark
from coda_ir.tools.opt.errors import FAILURE, USER_ERRORS, exit_code
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.remarks_output import RemarkSelection

_DIRECTIVE = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?\b\s*"
    r"(?:@(?P<place>[^\s{]*))?\s*(?P<open>\{\{?)?"
)
_OFFSET = re.compile(r"[+-][0-9]+")
_BRACES = re.compile(r"\{\{|\}\}")


class ExpectationError(DiagnosticError):
    """A comment `expected-...` that is not well formed."""


@dataclass(frozen=True)
class Expectation:
    """An expected diagnostic; `line` is None if its place must be unknown."""

    severity: Severity
    line: int | None
    text: str
    place: SourceRange
    """The place of the comment."""

    def accepts(self, diagnostic: Diagnostic) -> bool:
        """Return whether severity and message match, regardless of the line."""
        same_severity = diagnostic.severity == self.severity
        return same_severity and one_spaced(self.text) in one_spaced(diagnostic.message)


def one_spaced(text: str) -> str:
    """Return `text` with every run of blanks and line breaks as one blank."""
    return " ".join(text.split())


def parse_expectations(text: str, file: str) -> list[Expectation]:
    """Return the expectations in the comments of `text`, the text of `file`.

    Comments begin with `#` in a .coda file and with `//` in others. Raises ExpectationError for a
    comment that is not well formed.
    """
    return _CommentReader(text, file).read()


class _CommentReader:
    """Reads the expectations of a text line by line, which `@above` and `@below` need."""

    def __init__(self, text: str, file: str):
        self.lines = text.split("\n")
        self.file = file
        self.marker = "#" if file.endswith(".coda") else "//"
        self.faults: list[Diagnostic] = []

    def read(self) -> list[Expectation]:
        found = [list(self._directives(index)) for index in range(len(self.lines))]
        self.is_comment = [bool(directives) for directives in found]
        expectations = [
            expectation
            for index, directives in enumerate(found)
            for directive, end in directives
            if (expectation := self._expectation(index, directive, end)) is not None
        ]
        if self.faults:
            raise ExpectationError(self.faults, {self.file: "\n".join(self.lines)})
        return expectations

    def _directives(self, index: int) -> list[tuple[re.Match[str], int]]:
        """Return the directives in the comment of a line, and where their braces are closed."""
        line = self.lines[index]
        start = line.find(self.marker)
        found: list[tuple[re.Match[str], int]] = []
        while start >= 0:
            directive = _DIRECTIVE.search(line, start)
            if directive is None:
                break
            start = directive.end()
            if directive["open"] is None and directive["place"] is None:
                continue  # prose
            end = _closing_braces(line, start) if directive["open"] == "{{" else None
            if end is None or directive["regex"]:
                what = "expected no -re" if directive["regex"] else "expected a text in {{...}}"
                self._fault(index, directive, what)
                continue
            found.append((directive, end))
            start = end + 2
        return found

    def _expectation(self, index: int, directive: re.Match[str], end: int) -> Expectation | None:
        text = self.lines[index][directive.end() : end].strip()
        place = directive["place"]
        if not text:
            self._fault(index, directive, "expected a text in {{...}}")
            return None
        try:
            line = self._line(index, place)
        except ValueError as error:
            self._fault(index, directive, str(error))
            return None
        severity = cast(Severity, directive["severity"])
        return Expectation(severity, line, text, self._range(index, directive))

    def _line(self, index: int, place: str | None) -> int | None:
        """Return the line of a directive on line `index`. Raises ValueError for an invalid one."""
        match place:
            case None:
                return index + 1
            case "unknown":
                return None
            case "above" | "below":
                step = -1 if place == "above" else 1
                while 0 <= index < len(self.lines) and self.is_comment[index]:
                    index += step
                return index + 1
            case _ if _OFFSET.fullmatch(place):
                return index + 1 + int(place)
            case _:
                raise ValueError(
                    f"unknown place '@{place}', expected @+N, @-N, @above, @below or @unknown"
                )

    def _fault(self, index: int, directive: re.Match[str], message: str) -> None:
        place = self._range(index, directive)
        message = f"malformed expectation: {message}"
        self.faults.append(Diagnostic("error", place, message, code=CheckError.code))

    def _range(self, index: int, directive: re.Match[str]) -> SourceRange:
        column = directive.start() + 1
        end = directive.end("severity") + 1
        return SourceRange(self.file, index + 1, column, end)


def _closing_braces(line: str, start: int) -> int | None:
    """Return where the `}}` is that closes the `{{` before `start`; inner pairs are skipped."""
    depth = 1
    for braces in _BRACES.finditer(line, start):
        depth += 1 if braces[0] == "{{" else -1
        if depth == 0:
            return braces.start()
    return None


def compare(
    expected: Sequence[Expectation],
    emitted: Sequence[Diagnostic],
    file: str,
    counted: frozenset[Severity] = frozenset(),
) -> list[Diagnostic]:
    """Return the mismatches: unmatched expectations, and unexpected diagnostics.

    Each diagnostic matches the first fitting expectation on its line that no other has matched.
    Unexpected errors and warnings always count, notes and remarks where their severity is in
    `counted` or is expected anywhere in the text.
    """
    strict: set[Severity] = {"error", "warning", *counted, *(e.severity for e in expected)}
    missed = list(expected)
    unexpected: list[Diagnostic] = []
    for diagnostic in emitted:
        line = _line_in(file, diagnostic)
        matched = next((e for e in missed if e.line == line and e.accepts(diagnostic)), None)
        if matched is not None:
            missed.remove(matched)
        else:
            unexpected.append(diagnostic)
    return [
        *map(_missed, missed),
        *(
            replace(each, severity="error", message=f"unexpected {each.severity}: {each.message}")
            for each in unexpected
            if each.severity in strict
        ),
    ]


def _line_in(file: str, diagnostic: Diagnostic) -> int | None:
    """Return the line of a diagnostic; None if it has none in `file`."""
    place = diagnostic.range
    return place.line if place is not None and place.file == file else None


def _missed(expectation: Expectation) -> Diagnostic:
    where = "at an unknown place" if expectation.line is None else f"on line {expectation.line}"
    message = f'expected {expectation.severity} "{expectation.text}" was not given {where}'
    return Diagnostic("error", expectation.place, message, code=CheckError.code)


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checks")
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="check that the input gives exactly the diagnostics that its comments expect, as in "
        "'// expected-error@+1 {{text}}'",
    )


@contextmanager
def checked_diagnostics(session: Session) -> Generator[None]:
    """Compare the errors, warnings and remarks on a piece of the input with its comments.

    An error in the input ends here, whether expected or not.
    """
    if not session.options.verify_diagnostics:
        with _printed_warnings(session):
            yield
        return
    errors: Sequence[Diagnostic] = ()
    with collect_diagnostics() as emitted:
        try:
            yield
        except USER_ERRORS as error:
            if isinstance(error, OSError) or exit_code(error) != FAILURE:
                raise
            errors = diagnostics_of(error)
    found = [*emitted, *map(Remark.to_diagnostic, _selected_remarks(session)), *errors]
    mismatches = check_diagnostics(found, session.text, session.chunk.name, _counted(session))
    if mismatches:
        session.fail(*mismatches)


@contextmanager
def _printed_warnings(session: Session) -> Generator[None]:
    """Print the warnings on a piece of the input to stderr, even if an error is raised."""
    with collect_diagnostics() as emitted:
        try:
            yield
        finally:
            if emitted:
                session.report(*emitted)


def check_diagnostics(
    emitted: Sequence[Diagnostic],
    text: str,
    file: str,
    counted: frozenset[Severity] = frozenset(),
) -> list[Diagnostic]:
    """Return the mismatches between the diagnostics `emitted` for `text` and its comments.

    The remedy of a diagnostic is a note at its place. See `compare` for `counted`.
    """
    try:
        expected = parse_expectations(text, file)
    except ExpectationError as error:
        return list(error.diagnostics)
    remedies = [
        Diagnostic("note", diagnostic.range, diagnostic.remedy)
        for diagnostic in emitted
        if diagnostic.remedy is not None
    ]
    return compare(expected, [*emitted, *remedies], file, counted)


def _selected_remarks(session: Session) -> list[Remark]:
    """Return the remarks that `--remarks` requests; all of them without it."""
    selection = RemarkSelection.from_options(session.options)
    return [remark for remark in session.remarks if selection.wants(remark)]


def _counted(session: Session) -> frozenset[Severity]:
    """Return the severities that count where none is expected: remarks, if they are requested."""
    return frozenset({"remark"}) if session.options.remarks is not None else frozenset()
