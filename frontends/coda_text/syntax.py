"""The syntax tree of a .coda file. Positions do not take part in comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias


class Span(NamedTuple):
    """From a line and column to an end (exclusive); all count from 1."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, end: Span) -> Span:
        return Span(self.line, self.column, end.end_line, end.end_column)


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name where it is defined or used, other than as an expression."""

    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a string."""

    value: int | float | str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    operand: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is one of + - * / // @, with its own span."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = field(compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Argument:
    keyword: Identifier | None
    value: Expression

    @property
    def span(self) -> Span:
        return self.value.span if self.keyword is None else self.keyword.span.to(self.value.span)


@dataclass(frozen=True, slots=True)
class Call:
    callee: Identifier
    arguments: tuple[Argument, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class TupleExpression:
    """`(a, b)`, or the values `a, b` of an assignment or a return."""

    items: tuple[Expression, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListExpression:
    """`[a, b]`: the sizes of a shape, a permutation."""

    items: tuple[Expression, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Range:
    """`start:stop:step` in a subscript, any of which may be missing."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None
    span: Span = field(compare=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        return tuple(part for part in (self.start, self.stop, self.step) if part is not None)


@dataclass(frozen=True, slots=True)
class Index:
    """One position in a subscript, which drops the dimension."""

    value: Expression

    @property
    def span(self) -> Span:
        return self.value.span


@dataclass(frozen=True, slots=True)
class Dots:
    """`...` in a subscript: the dimensions that no other item is about."""

    span: Span = field(compare=False)


SubscriptItem: TypeAlias = Range | Index | Dots


@dataclass(frozen=True, slots=True)
class Subscript:
    """`x[..., 0:64]`; `bracket` is the span of what is in brackets."""

    operand: Expression
    items: tuple[SubscriptItem, ...]
    bracket: Span = field(compare=False)
    span: Span = field(compare=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions in the brackets."""
        parts: list[Expression] = []
        for item in self.items:
            match item:
                case Range():
                    parts += item.parts
                case Index():
                    parts.append(item.value)
                case Dots():
                    pass
        return tuple(parts)


Expression: TypeAlias = (
    Literal | Name | Negation | Binary | Call | TupleExpression | ListExpression | Subscript
)


@dataclass(frozen=True, slots=True)
class Assign:
    targets: tuple[Identifier, ...]
    value: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ExpressionStatement:
    value: Expression
    span: Span = field(compare=False)


Statement: TypeAlias = Assign | Return | ExpressionStatement


@dataclass(frozen=True, slots=True)
class TypeExpression:
    """`bf16[M, 4096]`."""

    element: Identifier
    dims: tuple[Expression, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`x: type` or `weight w: type`; the word in front of the name is the qualifier."""

    qualifier: Identifier | None
    name: Identifier
    type: TypeExpression


@dataclass(frozen=True, slots=True)
class Option:
    """`eps=1e-5`: a parameter that is a number, a boolean or a string, with its default."""

    name: Identifier
    default: Expression


@dataclass(frozen=True, slots=True)
class PortKind:
    """`tile`, `partial_row<max>`, `select<target>`, `tile<f32>`."""

    name: Identifier
    argument: Identifier | None
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return self.name.text + (f"<{self.argument.text}>" if self.argument is not None else "")


@dataclass(frozen=True, slots=True)
class Port:
    """An operand or result of an epilogue; an accumulator has no kind."""

    name: Identifier
    kind: PortKind | None

    def __str__(self) -> str:
        return self.name.text + (f": {self.kind}" if self.kind is not None else "")


@dataclass(frozen=True, slots=True)
class Body:
    statements: tuple[Statement, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Import:
    path: Literal
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Const:
    name: Identifier
    value: Expression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """`results` is None where the result types are not declared."""

    name: Identifier
    parameters: tuple[Parameter, ...]
    options: tuple[Option, ...]
    results: tuple[TypeExpression, ...] | None
    body: Body


@dataclass(frozen=True, slots=True)
class Epilogue:
    name: Identifier
    ports: tuple[Port, ...]
    results: tuple[Port, ...]
    body: Body


Definition: TypeAlias = Import | Const | Function | Epilogue


@dataclass(frozen=True, slots=True)
class File:
    definitions: tuple[Definition, ...]


def calls(expression: Expression) -> Iterator[Call]:
    """The calls in `expression`, from left to right."""
    return (node for node in walk(expression) if isinstance(node, Call))


def names(expression: Expression) -> Iterator[Name]:
    """The names in `expression`, from left to right."""
    return (node for node in walk(expression) if isinstance(node, Name))


def walk(expression: Expression) -> Iterator[Expression]:
    """`expression` and all expressions in it, outer ones first, from left to right."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(_children(node)))


def _children(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Negation():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Call():
            return tuple(argument.value for argument in node.arguments)
        case TupleExpression() | ListExpression():
            return node.items
        case Subscript():
            return (node.operand, *node.parts)
        case _:
            return ()
