"""Evaluation of the body of a function or an epilogue: its statements, and the names in it."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text import syntax
from coda_ir.frontends.coda_text.arguments import Signature
from coda_ir.frontends.coda_text.evaluator import Evaluator
from coda_ir.frontends.coda_text.program import RESERVED, Scope
from coda_ir.frontends.coda_text.remedies import value_remedy
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    Dim,
    ElementType,
    Poison,
    Value,
    is_poisoned,
)


@dataclass(slots=True)
class Variable:
    """A name with its value, and where it is bound."""

    value: Value
    span: syntax.Span
    used: bool = False


class BodyEvaluator(Evaluator):
    """Evaluates statements over variables, symbols and consts; `operators` can be called."""

    unused_remedy: str
    """The remedy for an expression whose result is unused."""
    unknown_remedy: str
    """The remedy for a name that is not defined and like no other."""

    def __init__(self, scope: Scope, reporter: Reporter, operators: Mapping[str, Signature]):
        super().__init__(scope.file, reporter)
        self.scope = scope
        self.operators = operators
        self.symbols: dict[str, Dim] = {}
        self.variables: dict[str, Variable] = {}

    @abstractmethod
    def returned(self, statement: syntax.Return, value: Value) -> Value | None:
        """The value that a return gives, or None after an error."""

    @abstractmethod
    def hint(self, name: str, value: Value) -> None:
        """Name what computes `value` after the variable that it is assigned to."""

    def statement(self, statement: syntax.Statement) -> Value | None:
        """Evaluate a statement; the value if it is a return."""
        value = self.evaluate(statement.value)
        match statement:
            case syntax.Return():
                return self.returned(statement, value)
            case syntax.Assign():
                for target, item in self.assigned(statement, value):
                    self.bind(target, item)
            case syntax.ExpressionStatement():
                if not is_poisoned(value):
                    message = "the result of this expression is unused"
                    self.error(statement.span, message, self.unused_remedy, "E0204")
        return None

    def bind(self, target: syntax.Identifier, value: Value) -> None:
        """Give a name its value; `_` drops it."""
        name = target.text
        if name == "_":
            return
        previous = self.variables.get(name)
        if previous is not None:
            self.error(
                target.span,
                f"'{name}' is defined twice",
                f"the first definition is in line {previous.span.line}; names are bound once",
                "E0203",
            )
        elif name in RESERVED or isinstance(self.scope.meanings.get(name), int | float):
            what = "reserved" if name in RESERVED else "a const"
            self.error(target.span, f"'{name}' is {what}", "choose another name", "E0203")
        elif name in self.symbols:
            self.error(
                target.span,
                f"'{name}' is a dimension of this function",
                "choose another name",
                "E0203",
            )
        self.hint(name, value)
        self.variables[name] = Variable(value, target.span, used=previous is not None)

    def unused(self) -> Iterator[tuple[str, Variable]]:
        """The variables that nothing has used."""
        for name, variable in self.variables.items():
            if not (variable.used or name.startswith("_") or is_poisoned(variable.value)):
                yield name, variable

    def name(self, node: syntax.Name) -> Value:
        name = node.text
        variable = self.variables.get(name)
        if variable is not None:
            variable.used = True
            return variable.value
        meaning = self.scope.meanings.get(name)
        if isinstance(meaning, int | float | Poison):
            return meaning
        if name in self.symbols:
            return self.symbols[name]
        if name in RESERVED:
            return ElementType(name) if name in ELEMENT_TYPES else name == "true"
        if meaning is not None or name in self.operators:
            signature = self.operators[name] if meaning is None else meaning.signature
            remedy = f"call it: {signature.text}"
            if meaning is None and name in coda.ACTIVATIONS and "glu" in self.operators:
                remedy += f'; a choice is a string, "{name}"'
            return self.error(node.span, f"'{name}' is not a value", remedy, "E0206")
        words = ("true", "false", *ELEMENT_TYPES)
        known = [*self.variables, *self.scope.meanings, *self.symbols, *words]
        otherwise = self.unknown_remedy
        if name.isupper() and self.symbols:
            otherwise = f"the sizes here are {', '.join(self.symbols)}, consts and numbers"
        remedy = value_remedy(name, known, otherwise)
        return self.error(node.span, f"unknown name '{name}'", remedy, "E0201")
