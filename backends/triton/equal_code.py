"""Detection of kernels with the same code: the layers of a model differ only in names."""

import ast
from collections.abc import Hashable, Mapping
from typing import cast

from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.backends.triton.syntax import FIELDS
from coda_ir.dialects.coda import ConstantOp, extent_in, positions_in
from coda_ir.dialects.gemm import FusedOp, MapOp
from coda_ir.dialects.gemm.tiling import known_tiles


def code_of(source: str) -> Hashable:
    """Return the code of a kernel in a normal form: equal for kernels that do the same on equal
    calls.

    What its functions bind (themselves, their parameters and variables) is numbered in the order in
    which it appears; docstrings, comments and layout do not count. Other names stay: they are
    functions of the module.
    """
    tree = ast.parse(source)
    for function in tree.body:
        assert isinstance(function, ast.FunctionDef), "a kernel consists of functions"
        if ast.get_docstring(function) is not None:
            del function.body[0]
    structure: list[Hashable] = []
    words: list[Hashable] = []
    bound: dict[Hashable, int] = {}
    pending: list[object] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            inner = cast(list[object], node)
            structure.append(len(inner))
            pending += inner
        elif isinstance(node, ast.AST):
            kind = node.__class__
            structure.append(kind)
            name = _WORDS.get(kind)
            if name is not None:
                word = getattr(node, name)
                # Options name parameters in strings; equal numbers may differ in type.
                words.append(word if isinstance(word, str) else (word.__class__, repr(word)))
                is_read = isinstance(getattr(node, "ctx", None), ast.Load)
                if not is_read and kind is not ast.Constant:
                    bound.setdefault(word, len(bound))
            pending += [getattr(node, field) for field in FIELDS[kind] if field != name]
        else:
            structure.append(cast(Hashable, node))
    return tuple(structure), tuple([bound.get(word, word) for word in words])


_WORDS: Mapping[type[ast.AST], str] = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.Constant: "value",
}
"""Fields with names that a kernel may bind."""


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
