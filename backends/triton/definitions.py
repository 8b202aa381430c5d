"""Definitions that are copied into emitted modules, with their dependencies.

They are written in the Python files of `runtime/`, which are checked like all other code.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from symtable import SymbolTable, symtable

RUNTIME = Path(__file__).parent / "runtime"


@dataclass(frozen=True)
class Definition:
    """A function, a class or a variable of a file, with the comments above it."""

    source: str
    """Ends in a newline."""
    uses: frozenset[str]
    """The names that it takes from its module: other definitions, and what is imported."""
    modules: frozenset[str]
    """Those of the standard library among them."""


def used_names(source: str) -> frozenset[str]:
    """Return the names that a text uses from its surrounding module, or defines there."""
    return frozenset(_global_names(symtable(source, "<source>", "exec")))


def _global_names(table: SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and symbol.is_global():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


def read_definitions(*files: str) -> dict[str, Definition]:
    """Return the definitions in files of `runtime/`, by name and in order."""
    found: dict[str, Definition] = {}
    for file in files:
        text = (RUNTIME / f"{file}.py").read_text()
        tree, lines = ast.parse(text), text.splitlines()
        imported = _standard_modules(tree)
        for name, first, last in _places(tree, lines):
            assert name not in found, f"two files define {name}"
            source = "\n".join([*lines[first:last], ""])
            uses = used_names(source)
            found[name] = Definition(source, uses, uses & imported)
    return found


def _standard_modules(tree: ast.Module) -> frozenset[str]:
    """Return the imports of a file, except PyTorch and Triton, which every module imports."""
    imports = [node for node in tree.body if isinstance(node, ast.Import)]
    names = {alias.name for node in imports for alias in node.names if alias.asname is None}
    return frozenset(names - {"torch", "triton"})


def _places(tree: ast.Module, lines: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the names and lines of definitions, with the text that documents a variable."""
    places: list[tuple[str, int, int]] = []
    for node in tree.body:
        assert node.end_lineno is not None
        name = _defined_name(node)
        if name is not None:
            places.append((name, _first_line(node, lines), node.end_lineno))
        elif places and isinstance(node, ast.Expr):
            places[-1] = (*places[-1][:2], node.end_lineno)
    return places


def _defined_name(node: ast.stmt) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return None


def _first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """Return the index of the first line of a definition, including its decorators and comments."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    first = min(each.lineno for each in (node, *decorators)) - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return first


def with_uses(definitions: Mapping[str, Definition], names: Iterable[str]) -> list[Definition]:
    """Return the definitions of `names` and their dependences, in the order of the files."""
    found: set[str] = set()
    pending = set(names)
    while pending:
        found |= pending
        used = {use for name in pending for use in definitions[name].uses}
        pending = (used & definitions.keys()) - found
    return [definition for name, definition in definitions.items() if name in found]


def used_by(text: str, definitions: Mapping[str, Definition]) -> list[Definition]:
    """Return the definitions that a text uses, and their dependences."""
    return with_uses(definitions, used_names(text) & definitions.keys())


def render(definitions: Iterable[Definition]) -> str:
    """Return the text of definitions, separated by two empty lines."""
    return "\n\n".join(definition.source for definition in definitions)
