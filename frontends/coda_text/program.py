"""Files, imports and consts: the meaning of the names of a file, before any function is lowered."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from typing import Generic, TypeAlias, TypeVar

from coda_ir.diagnostics import CodaError, FileError, OptionError, closest
from coda_ir.frontends.coda_text import syntax
from coda_ir.frontends.coda_text.arguments import Formal, Mistake, Signature, parameters_signature
from coda_ir.frontends.coda_text.evaluator import Evaluator, constant_call
from coda_ir.frontends.coda_text.operators import CONSTANT_FUNCTIONS, OPERATORS
from coda_ir.frontends.coda_text.parser import parse
from coda_ir.frontends.coda_text.remedies import value_remedy
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    POISON,
    Number,
    Poison,
    Value,
    describe,
    is_number,
    is_poisoned,
)
from coda_ir.sources import read_source

PREFIX = "std/"
"""The beginning of paths of imports from the standard library."""

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "std")

PATHS_ARE_RELATIVE = "paths are relative to the folder of this file"


def import_path(importer: str, target: str) -> str:
    """Return the file that `target` names in an import of `importer`; the package has `std/`."""
    if target.startswith(PREFIX):
        return os.path.normpath(os.path.join(FOLDER, target.removeprefix(PREFIX)))
    return os.path.normpath(os.path.join(os.path.dirname(importer), target))


def missing_remedy(target: str) -> str:
    """Return the remedy for an import of a file that does not exist."""
    if not target.startswith(PREFIX):
        return PATHS_ARE_RELATIVE
    known = {name.removesuffix(".coda"): f"{PREFIX}{name}" for name in files_of_library()}
    for similar in get_close_matches(target[len(PREFIX) :].removesuffix(".coda"), known, n=1):
        return f"did you mean '{known[similar]}'?"
    return f"its files are {', '.join(known.values())}; ./std/ is a folder beside this file"


def missing_message(target: str, reason: str) -> str:
    """Return the message for an import of a file that cannot be read."""
    if target.startswith(PREFIX):
        return f"the standard library has no '{target}'"
    return f"cannot import: {reason}"


def files_of_library() -> list[str]:
    """Return the names of the files of the standard library."""
    return sorted(name for name in os.listdir(FOLDER) if name.endswith(".coda"))


@cache
def names_of_library() -> Mapping[str, str]:
    """Return the path of each function and epilogue of the standard library."""
    return {
        name: f"{PREFIX}{file}"
        for file in files_of_library()
        for name in re.findall(
            r"^(?:fn|epilogue) (\w+)", read_source(os.path.join(FOLDER, file)), re.MULTILINE
        )
    }


RESERVED = frozenset({*ELEMENT_TYPES, "true", "false"})


_Tree = TypeVar("_Tree", syntax.Function, syntax.Epilogue)


@dataclass(eq=False)
class Definition(Generic[_Tree]):
    """A `fn` or an `epilogue`; `failed` is set when its own check has reported errors."""

    tree: _Tree
    scope: Scope
    failed: bool = False

    @property
    def name(self) -> str:
        return self.tree.name.text

    @cached_property
    def size(self) -> int:
        """The work of a call: the number of expressions and statements of the body."""
        values = [statement.value for statement in self.tree.body.statements]
        return len(values) + sum(1 for value in values for _ in syntax.walk(value))


@dataclass(eq=False)
class FunctionDefinition(Definition[syntax.Function]):
    """A `fn`, whose calls are inlined. `options` are the defaults of its options; another function
    of the program calls it if it `is_called`.
    """

    options: dict[str, Value] = field(default_factory=dict[str, Value])
    is_called: bool = False

    @property
    def signature(self) -> Signature:
        names = (p.name.text for p in self.tree.parameters)
        options = [option_formal(*option) for option in self.options.items()]
        return parameters_signature(self.name, names, options)


class EpilogueDefinition(Definition[syntax.Epilogue]):
    """An `epilogue`."""

    @property
    def signature(self) -> Signature:
        ports = self.tree.ports
        formals = [Formal(port.name.text) for port in ports]
        text = f"{self.name}({', '.join(map(str, ports))})"
        return Signature(self.name, formals, text)


Meaning: TypeAlias = Number | FunctionDefinition | EpilogueDefinition | Poison


@dataclass(eq=False)
class Scope:
    """The top-level names of one file. `own` are those defined in it and not imported."""

    file: str
    meanings: dict[str, Meaning] = field(default_factory=dict[str, Meaning])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    own: list[str] = field(default_factory=list[str])
    tree: syntax.File = field(default_factory=lambda: syntax.File(()))

    @property
    def functions(self) -> list[FunctionDefinition]:
        """The functions defined in the file."""
        meanings = [self.meanings[name] for name in self.own]
        return [meaning for meaning in meanings if isinstance(meaning, FunctionDefinition)]

    @property
    def epilogues(self) -> list[EpilogueDefinition]:
        """The epilogues defined in the file."""
        meanings = [self.meanings[name] for name in self.own]
        return [meaning for meaning in meanings if isinstance(meaning, EpilogueDefinition)]


class Loader:
    """Loads a file and those that it imports, each once.

    `overrides` replaces the values of consts by name, in every file. `read` gives the text of an
    imported file, or raises CodaError.
    """

    def __init__(
        self,
        reporter: Reporter,
        overrides: Mapping[str, Number],
        read: Callable[[str], str] = read_source,
    ):
        self.reporter, self.overrides, self.read = reporter, overrides, read
        self.scopes: list[Scope] = []
        self.const_names: set[str] = set()
        self._by_path: dict[str, Scope] = {}
        self._loading: list[str] = []

    def load(self, text: str, file: str) -> Scope:
        """Return the scope of the main file. Raises DiagnosticError for syntax errors."""
        scope = self.understood(text, file)
        self.reporter.raise_if_errors()
        self._check_overrides()
        return scope

    def understood(self, text: str, file: str) -> Scope:
        """Like `load`, but after errors return what the parser understood."""
        self._loading.append(_real_path(file))
        return self._scope(text, file)

    def _check_overrides(self) -> None:
        for name in self.overrides:
            if name not in self.const_names:
                known = ", ".join(sorted(self.const_names))
                remedy = f"the consts are {known}" if known else "the program defines no const"
                raise OptionError(
                    f"there is no const '{name}' to override",
                    closest(name, self.const_names, remedy),
                )

    def _scope(self, text: str, file: str) -> Scope:
        tree = parse(text, file, self.reporter).tree
        scope = Scope(file, tree=tree)
        if not tree.definitions and not self.reporter.count:
            self.reporter.error(
                file,
                syntax.Span(1, 1, 1, 2),
                "the file has no definitions",
                "write a function: fn f(x: bf16[M, 64]) { return silu(x) }",
                "E0104",
            )
        for definition in tree.definitions:
            match definition:
                case syntax.Import():
                    self._import(definition, scope)
                case syntax.Const():
                    self._const(definition, scope)
                case syntax.Function():
                    self._define(scope, definition.name, FunctionDefinition(definition, scope))
                case syntax.Epilogue():
                    self._define(scope, definition.name, EpilogueDefinition(definition, scope))
        for function in scope.functions:
            self._options(function)
        self.scopes.append(scope)
        return scope

    def _options(self, function: FunctionDefinition) -> None:
        """Evaluate the defaults of a function, which may use all consts of the file."""
        evaluator = OptionEvaluator(function.scope, self.reporter)
        parameters = function.tree.parameters
        for option in function.tree.options:
            function.options[option.name.text] = evaluator.default(option)
            if parameters and option.name.span < parameters[-1].name.span:
                self.reporter.error(
                    function.scope.file,
                    option.name.span,
                    f"'{option.name.text}' has a default, but parameters without one follow",
                    "move it to the end",
                    "E0401",
                )

    def _define(self, scope: Scope, name: syntax.Identifier, meaning: Meaning) -> None:
        if self._may_define(scope, name.text, name.span):
            scope.meanings[name.text] = meaning
            scope.origins[name.text] = f"{scope.file}:{name.span.line}:{name.span.column}"
            scope.own.append(name.text)

    def _may_define(self, scope: Scope, name: str, span: syntax.Span) -> bool:
        if name in RESERVED:
            self.reporter.error(
                scope.file, span, f"'{name}' is reserved", "choose another name", "E0203"
            )
            return False
        if name in scope.meanings:
            origin = scope.origins[name]
            self.reporter.error(
                scope.file,
                span,
                f"'{name}' is defined twice",
                f"the first definition is at {origin}; rename one of them",
                "E0203",
            )
            return False
        return True

    def _const(self, definition: syntax.Const, scope: Scope) -> None:
        name = definition.name.text
        value = ConstEvaluator(scope, self.reporter).number(definition)
        self.const_names.add(name)
        if name in self.overrides and value is not None:
            value = _overridden(name, value, self.overrides[name])
        self._define(scope, definition.name, POISON if value is None else value)

    def _import(self, node: syntax.Import, scope: Scope) -> None:
        target = str(node.path.value)
        path = import_path(scope.file, target)
        key = _real_path(path)
        if key in self._loading:
            self.reporter.error(
                scope.file,
                node.path.span,
                f"'{target}' imports itself, directly or through other files",
                "move what both need to a third file",
                "E0104",
            )
            return
        imported = self._by_path.get(key) or self._load_import(path, key, node, scope)
        if imported is None:
            return
        for name in imported.own:
            same = scope.origins.get(name) == imported.origins[name]
            if not same and self._may_define(scope, name, node.path.span):
                scope.meanings[name] = imported.meanings[name]
                scope.origins[name] = imported.origins[name]

    def _load_import(self, path: str, key: str, node: syntax.Import, scope: Scope) -> Scope | None:
        try:
            _check_kind(path)
            text = self.read(path)
        except CodaError as error:
            self.reporter.error(
                scope.file,
                node.path.span,
                missing_message(str(node.path.value), error.message),
                error.remedy
                if os.path.exists(path) and error.remedy
                else missing_remedy(str(node.path.value)),
                "E0104",
            )
            return None
        self._loading.append(key)
        self._by_path[key] = self._scope(text, path)
        self._loading.pop()
        return self._by_path[key]


def _real_path(path: str) -> str:
    """Return the path without links, or `path` itself if that is impossible."""
    try:
        return os.path.realpath(path)
    except (ValueError, OSError):
        return path


def _check_kind(path: str) -> None:
    """Raise CodaError for devices and pipes, whose text may never end."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise FileError(f"{path}: this is not a file", "name a file")


