"""Detection of kernels with the same code: the layers of a model differ only in names."""

import ast
from collections.abc import Hashable

from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda import ConstantOp, extent_in, positions_in
from coda_ir.dialects.gemm import FusedOp, MapOp
from coda_ir.dialects.gemm.tiling import known_tiles


def code_of(source: str) -> str:
    """Return the code of a kernel in a normal form: equal for kernels that do the same on equal
    calls.

    What its functions bind (themselves, their parameters and variables) is renamed in the order in
    which it appears; docstrings, comments and layout do not count. Other names stay: they are
    functions of the module.
    """
    tree = ast.parse(source)
    for function in tree.body:
        assert isinstance(function, ast.FunctionDef), "a kernel consists of functions"
        if ast.get_docstring(function) is not None:
            del function.body[0]
    nodes = list(ast.walk(tree))
    bound = dict.fromkeys(name for node in nodes for name in _bound(node))
    names = {name: f"_{number}" for number, name in enumerate(bound)}
    for node in nodes:
        match node:
            case ast.FunctionDef(name):
                node.name = names[name]
            case ast.arg(name):
                node.arg = names[name]
            case ast.Name(name):
                node.id = names.get(name, name)
            case ast.Constant(str(name)):
                # Options name parameters.
                node.value = names.get(name, name)
            case _:
                pass
    return ast.unparse(tree)


def _bound(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name) | ast.arg(name) | ast.Name(name, ast.Store()):
            return [name]
        case _:
            return []


# Operators with equal kernels: those of a model's layers are emitted once


PLACES = "coda.buffers"
"""The attribute with the names of the buffers of results, which only the host program reads."""


def key_of(op: Operation) -> Hashable:
    """Return a key that is equal for operators whose kernels differ only in names, given the
    operand layouts that are part of their code.
    """
    numbers: dict[SSAValue, int] = {}
    key: list[Hashable] = [_origin(operand) for operand in op.operands]
    pending = [op]
    while pending:
        current = pending.pop()
        key += [current.name, *_sorted(current.properties), *_sorted(current.attributes)]
        key += [(value.type, _number(value, numbers)) for value in current.operands]
        arguments = [a for region in current.regions for block in region.blocks for a in block.args]
        # A value with a name is computed in a separate statement.
        key += [
            (value.type, _number(value, numbers), value.name_hint is None)
            for value in (*current.results, *arguments)
        ]
        inner = [i for region in current.regions for block in region.blocks for i in block.ops]
        pending += reversed(inner)
        key.append(len(inner))
    return tuple(key)


def _origin(operand: SSAValue) -> Hashable:
    """Return the facts about an operand in a kernel's code: its value, or number of partials."""
    if isinstance(operand.owner, ConstantOp) or positions_in(operand) is not None:
        return operand
    if extent_in(operand) is not None:
        return "extent"
    return known_tiles(operand) if isinstance(operand.owner, FusedOp | MapOp) else None


def _sorted(attributes: dict[str, Attribute]) -> list[tuple[str, Attribute]]:
    kept = [item for item in attributes.items() if item[0] != PLACES]
    return sorted(kept, key=lambda item: item[0])


def _number(value: SSAValue, numbers: dict[SSAValue, int]) -> int:
    return numbers.setdefault(value, len(numbers))
