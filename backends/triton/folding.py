"""Constant folding in Python's syntax trees: the values of expressions, and the remaining nodes.

fold(ast.parse("x is None or y", mode="eval").body, {"x": None})    # True
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

UNKNOWN = object()
"""The value of an expression that is not constant."""

Constants = Mapping[str, object]

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Gt: operator.gt,
}

_COMPUTED = (ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
"""The expressions that are computed from constants."""


def fold(node: ast.expr, constants: Constants) -> object:
    """Return the value of an expression, or UNKNOWN."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return constants.get(name, UNKNOWN)
        case ast.UnaryOp(ast.Not(), operand):
            value = fold(operand, constants)
            return UNKNOWN if value is UNKNOWN else not value
        case ast.BoolOp():
            operands = open_operands(node, constants)
            return fold(operands[0], constants) if len(operands) == 1 else UNKNOWN
        case ast.Compare(left, [op], [right]) if type(op) in _COMPARISONS:
            a, b = fold(left, constants), fold(right, constants)
            return UNKNOWN if UNKNOWN in (a, b) else _COMPARISONS[type(op)](a, b)
        case ast.IfExp():
            chosen = chosen_value(node, constants)
            return UNKNOWN if chosen is None else fold(chosen, constants)
        case _:
            return UNKNOWN


def open_operands(node: ast.BoolOp, constants: Constants) -> list[ast.expr]:
    """Return the operands that can decide an `and` or an `or`: at least one."""
    decisive = isinstance(node.op, ast.Or)
    operands: list[ast.expr] = []
    for operand in node.values:
        value = fold(operand, constants)
        if value is UNKNOWN or bool(value) == decisive:
            operands.append(operand)
        if value is not UNKNOWN and bool(value) == decisive:
            break
    return operands or node.values[-1:]


def chosen_value(node: ast.IfExp, constants: Constants) -> ast.expr | None:
    """Return the value that an expression always takes; None if both are possible."""
    test = fold(node.test, constants)
    return None if test is UNKNOWN else node.body if test else node.orelse


def chosen_branch(node: ast.stmt, constants: Constants) -> Sequence[ast.stmt] | None:
    """Return the statements that take the place of an `if`; None for all else."""
    test = fold(node.test, constants) if isinstance(node, ast.If) else UNKNOWN
    if not isinstance(node, ast.If) or test is UNKNOWN:
        return None
    return node.body if test else node.orelse


def reachable(body: Sequence[ast.stmt], constants: Constants) -> Iterator[ast.stmt]:
    """Yield the statements of a block up to an `if` that always returns."""
    for statement in body:
        yield statement
        branch = chosen_branch(statement, constants)
        if branch and isinstance(list(reachable(branch, constants))[-1], ast.Return | ast.Raise):
            return


def live(node: ast.AST, constants: Constants) -> list[ast.AST]:
    """Return a node and those below it that are left when all that is constant has its value, each
    before those below it.
    """
    found: list[ast.AST] = []
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt) and (branch := chosen_branch(node, constants)) is not None:
            pending += reversed(list(reachable(branch, constants)))
        elif isinstance(node, ast.IfExp) and (chosen := chosen_value(node, constants)) is not None:
            pending.append(chosen)
        elif is_folded(node, constants):
            continue
        elif isinstance(node, ast.BoolOp):
            pending += reversed(open_operands(node, constants))
        else:
            found.append(node)
            pending += reversed(list(_children(node, constants)))
    return found


def _children(node: ast.AST, constants: Constants) -> Iterator[ast.AST]:
    for _, part in ast.iter_fields(node):
        is_block = isinstance(part, list) and part and isinstance(part[0], ast.stmt)
        parts = part if isinstance(part, list) else [part]
        for child in reachable(part, constants) if is_block else parts:
            if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                yield child


def is_folded(node: ast.AST, constants: Constants) -> bool:
    """Return whether the text of an expression becomes a constant."""
    return isinstance(node, _COMPUTED) and fold(node, constants) is not UNKNOWN
