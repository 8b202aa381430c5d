"""Which kernels have the same code: the layers of a model differ in names alone."""

from __future__ import annotations

import ast


def code_of(source: str) -> str:
    """The code of a kernel in a normal form: equal for kernels that do the same on equal calls.

    What its functions bind (themselves, their parameters and variables) is renamed in the order in
    which it appears; docstrings, comments and layout do not count. Other names stay: they are
    functions of the module.
    """
    module = ast.parse(source)
    for function in module.body:
        assert isinstance(function, ast.FunctionDef), "a kernel consists of functions"
        if ast.get_docstring(function) is not None:
            del function.body[0]
    _Renamed(module).visit(module)
    return ast.dump(module)


class _Renamed(ast.NodeTransformer):
    """Gives numbers to the names that functions bind."""

    def __init__(self, module: ast.Module):
        bound: list[str] = []
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef):
                bound.append(node.name)
            elif isinstance(node, ast.arg):
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
