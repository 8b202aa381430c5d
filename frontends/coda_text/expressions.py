"""Lowers expressions of functions to the operators of the coda dialect."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.dialects.builtin import DictionaryAttr, FileLineColLoc, IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from coda_ir.dialects.coda.weights import WEIGHT
from coda_ir.frontends.coda_text import program, syntax
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.body import BodyEvaluator
from coda_ir.frontends.coda_text.elementwise import INFIX, infix, negation
from coda_ir.frontends.coda_text.epilogue import PAIRS, call_epilogue
from coda_ir.frontends.coda_text.epilogue_body import GROUP_REDUCTIONS
from coda_ir.frontends.coda_text.evaluator import Values, constant_call
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.operators import OPERATORS, matmul
from coda_ir.frontends.coda_text.remedies import function_remedy
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.subscripts import Selection, selected
from coda_ir.frontends.coda_text.values import POISON, Poison, TensorValue, Value
from coda_ir.symbolic_shapes import dims_attribute

MAX_OPERATORS = 1_000_000
SIGNATURES = {name: operator.signature for name, operator in OPERATORS.items()}


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place where a function was called, for messages about its body."""

    place: str
    depth: int


@dataclass
class Output:
    """The block that receives operators, and their number."""

    block: Block
    parameters: list[TensorValue] = field(default_factory=list[TensorValue])
    """The arguments of the function that is emitted."""
    count: int = 0
    named: set[SSAValue] = field(default_factory=set[SSAValue])


@lru_cache(maxsize=1024)
def _filename(file: str) -> StringAttr:
    return StringAttr(file)


def location(file: str, span: syntax.Span) -> FileLineColLoc:
    return FileLineColLoc(_filename(file), IntAttr(span.line), IntAttr(span.column))


def argument_attributes(parameter: syntax.Parameter, value: TensorValue) -> DictionaryAttr:
    """The name and extents of a parameter, and whether it is a weight."""
    attributes: dict[str, Attribute] = {
        "coda.name": StringAttr(parameter.name.text),
        "coda.dims": dims_attribute(value.dims),
    }
    if parameter.qualifier is not None:
        attributes[WEIGHT] = UnitAttr()
    return DictionaryAttr(attributes)


def result_attributes(
    returned: syntax.Expression, results: list[TensorValue]
) -> list[DictionaryAttr]:
    """`coda.dims` of each result, and `coda.name` where it is a plain variable."""
    items = returned.items if isinstance(returned, syntax.TupleExpression) else (returned,)
    attributes: list[DictionaryAttr] = []
    for index, result in enumerate(results):
        entries: dict[str, Attribute] = {"coda.dims": dims_attribute(result.dims)}
        item = items[index] if len(items) == len(results) else None
        if isinstance(item, syntax.Name):
            entries["coda.name"] = StringAttr(item.text)
        attributes.append(DictionaryAttr(entries))
    return attributes


