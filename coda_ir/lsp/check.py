"""What the frontend knows about a text, whether it is complete or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import (
    CodaError,
    Diagnostic,
    DiagnosticError,
    SourceRange,
    collect_diagnostics,
)
from coda_ir.error_codes import language_code
from coda_ir.frontends.coda_text.lowering import lower_functions, lower_program
from coda_ir.frontends.coda_text.program import Loader, Scope
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.lsp.recording import Recorder, Values
from coda_ir.lsp.symbols import SymbolTable

Read = Callable[[str], str]
"""The text of a file by its path; raises CodaError where there is none."""


@dataclass(frozen=True)
class Check:
    """The result of checking the text of one file.

    `module` is None where there are errors. `inputs` has the text of every imported file by its
    real path, None for one that cannot be read; `sources` the texts by the paths of diagnostics.
    """

    path: str
    text: str
    scope: Scope
    symbols: SymbolTable
    values: Values
    diagnostics: tuple[Diagnostic, ...]
    module: ModuleOp | None
    sources: Mapping[str, str]
    inputs: Mapping[str, str | None]


def check_program(text: str, path: str, read: Read) -> Check:
    """Check a program that may be wrong or incomplete. Raises nothing for a wrong one."""
    run = _Run(path, read)
    scope, module = Scope(path), None
    with collect_diagnostics() as warnings:
        try:
            scope = run.loader.understood(text, path)
            module = run.lowered(scope)
        except DiagnosticError as error:
            run.diagnostics += error.diagnostics
        except RecursionError:
            run.diagnostics.append(_too_deep(path))
    # Those of imported files are shown in these.
    run.diagnostics += (w for w in warnings if w.range is not None and w.range.file == path)
    return Check(
        path,
        text,
        scope,
        SymbolTable.of(scope),
        run.recorder.values,
        tuple(run.diagnostics),
        module,
        run.reporter.sources,
        run.inputs,
    )


def _too_deep(path: str) -> Diagnostic:
    place = SourceRange(path, 1, 1, 2)
    message = "the program is nested too deeply"
    remedy, code = "give the inner parts names", language_code(message)
    return Diagnostic("error", place, message, remedy, code)


@dataclass
class _Run:
    path: str
    read: Read
    inputs: dict[str, str | None] = field(default_factory=dict[str, str | None])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def __post_init__(self) -> None:
        self.reporter = Reporter(limit=None)
        self.recorder = Recorder(self.path)
        self.loader = Loader(self.reporter, {}, self._read)

    def lowered(self, scope: Scope) -> ModuleOp | None:
        """The module; None after syntax errors. Raises DiagnosticError where there are errors."""
        reporter = self.reporter
        if reporter.count:
            self._record_in_spite_of_errors()
            reporter.raise_if_errors()
        return lower_program(scope, self.loader.scopes, reporter, self.recorder.lowering)

    def _record_in_spite_of_errors(self) -> None:
        """Look at the parts without syntax errors; what is wrong there may follow from those."""
        unreported = Reporter(limit=None)
        unreported.sources = self.reporter.sources
        lower_functions(self.loader.scopes, unreported, self.recorder.lowering)

    def _read(self, path: str) -> str:
        key = os.path.realpath(path)
        self.inputs[key] = None
        self.inputs[key] = text = self.read(path)
        return text


def read_or_none(read: Read, path: str) -> str | None:
    """The text of a file, None where it cannot be read."""
    try:
        return read(path)
    except CodaError:
        return None
