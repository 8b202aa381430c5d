"""Checks and lowers functions: every `fn` that is not inlined becomes a `func.func`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, OpResult, Region

from coda_ir.diagnostics import Diagnostic, closest, counted, emit_diagnostic, listed
from coda_ir.frontends.coda_text import program, syntax
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.body import Variable
from coda_ir.frontends.coda_text.call_graph import callees, checking_order, roots
from coda_ir.frontends.coda_text.epilogue import check_epilogue
from coda_ir.frontends.coda_text.expressions import (
    CallSite,
    ExpressionLowering,
    Output,
    argument_attributes,
    location,
    result_attributes,
)
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.remedies import element_remedy
from coda_ir.frontends.coda_text.reporter import Reporter, source_range
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    POISON,
    Dim,
    PartialValue,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    describe,
    divided,
    format_dims,
    ir_type,
    is_number,
    is_poisoned,
    symbol,
    without_ones,
)
from coda_ir.symbolic_size import SymbolicSize

MAX_INLINE_DEPTH = 48
INLINED_SIZE = 50_000
INLINED_SIZE_PER_SOURCE_SIZE = 20
"""Limit for the expansion of a program by calls, so that the work stays linear in its length."""


def lower_program(
    scope: program.Scope,
    scopes: list[program.Scope],
    reporter: Reporter,
    lowering: Callable[[program.FunctionDefinition, Reporter], FunctionLowering] | None = None,
) -> ModuleOp:
    """Return the module of the main file. Every function of every file is checked.

    `lowering` makes what lowers a function alone. Raises DiagnosticError where there are
    errors.
    """
    lowered = lower_functions(scopes, reporter, lowering or FunctionLowering.of_definition)
    reporter.raise_if_errors()
    return ModuleOp([lowered[function] for function in roots(scope)])


def lower_functions(
    scopes: list[program.Scope],
    reporter: Reporter,
    lowering: Callable[[program.FunctionDefinition, Reporter], FunctionLowering],
) -> dict[program.FunctionDefinition, FuncOp]:
    """Check everything that `scopes` define; return the correct functions, lowered."""
    for each in scopes:
        for epilogue in each.epilogues:
            errors = reporter.count
            check_epilogue(epilogue, reporter)
            epilogue.failed = reporter.count > errors
    every = [function for each in scopes for function in each.functions]
    written = sum(function.size for function in every)
    reporter.inlining_left = INLINED_SIZE + INLINED_SIZE_PER_SOURCE_SIZE * written
    for function in every:
        for _, callee in callees(function):
            callee.is_called = True
    emitted = {function for each in scopes for function in roots(each)}
    lowered: dict[program.FunctionDefinition, FuncOp] = {}
    for function in checking_order(every, reporter):
        errors = reporter.count
        func = _lowered(function, lowering(function, reporter), reporter)
        function.failed |= reporter.count > errors
        if func is not None and function in emitted:
            lowered[function] = func
    return lowered


def _lowered(
    function: program.FunctionDefinition, lowering: FunctionLowering, reporter: Reporter
) -> FuncOp | None:
    try:
        return lowering.function()
    except RecursionError:
        reporter.error(
            function.scope.file,
            function.tree.name.span,
            f"the calls in '{function.name}' are nested too deeply",
            "assign the inner parts to names",
            "E0103",
        )
        return None


CHANGE = "change the declaration or the returned value"


class FunctionLowering(ExpressionLowering):
    """Lowers the body of a function: as a function, or inlined at a call."""

    def __init__(
        self,
        definition: program.FunctionDefinition,
        reporter: Reporter,
        output: Output,
        site: CallSite | None,
    ):
        super().__init__(definition.scope, reporter, output, site)
        self.definition = definition
        self.span = definition.tree.name.span

    @staticmethod
    def of_definition(
        definition: program.FunctionDefinition, reporter: Reporter
    ) -> FunctionLowering:
        return FunctionLowering(definition, reporter, Output(Block()), None)

    # A function in isolation.

    def function(self) -> FuncOp | None:
        """Return the `func.func` of the definition; None after an error."""
        tree = self.definition.tree
        before = self.reporter.count
        for option in tree.options:
            self._bind_option(option, self.definition.options[option.name.text])
        for parameter in tree.parameters:
            self._declare(parameter)
        value = self._body()
        self._check_unused()
        results = None if value is None else self._results(value)
        if results is None or self.reporter.count > before:
            return None
        self.span = tree.body.statements[-1].span
        self.insert(ReturnOp(*(result.ssa for result in results)))
        return self._func_op(results)

    def _declare(self, parameter: syntax.Parameter) -> None:
        """Make a parameter a block argument, and the new names in its type symbols."""
        qualifier = parameter.qualifier
        if qualifier is not None and qualifier.text != "weight":
            self.error(
                qualifier.span,
                f"unknown qualifier '{qualifier.text}'",
                closest(qualifier.text, ["weight"], "the only qualifier is 'weight'"),
                "E0207",
            )
        type = self._parameter_type(parameter.type)
        value: Value = POISON
        if type is not None:
            argument = self.output.block.insert_arg(ir_type(type), len(self.output.block.args))
            argument.name_hint = parameter.name.text
            argument.location = location(self.file, parameter.name.span)
            value = TensorValue(type, argument)
            self.output.parameters.append(value)
            self.output.named.add(argument)
        self.bind(parameter.name, value)

    def _parameter_type(self, node: syntax.TypeExpression) -> TensorType | None:
        """Return the type of a parameter; a name that is no const becomes a symbol."""
        element = self._element(node)
        dims: list[Dim] = []
        for dim in node.dims:
            new = self._declare_symbols(dim)
            size = self._extent(dim)
            if size is None or not self._may_declare(dim, size, new):
                return None
            dims.append(size)
        return None if element is None else TensorType(element, tuple(dims))

    def _declare_symbols(self, node: syntax.Expression) -> list[str]:
        """Make the names of an extent symbols; return those that are new."""
        found = [name.text for name in syntax.names(node) if self._is_symbol(name.text)]
        new = [name for name in dict.fromkeys(found) if name not in self.symbols]
        self.symbols |= {name: symbol(name) for name in new}
        return new

    def _may_declare(self, node: syntax.Expression, size: Dim, new: Sequence[str]) -> bool:
        """Check an extent with symbols: a call divides its argument by the `new` one's factors."""
        if isinstance(size, int) or isinstance(node, syntax.Name):
            return True
        if self.definition.is_called and (not new or (len(new) == 1 and len(size.terms) == 1)):
            return True
        unknown = next(name.text for name in syntax.names(node) if self._is_symbol(name.text))
        message = f"arithmetic on the symbol {unknown} cannot be the extent of a parameter"
        remedy = f"define {unknown} as a const, or give this dimension its own symbol"
        if self.definition.is_called:
            message = f"the extent {size} does not determine {listed(new)}"
        self.error(node.span, message, remedy, "E0506")
        return False

    def _is_symbol(self, name: str) -> bool:
        """Return whether a name in the type of a parameter is neither a const nor an option."""
        is_option = name in self.definition.options
        return not is_option and name not in self.scope.meanings and name not in program.RESERVED

    def _extent(self, node: syntax.Expression) -> Dim | None:
        size = self.size(node)
        if isinstance(size, int) and size < 1:
            self.error(
                node.span,
                f"the extent is {size}, expected 1 or more",
                "for an extent that is known only at run time, write a symbol: x: bf16[M, 64]",
                "E0506",
            )
            return None
        return size

    def _element(self, node: syntax.TypeExpression) -> str | None:
        name = node.element.text
        if name in ELEMENT_TYPES:
            return name
        self.error(
            node.element.span,
            f"unknown element type '{name}'",
            element_remedy(name, ELEMENT_TYPES, f"element types are {', '.join(ELEMENT_TYPES)}"),
            "E0207",
        )
        return None

    def _func_op(self, results: list[TensorValue]) -> FuncOp:
        tree = self.definition.tree
        block = self.output.block
        arg_attrs: list[DictionaryAttr] = []
        for parameter in tree.parameters:
            value = self.variables[parameter.name.text].value
            assert isinstance(value, TensorValue)
            arg_attrs.append(argument_attributes(parameter, value))
        returned = tree.body.statements[-1].value
        res_attrs = result_attributes(returned, results)
        func = FuncOp(
            tree.name.text,
            (list(block.arg_types), [result.ssa.type for result in results]),
            Region(block),
            arg_attrs=ArrayAttr(arg_attrs),
            res_attrs=ArrayAttr(res_attrs),
        )
        func.location = location(self.file, tree.name.span)
        return func

    # Statements.

    def _body(self) -> Value | None:
        """Return the returned value; None if there is none, or an error prevents its evaluation."""
        statements = self.definition.tree.body.statements
        for index, statement in enumerate(statements):
            value = self.statement(statement)
            if value is not None:
                if index + 1 < len(statements):
                    self.error(
                        statements[index + 1].span,
                        "this statement comes after the return",
                        "remove it, or return at the end",
                        "E0204",
                    )
                return value
        self.error(
            self.definition.tree.body.span,
            f"'{self.definition.name}' ends without a return",
            "end the body with: return value",
            "E0208",
        )
        return None

    def returned(self, statement: syntax.Return, value: Value) -> Value:
        return value

    def _bind_option(self, option: syntax.Option, value: Value) -> None:
        """Bind the value of an option, which is a size where it is an integer."""
        self.bind(option.name, value)
        if isinstance(value, int) and is_number(value):
            self.symbols[option.name.text] = value

    def hint(self, name: str, value: Value) -> None:
        if isinstance(value, TensorValue | PartialValue) and isinstance(value.ssa, OpResult):
            if self.site is None and value.ssa in self.output.named:
                return
            value.ssa.name_hint = name
            if self.site is None:
                self.output.named.add(value.ssa)

    def _check_unused(self) -> None:
        """Report unused variables as errors, and unused parameters as warnings."""
        tree = self.definition.tree
        parameters = {parameter.name.text for parameter in (*tree.parameters, *tree.options)}
        for name, variable in self.unused():
            remedy = f"remove it, or call it _{name}"
            if name not in parameters:
                self.error(variable.span, f"'{name}' is never used", remedy, "E0204")
            elif not self.reporter.count:
                # What is wrong may be why it is not used.
                place = source_range(self.file, variable.span)
                message = f"the parameter '{name}' is never used"
                emit_diagnostic(Diagnostic("warning", place, message, remedy, "E0204"))

    # Results.

    def _results(self, value: Value) -> list[TensorValue] | None:
        """Return the returned tensors, checked against the declaration; None after an error."""
        if is_poisoned(value):
            return None
        span = self.definition.tree.body.statements[-1].value.span
        items = value.items if isinstance(value, TupleValue) else (value,)
        results = [item for item in items if isinstance(item, TensorValue)]
        if len(results) != len(items):
            wrong = next(item for item in items if not isinstance(item, TensorValue))
            remedy = "return tensors"
            if isinstance(wrong, PartialValue):
                remedy = "combine it first: finalize(...)"
            elif isinstance(wrong, SymbolicSize) or is_number(wrong):
                remedy = "cast(..., f32) makes a tensor without dimensions of it"
            self.error(
                span,
                f"'{self.definition.name}' returns {describe(wrong)}, expected tensors",
                remedy,
                "E0504",
            )
            return None
        declared = self.definition.tree.results
        return results if declared is None else self._checked(results, declared, span)

    def _checked(
        self,
        results: list[TensorValue],
        declared: tuple[syntax.TypeExpression, ...],
        span: syntax.Span,
    ) -> list[TensorValue] | None:
        if len(results) != len(declared):
            return self._result_error(
                span,
                f"'{self.definition.name}' returns {counted(len(results), 'value')}, "
                f"but declares {len(declared)}",
            )
        for index, (result, node) in enumerate(zip(results, declared, strict=True)):
            element = self._element(node)
            dims = [self.size(dim) for dim in node.dims]
            if element is None or None in dims:
                return None
            type = TensorType(element, tuple(dim for dim in dims if dim is not None))
            if type != result.type:
                name = f"'{self.definition.name}'"
                message = f"{name} returns {result.type}, but declares {type}"
                if len(results) > 1:
                    message = f"result {index} of {name} is {result.type}, but declared as {type}"
                remedy = CHANGE
                if (
                    without_ones(type.dims) == without_ones(result.dims)
                    and type.dims != result.dims
                ):
                    remedy += f": reshape gives it the shape {format_dims(type.dims)}"
                return self._result_error(span, message, remedy)
        return results

    def _result_error(self, span: syntax.Span, message: str, remedy: str = CHANGE) -> None:
        self.error(span, message, remedy, "E0504")

    # Calls of functions.

    def call_function(self, callee: program.FunctionDefinition, node: syntax.Call) -> Value:
        bound = self.bound_arguments(callee.signature, node)
        values = None if bound is None else self.argument_values(bound)
        if bound is None or values is None or callee.failed:
            return POISON
        if not self.may_inline(callee, node):
            return POISON
        depth = 1 if self.site is None else self.site.depth + 1
        if depth > MAX_INLINE_DEPTH:
            return self.error(
                node.callee.span,
                f"calls are nested more than {MAX_INLINE_DEPTH} deep",
                "let a function return to its caller what the inner call needs",
                "E0103",
            )
        site = CallSite(f"{self.file}:{node.span.line}:{node.span.column}", depth)
        inlined = FunctionLowering(callee, self.reporter, self.output, site)
        try:
            inlined._bind_arguments({name: given[0] for name, given in values.items()})
        except Mistake as mistake:
            return self.call_mistake(mistake, bound, node, callee.signature)
        return inlined._inlined()

    def _bind_arguments(self, values: dict[str, Value]) -> None:
        """Bind parameters to the values of a call. Raises Mistake where a type does not fit."""
        bindings: dict[str, tuple[Dim, str]] = {}
        for option in self.definition.tree.options:
            name = option.name.text
            value = self.definition.options[name]
            if name in values:
                value = program.option_value(self.definition, name, values[name])
            self._bind_option(option, value)
            self.variables[name].used = True
        for parameter in self.definition.tree.parameters:
            name = parameter.name.text
            value = Invocation(self.definition.name, {name: [values[name]]}, self.insert).tensor(
                name
            )
            self._unify(parameter, value, bindings)
            self.variables[name] = Variable(value, parameter.name.span, used=True)

    def _unify(
        self, parameter: syntax.Parameter, value: TensorValue, bindings: dict[str, tuple[Dim, str]]
    ) -> None:
        """Match the declared type of a parameter with the type of an argument."""
        name, function = parameter.name.text, self.definition.name
        type = parameter.type
        declared_at = f"it is declared at {self.file}:{type.span.line}:{type.span.column}"
        if type.element.text != value.type.element:
            raise Mistake(
                f"{function}: {name} is {value.type}, expected {type.element.text} elements",
                f"convert it: cast(${name}, {type.element.text})",
                "E0501",
                argument=name,
            )
        if len(type.dims) != len(value.dims):
            raise Mistake(
                f"{function}: {name} is {value.type} of rank {len(value.dims)}, expected rank "
                f"{len(type.dims)}",
                declared_at,
                "E0507",
                argument=name,
            )
        for index, (declared, actual) in enumerate(zip(type.dims, value.dims, strict=True)):
            if isinstance(declared, syntax.Name) and self._is_symbol(declared.text):
                self._bind_symbol(declared.text, actual, name, bindings)
                continue
            new = self._declare_symbols(declared)
            size = self.size(declared)
            factor = divided(size, symbol(new[0])) if new and size is not None else None
            quotient = None if factor is None else divided(actual, factor)
            if quotient is not None:
                self._bind_symbol(new[0], quotient, name, bindings)
            elif size is not None and size != actual:
                expected = size if factor is None else f"a multiple of {factor}"
                words = [each.text for each in syntax.names(declared)]
                options = [word for word in words if word in self.definition.options]
                raise Mistake(
                    f"{function}: {name} is {value.type}, expected {expected} in dimension {index}",
                    f"this extent follows from the option {options[0]}" if options else declared_at,
                    "E0507",
                    argument=name,
                )

    def _bind_symbol(
        self, name: str, actual: Dim, parameter: str, bindings: dict[str, tuple[Dim, str]]
    ) -> None:
        bound, by = bindings.setdefault(name, (actual, parameter))
        if bound != actual:
            raise Mistake(
                f"{self.definition.name}: the symbol {name} is bound to two sizes: "
                f"{bound} by {by} and {actual} by {parameter}",
                f"declare two symbols in {self.definition.name}, or pass equal sizes",
                "E0506",
                argument=parameter,
            )
        self.symbols[name] = actual

    def _inlined(self) -> Value:
        value = self._body()
        results = None if value is None else self._results(value)
        if results is None:
            return POISON
        return results[0] if len(results) == 1 else TupleValue(tuple(results))
