"""The arguments of a call of PyTorch, as text: `{0}, [B, T, -1, 16], dtype=torch.float32`.

`{0}` is the first tensor operand and `size({0}, 1)` the extent of its dimension 1; `B` and `T` are
symbolic dimensions; `device` is the device that the program runs on. Everything else is a literal.
A text with anything else is refused, not executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEVICE = "device"
"""The name of the device of the program."""

TORCH = "torch"
"""The module of PyTorch, for its constants."""

CONSTANTS: dict[str, float] = {"inf": float("inf"), "nan": float("nan")}

NOT_SYMBOLS = frozenset({DEVICE, *CONSTANTS})
"""Names that are something else than a symbolic dimension wherever a value can be."""

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)

_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)

SIZE = "size"

_FUNCTIONS: dict[str, Callable[..., int]] = {"max": max, "min": min, "int": int}

WORDS = frozenset({*NOT_SYMBOLS, *_FUNCTIONS, SIZE, TORCH})
"""All names that arguments have for something else."""


@dataclass(frozen=True)
class ArgumentTemplate:
    """The arguments of a call: positional and by name."""

    text: str
    call: ast.Call

    @staticmethod
    def parse(text: str) -> ArgumentTemplate:
        """Parse `text`. Raises ValueError with an explanation."""
        try:
            tree = ast.parse(f"f({text})", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = error.msg if isinstance(error, SyntaxError) else error
            raise ValueError(f"arguments '{text}' are not a list of literals: {why}") from error
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError(f"arguments '{text}' are not a list of literals")
        if any(keyword.arg is None for keyword in tree.keywords):
            raise ValueError(f"arguments '{text}' are not a list of literals")
        template = ArgumentTemplate(text, tree)
        for node in template._values():
            _check(node)
        return template

    def _values(self) -> list[ast.expr]:
        return [*self.call.args, *(keyword.value for keyword in self.call.keywords)]

    @property
    def operands(self) -> list[int]:
        """The numbers of the operands, in the order in which they occur."""
        nodes = [node for value in self._values() for node in ast.walk(value)]
        return [_operand_number(node) for node in nodes if isinstance(node, ast.Set)]

    @property
    def valued_operands(self) -> frozenset[int]:
        """The numbers of the operands that are used for more than their sizes."""
        numbers = set[int]()
        pending: list[ast.expr] = self._values()
        while pending:
            node = pending.pop()
            match node:
                case ast.Set():
                    numbers.add(_operand_number(node))
                case ast.Call(func=ast.Name(id="size")):
                    pass
                case _:
                    children = ast.iter_child_nodes(node)
                    pending += [child for child in children if isinstance(child, ast.expr)]
        return frozenset(numbers)

    @property
    def is_literal(self) -> bool:
        """True if the template contains only operands and literals, which no call changes."""
        nodes = [node for value in self._values() for node in ast.walk(value)]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return names <= CONSTANTS.keys() and not any(isinstance(n, ast.Attribute) for n in nodes)

    @property
    def symbols(self) -> frozenset[str]:
        """The symbolic dimensions that the arguments use."""
        names = set[str]()
        for value in self._values():
            names |= _symbols(value)
        return frozenset(names)

    def evaluate(
        self, operands: Sequence[Any], symbols: Mapping[str, int], namespace: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional arguments and those by name.

        `namespace` has `torch` and `device`. Raises KeyError with the name of an unknown symbol.
        """
        names = [f"operands[{number}]" for number in range(len(operands))]
        text = self.render(names, {name: f"symbols[{name!r}]" for name in self.symbols})
        builtins = {**_FUNCTIONS, "float": float, "given": _given}
        scope = {"__builtins__": builtins, "operands": operands, "symbols": symbols}
        return eval(f"given({text})", {**scope, **namespace})

    def value(self, symbols: Mapping[str, int]) -> Any:
        """Return the only argument, which uses no operand: a size or a condition on sizes."""
        return self.evaluate((), symbols, {})[0][0]

    def render(self, operands: Sequence[str], symbols: Mapping[str, str]) -> str:
        """Return Python source of the arguments, with variables for operands and symbols."""
        renderer = _Renderer(operands, symbols)
        parts = [ast.unparse(renderer.visit(_copy(node))) for node in self.call.args]
        for keyword in self.call.keywords:
            parts.append(f"{keyword.arg}={ast.unparse(renderer.visit(_copy(keyword.value)))}")
        return ", ".join(parts)


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _operand_number(node: ast.Set) -> int:
    (element,) = node.elts
    assert isinstance(element, ast.Constant) and isinstance(element.value, int)
    return element.value


def _symbols(node: ast.expr) -> set[str]:
    match node:
        case ast.Name():
            return {node.id} - NOT_SYMBOLS
        case ast.Attribute():
            return set()
        case ast.Call():
            children: list[ast.AST] = [*node.args]
        case _:
            children = list(ast.iter_child_nodes(node))
    return {name for c in children if isinstance(c, ast.expr) for name in _symbols(c)}


def _check(node: ast.expr) -> None:
    """Raise ValueError unless `node` consists of what a template may contain."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None) | ast.Name():
            return
        case ast.List() | ast.Tuple():
            children = node.elts
        case ast.UnaryOp(op=ast.USub()):
            children = [node.operand]
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=0.5)):
            children = [node.left]
        case ast.BinOp() if isinstance(node.op, _OPERATORS):
            children = [node.left, node.right]
        case ast.Compare(ops=[comparison]) if isinstance(comparison, _COMPARISONS):
            children = [node.left, *node.comparators]
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS and not node.keywords:
            children = node.args
        case ast.Attribute(value=ast.Name(id=name)) if name == TORCH:
            return
        case ast.Call(func=ast.Name(id="size"), args=[ast.Set() as operand, axis], keywords=[]):
            children = [operand, axis]
        case ast.Set(elts=[ast.Constant(value=int())]):
            return
        case _:
            raise ValueError(
                f"argument '{ast.unparse(node)}' is not a literal, an operand such as {{0}}, a "
                "symbol or a torch constant"
            )
    for child in children:
        _check(child)


def _given(*arguments: Any, **named: Any) -> tuple[list[Any], dict[str, Any]]:
    return list(arguments), named


class _Renderer(ast.NodeTransformer):
    def __init__(self, operands: Sequence[str], symbols: Mapping[str, str]):
        self._operands = operands
        self._symbols = symbols

    def visit_Set(self, node: ast.Set) -> ast.expr:
        return ast.Name(self._operands[_operand_number(node)])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == SIZE:
            operand, axis = map(self.visit, node.args)
            return ast.Subscript(ast.Attribute(operand, "shape"), axis)
        arguments = [self.visit(argument) for argument in node.args]
        return ast.Call(node.func, arguments, [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in CONSTANTS:
            return ast.parse(f"float({node.id!r})", mode="eval").body
        return ast.Name(self._symbols.get(node.id, node.id))
