"""Symbols: where names are defined and used, and where operators are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from coda_ir.frontends.coda_text import program, syntax

NEGATION = "-x"
"""The name of the prefix sign, which `-` between two operands is not."""

SymbolKind: TypeAlias = Literal[
    "const", "function", "epilogue", "parameter", "weight", "dimension", "variable", "port"
]


@dataclass(frozen=True)
class Symbol:
    """A named definition, identified by its place."""

    name: str
    kind: SymbolKind
    file: str
    line: int
    column: int

    @property
    def span(self) -> syntax.Span:
        return syntax.Span(self.line, self.column, self.line, self.column + len(self.name))


@dataclass(frozen=True)
class Occurrence:
    """A name in a file, where it is defined or used."""

    symbol: Symbol
    span: syntax.Span

    @property
    def is_definition(self) -> bool:
        return self.span == self.symbol.span


@dataclass(frozen=True)
class OperatorUse:
    """A built-in operator in a file: a call, or an infix or prefix sign."""

    name: str
    span: syntax.Span


@dataclass
class SymbolTable:
    """The names and operators of one file, by line and column of their first character."""

    occurrences: dict[tuple[int, int], Occurrence] = field(
        default_factory=dict[tuple[int, int], Occurrence]
    )
    operators: dict[tuple[int, int], OperatorUse] = field(
        default_factory=dict[tuple[int, int], OperatorUse]
    )
    imports: list[syntax.Import] = field(default_factory=list[syntax.Import])

    @staticmethod
    def of(scope: program.Scope) -> SymbolTable:
        """Build the table of everything that the parser understood of a file."""
        table = SymbolTable()
        _Resolver(scope, table).file()
        return table

    def occurrence_at(self, line: int, column: int) -> Occurrence | None:
        """Return the name at a place, or directly before it."""
        return _covering(self.occurrences, line, column)

    def operator_at(self, line: int, column: int) -> OperatorUse | None:
        """Return the operator at a place, or directly before it."""
        return _covering(self.operators, line, column)

    def import_at(self, line: int, column: int) -> syntax.Import | None:
        for node in self.imports:
            span = node.path.span
            if span.line == line and span.column <= column <= span.end_column:
                return node
        return None

    def spans_of(self, symbol: Symbol) -> list[syntax.Span]:
        """Return where `symbol` occurs in the file."""
        return [o.span for o in self.occurrences.values() if o.symbol == symbol]


_Item = TypeVar("_Item", Occurrence, OperatorUse)


def _covering(items: dict[tuple[int, int], _Item], line: int, column: int) -> _Item | None:
    for start in range(column, 0, -1):
        item = items.get((line, start))
        if item is not None:
            return item if column <= item.span.end_column else None
    return None


class _Resolver:
    """Fills a table by walking the tree of a file."""

    def __init__(self, scope: program.Scope, table: SymbolTable):
        self.scope = scope
        self.table = table
        self.local: dict[str, Symbol] = {}
        self.results: set[str] = set()

    def file(self) -> None:
        for definition in self.scope.tree.definitions:
            self.local, self.results = {}, set()
            match definition:
                case syntax.Import():
                    self.table.imports.append(definition)
                case syntax.Const():
                    self._top_level(definition.name)
                    self._expression(definition.value)
                case syntax.Function():
                    self._top_level(definition.name)
                    self._function(definition)
                case syntax.Epilogue():
                    self._top_level(definition.name)
                    self._epilogue(definition)

    # Definitions.

    def _function(self, node: syntax.Function) -> None:
        for option in node.options:
            self._define(option.name, "parameter")
            self._expression(option.default)
        for parameter in node.parameters:
            for dim in parameter.type.dims:
                self._dimensions(dim)
            self._define(parameter.name, "weight" if parameter.qualifier else "parameter")
        for result in node.results or ():
            for dim in result.dims:
                self._expression(dim)
        self._body(node.body)

    def _dimensions(self, node: syntax.Expression) -> None:
        """Resolve the names of an extent; the first occurrence defines a symbol."""
        for inner in syntax.walk(node):
            if isinstance(inner, syntax.Name) and not self._is_known(inner.text):
                self._define(syntax.Identifier(inner.text, inner.span), "dimension")
        self._expression(node)

    def _is_known(self, name: str) -> bool:
        return name in self.local or name in self.scope.meanings or name in program.RESERVED

    def _epilogue(self, node: syntax.Epilogue) -> None:
        for port in node.ports:
            self._define(port.name, "port")
        self.results = {port.name.text for port in node.results}
        self._body(node.body)
        for port in node.results:
            self._define_or_use(port.name, "port")
            self._port_argument(port)

    def _port_argument(self, port: syntax.Port) -> None:
        """Resolve the port that a `select<port>` names."""
        argument = None if port.kind is None else port.kind.argument
        if argument is not None and argument.text in self.local:
            self._use(argument.text, argument.span)

    def _body(self, body: syntax.Body) -> None:
        for statement in body.statements:
            self._expression(statement.value)
            if isinstance(statement, syntax.Assign):
                for target in statement.targets:
                    if target.text != "_":
                        is_result = target.text in self.results
                        self._define_or_use(target, "port" if is_result else "variable")

    # Occurrences.

    def _top_level(self, name: syntax.Identifier) -> None:
        self._use(name.text, name.span)

    def _define_or_use(self, name: syntax.Identifier, kind: SymbolKind) -> None:
        if name.text not in self.local:
            self._define(name, kind)
        else:
            self._use(name.text, name.span)

    def _define(self, name: syntax.Identifier, kind: SymbolKind) -> None:
        symbol = Symbol(name.text, kind, self.scope.file, name.span.line, name.span.column)
        self.local.setdefault(name.text, symbol)
        self._record(symbol, name.span)

    def _use(self, name: str, span: syntax.Span) -> None:
        symbol = self.local.get(name) or top_level_symbol(self.scope, name)
        if symbol is not None:
            self._record(symbol, span)

    def _record(self, symbol: Symbol, span: syntax.Span) -> None:
        self.table.occurrences[span.line, span.column] = Occurrence(symbol, span)

    def _operator(self, name: str, span: syntax.Span) -> None:
        self.table.operators[span.line, span.column] = OperatorUse(name, span)

    def _expression(self, node: syntax.Expression) -> None:
        for inner in syntax.walk(node):
            match inner:
                case syntax.Name():
                    self._use(inner.text, inner.span)
                case syntax.Binary():
                    self._operator(inner.operator, inner.operator_span)
                case syntax.Negation():
                    start = inner.span
                    self._operator(NEGATION, syntax.Span(*start[:2], start.line, start.column + 1))
                case syntax.Call():
                    self._call(inner)
                case _:
                    pass

    def _call(self, node: syntax.Call) -> None:
        meaning = self.scope.meanings.get(node.callee.text)
        if meaning is None:
            self._operator(node.callee.text, node.callee.span)
            return
        self._use(node.callee.text, node.callee.span)
        parameters = parameter_symbols(meaning)
        for argument in node.arguments:
            if argument.keyword is not None and argument.keyword.text in parameters:
                self._record(parameters[argument.keyword.text], argument.keyword.span)


def top_level_symbol(scope: program.Scope, name: str) -> Symbol | None:
    """Return the symbol of a name at the top level of a file, wherever it was imported from."""
    if name not in scope.meanings:
        return None
    file, line, column = scope.origins[name].rsplit(":", 2)
    kind: SymbolKind = "const"
    match scope.meanings[name]:
        case program.FunctionDefinition():
            kind = "function"
        case program.EpilogueDefinition():
            kind = "epilogue"
        case _:
            pass
    return Symbol(name, kind, file, int(line), int(column))


def parameter_symbols(meaning: program.Meaning) -> dict[str, Symbol]:
    """Return the parameters of a function, or the ports of an epilogue, by name."""
    match meaning:
        case program.FunctionDefinition():
            kinds: dict[SymbolKind, list[syntax.Identifier]] = {"parameter": [], "weight": []}
            for parameter in meaning.tree.parameters:
                kinds["weight" if parameter.qualifier else "parameter"].append(parameter.name)
            kinds["parameter"] += [option.name for option in meaning.tree.options]
        case program.EpilogueDefinition():
            kinds = {"port": [port.name for port in meaning.tree.ports]}
        case _:
            return {}
    file = meaning.scope.file
    return {
        name.text: Symbol(name.text, kind, file, name.span.line, name.span.column)
        for kind, names in kinds.items()
        for name in names
    }
