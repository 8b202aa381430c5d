"""Emitted Python as syntax trees: liveness, the names of a text, edits that keep its layout.

    without_unused(["a = 1", "b = a + 1", "use(a)"])    # ["a = 1", "use(a)"]

Emitters write lines, and so determine comments and layout. Code that reads or changes a text
afterwards parses it; the tree has the statements, the names and their places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

_EFFECTS = frozenset({"finish", "finish_in_pieces", "finish_promoted"})
"""Functions that wait for products and release a stage, whether or not the result is used."""


def names_in(lines: Iterable[str]) -> set[str]:
    """Return the names that statements read."""
    return set(_names_of("\n".join(lines)))


@lru_cache(maxsize=64)
def _names_of(text: str) -> frozenset[str]:
    """The parts of a kernel are asked for their names several times."""
    return frozenset(_read(ast.parse(text)))


FIELDS: Mapping[type[ast.AST], Sequence[str]] = {
    kind: [name for name in kind._fields if name not in ("ctx", "kind", "type_comment")]
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each class of nodes that make up the code."""


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, except contexts, in no certain order."""
    # `ast.walk` takes three times as long, and emission goes through each kernel several times.
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for name in FIELDS[node.__class__]:
            child = getattr(node, name)
            if isinstance(child, ast.AST):
                pending.append(child)
            elif isinstance(child, list):
                inner = cast(list[object], child)
                pending += [each for each in inner if isinstance(each, ast.AST)]


def _read(tree: ast.AST) -> Iterator[str]:
    for node in nodes_of(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def without_unused(lines: Sequence[str]) -> list[str]:
    """Return `lines` without the assignments to names that no statement reads afterwards.

    A statement that consists of such assignments goes with them. Calls of functions with effects
    stay.
    """
    live = _Liveness()
    live.read_before(ast.parse("\n".join(lines)).body, set())
    return [line for number, line in enumerate(lines, 1) if number not in live.dead]


class _Liveness:
    """Visits statements from the last to the first, and records the lines of dead ones."""

    def __init__(self) -> None:
        self.dead: set[int] = set()
        self._names: dict[ast.AST, frozenset[str]] = {}

    def read_before(self, body: Sequence[ast.stmt], after: set[str]) -> set[str]:
        """Return the names that are read in `body` or, as given by `after`, after it."""
        read = set(after)
        for statement in reversed(body):
            self.dead.difference_update(_lines(statement))
            if isinstance(statement, ast.For | ast.While | ast.If):
                read = self._read_before_block(statement, read)
                continue
            name = _assigned_name(statement)
            if name is not None and name not in read:
                self.dead.update(_lines(statement))
            else:
                read.discard(name or "")
                read.update(self._read(statement))
        return read

    def _read_before_block(self, block: ast.For | ast.While | ast.If, after: set[str]) -> set[str]:
        read = {*after, *self._read(block.iter if isinstance(block, ast.For) else block.test)}
        while True:
            inner = self.read_before(block.body, read) | self.read_before(block.orelse, read)
            if isinstance(block, ast.If) or inner == read:
                break
            read = inner
        branches = (block.body, block.orelse)
        empty = [branch for branch in branches if self.dead.issuperset(s.lineno for s in branch)]
        if len(empty) == 2:
            self.dead.update(_lines(block))
            return after
        for statement in (each for branch in empty for each in branch):
            # A branch has a statement at least.
            self.dead.difference_update(_lines(statement))
            inner.update(self._read(statement))
        return inner

    def _read(self, node: ast.AST) -> frozenset[str]:
        """The names that a node reads. Loops are gone through several times."""
        if node not in self._names:
            self._names[node] = frozenset(_read(node))
        return self._names[node]


def _lines(statement: ast.stmt) -> range:
    assert statement.end_lineno is not None
    return range(statement.lineno, statement.end_lineno + 1)


def _assigned_name(statement: ast.stmt) -> str | None:
    """The name to which a statement does nothing but assign a value."""
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Name(id=function))) if function in _EFFECTS:
            return None
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return None


@dataclass(frozen=True)
class Edit:
    """Other text for a part of a line, in the columns of a syntax tree: bytes."""

    line: int
    start: int
    end: int
    text: str

    @staticmethod
    def replace(node: ast.expr, text: str) -> Edit:
        """Return an edit that replaces an expression on one line."""
        assert node.end_lineno == node.lineno and node.end_col_offset is not None
        return Edit(node.lineno, node.col_offset, node.end_col_offset, text)

    @staticmethod
    def append(node: ast.expr, text: str) -> Edit:
        """Return an edit that appends text to an expression."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return Edit(node.end_lineno, node.end_col_offset, node.end_col_offset, text)


def edited(source: str, edits: Iterable[Edit]) -> str:
    """Return `source` with non-overlapping edits; everything else, including comments, stays."""
    lines = source.split("\n")
    for edit in sorted(edits, key=lambda each: (each.line, each.start), reverse=True):
        line = lines[edit.line - 1].encode()
        line = line[: edit.start] + edit.text.encode() + line[edit.end :]
        lines[edit.line - 1] = line.decode()
    return "\n".join(lines)
