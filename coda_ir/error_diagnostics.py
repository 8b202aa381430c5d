"""Conversion of errors in the input to diagnostics with locations."""

import re
from collections.abc import Sequence

from xdsl.utils.exceptions import (
    AlreadyRegisteredConstructException,
    DiagnosticException,
    InvalidIRException,
    MultipleSpansParseError,
    ParseError,
    UnregisteredConstructException,
)
from xdsl.utils.lexer import Span

from coda_ir.diagnostics import CodaError, Diagnostic, DiagnosticError, Severity, SourceRange
from coda_ir.error_codes import INVALID, SYNTAX

INPUT_ERRORS = (
    CodaError,
    ParseError,
    DiagnosticException,
    UnregisteredConstructException,
    AlreadyRegisteredConstructException,
    InvalidIRException,
)
"""Errors of a wrong input; any other is a defect of the tool or of its surroundings."""

_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?:error: )?", re.DOTALL)


def diagnostics_of(error: BaseException) -> Sequence[Diagnostic]:
    """Return the diagnostics of an error of `INPUT_ERRORS`, at least one.

    A `CodaError` whose message begins with `file:line:col: ` is at that place.
    """
    match error:
        case DiagnosticError():
            return error.diagnostics
        case CodaError():
            return [_of_message(error.message, error.remedy, error.code)]
        case ParseError():
            return _of_parse_error(error)
        case _:
            text = "\n".join([str(error), *getattr(error, "__notes__", [])])
            return [_of_message(text.strip(), None, INVALID)]


def _of_message(message: str, remedy: str | None, code: str) -> Diagnostic:
    found = _PLACE.match(message)
    if found is None:
        return Diagnostic("error", None, message, remedy, code)
    line, column = int(found["line"]), int(found["column"])
    place = SourceRange(found["file"], line, column, column + 1)
    return Diagnostic("error", place, message[found.end() :], remedy, code)


def _of_parse_error(error: ParseError) -> list[Diagnostic]:
    diagnostics = [_at_span("error", error.span, error.msg, SYNTAX)]
    if isinstance(error, MultipleSpansParseError):
        for span, text in error.refs:
            message = text or error.ref_text or "see here"
            diagnostics.append(_at_span("note", span, message))
    return diagnostics


def _at_span(
    severity: Severity, span: Span[str] | Span[bytes], message: str, code: str | None = None
) -> Diagnostic:
    file, line, column = span.get_location()
    place = SourceRange(file, line, column, column + max(1, span.len))
    return Diagnostic(severity, place, message, code=code)