def _overridden(name: str, value: Number, override: Number) -> Number:
    """Return the override as the const's kind of number. Raises CodaError for another kind."""
    if not is_number(override):
        raise OptionError(f"const '{name}' is overridden with {override!r}, expected a number")
    if isinstance(value, float):
        return float(override)
    if isinstance(override, float):
        raise OptionError(
            f"const '{name}' is the integer {value}, but overridden with {override}",
            "pass an integer",
        )
    return override


def option_formal(name: str, default: Value) -> Formal:
    """Return an option as a parameter of a signature."""
    match default:
        case bool():
            return Formal(name, "boolean", str(default).lower())
        case int():
            return Formal(name, "integer", str(default))
        case str():
            return Formal(name, "string", f'"{default}"')
        case _:
            return Formal(name, "number", str(default))


def option_value(function: FunctionDefinition, name: str, value: Value) -> Value:
    """Return the value of an option in a call. Raises Mistake if its default is of another kind."""
    default = function.options[name]
    if isinstance(default, float) and isinstance(value, int) and is_number(value):
        return float(value)
    if type(value) is type(default):
        return value
    formal = option_formal(name, default)
    article = "an" if formal.kind == "integer" else "a"
    raise Mistake(
        f"{function.name}: {name} is {describe(value)}, expected {article} {formal.kind}",
        f"its default is {formal.default}",
        "E0508",
        argument=name,
    )


