"""Errors and remarks as the editor shows them."""

import os
import re
import sys
from collections.abc import Callable, Iterator

from lsprotocol import types

from coda_ir.diagnostics import CodaError, Diagnostic, SourceRange
from coda_ir.frontends.coda_text.program import import_path
from coda_ir.frontends.coda_text.syntax import Span
from coda_ir.lsp.analysis import Document, Outcome
from coda_ir.lsp.check import Check
from coda_ir.lsp.positions import SourceText
from coda_ir.lsp.settings import ShownRemarks
from coda_ir.remarks import Remark

SOURCE = "coda"
MAX_ERRORS = 200

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
    "remark": types.DiagnosticSeverity.Information,
}
_PLACE = re.compile(r"^(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): ")


def diagnostics(
    document: Document, outcome: Outcome, shown: ShownRemarks, to_uri: Callable[[str], str]
) -> list[types.Diagnostic]:
    """Return the errors in a file, and the remarks about it. `to_uri` returns the URI of a path."""
    return list(_Conversion(document.source, outcome, to_uri).all(shown))


class _Conversion:
    def __init__(self, source: SourceText, outcome: Outcome, to_uri: Callable[[str], str]):
        self.source = source
        self.outcome = outcome
        self.check: Check = outcome.check
        self.to_uri = to_uri

    def all(self, shown: ShownRemarks) -> Iterator[types.Diagnostic]:
        for diagnostic in self.check.diagnostics[:MAX_ERRORS]:
            severity = _SEVERITIES.get(diagnostic.severity, types.DiagnosticSeverity.Error)
            file = self.check.path if diagnostic.range is None else diagnostic.range.file
            text = _with_remedy(diagnostic.message, diagnostic.remedy)
            yield self._placed(_span(diagnostic), file, text, severity, diagnostic.code)
        if self.outcome.failure is not None:
            yield self._placed(
                Span(1, 1, 1, sys.maxsize),
                self.check.path,
                self.outcome.failure,
                types.DiagnosticSeverity.Warning,
            )
        if self.outcome.compilation is None:
            return
        for function in self.outcome.compilation.functions.values():
            if function.obstacle is not None:
                yield self._obstacle(function.name, function.obstacle)
        kinds = {"none": (), "missed": ("missed",), "all": ("missed", "passed", "analysis")}[shown]
        remarks = (r for r in self.outcome.compilation.remarks if r.kind in kinds)
        for remark in {str(remark): remark for remark in remarks}.values():
            yield from self._remark(remark)

    def _remark(self, remark: Remark) -> Iterator[types.Diagnostic]:
        if remark.position is None:
            return
        file, line, column = remark.position
        hint = types.DiagnosticSeverity.Hint
        missed = types.DiagnosticSeverity.Information
        yield self._placed(
            self._token(file, line, column),
            file,
            remark_text(remark),
            missed if remark.kind == "missed" else hint,
            remark.pass_name,
        )

    def _token(self, file: str, line: int, column: int) -> Span:
        """Return the range of the word or sign at a place."""
        word = self.check.word_at(file, line, column)
        return Span(line, column, line, column + max(1, len(word)))

    def _obstacle(self, function: str, error: CodaError) -> types.Diagnostic:
        """Return why the backend cannot run a function, as a warning: the program is right."""
        found = _PLACE.match(error.message)
        message = error.message
        symbols = self.check.symbols.occurrences.values()
        span = next((o.span for o in symbols if o.symbol.name == function), Span(1, 1, 1, 2))
        file = self.check.path
        if found is not None:
            file, message = found["file"], message[found.end() :]
            span = self._token(file, int(found["line"]), int(found["column"]))
        text = _with_remedy(message, error.remedy)
        return self._placed(span, file, text, types.DiagnosticSeverity.Warning, error.code)

    def _placed(
        self,
        span: Span,
        file: str,
        message: str,
        severity: types.DiagnosticSeverity,
        code: str | None = None,
    ) -> types.Diagnostic:
        """Place a diagnostic of this file; one of another file is shown at the import that leads
        there, with the real place as related information.
        """
        related: list[types.DiagnosticRelatedInformation] | None = None
        place = self.source.range(span)
        if file != self.check.path:
            elsewhere = SourceText(self.check.sources.get(file, "")).range(span)
            location = types.Location(self.to_uri(file), elsewhere)
            related = [types.DiagnosticRelatedInformation(location, message)]
            place = self.source.range(self._import_of(file))
            message = f"in {os.path.basename(file)}:{span.line}:{span.column}: {message}"
        return types.Diagnostic(
            place, message, severity, code, source=SOURCE, related_information=related
        )

    def _import_of(self, file: str) -> Span:
        """Return the import of a file; the first one on the way if it is imported indirectly."""
        imports = self.check.symbols.imports
        for node in imports:
            if import_path(self.check.path, str(node.path.value)) == file:
                return node.path.span
        return imports[0].path.span if imports else Span(1, 1, 1, 2)


def remark_text(remark: Remark) -> str:
    """Return a remark as plain text: message, failed condition, bytes, remedy."""
    text = f"{'not fused: ' if remark.kind == 'missed' else ''}{remark.reason}"
    return _with_remedy(text, remark.suggestion)


def _with_remedy(message: str, remedy: str | None) -> str:
    return message if remedy is None else f"{message}\nhelp: {remedy}"


def _span(diagnostic: Diagnostic) -> Span:
    place: SourceRange | None = diagnostic.range
    if place is None:
        return Span(1, 1, 1, 2)
    return Span(place.line, place.column, place.line, place.end_column)
