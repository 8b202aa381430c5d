"""Lowers the body of an epilogue to the scalar region of a `gemm.fused` or `gemm.map`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, TensorType as IRTensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, float_type, is_float
from coda_ir.dialects.gemm import Combiner, GroupReduceOp, ScalarBuilder, region_type
from coda_ir.dialects.gemm.scalar_code import emit_scalar
from coda_ir.frontends.coda_text import syntax
from coda_ir.frontends.coda_text.arguments import Mistake, signature
from coda_ir.frontends.coda_text.body import BodyEvaluator
from coda_ir.frontends.coda_text.counterparts import ELEMENTS
from coda_ir.frontends.coda_text.elementwise import INFIX, infix, negation
from coda_ir.frontends.coda_text.evaluator import Values, constant_call
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.operators import ELEMENTWISE as ELEMENTWISE_RULES, OPERATORS, Rule
from coda_ir.frontends.coda_text.program import EpilogueDefinition
from coda_ir.frontends.coda_text.remedies import function_remedy
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.values import (
    CODA_NAMES,
    ELEMENT_TYPES,
    POISON,
    Dim,
    ElementType,
    Poison,
    ScalarValue,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    describe,
    element_name,
    is_poisoned,
)

GROUP_REDUCTIONS = {"group_sum": Combiner.ADD, "group_max": Combiner.MAX}
ELEMENTWISE = {signature(text).name: rule for text, rule in ELEMENTWISE_RULES.items()}
COMBINED = {"sum": "partial_row<add>", "max": "partial_row<max>", "logsumexp": "partial_row<lse>"}
"""Reductions of tensors, and the kinds of results that compute them."""
SIGNATURES = {
    **{name: OPERATORS[name].signature for name in ELEMENTWISE},
    **{name: signature(f"{name}(x, *, group: integer)") for name in GROUP_REDUCTIONS},
}


class Columns(NamedTuple):
    """The columns of a call: pairs lie within runs of `paired` columns, 1 without pairs."""

    extent: Dim
    paired: int


class EpilogueBody(BodyEvaluator):
    """Evaluates the statements of an epilogue on the elements of its accumulators and ports.

    `suffix` says in messages which call of the epilogue is being lowered; `columns` are those of
    the call, or None if the epilogue is checked in isolation.
    """

    unused_remedy = "assign it to a name or to a result of the epilogue"
    unknown_remedy = "an epilogue can use only its accumulators, its ports and consts"

    def __init__(
        self,
        definition: EpilogueDefinition,
        reporter: Reporter,
        suffix: str = "",
        columns: Columns | None = None,
    ):
        super().__init__(definition.scope, reporter, SIGNATURES)
        self.definition = definition
        self.suffix = suffix
        self.columns = columns
        self.block = Block()

    def error(self, span: syntax.Span, message: str, remedy: str, code: str) -> Poison:
        return super().error(span, message + self.suffix, remedy, code)

    def builder(self, span: syntax.Span) -> ScalarBuilder:
        place = FileLineColLoc(StringAttr(self.file), IntAttr(span.line), IntAttr(span.column))
        return ScalarBuilder(self.block, place)

    def declare(self, name: syntax.Identifier, types: Sequence[Attribute]) -> None:
        """Add the region arguments of an accumulator or port: one, or one per column of a pair."""
        values: list[Value] = []
        for index, type in enumerate(types):
            argument = self.block.insert_arg(type, len(self.block.args))
            argument.name_hint = name.text if len(types) == 1 else f"{name.text}_{index}"
            values.append(ScalarValue(argument))
        self.bind(name, values[0] if len(values) == 1 else TupleValue(tuple(values)))

    def returned(self, statement: syntax.Return, value: Value) -> None:
        self.error(
            statement.span,
            "an epilogue has no return",
            "assign a value to each of its results: y = ...",
            "E0208",
        )

    def hint(self, name: str, value: Value) -> None:
        if isinstance(value, ScalarValue) and value.ssa.name_hint is None:
            value.ssa.name_hint = name

    def check_unused(self) -> None:
        tree = self.definition.tree
        interface = {port.name.text for port in (*tree.ports, *tree.results)}
        for name, variable in self.unused():
            if name not in interface:
                remedy = f"remove it, or call it _{name}, or make it a result"
                self.error(variable.span, f"'{name}' is never used", remedy, "E0204")

    def result(
        self, port: syntax.Port, count: int, element: str = "f32"
    ) -> list[ScalarValue] | None:
        """The `count` values of type `element` that a result yields; None after an error."""
        name = port.name.text
        if name not in self.variables:
            self.error(
                port.name.span,
                f"the result '{name}' is never assigned",
                f"add a statement to the body: {name} = ...",
                "E0305",
            )
            return None
        value = self.variables[name].value
        if is_poisoned(value):
            return None
        items = value.items if isinstance(value, TupleValue) else (value,)
        if len(items) != count:
            expected = "one value" if count == 1 else "two values, one per column of the pair"
            self.error(
                port.name.span,
                f"the result '{name}' is {describe(value)}, expected {expected}",
                f"assign {name} = (first, second), or declare {name}: half for one value per pair"
                if count == 2
                else f"assign {name} one value",
                "E0305",
            )
            return None
        builder = self.builder(port.name.span)
        try:
            return [_scalar(builder, item, element=element) for item in items]
        except Mistake as mistake:
            self.report(mistake, port.name.span, "results are elements or numbers", {})
            return None

    # Expressions.

    def negation(self, node: syntax.Negation, operand: Value) -> Value:
        return call_on_elements(self.builder(node.span), "-", {"x": [operand]}, negation)

    def binary(self, node: syntax.Binary, left: Value, right: Value) -> Value:
        if node.operator not in INFIX:
            raise Mistake(
                f"{node.operator} cannot be used in an epilogue",
                "pass GEMMs as arguments of its call",
                "E0206",
            )
        builder, values = self.builder(node.operator_span), {"a": [left], "b": [right]}
        return call_on_elements(builder, node.operator, values, infix)

    def call(self, node: syntax.Call) -> Value:
        name = node.callee.text
        if name not in SIGNATURES or name in self.definition.scope.meanings:
            given = self.given(node)
            known = name in OPERATORS or name in self.definition.scope.meanings
            message, code = f"unknown function '{name}'", "E0202"
            if known:
                message, code = f"'{name}' cannot be called in an epilogue", "E0206"
            otherwise = "docs/language.md lists the operators on elements"
            counterparts: Mapping[str, str] = ELEMENTS
            if name in COMBINED and len(given) == 1:
                otherwise = f"assign {given[0].text} to a result of kind {COMBINED[name]}"
                counterparts = {}
            remedy = function_remedy(
                name,
                () if known else SIGNATURES,
                given,
                counterparts=counterparts,
                otherwise=otherwise,
            )
            return self.error(node.callee.span, message, remedy, code)
        bound = self.bound_arguments(SIGNATURES[name], node)
        values = None if bound is None else self.argument_values(bound)
        if bound is None or values is None:
            return POISON
        try:
            if name in GROUP_REDUCTIONS:
                return _group_reduction(self.builder(node.callee.span), name, values, self.columns)
            return _element_call(self.builder(node.callee.span), name, values)
        except Mistake as mistake:
            return self.call_mistake(mistake, bound, node, SIGNATURES[name])


def _element_call(builder: ScalarBuilder, name: str, values: Values) -> Value:
    """An operator on elements; of numbers it is computed here. May raise Mistake."""
    folded = constant_call(name, values)
    if folded is not None:
        return folded
    if name == "cast":
        _expect_dtype(values["dtype"][0])
    return call_on_elements(builder, name, values, ELEMENTWISE[name])


def _group_reduction(
    builder: ScalarBuilder, name: str, values: Values, columns: Columns | None
) -> Value:
    """An element combined with the others of its group of columns. May raise Mistake."""
    group = values["group"][0]
    if not isinstance(group, int) or isinstance(group, bool) or group < 1:
        raise Mistake(
            f"{name}: group is {describe(group)}, expected a positive integer",
            argument="group",
            code="E0304",
        )
    if columns is not None and isinstance(columns.extent, int) and columns.extent % group:
        raise Mistake(
            f"{name}: group is {group}, which does not divide the {columns.extent} columns",
            argument="group",
            code="E0304",
        )
    if columns is not None and group % columns.paired:
        raise Mistake(
            f"{name}: group is {group}, which splits the pairs of the call",
            "a group consists of whole groups of pairs, as in pairs(gemm, group=G)",
            "E0304",
            argument="group",
        )
    x = _scalar(builder, values["x"][0], "x").ssa
    return ScalarValue(builder.insert(GroupReduceOp(x, GROUP_REDUCTIONS[name], group)))


def _expect_dtype(value: Value) -> None:
    """Raise Mistake unless an element can be converted to the type."""
    if isinstance(value, ElementType) and value.name != "f64":
        return
    known = ", ".join(name for name in ELEMENT_TYPES if name != "f64")
    raise Mistake(
        f"cast: dtype is {describe(value)}, expected one of {known}",
        "floats are computed in f32; a cast rounds them",
        "E0403",
        argument="dtype",
    )


def _scalar(
    builder: ScalarBuilder, value: Value, argument: str | None = None, element: str = "f32"
) -> ScalarValue:
    """A value for elements of type `element`, or a number as one. Raises Mistake for others."""
    type = region_type(ELEMENT_TYPES[element])
    match value:
        case ScalarValue() if value.ssa.type == type:
            return value
        case ScalarValue():
            given = "..." if argument is None else f"${argument}"
            remedy = f"convert it: cast({given}, {element})"
            raise Mistake(
                f"this is {describe(value)}, expected {element}",
                remedy if element != "bool" else f"compare it: ne({given}, 0)",
                "E0305",
                argument=argument,
            )
        case TupleValue():
            raise _pair_mistake(argument)
        case bool() if element != "bool":
            pass
        case int() | float() if is_float(type) or isinstance(value, int):
            return ScalarValue(builder.number(value, type))
        case _:
            pass
    raise Mistake(
        f"this is {describe(value)}, expected an element or a number",
        argument=argument,
        code="E0508",
    )


def _pair_mistake(argument: str | None) -> Mistake:
    message = "this is a pair, one element per column"
    return Mistake(message, "unpack it first: first, second = pair", "E0303", argument=argument)


def call_on_elements(
    builder: ScalarBuilder, name: str, values: Mapping[str, Sequence[Value]], rule: Rule
) -> ScalarValue:
    """The element that `rule` computes of tensors without dimensions. May raise Mistake."""
    elements = _Elements(builder)
    given = {
        parameter: [elements.wrapped(value, parameter) for value in each]
        for parameter, each in values.items()
    }
    result = rule(Invocation(name, given, elements.insert))
    assert isinstance(result, TensorValue)
    return ScalarValue(elements.scalars[result.ssa])


class _Elements:
    """Values of a region, by the tensors that represent them."""

    def __init__(self, builder: ScalarBuilder):
        self.scalars: dict[SSAValue, SSAValue] = {}
        self._builder = builder
        self._block = Block()

    def wrapped(self, value: Value, argument: str) -> Value:
        match value:
            case ScalarValue(ssa) if ssa.type in CODA_NAMES:
                tensor = self._block.insert_arg(IRTensorType(ssa.type, ()), 0)
                self.scalars[tensor] = ssa
                return TensorValue(TensorType(element_name(ssa.type), ()), tensor)
            case TupleValue():
                raise _pair_mistake(argument)
            case _:
                return value

    def insert(self, op: Operation) -> None:
        """Write the scalar code of an operator of the block level; a cast is a rounding point."""
        (result,) = op.results
        if isinstance(op, coda.ConstantOp):
            self.scalars[result] = self._builder.number(op.number, element_type_of(result))
        else:
            operands = [self.scalars[operand] for operand in op.operands]
            value, type = emit_scalar(self._builder, op, operands), element_type_of(result)
            if isinstance(op, coda.CastOp) and is_float(type):
                value = self._builder.round_to(value, float_type(type))
            self.scalars[result] = value