class ConstEvaluator(Evaluator):
    """Evaluates consts: numbers, consts defined before, arithmetic and functions of numbers."""

    def __init__(self, scope: Scope, reporter: Reporter):
        super().__init__(scope.file, reporter)
        self.scope = scope

    def number(self, definition: syntax.Const) -> Number | None:
        """Return the value of a const; None after an error."""
        value = self.evaluate(definition.value)
        if isinstance(value, int | float) and is_number(value):
            return value
        if not is_poisoned(value):
            self.error(
                definition.value.span,
                f"const '{definition.name.text}' is {describe(value)}, expected a number",
                "consts are numbers, other consts, and their arithmetic",
                "E0206",
            )
        return None

    def name(self, node: syntax.Name) -> Value:
        if node.text in ("true", "false"):
            return node.text == "true"
        meaning = self.scope.meanings.get(node.text)
        if isinstance(meaning, int | float | Poison):
            return meaning
        if meaning is not None:
            return self.error(
                node.span,
                f"'{node.text}' is not a const",
                "functions work on tensors only",
                "E0206",
            )
        known = [name for name, m in self.scope.meanings.items() if isinstance(m, int | float)]
        return self.error(
            node.span,
            f"unknown const '{node.text}'",
            value_remedy(node.text, known, "consts are defined before they are used"),
            "E0201",
        )

    def call(self, node: syntax.Call) -> Value:
        name = node.callee.text
        if name not in CONSTANT_FUNCTIONS:
            return self.error(
                node.callee.span,
                f"'{name}' cannot be called in a const",
                f"functions of numbers are {', '.join(sorted(CONSTANT_FUNCTIONS))}",
                "E0206",
            )
        bound = self.bound_arguments(OPERATORS[name].signature, node)
        values = None if bound is None else self.argument_values(bound)
        if bound is None or values is None:
            return POISON
        try:
            result = constant_call(name, values)
        except Mistake as mistake:
            return self.call_mistake(mistake, bound, node, OPERATORS[name].signature)
        if result is None:
            return self.error(
                node.span, "the arguments are not numbers", "consts are numbers", "E0206"
            )
        return result

    def binary(self, node: syntax.Binary, left: Value, right: Value) -> Value:
        raise Mistake(
            f"the operands of {node.operator} are {describe(left)} and {describe(right)}",
            "consts are numbers",
            "E0508",
        )

    def negation(self, node: syntax.Negation, operand: Value) -> Value:
        raise Mistake(
            f"the operand of - is {describe(operand)}, expected a number",
            "consts are numbers",
            "E0508",
        )


class OptionEvaluator(ConstEvaluator):
    """Evaluates the defaults of options: consts, booleans and strings."""

    def default(self, option: syntax.Option) -> Value:
        """Return the default of an option; POISON after an error."""
        value = self.evaluate(option.default)
        if isinstance(value, int | float | str | Poison):
            return value
        return self.error(
            option.default.span,
            f"the default of '{option.name.text}' is {describe(value)}",
            "defaults are numbers, true, false and strings",
            "E0206",
        )
