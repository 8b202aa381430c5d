"""Definitions, references and renaming, across files."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from coda_ir.diagnostics import CodaError, OptionError
from coda_ir.frontends.coda_text.program import RESERVED, import_path
from coda_ir.frontends.coda_text.syntax import Span
from coda_ir.lsp.check import Check
from coda_ir.lsp.documentation import KEYWORDS
from coda_ir.lsp.symbols import Symbol

MAX_FILES = 2000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOCAL = frozenset({"dimension", "variable"})


class Location(NamedTuple):
    file: str
    span: Span


def definition(check: Check, line: int, column: int) -> Location | None:
    """Return where the name or the imported file at a place is defined."""
    node = check.symbols.import_at(line, column)
    if node is not None:
        path = import_path(check.path, str(node.path.value))
        return Location(path, Span(1, 1, 1, 1)) if os.path.isfile(path) else None
    occurrence = check.symbols.occurrence_at(line, column)
    if occurrence is None:
        return None
    return Location(occurrence.symbol.file, occurrence.symbol.span)


def references(
    check: Check, symbol: Symbol, files: Iterable[str], check_of: Callable[[str], Check | None]
) -> Iterator[Location]:
    """Yield every place of `symbol` in the file of `check`, and in `files` that can see it."""
    yield from (Location(check.path, span) for span in check.symbols.spans_of(symbol))
    if symbol.kind in _LOCAL:
        return
    seen = {os.path.realpath(check.path)}
    for file in (symbol.file, *files):
        real = os.path.realpath(file)
        other = None if real in seen else check_of(file)
        seen.add(real)
        if other is not None:
            same = (o for o in other.symbols.occurrences.values() if is_same(o.symbol, symbol))
            yield from (Location(file, occurrence.span) for occurrence in same)


def is_same(a: Symbol, b: Symbol) -> bool:
    """Return whether two symbols are the same: files may have several paths."""
    if (a.name, a.line, a.column) != (b.name, b.line, b.column):
        return False
    return a.file == b.file or os.path.realpath(a.file) == os.path.realpath(b.file)


def files_with(
    name: str, folders: Iterable[str], opened: Iterable[str], read: Callable[[str], str]
) -> Iterator[str]:
    """Yield the .coda files, open or below `folders`, that contain the word `name`."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    seen: set[str] = set()
    for path in (*opened, *_below(folders)):
        real = os.path.realpath(path)
        if real in seen or len(seen) >= MAX_FILES:
            continue
        seen.add(real)
        try:
            text = read(path)
        except CodaError:
            continue
        if word.search(text):
            yield path


def _below(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.coda")):
            yield str(path)


def check_new_name(check: Check, symbol: Symbol, name: str) -> None:
    """Raise CodaError if `symbol` cannot be renamed to `name`."""
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"'{name}' is not a name",
            "a name consists of letters, digits and _, and does not begin with a digit",
        )
    if name in RESERVED or name in KEYWORDS:
        raise OptionError(f"'{name}' is reserved", "choose another name")
    same_file = [o.symbol for o in check.symbols.occurrences.values() if o.symbol.name == name]
    if any(other.name != symbol.name for other in same_file):
        raise OptionError(f"'{name}' is already defined", "choose another name")
