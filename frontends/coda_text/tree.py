"""Builds the syntax tree while the parser reduces; one method per rule of coda.lark."""

from __future__ import annotations

from typing import TypeVar

from lark import Token, Transformer

from coda_ir.frontends.coda_text.syntax import (
    Argument,
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Definition,
    Dots,
    Epilogue,
    Expression,
    ExpressionStatement,
    File,
    Function,
    Identifier,
    Import,
    Index,
    ListExpression,
    Literal,
    Name,
    Negation,
    Option,
    Parameter,
    Port,
    PortKind,
    Range,
    Return,
    Span,
    Statement,
    Subscript,
    SubscriptItem,
    TupleExpression,
    TypeExpression,
)

_Part = TypeVar("_Part")


def span_of(token: Token) -> Span:
    line, column = token.line or 1, token.column or 1
    return Span(line, column, token.end_line or line, token.end_column or column)


def _identifier(token: Token) -> Identifier:
    return Identifier(str(token), span_of(token))


def _optional(token: Token | None) -> Identifier | None:
    return None if token is None else _identifier(token)


class TreeBuilder(Transformer[Token, File]):
    """Callbacks of the grammar's rules, which take the parts of the rule as arguments."""

    def listed(self, *parts: _Part) -> tuple[_Part, ...]:
        """The parts of a rule that is a list."""
        return parts

    parameters = ports = results = expressions = subscripts = arguments = listed

    def start(self, *definitions: Definition) -> File:
        return File(definitions)

    def import_(self, keyword: Token, path: Token) -> Import:
        return Import(self.string(path), span_of(keyword).to(span_of(path)))

    def const(self, keyword: Token, name: Token, value: Expression) -> Const:
        return Const(_identifier(name), value, span_of(keyword).to(value.span))

    def function(
        self,
        _keyword: Token,
        name: Token,
        parameters: tuple[Parameter | Option, ...] | None,
        results: tuple[TypeExpression, ...] | None,
        body: Body,
    ) -> Function:
        tensors = tuple(part for part in parameters or () if isinstance(part, Parameter))
        options = tuple(part for part in parameters or () if isinstance(part, Option))
        return Function(_identifier(name), tensors, options, results, body)

    def epilogue(
        self,
        _keyword: Token,
        name: Token,
        ports: tuple[Port, ...] | None,
        results: tuple[Port, ...] | None,
        body: Body,
    ) -> Epilogue:
        return Epilogue(_identifier(name), ports or (), results or (), body)

    def option(self, name: Token, default: Expression) -> Option:
        return Option(_identifier(name), default)

    def parameter(self, qualifier: Token | None, name: Token, type: TypeExpression) -> Parameter:
        return Parameter(_optional(qualifier), _identifier(name), type)

    def type(
        self, element: Token, dims: tuple[Expression, ...] | None, close: Token
    ) -> TypeExpression:
        return TypeExpression(_identifier(element), dims or (), span_of(element).to(span_of(close)))

    def port(self, name: Token, kind: PortKind | None) -> Port:
        return Port(_identifier(name), kind)

    def port_kind(self, name: Token, argument: Token | None, close: Token | None) -> PortKind:
        span = span_of(name) if close is None else span_of(name).to(span_of(close))
        return PortKind(_identifier(name), _optional(argument), span)

    def body(self, *parts: Statement | Token) -> Body:
        statements = tuple(part for part in parts if not isinstance(part, Token))
        close = parts[-1]
        assert isinstance(close, Token)
        return Body(statements, span_of(close))

    def assign(self, *parts: Token | Expression) -> Assign:
        targets = tuple(_identifier(part) for part in parts if isinstance(part, Token))
        value = parts[-1]
        assert not isinstance(value, Token)
        return Assign(targets, value, targets[0].span.to(value.span))

    def return_(self, keyword: Token, value: Expression) -> Return:
        return Return(value, span_of(keyword).to(value.span))

    def expression_statement(self, value: Expression) -> ExpressionStatement:
        return ExpressionStatement(value, value.span)

    def values(self, *items: Expression) -> Expression:
        """One value, or several as a tuple."""
        if len(items) == 1:
            return items[0]
        return TupleExpression(items, items[0].span.to(items[-1].span))

    def binary(self, left: Expression, operator: Token, right: Expression) -> Binary:
        return Binary(str(operator), left, right, span_of(operator), left.span.to(right.span))

    def negation(self, minus: Token, operand: Expression) -> Negation:
        return Negation(operand, span_of(minus).to(operand.span))

    def subscript(
        self, operand: Expression, open: Token, items: tuple[SubscriptItem, ...], close: Token
    ) -> Subscript:
        end = span_of(close)
        return Subscript(operand, items, span_of(open).to(end), operand.span.to(end))

    def index(self, value: Expression) -> Index:
        return Index(value)

    def range(
        self,
        start: Expression | None,
        colon: Token,
        stop: Expression | None,
        second: Token | None,
        step: Expression | None,
    ) -> Range:
        first = span_of(colon) if start is None else start.span
        last = next(part for part in (step, second, stop, colon) if part is not None)
        end = span_of(last) if isinstance(last, Token) else last.span
        return Range(start, stop, step, first.to(end))

    def ellipsis(self, token: Token) -> Dots:
        return Dots(span_of(token))

    def name(self, token: Token) -> Name:
        return Name(str(token), span_of(token))

    def integer(self, token: Token) -> Literal:
        return Literal(int(token), span_of(token))

    def float(self, token: Token) -> Literal:
        return Literal(float(token), span_of(token))

    def string(self, token: Token) -> Literal:
        return Literal(token[1:-1], span_of(token))

    def call(self, callee: Token, arguments: tuple[Argument, ...] | None, close: Token) -> Call:
        return Call(_identifier(callee), arguments or (), span_of(callee).to(span_of(close)))

    def argument(self, keyword: Token | None, value: Expression) -> Argument:
        return Argument(_optional(keyword), value)

    def tuple(
        self, open: Token, first: Expression, rest: tuple[Expression, ...] | None, close: Token
    ) -> TupleExpression:
        return TupleExpression((first, *(rest or ())), span_of(open).to(span_of(close)))

    def list(
        self, open: Token, items: tuple[Expression, ...] | None, close: Token
    ) -> ListExpression:
        return ListExpression(items or (), span_of(open).to(span_of(close)))
