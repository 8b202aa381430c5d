"""Which kernels have the same code: the layers of a model differ in names alone."""

from __future__ import annotations

import ast


def code_of(source: str) -> str:
    """The code of a function in a normal form: equal for functions that do the same on equal calls.

    What a function binds (itself, its parameters and variables) is renamed in the order in which
    it appears; the docstring, comments and layout do not count. Other names stay: they are
    functions of the module.
    """
    module = ast.parse(source)
    (function,) = module.body
    assert isinstance(function, ast.FunctionDef), "a kernel is one function"
    if ast.get_docstring(function) is not None:
        del function.body[0]
    _Renamed(function).visit(module)
    return ast.dump(module)


class _Renamed(ast.NodeTransformer):
    """Gives numbers to the names that a function binds."""

    def __init__(self, function: ast.FunctionDef):
        bound = [function.name]
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                bound.append(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.append(node.id)
        self._names = {name: f"_{number}" for number, name in enumerate(dict.fromkeys(bound))}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names[node.name]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._names[node.arg]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            node.value = self._names.get(node.value, node.value)
        return node
