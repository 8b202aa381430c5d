"""Planting a fault: one piece of source text replaced by another, in the running process."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

Corpus = Literal["passes", "kernels"]


class StaleFaultError(Exception):
    """A fault whose text is not in the source exactly once: it would change nothing, or more."""


@dataclass(frozen=True)
class Fault:
    """`old` replaced by `new` in the function (or the source of a device function) `where`.

    `where` is `package.module:function`, `package.module:Class.method`, or
    `package.module:_HELPERS[name]` for an entry of a table of sources.
    """

    name: str
    where: str
    old: str
    new: str
    corpus: Corpus = "passes"
    """The programs that are to see it."""

    def plant(self) -> None:
        """Change this process for good. Raises StaleFaultError."""
        module_name, _, place = self.where.partition(":")
        module = import_module(module_name)
        if "[" in place:
            self._plant_in_table(module, place)
        else:
            self._plant_in_function(module, place)

    def _replaced(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise StaleFaultError(
                f"{self.name}: {self.where} has {text.count(self.old)} times {self.old!r}"
            )
        return text.replace(self.old, self.new)

    def _plant_in_table(self, module: ModuleType, place: str) -> None:
        table, _, key = place.removesuffix("]").partition("[")
        entries: dict[str, Any] = getattr(module, table)
        entry = entries[key]
        entries[key] = (
            self._replaced(entry)
            if isinstance(entry, str)
            else replace(entry, source=self._replaced(entry.source))
        )

    def _plant_in_function(self, module: ModuleType, place: str) -> None:
        assert module.__file__ is not None
        source = Path(module.__file__).read_text()
        start, stop = _extent(ast.parse(source), place.split("."))
        lines = source.splitlines(keepends=True)
        text = self._replaced("".join(lines[start:stop]))
        mutated = compile("".join([*lines[:start], text, *lines[stop:]]), module.__file__, "exec")
        code = next(code for code in _codes(mutated) if code.co_qualname == place)
        function = _function(module, place)
        # In place, so that every import of the function sees it.
        function.__code__ = code


def _extent(tree: ast.AST, path: list[str]) -> tuple[int, int]:
    """The lines of a function, from 0, with its decorators."""
    for name in path:
        tree = next(
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        )
    assert isinstance(tree, ast.FunctionDef) and tree.end_lineno is not None
    return tree.lineno - 1, tree.end_lineno


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
