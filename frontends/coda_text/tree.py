"""Builds the syntax tree while the parser reduces; one method per rule of coda.lark."""

from __future__ import annotations

from typing import TypeVar

from lark import Token, Transformer

from coda_ir.frontends.coda_text import syntax

_Part = TypeVar("_Part")


def span_of(token: Token) -> syntax.Span:
    line, column = token.line or 1, token.column or 1
    return syntax.Span(line, column, token.end_line or line, token.end_column or column)


def _identifier(token: Token) -> syntax.Identifier:
    return syntax.Identifier(str(token), span_of(token))


def _optional(token: Token | None) -> syntax.Identifier | None:
    return None if token is None else _identifier(token)


class TreeBuilder(Transformer[Token, syntax.File]):
    """Callbacks of the grammar's rules, which take the parts of the rule as arguments."""

    def listed(self, *parts: _Part) -> tuple[_Part, ...]:
        """The parts of a rule that is a list."""
        return parts

    parameters = ports = results = expressions = subscripts = arguments = listed

    def start(self, *definitions: syntax.Definition) -> syntax.File:
        return syntax.File(definitions)

    def import_(self, keyword: Token, path: Token) -> syntax.Import:
        return syntax.Import(self.string(path), span_of(keyword).to(span_of(path)))

    def const(self, keyword: Token, name: Token, value: syntax.Expression) -> syntax.Const:
        return syntax.Const(_identifier(name), value, span_of(keyword).to(value.span))

    def function(
        self,
        _keyword: Token,
        name: Token,
        parameters: tuple[syntax.Parameter | syntax.Option, ...] | None,
        results: tuple[syntax.TypeExpression, ...] | None,
        body: syntax.Body,
    ) -> syntax.Function:
        tensors = tuple(part for part in parameters or () if isinstance(part, syntax.Parameter))
        options = tuple(part for part in parameters or () if isinstance(part, syntax.Option))
        return syntax.Function(_identifier(name), tensors, options, results, body)

    def epilogue(
        self,
        _keyword: Token,
        name: Token,
        ports: tuple[syntax.Port, ...] | None,
        results: tuple[syntax.Port, ...] | None,
        body: syntax.Body,
    ) -> syntax.Epilogue:
        return syntax.Epilogue(_identifier(name), ports or (), results or (), body)

    def option(self, name: Token, default: syntax.Expression) -> syntax.Option:
        return syntax.Option(_identifier(name), default)

    def parameter(
        self, qualifier: Token | None, name: Token, type: syntax.TypeExpression
    ) -> syntax.Parameter:
        return syntax.Parameter(_optional(qualifier), _identifier(name), type)

    def type(
        self, element: Token, dims: tuple[syntax.Expression, ...] | None, close: Token
    ) -> syntax.TypeExpression:
        return syntax.TypeExpression(
            _identifier(element), dims or (), span_of(element).to(span_of(close))
        )

    def port(self, name: Token, kind: syntax.PortKind | None) -> syntax.Port:
        return syntax.Port(_identifier(name), kind)

    def port_kind(
        self, name: Token, argument: Token | None, close: Token | None
    ) -> syntax.PortKind:
        span = span_of(name) if close is None else span_of(name).to(span_of(close))
        return syntax.PortKind(_identifier(name), _optional(argument), span)

    def body(self, *parts: syntax.Statement | Token) -> syntax.Body:
        statements = tuple(part for part in parts if not isinstance(part, Token))
        close = parts[-1]
        assert isinstance(close, Token)
        return syntax.Body(statements, span_of(close))

    def assign(self, *parts: Token | syntax.Expression) -> syntax.Assign:
        targets = tuple(_identifier(part) for part in parts if isinstance(part, Token))
        value = parts[-1]
        assert not isinstance(value, Token)
        return syntax.Assign(targets, value, targets[0].span.to(value.span))

    def return_(self, keyword: Token, value: syntax.Expression) -> syntax.Return:
        return syntax.Return(value, span_of(keyword).to(value.span))

    def expression_statement(self, value: syntax.Expression) -> syntax.ExpressionStatement:
        return syntax.ExpressionStatement(value, value.span)

    def values(self, *items: syntax.Expression) -> syntax.Expression:
        """One value, or several as a tuple."""
        if len(items) == 1:
            return items[0]
        return syntax.TupleExpression(items, items[0].span.to(items[-1].span))

    def binary(
        self, left: syntax.Expression, operator: Token, right: syntax.Expression
    ) -> syntax.Binary:
        return syntax.Binary(
            str(operator), left, right, span_of(operator), left.span.to(right.span)
        )

    def negation(self, minus: Token, operand: syntax.Expression) -> syntax.Negation:
        return syntax.Negation(operand, span_of(minus).to(operand.span))

    def subscript(
        self,
        operand: syntax.Expression,
        open: Token,
        items: tuple[syntax.SubscriptItem, ...],
        close: Token,
    ) -> syntax.Subscript:
        end = span_of(close)
        return syntax.Subscript(operand, items, span_of(open).to(end), operand.span.to(end))

    def index(self, value: syntax.Expression) -> syntax.Index:
        return syntax.Index(value)

    def range(
        self,
        start: syntax.Expression | None,
        colon: Token,
        stop: syntax.Expression | None,
        second: Token | None,
        step: syntax.Expression | None,
    ) -> syntax.Range:
        first = span_of(colon) if start is None else start.span
        last = next(part for part in (step, second, stop, colon) if part is not None)
        end = span_of(last) if isinstance(last, Token) else last.span
        return syntax.Range(start, stop, step, first.to(end))

    def ellipsis(self, token: Token) -> syntax.Dots:
        return syntax.Dots(span_of(token))

    def name(self, token: Token) -> syntax.Name:
        return syntax.Name(str(token), span_of(token))

    def integer(self, token: Token) -> syntax.Literal:
        return syntax.Literal(int(token), span_of(token))

    def float(self, token: Token) -> syntax.Literal:
        return syntax.Literal(float(token), span_of(token))

    def string(self, token: Token) -> syntax.Literal:
        return syntax.Literal(token[1:-1], span_of(token))

    def call(
        self, callee: Token, arguments: tuple[syntax.Argument, ...] | None, close: Token
    ) -> syntax.Call:
        return syntax.Call(_identifier(callee), arguments or (), span_of(callee).to(span_of(close)))

    def argument(self, keyword: Token | None, value: syntax.Expression) -> syntax.Argument:
        return syntax.Argument(_optional(keyword), value)

    def tuple(
        self,
        open: Token,
        first: syntax.Expression,
        rest: tuple[syntax.Expression, ...] | None,
        close: Token,
    ) -> syntax.TupleExpression:
        return syntax.TupleExpression((first, *(rest or ())), span_of(open).to(span_of(close)))

    def list(
        self, open: Token, items: tuple[syntax.Expression, ...] | None, close: Token
    ) -> syntax.ListExpression:
        return syntax.ListExpression(items or (), span_of(open).to(span_of(close)))
