"""Finds where sources use what PyTorch, Triton and xDSL do not document: names that begin with `_`,
the insides of functions, and attributes of their modules and classes that are replaced.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

PACKAGES = frozenset({"torch", "triton", "xdsl", "functorch"})

INSIDES = frozenset(
    {
        "__code__",
        "__closure__",
        "co_argcount",
        "co_cellvars",
        "co_consts",
        "co_freevars",
        "co_varnames",
    }
)
"""Attributes of functions that say how they are made."""

GETTERS = frozenset({"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"})

TREE_WIDE = frozenset({"_replace", "_asdict", "_fields", "_make"})
"""Documented names of Python's named tuples."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those within a module or a statement, from top to bottom."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, name, ()):
            yield child
            yield from statements(child)


def defined_names(trees: Iterable[ast.Module]) -> set[str]:
    """The private names that classes define themselves: methods, fields and attributes."""
    found: set[str] = set()
    for statement in (each for tree in trees for each in statements(tree)):
        match statement:
            case ast.ClassDef(body=body):
                found.update(name for each in body for name in _members(each))
            case ast.Assign(targets=targets):
                found.update(name for each in targets for name in _set_names(each))
            case ast.AnnAssign(target=target):
                found.update(_set_names(target))
            case _:
                pass
    return {name for name in found if is_private(name)}


def _set_names(target: ast.expr) -> Iterator[str]:
    """The attributes of `self` that a target sets."""
    for node in ast.walk(target):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def _members(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case _:
            return []


@dataclass
class Scanner(ast.NodeVisitor):
    """Collects the accesses of one source. `defined` are private names of the package itself."""

    defined: set[str] = field(default_factory=set[str])
    found: set[str] = field(default_factory=set[str])
    _imported: dict[str, str] = field(default_factory=dict[str, str])
    """The meanings of the names of the source: `fake` is `torch._subclasses.fake_tensor`."""
    _bases: list[bool] = field(default_factory=list[bool])
    """True if the classes around a node inherit from one of the packages."""

    def scan(self, tree: ast.Module) -> set[str]:
        for statement in statements(tree):
            self._learn(statement)
        self.visit(tree)
        return self.found

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    bound = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._imported[alias.asname or bound] = bound
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    self._imported[alias.asname or alias.name] = f"{module}.{alias.name}"
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                path = self._path(value)
                if path is not None:
                    self._imported[name] = path
            case _:
                pass

    def _path(self, node: ast.expr) -> str | None:
        """The path of a module, or of what is in one; None for everything else."""
        match node:
            case ast.Name(id=name):
                return self._imported.get(name)
            case ast.Attribute(value=value, attr=attr):
                path = self._path(value)
                return None if path is None else f"{path}.{attr}"
            case ast.Call(func=function, args=[ast.Constant(value=str(path)), *_]) if (
                _called(function) == "import_module"
            ):
                return path
            case ast.Call(func=ast.Name(id="getattr"), args=[value, name, *_]) if _text(name):
                path = self._path(value)
                return None if path is None else f"{path}.{_text(name)}"
            case _:
                return None

    def _is_foreign(self, node: ast.expr) -> bool:
        return _is_of_packages(self._path(node))

    def _add_path(self, path: str | None) -> None:
        if _is_of_packages(path) and any(map(is_private, str(path).split("."))):
            self.found.add(str(path))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add_path(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._add_path(f"{node.module}.{alias.name}")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bases.append(any(self._is_foreign(base) for base in node.bases))
        if self._bases[-1]:
            assigned = [each for each in node.body if isinstance(each, ast.Assign)]
            self.found.update(n for each in assigned for n in _members(each) if is_private(n))
        self.generic_visit(node)
        self._bases.pop()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._visit_access(node.value, node.attr)
        if isinstance(node.ctx, ast.Store | ast.Del) and self._is_foreign(node.value):
            self.found.add(f"{self._path(node)} =")
        self.generic_visit(node)

    def _visit_access(self, value: ast.expr, name: str) -> None:
        """An attribute of a value, by a name in the source or in a text."""
        if name in INSIDES:
            self.found.add(name)
        path = self._path(value)
        if path is not None:
            self._add_path(f"{path}.{name}")
        elif is_private(name) and self._may_be_foreign(value, name):
            self.found.add(name)

    def _may_be_foreign(self, value: ast.expr, name: str) -> bool:
        match value:
            case ast.Call(func=ast.Name(id="super")):
                return self._bases[-1:] == [True]
            case ast.Name(id="self" | "cls"):
                return self._bases[-1:] == [True] and name not in self.defined
            case _:
                return name not in self.defined | TREE_WIDE

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(args=[ast.Constant(value=str(path)), *_]) if (
                _called(node.func) == "import_module"
            ):
                self._add_path(path)
            case ast.Call(func=function, args=[value, name, *_]) if _called(function) in GETTERS:
                self._visit_access(value, _text(name))
                if _called(function) in ("setattr", "delattr") and self._is_foreign(value):
                    self.found.add(f"{self._path(value)}.{_text(name)} =")
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[name, *_]) if (
                _is_table_of_modules(table) and _is_of_packages(_text(name))
            ):
                self.found.add(f"sys.modules[{_text(name)}]")
            case ast.Call(func=ast.Attribute(value=table, attr="setdefault" | "update" | "pop")):
                self._visit_change(table)
            case _:
                pass
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_table_of_modules(node.value) and _is_of_packages(_text(node.slice)):
            self.found.add(f"sys.modules[{_text(node.slice)}]")
        if isinstance(node.ctx, ast.Store | ast.Del):
            self._visit_change(node.value)
        self.generic_visit(node)

    def _visit_change(self, table: ast.expr) -> None:
        """A change of `vars(module)`."""
        match table:
            case ast.Call(func=ast.Name(id="vars"), args=[owner]) if self._is_foreign(owner):
                self.found.add(f"vars({self._path(owner)}) =")
            case _:
                pass


def _called(function: ast.expr) -> str:
    """The last part of the name of a function."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_of_packages(path: str | None) -> bool:
    return path is not None and path.partition(".")[0] in PACKAGES


def _is_table_of_modules(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
        case _:
            return False


def _text(node: ast.expr) -> str:
    """A text, of which the parts that are computed are `*`; empty for another expression."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return re.sub(r"\*+", "*", "".join(_text(part) or "*" for part in parts))
        case _:
            return ""
