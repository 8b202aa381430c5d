"""Remembers what every name and operator of a file stands for while its functions are checked."""

from __future__ import annotations

from xdsl.ir import Block

from coda_ir.frontends.coda_text.expressions import Output
from coda_ir.frontends.coda_text.lowering import FunctionLowering
from coda_ir.frontends.coda_text.program import FunctionDefinition
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.syntax import (
    Binary,
    Call,
    Expression,
    Identifier,
    Name,
    Negation,
    Span,
)
from coda_ir.frontends.coda_text.values import Value, is_poisoned

Values = dict[tuple[int, int], Value]
"""Values by the line and column of the token that they are known by: a name, or the name or sign
of an operator.
"""


class Recorder:
    """Lowers functions, and keeps the values of those of `file`."""

    def __init__(self, file: str):
        self.file = file
        self.values: Values = {}

    def lowering(self, definition: FunctionDefinition, reporter: Reporter) -> FunctionLowering:
        if definition.scope.file != self.file:
            return FunctionLowering.of_definition(definition, reporter)
        return _RecordingLowering(definition, reporter, self.values)


class _RecordingLowering(FunctionLowering):
    def __init__(self, definition: FunctionDefinition, reporter: Reporter, values: Values):
        super().__init__(definition, reporter, Output(Block()), None)
        self.values = values

    def evaluate(self, node: Expression) -> Value:
        value = super().evaluate(node)
        match node:
            case Name() | Negation():
                self._record(node.span, value)
            case Call():
                self._record(node.callee.span, value)
            case _:
                pass
        return value

    def _combine(self, node: Binary, left: Value, right: Value) -> Value:
        value = super()._combine(node, left, right)
        self._record(node.operator_span, value)
        return value

    def _bind(self, target: Identifier, value: Value) -> None:
        self._record(target.span, value)
        super()._bind(target, value)

    def _record(self, span: Span, value: Value) -> None:
        if not is_poisoned(value):
            self.values[span.line, span.column] = value