class ExpressionLowering(BodyEvaluator):
    """Evaluates expressions over the variables, consts and symbols of a function.

    `site` is the place of the call, or None for a function that is lowered in isolation.
    """

    unused_remedy = "assign it to a name, return it, or remove it"
    unknown_remedy = (
        "names are parameters, sizes in their types, consts, and results of statements above"
    )

    def __init__(
        self, scope: program.Scope, reporter: Reporter, output: Output, site: CallSite | None
    ):
        super().__init__(scope, reporter, SIGNATURES)
        self.output = output
        self.site = site
        self.span = syntax.Span(1, 1, 1, 1)

    @abstractmethod
    def call_function(self, callee: program.FunctionDefinition, node: syntax.Call) -> Value:
        """The results of a call of a user's function, which is inlined."""

    def error(self, span: syntax.Span, message: str, remedy: str, code: str) -> Poison:
        if self.site is not None:
            message = f"{message} (in the call at {self.site.place})"
        return super().error(span, message, remedy, code)

    def insert(self, op: Operation) -> None:
        """Append an operator at the source location that is being lowered."""
        op.location = location(self.file, self.span)
        self.output.block.add_op(op)
        self.output.count += 1
        if self.output.count > MAX_OPERATORS:
            self.error(
                self.span,
                f"the function has more than {MAX_OPERATORS} operators",
                "functions that call each other twice grow fast: split the program",
                "E0103",
            )
            self.reporter.raise_if_errors()

    def _invocation(self, operator: str, values: Values) -> Invocation:
        """A call of an operator, which may ask for the tensors that have its sizes."""
        return Invocation(operator, values, self.insert, self.symbols, self._tensors)

    def _tensors(self) -> Iterator[TensorValue]:
        """The tensors that the function has been given or computed so far."""
        yield from self.output.parameters
        for variable in self.variables.values():
            if isinstance(variable.value, TensorValue):
                yield variable.value

    def negation(self, node: syntax.Negation, operand: Value) -> Value:
        self.span = node.span
        return negation(Invocation("-", {"x": [operand]}, self.insert))

    def subscript(
        self, node: syntax.Subscript, x: TensorValue, selections: Sequence[Selection]
    ) -> Value:
        self.span = node.bracket
        return selected(Invocation("[ ]", {}, self.insert), x, selections, node.bracket)

    def binary(self, node: syntax.Binary, left: Value, right: Value) -> Value:
        self.span = node.operator_span
        if node.operator == "@":
            return matmul(Invocation("@", {"x": [left], "w": [right]}, self.insert))
        if node.operator not in INFIX:
            raise Mistake(f"unknown operator {node.operator}")
        operands: Values = {"a": [left], "b": [right]}
        return infix(self._invocation(node.operator, operands))

    def call(self, node: syntax.Call) -> Value:
        name = node.callee.text
        meaning = self.scope.meanings.get(name)
        if isinstance(meaning, program.FunctionDefinition):
            return self.call_function(meaning, node)
        if isinstance(meaning, program.EpilogueDefinition):
            return self._call_epilogue(meaning, node)
        if name in OPERATORS:
            return self._call_operator(node)
        given = self.given(node)
        if isinstance(meaning, Poison):
            return POISON
        if name in self.variables or meaning is not None:
            variable = self.variables.get(name)
            is_string = variable is not None and isinstance(variable.value, str)
            return self.error(
                node.callee.span,
                f"'{name}' is a value and cannot be called",
                f"write activate(x, {name})" if is_string else "multiply with *",
                "E0206",
            )
        if name == PAIRS.name:
            return self.error(
                node.callee.span,
                "'pairs' can be called in the call of an epilogue only",
                "declare an epilogue e(a, b) -> (y: half), and call e(pairs(linear(x, w)))",
                "E0202",
            )
        if name in GROUP_REDUCTIONS:
            return self.error(
                node.callee.span,
                f"'{name}' can be called in an epilogue only",
                "write an epilogue with it, and call that with the product; see docs/language.md",
                "E0202",
            )
        callable = [n for n, m in self.scope.meanings.items() if not isinstance(m, int | float)]
        remedy = function_remedy(name, [*callable, *OPERATORS], given)
        library = program.names_of_library().get(name)
        if library is not None:
            remedy = f'write import "{library}"'
        return self.error(node.callee.span, f"unknown function '{name}'", remedy, "E0202")

    def may_inline(
        self, callee: program.FunctionDefinition | program.EpilogueDefinition, node: syntax.Call
    ) -> bool:
        """Take the work of a call from what is left for the program; False after an error."""
        self.reporter.inlining_left -= callee.size
        if self.reporter.inlining_left >= 0:
            return True
        self.error(
            node.callee.span,
            "the calls expand the program beyond its limit",
            "functions that call each other twice grow fast: split the program",
            "E0103",
        )
        return False

    def _call_epilogue(self, meaning: program.EpilogueDefinition, node: syntax.Call) -> Value:
        if not self.may_inline(meaning, node):
            return POISON

        def insert(op: Operation) -> None:
            # After the arguments, which have their own places.
            self.span = node.callee.span
            self.insert(op)

        return call_epilogue(self, insert, meaning, node)

    def _call_operator(self, node: syntax.Call) -> Value:
        operator = OPERATORS[node.callee.text]
        bound = self.bound_arguments(operator.signature, node)
        values = None if bound is None else self.argument_values(bound)
        if bound is None or values is None:
            return POISON
        self.span = node.callee.span
        try:
            folded = constant_call(node.callee.text, values)
            if folded is not None:
                return folded
            return operator.rule(self._invocation(node.callee.text, values))
        except Mistake as mistake:
            return self.call_mistake(mistake, bound, node, operator.signature)
