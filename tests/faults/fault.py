"""Planting a fault: the syntax tree of one function changed, in the running process."""

import ast
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

from faults.mutations import Mutation, mutants

Corpus = Literal["passes", "kernels"]


class StaleFaultError(Exception):
    """A fault that does not fit the source: it would change nothing, or more than one place."""


@dataclass(frozen=True)
class Nth:
    """A mutation; `python -m faults --list MODULE:FUNCTION` lists those of a function."""

    kind: Mutation
    label: str
    """The name of what it changes; see `mutations.label`."""

    occurrence: int = 0
    """The number of mutations of the same kind and label before it."""

    def apply(self, tree: ast.AST) -> ast.AST:
        """The changed tree. Raises StaleFaultError."""
        wanted = (self.kind, self.label)
        found = (changed for *place, changed in mutants(tree) if tuple(place) == wanted)
        changed = next(islice(found, self.occurrence, None), None)
        if changed is None:
            raise StaleFaultError(f"there is no mutation {self}")
        return changed


@dataclass(frozen=True)
class Text:
    """Source replaced by other source, both as `ast.unparse` prints them."""

    old: str
    new: str

    def apply(self, tree: ast.AST) -> ast.AST:
        """The changed tree. Raises StaleFaultError."""
        source = ast.unparse(tree)
        if source.count(self.old) != 1:
            raise StaleFaultError(f"there is {source.count(self.old)} times {self.old!r}")
        return ast.parse(source.replace(self.old, self.new)).body[0]


@dataclass(frozen=True)
class Fault:
    """A change of the function (or of the source of a device function) `where`.

    `where` is `package.module:function`, `package.module:Class.method`, or
    `package.module:_HELPERS[name]` for an entry of a table of sources.
    """

    name: str
    where: str
    change: Nth | Text
    corpus: Corpus = "passes"
    """The programs that are to see it."""

    def plant(self) -> None:
        """Change this process for good. Raises StaleFaultError."""
        Place.at(self.where).put(self.changed())

    def changed(self) -> ast.FunctionDef:
        """The function with the fault. Raises StaleFaultError."""
        try:
            changed = self.change.apply(Place.at(self.where).tree())
        except StaleFaultError as error:
            raise StaleFaultError(f"{self.name}: {self.where}: {error}") from None
        assert isinstance(changed, ast.FunctionDef)
        return ast.fix_missing_locations(changed)


@dataclass(frozen=True)
class Place:
    """A function of a module, or an entry of a table of sources in it."""

    module: ModuleType
    name: str

    @staticmethod
    def at(where: str) -> "Place":
        module, _, name = where.partition(":")
        return Place(import_module(module), name)

    @property
    def _entry(self) -> tuple[dict[str, Any], str] | None:
        """The table and the key."""
        table, found, key = self.name.removesuffix("]").partition("[")
        return (getattr(self.module, table), key) if found else None

    @property
    def _file(self) -> str:
        assert self.module.__file__ is not None
        return self.module.__file__

    def tree(self) -> ast.FunctionDef:
        if self._entry is None:
            return _definition(_parsed(self._file), self.name.split("."))
        table, key = self._entry
        entry = table[key]
        (function,) = ast.parse(entry if isinstance(entry, str) else entry.source).body
        assert isinstance(function, ast.FunctionDef)
        return function

    def put(self, changed: ast.FunctionDef) -> None:
        """Replace the function in this process."""
        if self._entry is None:
            # In place, so that every import of the function sees it.
            _function(self.module, self.name).__code__ = self._code_with(changed)
            return
        table, key = self._entry
        entry, source = table[key], ast.unparse(changed)
        table[key] = source if isinstance(entry, str) else replace(entry, source=source)

    def _code_with(self, changed: ast.FunctionDef) -> CodeType:
        module = deepcopy(_parsed(self._file))
        _definition(module, self.name.split(".")).body = changed.body
        compiled = compile(module, self._file, "exec")
        return next(code for code in _codes(compiled) if code.co_qualname == self.name)


@lru_cache
def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text())


def _definition(tree: ast.AST, path: list[str]) -> ast.FunctionDef:
    for name in path:
        tree = next(
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        )
    assert isinstance(tree, ast.FunctionDef)
    return tree


KernelFault = partial(Fault, corpus="kernels")
"""A fault that the programs of emitted kernels are to see."""


def _codes(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code, *(found for each in inner for found in _codes(each))]


def _function(module: ModuleType, place: str) -> FunctionType:
    owner: object = module
    *classes, name = place.split(".")
    for each in classes:
        owner = getattr(owner, each)
    # From the dictionary: an attribute of a class would be bound, or computed.
    found: object = owner.__dict__[name]
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), place
    return found


Check = Callable[[], None]
"""Raises where a program does not do what it should."""
