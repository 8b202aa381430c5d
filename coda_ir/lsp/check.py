"""The check of a text, complete or not, by the front end."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from coda_ir.diagnostics import (
    Diagnostic,
    DiagnosticError,
    SourceRange,
    collect_diagnostics,
)
from coda_ir.frontends.coda_text import syntax
from coda_ir.frontends.coda_text.expressions import Output
from coda_ir.frontends.coda_text.lowering import FunctionLowering, lower_functions, lower_program
from coda_ir.frontends.coda_text.program import FunctionDefinition, Loader, Scope
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.values import Value, is_poisoned
from coda_ir.lsp.symbols import SymbolTable

Values = dict[tuple[int, int], Value]
"""Values by line and column of the name or operator that they are known by."""


class _RecordingLowering(FunctionLowering):
    def __init__(self, definition: FunctionDefinition, reporter: Reporter, values: Values):
        super().__init__(definition, reporter, Output(Block()), None)
        self.values = values

    def evaluate(self, node: syntax.Expression) -> Value:
        value = super().evaluate(node)
        match node:
            case syntax.Name() | syntax.Negation():
                self._record(node.span, value)
            case syntax.Call():
                self._record(node.callee.span, value)
            case _:
                pass
        return value

    def _combine(self, node: syntax.Binary, left: Value, right: Value) -> Value:
        value = super()._combine(node, left, right)
        self._record(node.operator_span, value)
        return value

    def bind(self, target: syntax.Identifier, value: Value) -> None:
        self._record(target.span, value)
        super().bind(target, value)

    def _record(self, span: syntax.Span, value: Value) -> None:
        if not is_poisoned(value):
            self.values[span.line, span.column] = value


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

    def word_at(self, file: str, line: int, column: int) -> str:
        """Return the word or sign at a place of a source; empty if there is none."""
        lines = self.sources.get(file, "").split("\n")
        text = lines[line - 1][column - 1 :] if line <= len(lines) else ""
        word = re.match(r"\w+|//|.", text)
        return word[0] if word else ""


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
        run.values,
        tuple(run.diagnostics),
        module,
        run.reporter.sources,
        run.inputs,
    )


def _too_deep(path: str) -> Diagnostic:
    place = SourceRange(path, 1, 1, 2)
    message, remedy = "the program is nested too deeply", "assign the inner parts to names"
    return Diagnostic("error", place, message, remedy, "E0103")


@dataclass
class _Run:
    path: str
    read: Read
    inputs: dict[str, str | None] = field(default_factory=dict[str, str | None])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    values: Values = field(default_factory=Values)
    """The values in functions of the file."""

    def __post_init__(self) -> None:
        self.reporter = Reporter(limit=None)
        self.loader = Loader(self.reporter, {}, self._read)

    def lowered(self, scope: Scope) -> ModuleOp | None:
        """Return the module; None after syntax errors. Raises DiagnosticError for other errors."""
        reporter = self.reporter
        if reporter.count:
            self._record_in_spite_of_errors()
            reporter.raise_if_errors()
        return lower_program(scope, self.loader.scopes, reporter, self._lowering)

    def _record_in_spite_of_errors(self) -> None:
        """Check the parts without syntax errors; further errors there may be consequences."""
        unreported = Reporter(limit=None)
        unreported.sources = self.reporter.sources
        lower_functions(self.loader.scopes, unreported, self._lowering)

    def _lowering(self, definition: FunctionDefinition, reporter: Reporter) -> FunctionLowering:
        if definition.scope.file != self.path:
            return FunctionLowering.of_definition(definition, reporter)
        return _RecordingLowering(definition, reporter, self.values)

    def _read(self, path: str) -> str:
        key = os.path.realpath(path)
        self.inputs[key] = None
        self.inputs[key] = text = self.read(path)
        return text
