"""The import graph of the package by AST, and the table of CONTRIBUTING.md that limits it.

The imports of functions count; those below `if TYPE_CHECKING` do not. A folder of the table ends in
a slash; a module of `coda_ir/` does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("coda_ir", "dialects", "passes", "frontends", "backends")

Graph = Mapping[str, frozenset[str]]
"""For each module those that it imports. A module is a path, such as `passes/schedule`."""


def module_files(root: Path) -> dict[str, Path]:
    """The modules of a checkout, whose names leave `coda_ir/` out; a package is its folder."""
    files: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            if not any((root / parent).is_symlink() for parent in relative.parents):
                name = relative.with_suffix("").as_posix().removesuffix("/__init__")
                files[name.removeprefix("coda_ir/")] = path
    return files


def import_graph(root: Path) -> Graph:
    """The modules of a checkout, and what each imports of them."""
    files = module_files(root)
    return {
        name: frozenset(_known(imported_names(path.read_text()), files)) - {name}
        for name, path in files.items()
    }


def _known(names: Iterator[str], files: Mapping[str, Path]) -> Iterator[str]:
    """The modules that are meant: `a.b` is the module `a/b`, or the name `b` of the module `a`."""
    for name in names:
        path = name.replace(".", "/").removeprefix("coda_ir/")
        parent = path.rpartition("/")[0] or "coda_ir"
        if path in files:
            yield path
        elif name.startswith("coda_ir.") and parent in files:
            yield parent


def imported_names(source: str) -> Iterator[str]:
    """The absolute names that a module imports: `a.b` of `import a.b` and of `from a import b`."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.expr):  # which holds no statement
            pending += ast.iter_child_nodes(node)


def circle_of(graph: Graph) -> list[str]:
    """The modules of one circle in order; [] where there is none."""
    finished: set[str] = set()
    for start in graph:
        path, branches = [start], [iter(sorted(graph[start]))]
        while path:
            found = next((each for each in branches[-1] if each not in finished), None)
            if found is None:
                finished.add(path.pop())
                branches.pop()
            elif found in path:
                return path[path.index(found) :]
            else:
                path.append(found)
                branches.append(iter(sorted(graph.get(found, ()))))
    return []


@dataclass(frozen=True)
class Layers:
    """The table: the layer of each folder or module, and the layers that a layer may import."""

    layer_of: Mapping[str, str]
    allowed: Mapping[str, frozenset[str]]

    @staticmethod
    def parse(text: str) -> Layers:
        """Read the table with the heading `layer`. Raises ValueError where it is missing."""
        rows = re.search(r"^\| layer \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
        if rows is None:
            raise ValueError("there is no table of layers")
        layer_of: dict[str, str] = {}
        allowed: dict[str, frozenset[str]] = {}
        for row in rows[1].splitlines():
            layer, names, others = (cell.strip() for cell in row.strip("|").split("|"))
            above, listed = frozenset(allowed), frozenset(re.findall(r"[a-z]+", others))
            layer_of |= dict.fromkeys(re.findall(r"`(.*?)`", names), layer)
            allowed[layer] = above if others == "all above" else listed
        return Layers(layer_of, allowed)

    def entry(self, module: str) -> str | None:
        """The longest entry of the table that a module belongs to: itself, or a folder."""
        path = f"{module}/"
        folders = [n for n in self.layer_of if n.endswith("/") and path.startswith(n)]
        return module if module in self.layer_of else max(folders, key=len, default=None)

    def faults(self, graph: Graph) -> list[str]:
        """Modules without a row, entries without a module, and imports that no row allows."""
        entries = {module: self.entry(module) for module in graph}
        found = [f"{module} has no row" for module, entry in entries.items() if entry is None]
        unused = self.layer_of.keys() - entries.values()
        found += [f"{name} of the table does not exist" for name in unused]
        layers = {m: self.layer_of[entry] for m, entry in entries.items() if entry is not None}
        for module, other in ((m, each) for m in layers for each in graph[m] if each in layers):
            layer, imported = layers[module], layers[other]
            if layer != imported and imported not in self.allowed[layer]:
                found.append(f"{module} ({layer}) imports {other} ({imported})")
        return sorted(found)

    def folders(self, graph: Graph) -> Graph:
        """The graph between the entries of the table."""
        folded: dict[str, set[str]] = {}
        for module, imports in graph.items():
            folder = self.entry(module) or module
            folded.setdefault(folder, set()).update(self.entry(each) or each for each in imports)
        return {folder: frozenset(found - {folder}) for folder, found in folded.items()}
