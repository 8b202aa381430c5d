"""Detection of kernels with the same code: the layers of a model differ only in names."""

import ast
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import cast

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
    code = _Code()
    for function in ast.parse(source).body:
        assert isinstance(function, ast.FunctionDef), "a kernel consists of functions"
        if ast.get_docstring(function) is not None:
            del function.body[0]
        code.add(function)
    return code.text()


@dataclass
class _Code:
    """The nodes of syntax trees in order, and the attributes in which they may differ."""

    words: list[str] = field(default_factory=list[str])
    names: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The positions among `words` of what may be a name that a function binds."""
    bound: dict[str, str] = field(default_factory=dict[str, str])
    """The names that bound names get."""

    def text(self) -> str:
        for position, name in self.names:
            self.words[position] = self.bound.get(name, self.words[position])
        return "\n".join(self.words)

    def add(self, node: ast.AST) -> None:
        self.words.append(type(node).__name__)
        match node:
            case ast.Name(name, context):
                # Where a name is says whether it is read or bound.
                self._add_name(name, is_bound=isinstance(context, ast.Store))
            case ast.Constant(str(name)):
                self._add_name(name, is_bound=False)
            case _:
                is_binding = isinstance(node, ast.FunctionDef | ast.arg)
                for part, value in ast.iter_fields(node):
                    if is_binding and part in ("name", "arg"):
                        self._add_name(value, is_bound=True)
                    elif part != "ctx":
                        self._add_value(value)

    def _add_name(self, name: str, *, is_bound: bool) -> None:
        if is_bound:
            self.bound.setdefault(name, f"_{len(self.bound)}")
        self.names.append((len(self.words), name))
        self.words.append(repr(name))

    def _add_value(self, value: object) -> None:
        if isinstance(value, ast.AST):
            self.add(value)
        elif isinstance(value, list):
            self.words.append("[")
            for each in cast("list[object]", value):
                self._add_value(each)
            self.words.append("]")
        else:
            self.words.append(repr(value))


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
