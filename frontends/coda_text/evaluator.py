"""Evaluation of expressions that compute consts, tensors, or epilogue elements."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

from coda_ir.frontends.coda_text import syntax
from coda_ir.frontends.coda_text.arguments import (
    PARAMETER,
    ArgumentMistake,
    Bound,
    Mistake,
    Signature,
    bind,
)
from coda_ir.frontends.coda_text.elementwise import ARITHMETIC, SIGNS, number_binary, number_unary
from coda_ir.frontends.coda_text.operators import CONSTANT_FUNCTIONS
from coda_ir.frontends.coda_text.remedies import LONGEST_ARGUMENT, Given, product_remedy
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.subscripts import NO_TENSOR, Selection
from coda_ir.frontends.coda_text.values import (
    POISON,
    SIZE_LIMITS,
    Dim,
    ListValue,
    Number,
    Poison,
    TensorValue,
    TupleValue,
    Value,
    describe,
    divided,
    is_manageable,
    is_number,
    is_poisoned,
    simplified,
)
from coda_ir.symbolic_size import SymbolicSize

Values = dict[str, list[Value]]

_NO_SIGN = "only tensors and numbers have a sign"


class Evaluator(ABC):
    """Walks expressions. Errors are reported where they occur and give a poisoned value."""

    def __init__(self, file: str, reporter: Reporter):
        self.file = file
        self.reporter = reporter
        self._visitors: Mapping[type, Callable[..., Value]] = {
            syntax.Literal: self._literal,
            syntax.Name: self.name,
            syntax.Negation: self._negation,
            syntax.Binary: self._binary,
            syntax.Call: self.call,
            syntax.TupleExpression: self._tuple,
            syntax.ListExpression: self._list,
            syntax.Subscript: self._subscript,
        }

    @abstractmethod
    def name(self, node: syntax.Name) -> Value:
        """Return the value of a name."""

    @abstractmethod
    def call(self, node: syntax.Call) -> Value:
        """Return the value of a call."""

    @abstractmethod
    def binary(self, node: syntax.Binary, left: Value, right: Value) -> Value:
        """Evaluate an infix operator on operands that are not both numbers. May raise Mistake."""

    @abstractmethod
    def negation(self, node: syntax.Negation, operand: Value) -> Value:
        """Negate a value that is not a number. May raise Mistake."""

    def subscript(
        self, node: syntax.Subscript, x: TensorValue, selections: Sequence[Selection]
    ) -> Value:
        """Return the selected part of a tensor. May raise ArgumentMistake."""
        raise ArgumentMistake(
            "tensors have no parts here", "write functions for them", node.span, "E0505"
        )

    def evaluate(self, node: syntax.Expression) -> Value:
        return self._visitors[type(node)](node)

    def error(self, span: syntax.Span, message: str, remedy: str, code: str) -> Poison:
        """Report an error; return a poisoned value in place of the result."""
        self.reporter.error(self.file, span, message, remedy, code)
        return POISON

    def report(
        self,
        mistake: Mistake,
        span: syntax.Span,
        otherwise: str,
        arguments: Mapping[str, syntax.Expression],
    ) -> Poison:
        """Report a mistake, with `otherwise` as the remedy if it has none.

        `arguments` has what is written for each parameter.
        """

        def written(parameter: re.Match[str]) -> str:
            given = arguments.get(parameter[1])
            text = parameter[1] if given is None else self._text(given)
            return text if len(text) <= LONGEST_ARGUMENT else "..."

        remedy = PARAMETER.sub(written, mistake.remedy or otherwise)
        return self.error(span, mistake.message, remedy, mistake.code)

    def assigned(
        self, statement: syntax.Assign, value: Value
    ) -> Iterator[tuple[syntax.Identifier, Value]]:
        """Yield the targets of an assignment with `value`, or with the items of a tuple."""
        targets = statement.targets
        items: tuple[Value, ...] = (POISON,) * len(targets)
        if len(targets) == 1:
            items = (value,)
        elif isinstance(value, TupleValue) and len(value.items) == len(targets):
            items = value.items
        elif not isinstance(value, Poison):
            self.error(
                statement.span,
                f"{len(targets)} names are assigned, but the right side is {describe(value)}",
                "write one name per value; _ drops one",
                "E0303",
            )
        return zip(targets, items, strict=True)

    def _literal(self, node: syntax.Literal) -> Value:
        if node.value == math.inf:
            return self.error(node.span, "the number is too large", "floats have 64 bits", "E0101")
        return node.value

    def _tuple(self, node: syntax.TupleExpression) -> Value:
        values = tuple(self.evaluate(item) for item in node.items)
        for item, value in zip(node.items, values, strict=True):
            # Tuples that hold others twice would have parts that are exponential in their number.
            if isinstance(value, TupleValue):
                return self.error(
                    item.span,
                    f"a tuple has {describe(value)} inside",
                    "tuples do not nest: unpack it first, a, b = ...",
                    "E0206",
                )
        return TupleValue(values)

    def _list(self, node: syntax.ListExpression) -> Value:
        items: list[Dim] = []
        for item in node.items:
            size = self.size(
                item, "a list holds sizes; pass tensors as separate arguments, as in concat(a, b)"
            )
            if size is None:
                return POISON
            items.append(size)
        return ListValue(tuple(items))

    def _subscript(self, node: syntax.Subscript) -> Value:
        operand = self.evaluate(node.operand)
        selections = [self._selection(item) for item in node.items]
        known = [selection for selection in selections if selection is not None]
        if is_poisoned(operand) or len(known) < len(selections):
            return POISON
        if not isinstance(operand, TensorValue):
            message = f"the operand of [ ] is {describe(operand)}, expected a tensor"
            remedy = NO_TENSOR.get(type(operand), "tensors have parts, as in x[:, 0:64]")
            return self.error(node.operand.span, message, remedy, "E0505")
        try:
            return self.subscript(node, operand, known)
        except ArgumentMistake as mistake:
            return self.error(mistake.span, mistake.message, mistake.remedy, mistake.code)

    def _selection(self, item: syntax.SubscriptItem) -> Selection | None:
        """Return an item of a subscript with its sizes; None after an error."""
        if isinstance(item, syntax.Dots):
            return Selection("...", item.span)
        if isinstance(item, syntax.Index):
            if isinstance(item.value, syntax.Name) and item.value.text in ("None", "newaxis"):
                remedy = "reshape(x, [B, 1, T]) adds dimensions"
                self.error(item.span, "a subscript adds no dimensions", remedy, "E0505")
                return None
            value = self.evaluate(item.value)
            if isinstance(value, TensorValue):
                return Selection("tensor", item.span, ids=value)
            at = self._as_size(item.value, value, "an index is a size, or a tensor of integers")
            return None if at is None else Selection("index", item.span, at)
        start, stop, step = parts = [
            None if part is None else self.size(part) for part in (item.start, item.stop, item.step)
        ]
        if sum(part is not None for part in parts) < len(item.parts):
            return None
        return Selection("range", item.span, start, stop, step)

    def size(
        self,
        node: syntax.Expression,
        remedy: str = "sizes are integers, consts and symbols; // divides integers",
    ) -> Dim | None:
        """Return the size that an expression computes; None after an error."""
        return self._as_size(node, self.evaluate(node), remedy)

    def _as_size(self, node: syntax.Expression, value: Value, remedy: str) -> Dim | None:
        if isinstance(value, SymbolicSize | int) and not isinstance(value, bool):
            return value
        if not is_poisoned(value):
            self.error(
                node.span,
                f"a size is expected here, but this is {describe(value)}",
                remedy,
                "E0506",
            )
        return None

    def _negation(self, node: syntax.Negation) -> Value:
        """Evaluate a chain of signs, without recursion: chains may be long."""
        chain: list[syntax.Negation] = []
        first: syntax.Expression = node
        while isinstance(first, syntax.Negation):
            chain.append(first)
            first = first.operand
        value = self.evaluate(first)
        for link in reversed(chain):
            value = self._negated(link, value)
        return value

    def _negated(self, node: syntax.Negation, operand: Value) -> Value:
        if is_poisoned(operand):
            return POISON
        if isinstance(operand, int | float) and is_number(operand):
            return -operand
        try:
            return self.negation(node, operand)
        except Mistake as mistake:
            return self.report(mistake, node.operand.span, _NO_SIGN, {"x": node.operand})

    def _binary(self, node: syntax.Binary) -> Value:
        """Evaluate a chain of left-associative operators, without recursion: chains may be long."""
        chain: list[syntax.Binary] = []
        first: syntax.Expression = node
        while isinstance(first, syntax.Binary):
            chain.append(first)
            first = first.left
        value = self.evaluate(first)
        for link in reversed(chain):
            value = self._combine(link, value, self.evaluate(link.right))
        return value

    def _combine(self, node: syntax.Binary, left: Value, right: Value) -> Value:
        if is_poisoned(left) or is_poisoned(right):
            return POISON
        try:
            if is_size_arithmetic(node.operator, left, right):
                return size_arithmetic(node.operator, left, right)
            if isinstance(left, int | float) and isinstance(right, int | float):
                return _number_arithmetic(node.operator, left, right)
            return self.binary(node, left, right)
        except Mistake as mistake:
            operands = {"a": node.left, "b": node.right, "x": node.left, "w": node.right}
            operand = operands.get(mistake.argument or "")
            remedy = "operands are tensors and numbers; the right one of @ is a weight, K x N"
            if TupleValue in (type(left), type(right)):
                remedy = "unpack it: a, b = ..."
            return self.report(mistake, (operand or node).span, remedy, operands)

    def bound_arguments(self, signature: Signature, node: syntax.Call) -> Bound | None:
        """Return the arguments of a call by parameter; None after an error."""
        try:
            return bind(signature, node.arguments, node.span)
        except ArgumentMistake as mistake:
            for argument in node.arguments:
                self.evaluate(argument.value)
            self.error(mistake.span, mistake.message, mistake.remedy, mistake.code)
            return None

    def argument_values(self, bound: Bound) -> Values | None:
        """Return the evaluated arguments; None if one of them is poisoned."""
        values = {
            name: [self.evaluate(argument.value) for argument in arguments]
            for name, arguments in bound.items()
        }
        poisoned = any(is_poisoned(value) for given in values.values() for value in given)
        return None if poisoned else values

    def given(self, node: syntax.Call) -> list[Given]:
        """Return the arguments of a call of an unknown function, for its remedy."""
        parts = [argument.value for argument in node.arguments]
        if parts and isinstance(parts[0], syntax.ListExpression):
            parts[:1] = parts[0].items
        return [Given(self._text(part), self.evaluate(part)) for part in parts]

    def _text(self, node: syntax.Expression) -> str:
        """Return an expression as it is written, on one line."""
        span = node.span
        lines = self.reporter.lines(self.file)[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return " ".join(line.strip() for line in lines)

    def call_mistake(
        self, mistake: Mistake, bound: Bound, node: syntax.Call, signature: Signature
    ) -> Poison:
        """Report a mistake at the argument it is about, or at the call."""
        arguments = {name: given[0].value for name, given in bound.items() if given}
        span = arguments.get(mistake.argument or "", node).span
        return self.report(mistake, span, f"the signature is {signature.text}", arguments)


def constant_call(name: str, values: Values) -> Value | None:
    """Return the value of a function of numbers; None if it is not one. May raise Mistake."""
    if name not in CONSTANT_FUNCTIONS:
        return None
    numbers = [number for given in values.values() for number in _numbers(given)]
    if len(numbers) != len(values):
        return None
    return number_unary(name, numbers[0]) if len(numbers) == 1 else number_binary(name, *numbers)


def _numbers(values: Sequence[Value]) -> list[Number]:
    return [value for value in values if isinstance(value, int | float) and is_number(value)]


def _number_arithmetic(operator: str, left: Number, right: Number) -> Number:
    for value in (left, right):
        if isinstance(value, bool):
            raise Mistake(
                f"an operand of {operator} is {describe(value)}, expected a number", code="E0508"
            )
    if operator == "@":
        raise Mistake(
            "the operands of @ are numbers, expected a tensor and a weight", "write *", "E0508"
        )
    if operator in SIGNS:
        raise Mistake(f"the operands of {operator} are numbers, expected a tensor", code="E0508")
    return number_binary(operator, left, right)


def is_size_arithmetic(operator: str, left: Value, right: Value) -> bool:
    """Return whether this is + - * // of a symbolic size and a size."""
    sizes = all(isinstance(v, int | SymbolicSize) for v in (left, right))
    symbolic = isinstance(left, SymbolicSize) or isinstance(right, SymbolicSize)
    return sizes and symbolic and operator in ("+", "-", "*", "//")


def size_arithmetic(operator: str, left: Value, right: Value) -> Dim:
    """Compute with sizes, at least one of which is symbolic. May raise Mistake."""
    assert isinstance(left, int | SymbolicSize) and isinstance(right, int | SymbolicSize)
    if operator != "//":
        a = left if isinstance(left, SymbolicSize) else SymbolicSize.constant(left)
        size: SymbolicSize = ARITHMETIC[operator](a, right)
        if not is_manageable(size):
            raise Mistake(f"the result of {operator} is too large for a size", SIZE_LIMITS)
        return simplified(size)
    quotient = divided(left, right)
    if quotient is None:
        raise Mistake(f"{left} // {right} is not exact for all sizes", product_remedy(left, right))
    return quotient
