"""Epilogues written by hand: their own check, and their calls, which become `gemm.fused`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType as IRTensorType, f32
from xdsl.ir import Operation, Region, SSAValue

from coda_ir.diagnostics import listed
from coda_ir.dialects.coda.shapes import AnyTensor
from coda_ir.dialects.gemm import (
    CombinerAttr,
    FusedOp,
    Layout,
    MapOp,
    PairingAttr,
    Port as GemmPort,
    PortKind,
    Result,
    ResultKind,
    Segment,
    YieldOp,
)
from coda_ir.dialects.gemm.verify_groups import columns_alike
from coda_ir.frontends.coda_text.arguments import (
    Bound,
    Formal,
    Mistake,
    Signature,
    expression_of,
    signature,
)
from coda_ir.frontends.coda_text.body import Variable
from coda_ir.frontends.coda_text.epilogue_body import Columns, EpilogueBody
from coda_ir.frontends.coda_text.epilogue_ports import (
    EpilogueResult,
    Interface,
    check_elements,
    check_operand,
    read_interface,
)
from coda_ir.frontends.coda_text.evaluator import Evaluator
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.operators import expect_depth
from coda_ir.frontends.coda_text.program import EpilogueDefinition
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.scaled_linear import OF_ACCUMULATOR, Scaling, scaled_factors
from coda_ir.frontends.coda_text.syntax import Binary, Call, Expression, Span, names
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    POISON,
    Dim,
    Dims,
    PartialValue,
    ScalarValue,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    divided,
    ir_type,
    is_number,
    product_of,
)
from coda_ir.symbolic_size import SymbolicSize

PAIRS = signature("pairs(gemm, *, group: integer?, adjacent: boolean = false)")
GEMMS = {
    "linear": signature("linear(x, w)")._replace(text="linear(x, w); a bias is a row port"),
    "matmul": signature("matmul(x, w)"),
    "scaled_linear": signature(OF_ACCUMULATOR),
}


def check_epilogue(definition: EpilogueDefinition, reporter: Reporter) -> None:
    """Check an epilogue in isolation, on float32 elements. Errors go to `reporter`."""
    errors = reporter.count
    body = EpilogueBody(definition, reporter)
    interface = read_interface(definition, body.error)
    understood = {name.text for name in interface.accumulators}
    understood |= {operand.name.text for operand in interface.operands}
    for port in definition.tree.ports:
        if port.name.text not in understood:
            body.variables[port.name.text] = Variable(POISON, port.name.span)
    _run(body, interface)
    if reporter.count == errors:
        body.check_unused()
        _results(body, interface)


def _run(body: EpilogueBody, interface: Interface) -> None:
    """Evaluate the statements on elements of the accumulators and ports."""
    for accumulator in interface.accumulators:
        body.declare(accumulator, [f32])
    for index, operand in enumerate(interface.operands):
        type = operand.region_type(is_index=interface.is_index(index))
        body.declare(operand.name, [type] * interface.arity(operand.kind))
    for statement in body.definition.tree.body.statements:
        body.statement(statement)


def _results(body: EpilogueBody, interface: Interface) -> list[ScalarValue] | None:
    """The values of all results; None after an error."""
    found = [
        body.result(result.syntax, interface.result_arity(result), result.computed)
        for result in interface.results
    ]
    values = [value for values in found for value in values or ()]
    return None if None in found else values


def _ignore(span: Span, message: str, remedy: str, code: str) -> None:
    """Calls do not repeat the errors of the declaration."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """A GEMM in the arguments of a call: x [..., K] times the weights."""

    x: TensorValue
    weights: tuple[TensorValue, ...]
    layout: Layout
    pairing: PairingAttr | None
    columns: Dim
    scaling: Scaling | None = None
    """The scales of blocks, where the operands have them."""

    @property
    def paired(self) -> int:
        """The width of the runs that pairs do not leave; 2 where the run is all columns, of which a
        group has consecutive pairs.
        """
        if self.pairing is None:
            return 1
        return self.pairing.group_size or 2


def call_epilogue(
    caller: Evaluator,
    insert: Callable[[Operation], None],
    definition: EpilogueDefinition,
    node: Call,
) -> Value:
    """The results of a call of an epilogue: a value, or a tuple of them."""
    interface = read_interface(definition, _ignore)
    bound = caller.bound_arguments(_signature(definition, interface, node), node)
    if bound is None:
        return POISON
    call = _EpilogueCall(caller, insert, definition, interface, node, bound)
    try:
        return call.lower()
    except Mistake as mistake:
        for argument in node.arguments:
            for name in names(argument.value):
                caller.evaluate(name)
        return caller.call_mistake(mistake, bound, node, definition.signature)


def _signature(definition: EpilogueDefinition, interface: Interface, node: Call) -> Signature:
    """The parameters; `pairs(...)` gives both accumulators."""
    whole = definition.signature
    first = node.arguments[0].value if node.arguments else None
    if interface.is_pair and isinstance(first, Call) and first.callee.text == "pairs":
        second = interface.accumulators[1].text
        formals: list[Formal] = [formal for formal in whole.formals if formal.name != second]
        return Signature(whole.name, formals, whole.text)
    if interface.is_pair:
        both = listed([name.text for name in interface.accumulators])
        return whole._replace(text=f"{whole.text}; pairs(gemm) gives {both}")
    return whole


@dataclass(frozen=True, slots=True)
class _EpilogueCall:
    caller: Evaluator
    insert: Callable[[Operation], None]
    definition: EpilogueDefinition
    interface: Interface
    node: Call
    bound: Bound

    def lower(self) -> Value:
        """Raises Mistake for arguments that do not fit."""
        gemm = self._gemm() if self.interface.accumulators else None
        values = self._operands()
        if values is None or self.definition.failed:
            return POISON
        if self.interface.accumulators:
            if gemm is None:
                return POISON
            rows, columns = gemm.x.dims[:-1], gemm.columns
        else:
            rows, columns = self._map_domain(values)
        for index, (operand, value) in enumerate(zip(self.interface.operands, values, strict=True)):
            check_elements(operand, value, is_index=self.interface.is_index(index))
            check_operand(operand, value, rows, columns)
        floats = [value.type.element for value in values if value.type.is_float]
        element = gemm.x.type.element if gemm else next(iter(floats), "f32")
        segment = self._segment(gemm, values, rows, columns, element)
        if segment is None:
            return POISON
        self._check_groups(segment, columns)
        op = MapOp(segment) if gemm is None else _fused(gemm, segment)
        Invocation(self.definition.name, {}, self.insert).add(op)
        outputs = [
            _output(result, ssa, rows, columns, element)
            for result, ssa in zip(self.interface.results, op.outputs, strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else TupleValue(tuple(outputs))

    def _check_groups(self, segment: Segment, columns: Dim) -> None:
        """Raise Mistake unless what is stored once for a group is the same on all its columns."""
        alike = columns_alike(segment, columns if isinstance(columns, int) else DYNAMIC_INDEX)
        for index, result in enumerate(self.interface.results):
            if result.port.kind.data != ResultKind.GROUP:
                continue
            group, name = result.port.group_columns, result.syntax.name.text
            if alike[segment.yielded(index)[0]] % group:
                raise Mistake(
                    f"the result '{name}' has one element for each {group} columns, but is not "
                    "the same on all of them",
                    f"combine it first, as in {name} = group_max(..., group={group})",
                    "E0304",
                )

    def _operands(self) -> list[TensorValue] | None:
        """The tensors for the ports; None after an error."""
        values: list[TensorValue] = []
        names = [operand.name.text for operand in self.interface.operands]
        given = self.caller.argument_values({name: self.bound[name] for name in names})
        if given is None:
            return None
        for name in names:
            call = Invocation(self.definition.name, given, self.insert)
            value = call.value(name)
            if isinstance(value, SymbolicSize) or (value is not None and is_number(value)):
                remedy = f"cast(${name}, f32) makes a tensor of it"
                raise call.wrong(name, "expected a tensor", remedy, "E0508")
            values.append(call.tensor(name))
        return values

    def _map_domain(self, values: Sequence[TensorValue]) -> tuple[Dims, Dim]:
        for operand, value in zip(self.interface.operands, values, strict=True):
            if operand.kind == PortKind.TILE and value.dims:
                return value.dims[:-1], value.dims[-1]
        raise Mistake(
            f"{self.definition.name} has neither an accumulator nor a tile port, so its "
            "shape is unknown",
            "declare an accumulator or a tile port",
            "E0306",
        )

    # GEMMs.

    def _gemm(self) -> Gemm | None:
        """The GEMM or the pair of GEMMs in the arguments; None after an error."""
        names = [name.text for name in self.interface.accumulators]
        given = [name for name in names if name in self.bound]
        expressions = [expression_of(self.bound, name) for name in given]
        first = expressions[0]
        assert first is not None
        if len(given) < len(names):
            return self._packed(given[0], first)
        parts = [
            self._operator(name, expression)
            for name, expression in zip(given, expressions, strict=True)
            if expression is not None
        ]
        if len(parts) == 1 or None in parts:
            return parts[0] if None not in parts else None
        a, b = parts
        assert a is not None and b is not None
        return self._pair(a, b, given[1])

    def _packed(self, name: str, expression: Expression) -> Gemm | None:
        """`pairs(gemm, group=G)` or `pairs(gemm, adjacent=true)`: one weight, paired columns."""
        assert isinstance(expression, Call)
        bound = self.caller.bound_arguments(PAIRS, expression)
        inner = None if bound is None else expression_of(bound, "gemm")
        if bound is None or inner is None:
            return None
        gemm = self._operator(name, inner)
        options = {key: bound[key] for key in ("group", "adjacent") if key in bound}
        values = self.caller.argument_values(options)
        if gemm is None or values is None:
            return None
        call = Invocation("pairs", values, self.insert)
        group = call.integer("group", 0) if call.given("group") else None
        adjacent = call.flag("adjacent")
        if adjacent and group is not None:
            raise Mistake(
                "pairs takes a group or adjacent=true, not both",
                f"the signature is {PAIRS.text}",
                "E0401",
                argument=name,
            )
        unit = 2 if group is None else group
        if unit < 2 or unit % 2 or divided(gemm.columns, unit) is None:
            fault = f"the product has {gemm.columns} columns, expected an even number of columns"
            if group is not None:
                fault = (
                    f"the group is {unit}, expected an even divisor of the {gemm.columns} columns"
                )
            raise Mistake(
                f"pairs: {fault}", f"the signature is {PAIRS.text}", "E0304", argument=name
            )
        pairing = PairingAttr.adjacent_columns() if adjacent else PairingAttr.halves(group)
        return replace(gemm, pairing=pairing)

    def _pair(self, a: Gemm, b: Gemm, second: str) -> Gemm:
        """Two GEMMs of the same x side by side."""
        if a.x.ssa is not b.x.ssa:
            raise Mistake(
                f"{self.definition.name}: the GEMMs have different inputs",
                "both accumulators must come from the same x",
                "E0306",
                argument=second,
            )
        if a.layout != b.layout or a.columns != b.columns:
            raise Mistake(
                f"{self.definition.name}: the weights are {a.weights[0].type} and "
                f"{b.weights[0].type}, expected the same shape and storage",
                argument=second,
                code="E0306",
            )
        columns = product_of((2, a.columns))
        scaling = self._scaling(a, b, second)
        return Gemm(a.x, a.weights + b.weights, a.layout, PairingAttr.halves(), columns, scaling)

    def _scaling(self, a: Gemm, b: Gemm, second: str) -> Scaling | None:
        """The scales of both, which are alike but for those of the weights."""
        if a.scaling is None or b.scaling is None:
            is_same = a.scaling is b.scaling
        else:
            is_same = (a.scaling.x.ssa, a.scaling.blocks) == (b.scaling.x.ssa, b.scaling.blocks)
        if not is_same:
            raise Mistake(
                f"{self.definition.name}: x has different scales in the two GEMMs",
                "both accumulators must come from the same x, with the same scales",
                argument=second,
            )
        if a.scaling is None or b.scaling is None:
            return None
        return replace(a.scaling, weights=a.scaling.weights + b.scaling.weights)

    def _operator(self, name: str, expression: Expression) -> Gemm | None:
        """`linear(x, w)` or `x @ w`; None after an error. Raises Mistake for anything else."""
        if isinstance(expression, Binary) and expression.operator == "@":
            values = [self.caller.evaluate(e) for e in (expression.left, expression.right)]
            return self._checked(name, "matmul", dict(zip("xw", values, strict=True)))
        callee = expression.callee.text if isinstance(expression, Call) else None
        if isinstance(expression, Call) and callee in GEMMS:
            bound = self.caller.bound_arguments(GEMMS[callee], expression)
            given = None if bound is None else self.caller.argument_values(bound)
            if given is None:
                return None
            return self._checked(name, callee, {key: value[0] for key, value in given.items()})
        # What it names is used, also where it is not accepted.
        self.caller.evaluate(expression)
        raise Mistake(
            f"{self.definition.name}: the accumulator '{name}' must be a GEMM",
            "write linear(x, w) or x @ w in the call itself",
            "E0306",
            argument=name,
        )

    def _checked(self, name: str, operator: str, values: dict[str, Value]) -> Gemm | None:
        if any(value is POISON for value in values.values()):
            return None
        given = {key: [value] for key, value in values.items()}
        call = Invocation(operator, given, self.insert)
        scaling, is_nk = None, operator != "matmul"
        try:
            if operator == "scaled_linear":
                x, w, scaling = scaled_factors(call)
            else:
                x, w = call.factors()
            k, n = reversed(w.dims) if is_nk else w.dims
            expect_depth(call, x, w, k, "w is N x K" if is_nk else "w is K x N")
        except Mistake as mistake:
            mistake.argument = name
            raise
        return Gemm(x, (w,), Layout.NK if is_nk else Layout.KN, None, n, scaling)

    # The operator.

    def _segment(
        self,
        gemm: Gemm | None,
        values: Sequence[TensorValue],
        rows: Dims,
        columns: Dim,
        element: str,
    ) -> Segment | None:
        span = self.node.span
        suffix = f" (in the call at {self.caller.file}:{span.line}:{span.column})"
        paired = 1 if gemm is None else gemm.paired
        domain = Columns(columns, paired)
        body = EpilogueBody(self.definition, self.caller.reporter, suffix, domain)
        _run(body, self.interface)
        yielded = _results(body, self.interface)
        if yielded is None:
            return None
        body.block.add_op(YieldOp(*(value.ssa for value in yielded)))
        return Segment(
            weights=[weight.ssa for weight in gemm.weights] if gemm else [],
            ports=[
                GemmPort(operand.kind, value.ssa)
                for operand, value in zip(self.interface.operands, values, strict=True)
            ],
            results=[
                Result(result.port, _result_type(result, rows, columns, element))
                for result in self.interface.results
            ],
            body=Region(body.block),
            layout=gemm.layout if gemm else Layout.NK,
            pairing=gemm.pairing if gemm else None,
            scales=[s.ssa for s in gemm.scaling.weights] if gemm and gemm.scaling else [],
        )


def _fused(gemm: Gemm, segment: Segment) -> FusedOp:
    scaling = gemm.scaling
    if scaling is None:
        return FusedOp(gemm.x.ssa, [segment])
    return FusedOp(gemm.x.ssa, [segment], x_scales=scaling.x.ssa, blocks=scaling.blocks)


def _stored_type(result: EpilogueResult, rows: Dims, columns: Dim, element: str) -> TensorType:
    """The type of a result that is complete."""
    kind = result.port.kind.data
    share = 2 if kind == ResultKind.HALF else 1
    if kind == ResultKind.GROUP:
        share = result.port.group_columns
    width = divided(columns, share)
    if width is None and kind == ResultKind.GROUP:
        raise Mistake(
            f"the result '{result.syntax.name.text}' has one element for each {share} columns, "
            f"which do not divide {columns}",
            code="E0304",
        )
    width = columns if width is None else width
    dims = rows if kind == ResultKind.SELECT else (*rows, width)
    return TensorType(result.element or element, dims)


def _result_type(result: EpilogueResult, rows: Dims, columns: Dim, element: str) -> AnyTensor:
    """The type in the IR; a partial has one element per tile in its dynamic dimension."""
    kept = [*ir_type(TensorType("f32", rows)).get_shape()]
    match result.port.kind.data:
        case ResultKind.PARTIAL_ROW:
            return IRTensorType(ELEMENT_TYPES["f32"], [*kept, DYNAMIC_INDEX])
        case ResultKind.PARTIAL_COL:
            width = ir_type(TensorType("f32", (columns,))).get_shape()
            return IRTensorType(ELEMENT_TYPES["f32"], [DYNAMIC_INDEX, *width])
        case _:
            return ir_type(_stored_type(result, rows, columns, element))


def _output(result: EpilogueResult, ssa: SSAValue, rows: Dims, columns: Dim, element: str) -> Value:
    ssa.name_hint = result.syntax.name.text
    kind, combiner = result.port.kind.data, result.port.combiner
    if isinstance(combiner, CombinerAttr):
        axis = "row" if kind == ResultKind.PARTIAL_ROW else "col"
        return PartialValue(axis, combiner.data, rows if axis == "row" else (columns,), ssa)
    return TensorValue(_stored_type(result, rows, columns, element), ssa)
