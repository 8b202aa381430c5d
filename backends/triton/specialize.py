"""Specialization of the functions of an emitted module to the calls in it.

    def scaled(x, factor=None):        def scaled(x):
        if factor is None:      ->         return x
            return x
        return x * factor

where no call passes a factor. A parameter that is the same constant in every call is one in the
function: branches that it rules out go, then the parameter if nothing reads it, then functions that
nothing calls. Comments and layout stay. A paragraph of a docstring that begins with the names of
parameters and a colon goes with them.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from coda_ir.backends.triton.definitions import Definition, used_names, with_uses
from coda_ir.backends.triton.folding import UNKNOWN, Constants, fold, live
from coda_ir.backends.triton.specialized_text import Signature, SpecializedText

REQUIRED = object()
"""The value of a parameter that every call passes, before the first call."""

_CALLERS = ""
"""The name of the code that is no definition."""


def specialized(definitions: Mapping[str, Definition], callers: str) -> list[Definition]:
    """Return those of `definitions` that `callers`, the rest of a module, needs, specialized to the
    calls in both. The text of `callers` stays as it is.
    """
    called = used_names(callers) & definitions.keys()
    used = {id(each) for each in with_uses(definitions, called)}
    program = _Program({n: each for n, each in definitions.items() if id(each) in used}, callers)
    return with_uses(program.specialized(), called)


@dataclass(frozen=True)
class _Function:
    """A function that may change."""

    tree: ast.FunctionDef

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(each.arg for each in self.tree.args.args)

    @cached_property
    def values(self) -> Constants:
        """The parameters that may be constants, with their defaults, or REQUIRED."""
        defaults = [fold(default, {}) for default in self.tree.args.defaults]
        values = [REQUIRED] * (len(self.parameters) - len(defaults)) + defaults
        pairs = zip(self.parameters, values, strict=True)
        return {name: v for name, v in pairs if v is not UNKNOWN and not self._stored[name]}

    @cached_property
    def _stored(self) -> Counter[str]:
        """The names that statements and inner functions bind, and how often."""
        nodes = (node for statement in self.tree.body for node in ast.walk(statement))
        return Counter(name for node in nodes if (name := _bound_name(node)) is not None)

    def with_variables(self, bound: Constants) -> Constants:
        """Return constants, and the variables that are constants because of them."""
        constants = {name: value for name, value in bound.items() if value is not REQUIRED}
        for name, value in self._variables:
            constants[name] = fold(value, constants)
        return {name: value for name, value in constants.items() if value is not UNKNOWN}

    @cached_property
    def _variables(self) -> list[tuple[str, ast.expr]]:
        """The names that one statement binds once, with their values."""
        found: list[tuple[str, ast.expr]] = []
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign([ast.Name(name)], value) if self._stored[name] == 1:
                    found += [(name, value)] if name not in self.parameters else []
                case _:
                    pass
        return found


def _bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(name, ast.Store()) | ast.arg(name) | ast.FunctionDef(name):
            return name
        case _:
            return None


@dataclass(frozen=True)
class _Statement:
    """A statement of a module."""

    tree: ast.stmt

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def own_names(self) -> frozenset[str | None]:
        """The names that a function binds, which are none of the module; else nothing."""
        is_function = isinstance(self.tree, ast.FunctionDef)
        return frozenset(map(_bound_name, self._nodes) if is_function else ())

    def live(self, constants: Constants) -> list[ast.Call | ast.Name]:
        """Return the names and calls that are left when all that is constant has its value."""
        left = live(self.tree, constants) if constants else self._nodes
        return [node for node in left if isinstance(node, ast.Call | ast.Name)]


@lru_cache(maxsize=1024)
def _parsed(source: str) -> tuple[_Function | None, list[_Statement]]:
    """Return the statements of a definition, and it as a function that may change; None for code
    that stays: classes, variables, and functions of any number of arguments.
    """
    statements = [_Statement(tree) for tree in ast.parse(source).body]
    node = statements[-1].tree
    if not isinstance(node, ast.FunctionDef):
        return None, statements
    if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        return None, statements
    return _Function(node), statements[-1:]


Arguments: TypeAlias = Mapping[str, ast.expr]
"""The arguments of a call, by parameter."""


@dataclass(frozen=True)
class _Live:
    """The live code of a definition, some of whose names have these constants as values."""

    constants: Constants
    nodes: list[ast.Call | ast.Name]
    """All names and calls."""
    references: list[tuple[str, Arguments | None]]
    """The definitions that it uses, and the arguments of those that are functions."""


class _Program:
    """A module, and what is known of the parameters of its functions."""

    def __init__(self, definitions: Mapping[str, Definition], callers: str):
        parsed = {name: _parsed(each.source) for name, each in definitions.items()}
        self._definitions = definitions
        self._functions = {n: function for n, (function, _) in parsed.items() if function}
        self._code = {name: statements for name, (_, statements) in parsed.items()}
        self._code[_CALLERS] = [_Statement(tree) for tree in ast.parse(callers).body]
        self._live: dict[str, _Live] = {}
        self._signatures = {n: Signature(f.parameters) for n, f in self._functions.items()}
        self._constants: dict[str, Constants] = {name: {} for name in self._functions}
        while self._bind():
            pass
        while self._remove():
            pass

    def specialized(self) -> Mapping[str, Definition]:
        """Return the specialized definitions."""
        changed = {name for name, signature in self._signatures.items() if signature.removed}
        return {
            name: self._specialized(name)
            if self._constants.get(name) or definition.uses & changed
            else definition
            for name, definition in self._definitions.items()
        }

    def _specialized(self, name: str) -> Definition:
        old = self._definitions[name]
        if name not in self._functions:
            return old
        constants, signatures = self._constants[name], self._signatures
        read = self._names_read(name)
        source = SpecializedText(old.source, constants, signatures, read).text()
        uses = old.uses if source == old.source else used_names(source)
        return Definition(source, uses, old.modules & uses)

    def _bind(self) -> bool:
        """Take for constants the parameters that have their defaults in all calls that are left.

        Each constant may leave fewer calls. Returns whether there are new ones.
        """
        bound = {name: dict(function.values) for name, function in self._functions.items()}
        for caller, callee, arguments in self._references():
            constants = self._constants.get(caller, {})
            for parameter, argument in arguments.items():
                value = fold(argument, constants) if caller in self._functions else UNKNOWN
                known = bound[callee].get(parameter, UNKNOWN)
                if known is REQUIRED and value is not UNKNOWN:
                    bound[callee][parameter] = value
                elif type(value) is not type(known) or value != known:
                    bound[callee].pop(parameter, None)
        before = self._constants
        self._constants = {n: f.with_variables(bound[n]) for n, f in self._functions.items()}
        return self._constants != before

    def _references(self) -> Iterator[tuple[str, str, Arguments]]:
        """Yield the callers of functions, the functions, and the arguments by parameter: where a
        function is not called, or with a sequence of arguments, all of its parameters.
        """
        found, pending = {_CALLERS}, [_CALLERS]
        while pending:
            caller = pending.pop()
            for name, arguments in self._live_code(caller).references:
                if name not in found:
                    found.add(name)
                    pending.append(name)
                if arguments is not None:
                    yield caller, name, arguments

    def _live_code(self, name: str) -> _Live:
        """Return what is left of a definition with the constants that are known now."""
        constants = self._constants.get(name, {})
        if name not in self._live or self._live[name].constants != constants:
            parts = [(each, each.live(constants)) for each in self._code[name]]
            references = [found for part in parts for found in self._references_in(*part)]
            self._live[name] = _Live(
                constants, [n for _, nodes in parts for n in nodes], references
            )
        return self._live[name]

    def _references_in(
        self, statement: _Statement, nodes: Sequence[ast.Call | ast.Name]
    ) -> Iterator[tuple[str, Arguments | None]]:
        """Yield what nodes of a statement refer to, without its own names."""
        own, called = statement.own_names, set[ast.AST]()
        for node in nodes:
            match node:
                case ast.Call(ast.Name(name) as function) if name in self._functions:
                    called.add(function)
                    if name not in own:
                        yield name, self._signatures[name].arguments(node)
                case ast.Name(name, ast.Load()) if name in self._functions:
                    if name not in own and node not in called:
                        yield name, dict.fromkeys(self._signatures[name].parameters, node)
                case ast.Name(name, ast.Load()) if name in self._code and name not in own:
                    yield name, None
                case _:
                    pass

    def _remove(self) -> bool:
        """Remove the constants that nothing reads, except for arguments of removed parameters.

        Returns whether there are new ones.
        """
        before = dict(self._signatures)
        for name, function in self._functions.items():
            constants = self._constants[name]
            bound = frozenset(constants.keys() & set(function.parameters))
            if bound:
                removed = bound - self._names_read(name)
                self._signatures[name] = Signature(function.parameters, removed)
        return self._signatures != before

    def _names_read(self, function: str) -> set[str]:
        """Return the names that a function still reads."""
        names = set[str]()
        removed = set[ast.expr]()
        for node in self._live_code(function).nodes:
            match node:
                case ast.Call(ast.Name(name)) if name in self._signatures:
                    removed.update(self._signatures[name].removed_arguments(node))
                case ast.Name(name, ast.Load()) if node not in removed:
                    names.add(name)
                case _:
                    pass
        return names
