"""Diagnostics: what a user sees if the input is wrong.

A mistake of the user is a `CodaError`, whose message ends with the remedy. A mistake that has a
place in a source text is a `Diagnostic`, several of which make a `DiagnosticError`.
"""

import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Literal

Severity = Literal["error", "warning", "note", "remark"]

MAX_REPORTED = 20

MAX_WIDTH = 240
"""Characters of a line that an excerpt shows."""


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, such as escapes and changes of the direction of text."""


@dataclass(frozen=True)
class SourceRange:
    """Columns `column` to `end_column` (exclusive) of a line; all numbers count from 1."""

    file: str
    line: int
    column: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """A message about the input, with its place and a remedy if they are known."""

    severity: Severity
    range: SourceRange | None
    message: str
    remedy: str | None = None
    code: str | None = None
    """A name that `coda-opt --explain` explains: a code such as E0201, or the pass of a remark."""

    def to_dict(self) -> dict[str, str | dict[str, str | int]]:
        """Plain data for JSON; fields without a value are left out."""
        fields = {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
        }
        known: dict[str, str | dict[str, str | int]] = {k: v for k, v in fields.items() if v}
        return known if self.range is None else {**known, "location": asdict(self.range)}

    def render(self, source_text: str | None = None) -> str:
        """Return the message as `file:line:col: error[code]: message`, with the source line, carets
        and the remedy.

        The source line and the carets are left out where `source_text` is None or has no such line.
        """
        prefix = "" if self.range is None else f"{self.range}: "
        lines = [f"{prefix}{self._kind}: {self.message}"]
        if self.range is not None and source_text is not None:
            lines += excerpt(self.range, source_text)
        if self.remedy is not None:
            lines.append(f"  help: {self.remedy}")
        return "\n".join(lines)

    @property
    def _kind(self) -> str:
        """`error[E0201]`, or the severity alone."""
        return self.severity if self.code is None else f"{self.severity}[{self.code}]"


def excerpt(place: SourceRange, source_text: str) -> list[str]:
    """Return the line of `place` with carets under it; of a very long line, the part around
    `place`.

    Carets under indentation move to the first character: PyTorch only knows lines. Control
    characters become U+FFFD.
    """
    lines = source_text.split("\n")
    if not 1 <= place.line <= len(lines):
        return []
    line = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", lines[place.line - 1].rstrip("\r"))
    indentation = len(line) - len(line.lstrip(" \t"))
    start = min(max(place.column - 1, indentation), len(line))
    stop = min(max(place.end_column - 1, start + 1), max(len(line), start + 1))
    if len(line) > MAX_WIDTH:
        line, start, stop = _window(line, start, stop)
    # Tabs stay tabs in front of the carets, so that these align however wide a tab is shown.
    indent = "".join("\t" if character == "\t" else " " for character in line[:start])
    return [f"  {line}", f"  {indent}^{'~' * (stop - start - 1)}"]


def _window(line: str, start: int, stop: int) -> tuple[str, int, int]:
    """Return the part of a line around `start`, and where `start` and `stop` are in it."""
    first = max(0, start - MAX_WIDTH // 2)
    last = min(len(line), first + MAX_WIDTH)
    before, after = "..." if first else "", "..." if last < len(line) else ""
    shift = len(before) - first
    return f"{before}{line[first:last]}{after}", start + shift, min(stop, last) + shift


class CodaError(Exception):
    """A mistake in the input: `message` describes it, and `remedy` how to fix it."""

    code: str = "E1999"
    """The code of the mistake, which `coda-opt --explain` explains."""
    message: str
    remedy: str | None

    def __init__(self, message: str, remedy: str | None = None):
        self.message = message
        self.remedy = remedy
        super().__init__(message if remedy is None else f"{message}\n  help: {remedy}")


class InvalidProgramError(CodaError):
    """IR that breaks a rule of an operator."""

    code = "E0602"


class OptionError(CodaError):
    """An invalid value of a function's argument, a pass's option or an environment variable."""

    code = "E0703"


class FileError(CodaError):
    """A file that cannot be read or written, or has the wrong contents."""

    code = "E0801"


class ModelError(CodaError):
    """A model that cannot be exported."""

    code = "E0901"


class ArgumentError(CodaError):
    """An argument of a compiled function that does not fit its parameter."""

    code = "E0902"


class GradientError(CodaError):
    """A gradient that cannot be computed."""

    code = "E0903"


class LoweringError(CodaError):
    """A program that cannot be lowered to kernels."""

    code = "E1001"


class MachineError(CodaError):
    """A GPU, program or library that the machine lacks."""

    code = "E1002"


class CheckError(CodaError):
    """A difference that a requested check has found."""

    code = "E1101"


class IndexOutOfRangeError(ArgumentError, IndexError):
    """An index in the arguments of a program that is out of range."""


class NoElementsError(ArgumentError, IndexError):
    """A maximum of no elements, which has no value."""


def symbols_remedy(symbols: Collection[str]) -> str:
    """Return the remedy for the size of a symbol that is not one of `symbols`."""
    if not symbols:
        return "all sizes are fixed"
    unnamed = "; ? is every size without a name" if "?" in symbols else ""
    return f"the symbols are {', '.join(symbols)}{unnamed}"


def expect_kind(name: str, value: object, kind: type | tuple[type, ...], remedy: str) -> None:
    """Raise OptionError for an argument whose type is not the annotated one."""
    if not isinstance(value, kind):
        given = "None" if value is None else f"of type {type(value).__name__}"
        raise OptionError(f"{name} is {given}", remedy)


class DefectError(CodaError):
    """A defect of a pass or a backend, not of the input, that a check has found."""

    code = "E1901"


class DiagnosticError(CodaError):
    """Mistakes in source texts; `str()` gives the full rendering, at most 20 of them, and `code` is
    that of the first one.

    `sources` maps the file names of the ranges to their texts.
    """

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]):
        self.diagnostics = tuple(diagnostics)
        self.code = next((each.code for each in self.diagnostics if each.code), self.code)
        self.sources = sources
        super().__init__(render_diagnostics(self.diagnostics, sources))


def render_diagnostics(diagnostics: Sequence[Diagnostic], sources: Mapping[str, str]) -> str:
    """Return all `diagnostics` as text, separated by newlines; beyond 20, only their number."""
    shown = [_render_with_source(diagnostic, sources) for diagnostic in diagnostics[:MAX_REPORTED]]
    left_out = len(diagnostics) - MAX_REPORTED
    if left_out > 0:
        shown.append(f"... and {left_out} more")
    return "\n".join(shown)


def _render_with_source(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str:
    place = diagnostic.range
    return diagnostic.render(None if place is None else sources.get(place.file))


_collector: ContextVar[list[Diagnostic] | None] = ContextVar("coda_ir_diagnostics", default=None)


@contextmanager
def collect_diagnostics() -> Generator[list[Diagnostic]]:
    """Collect the warnings and notes that are emitted inside the `with` block, in order.

    Errors are raised (see DiagnosticError), not emitted. The innermost block gets a diagnostic.
    """
    diagnostics = list[Diagnostic]()
    token = _collector.set(diagnostics)
    try:
        yield diagnostics
    finally:
        _collector.reset(token)


def emit_diagnostic(diagnostic: Diagnostic) -> None:
    """Pass a warning or a note to the innermost `collect_diagnostics` block, if there is one."""
    diagnostics = _collector.get()
    if diagnostics is not None:
        diagnostics.append(diagnostic)


def closest(name: str, known: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """Return a remedy for an unknown name: the most similar known one, or else `otherwise`."""
    matches = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean '{matches[0]}'?" if matches else otherwise


def expect_names(options: Iterable[str], known: Iterable[str]) -> None:
    """Raise OptionError for an option whose name is not known."""
    known = list(known)
    for name in options:
        if name not in known:
            remedy = closest(name, known, f"use one of {', '.join(known)}")
            raise OptionError(f"unknown option '{name}'", remedy)


def listed(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def counted(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
