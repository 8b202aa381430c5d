"""The declaration of an epilogue: its ports and results, and the shapes that fit them."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import Combiner, PortKind, ResultKind, ResultPortAttr, region_type
from coda_ir.dialects.gemm.verify import verify_port
from coda_ir.frontends.coda_text.arguments import ArgumentMistake, Mistake
from coda_ir.frontends.coda_text.counterparts import ELEMENT_NAMES
from coda_ir.frontends.coda_text.invocation import with_type
from coda_ir.frontends.coda_text.program import EpilogueDefinition
from coda_ir.frontends.coda_text.remedies import element_remedy, kind_remedy
from coda_ir.frontends.coda_text.syntax import Identifier, Port, PortKind as KindSyntax, Span
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    FLOAT_TYPES,
    INDEX_TYPES,
    RANGES,
    Dim,
    Dims,
    TensorType,
    TensorValue,
    format_dims,
    product_of,
    stand_in,
)

Report = Callable[[Span, str, str, str], object]

UNSTATED = tuple(name for name in ELEMENT_TYPES if name not in FLOAT_TYPES)
"""Element types that a port has to state."""

_MADE_BY_PASSES = (
    PortKind.TILE_T,
    PortKind.GROUP_ROW,
    PortKind.HALF_GROUP_ROW,
    PortKind.GATHER_COL,
    PortKind.SCATTER_COL,
)
OPERAND_KINDS = [
    kind.value for kind in PortKind if kind not in _MADE_BY_PASSES and kind.combiner is None
]
"""Ports of the language; passes make others."""

RESULT_KINDS = [
    kind.value for kind in ResultKind if kind not in (ResultKind.TILE_T, ResultKind.ACCUMULATE)
]


@dataclass(frozen=True, slots=True)
class OperandPort:
    """`element` is the element type that it states; None for floats, and the index of a select.
    `group` is the number of columns that a port of groups states, if it does.
    """

    name: Identifier
    kind: PortKind
    element: str | None = None
    group: int | None = None

    def region_type(self, *, is_index: bool) -> Attribute:
        """The type of its elements in the region; an index is an integer, i64 unless stated."""
        element = self.element or ("i64" if is_index else "f32")
        return region_type(ELEMENT_TYPES[element])


@dataclass(frozen=True, slots=True)
class EpilogueResult:
    """`element` is the element type it is stored in, None for that of the GEMM's operands."""

    syntax: Port
    port: ResultPortAttr
    element: str | None

    @property
    def computed(self) -> str:
        """The element type that the body assigns: floats are rounded where they are stored."""
        is_float = self.element not in RANGES and self.element != "bool"
        return "f32" if is_float or self.element is None else self.element


@dataclass(frozen=True, slots=True)
class Interface:
    """The accumulators, ports and results of an epilogue."""

    accumulators: tuple[Identifier, ...]
    operands: tuple[OperandPort, ...]
    results: tuple[EpilogueResult, ...]

    @property
    def is_pair(self) -> bool:
        return len(self.accumulators) == 2

    def is_index(self, number: int) -> bool:
        """Return whether a port has the columns that a result selects."""
        return any(getattr(result.port.index, "data", None) == number for result in self.results)

    def arity(self, kind: PortKind) -> int:
        """Number of elements of a port: two where each column of a pair has its own."""
        return 2 if self.is_pair and kind.has_columns and not kind.is_half else 1

    def result_arity(self, result: EpilogueResult) -> int:
        return 2 if self.is_pair and result.port.kind.data.is_per_column else 1


def read_interface(definition: EpilogueDefinition, error: Report) -> Interface:
    """The interface of an epilogue; what is wrong is reported and left out."""
    tree = definition.tree
    accumulators: list[Identifier] = []
    operands: list[OperandPort] = []
    results: list[EpilogueResult] = []
    constants = {n: v for n, v in definition.scope.meanings.items() if isinstance(v, int)}
    # Two ports of one name are found when the body declares them.
    seen = {port.name.text for port in tree.ports}
    for port in tree.results:
        if port.name.text in seen:
            message = f"'{port.name.text}' is defined twice"
            error(port.name.span, message, "rename one of them", "E0203")
        seen.add(port.name.text)
    for port in tree.ports:
        if port.kind is None and not operands:
            accumulators.append(port.name)
            continue
        with _reported_to(error):
            operands.append(_operand(port, constants, is_pair=len(accumulators) == 2))
    if len(accumulators) > 2:
        error(
            accumulators[2].span,
            f"{len(accumulators)} accumulators, expected one, or two in pair mode",
            "give the ports a kind, as in bias: row",
            "E0303",
        )
    if not tree.results:
        message = f"'{definition.name}' has no results"
        error(tree.name.span, message, "write -> (y: tile)", "E0302")
    for port in tree.results:
        with _reported_to(error):
            results.append(_result(port, operands, constants, is_pair=len(accumulators) == 2))
    return Interface(tuple(accumulators[:2]), tuple(operands), tuple(results))


@contextmanager
def _reported_to(error: Report) -> Generator[None]:
    try:
        yield
    except ArgumentMistake as mistake:
        error(mistake.span, mistake.message, mistake.remedy, mistake.code)


def _operand(port: Port, constants: Mapping[str, int], *, is_pair: bool) -> OperandPort:
    """The operand that a port declares. Raises ArgumentMistake, as all that follows."""
    known = f"kinds of ports are {', '.join(OPERAND_KINDS)}"
    if port.kind is None:
        message = f"the port '{port.name.text}' has no kind"
        raise ArgumentMistake(message, f"accumulators come first; {known}", port.name.span, "E0302")
    name, argument = port.kind.name, port.kind.argument
    if name.text not in OPERAND_KINDS:
        remedy = kind_remedy("port", name.text, OPERAND_KINDS, known)
        element = ELEMENT_NAMES.get(name.text, name.text)
        if element in ELEMENT_TYPES:
            stated = "" if element in FLOAT_TYPES else f"<{element}>"
            remedy = f"write scalar{stated} for one element, row{stated} for one of each column"
        raise ArgumentMistake(f"unknown kind of port '{name.text}'", remedy, name.span, "E0302")
    kind = PortKind(name.text)
    if kind.is_half and not is_pair:
        message = f"{kind.value} is a port of pairs, but the epilogue has one accumulator"
        raise ArgumentMistake(
            message, "epilogues of pairs take two accumulators", port.kind.span, "E0303"
        )
    if argument is None:
        return OperandPort(port.name, kind)
    if kind.is_group:
        return OperandPort(port.name, kind, group=_group_columns(port.kind, constants))
    if argument.text not in UNSTATED:
        remedy = f"leave it out: {port.name.text}: {kind.value}"
        if argument.text not in FLOAT_TYPES:
            remedy = element_remedy(argument.text, UNSTATED, f"one of {', '.join(UNSTATED)}")
        expected = f"expected an element type other than {', '.join(FLOAT_TYPES)}"
        message = f"{kind.value}<{argument.text}>: {expected}"
        raise ArgumentMistake(message, remedy, argument.span, "E0302")
    return OperandPort(port.name, kind, argument.text)


def _result(
    port: Port, operands: list[OperandPort], constants: Mapping[str, int], *, is_pair: bool
) -> EpilogueResult:
    known = f"kinds of results are {', '.join(RESULT_KINDS)}"
    if port.kind is None:
        message = f"the result '{port.name.text}' has no kind"
        raise ArgumentMistake(message, known, port.name.span, "E0302")
    name = port.kind.name
    match name.text:
        case "tile" | "half":
            return _stored_result(port, port.kind, is_pair)
        case "partial_row" | "partial_col":
            partial = ResultPortAttr.of(ResultKind(name.text), combiner=_combiner(port.kind))
            return EpilogueResult(port, partial, "f32")
        case "select":
            return EpilogueResult(port, _selected(port.kind, operands), "f32")
        case "group":
            columns = _group_columns(port.kind, constants)
            return EpilogueResult(port, ResultPortAttr.of_group(columns), "f32")
        case _:
            remedy = kind_remedy("port", name.text, RESULT_KINDS, known)
            raise ArgumentMistake(
                f"unknown kind of result '{name.text}'", remedy, name.span, "E0302"
            )


def _stored_result(port: Port, kind: KindSyntax, is_pair: bool) -> EpilogueResult:
    name, argument = kind.name.text, kind.argument
    if argument is not None and argument.text not in ELEMENT_TYPES:
        message = f"{name}<{argument.text}>: expected the element type to store"
        known = f"one of {', '.join(ELEMENT_TYPES)}"
        remedy = element_remedy(argument.text, ELEMENT_TYPES, known)
        raise ArgumentMistake(message, remedy, argument.span, "E0302")
    if name == "half" and not is_pair:
        message = "half is a result of pairs, but the epilogue has one accumulator"
        raise ArgumentMistake(message, "write tile, or take two accumulators", kind.span, "E0303")
    return EpilogueResult(port, ResultPortAttr.of(ResultKind(name)), argument and argument.text)


def _combiner(kind: KindSyntax) -> Combiner:
    combiners = [combiner.value for combiner in Combiner]
    remedy, argument = f"one of {', '.join(combiners)}", kind.argument
    if argument is None:
        raise ArgumentMistake(f"{kind.name.text}: expected a combiner", remedy, kind.span, "E0302")
    if argument.text not in combiners:
        message = f"{kind.name.text}<{argument.text}>: expected a combiner"
        remedy = kind_remedy("combiner", argument.text, combiners, remedy)
        raise ArgumentMistake(message, remedy, argument.span, "E0302")
    return Combiner(argument.text)


def _selected(kind: KindSyntax, operands: list[OperandPort]) -> ResultPortAttr:
    columns = {o.name.text: n for n, o in enumerate(operands) if o.kind == PortKind.COL}
    argument = kind.argument
    if argument is None or argument.text not in columns:
        span = kind.span if argument is None else argument.span
        known = f"one of {', '.join(columns)}" if columns else "declare one, as in target: col"
        message = "select: expected the col port that holds the column to select"
        raise ArgumentMistake(message, known, span, "E0302")
    return ResultPortAttr.select(columns[argument.text])


def _group_columns(kind: KindSyntax, constants: Mapping[str, int]) -> int:
    """The number of columns in angle brackets."""
    text = "" if kind.argument is None else kind.argument.text
    columns = constants.get(text) or (int(text) if text[:1].isdecimal() else 0)
    if columns >= 1:
        return columns
    span = kind.span if kind.argument is None else kind.argument.span
    message = f"{kind.name.text}: expected how many columns have one element"
    raise ArgumentMistake(message, "a number or a const, as in scale: group<128>", span, "E0302")


def check_elements(port: OperandPort, value: TensorValue, *, is_index: bool) -> None:
    """Raise Mistake unless a tensor has the elements of a port."""
    given, name = value.type.element, f"the {port.kind.value} port '{port.name.text}'"
    if port.element is not None and given != port.element:
        raise Mistake(
            f"{name} got {value.type}, expected {port.element} elements",
            f"convert it: cast(${port.name.text}, {port.element})",
            "E0306",
            argument=port.name.text,
        )
    allowed = INDEX_TYPES if is_index else FLOAT_TYPES
    if port.element is None and given not in allowed:
        stated = f"declare it: {port.name.text}: {port.kind.value}<{given}>"
        raise Mistake(
            f"{name} got {value.type}, expected {'integers' if is_index else 'floats'}",
            "pass i32 or i64: it holds numbers of columns" if is_index else stated,
            "E0306",
            argument=port.name.text,
        )


def check_operand(port: OperandPort, value: TensorValue, rows: Dims, columns: Dim) -> None:
    """Raise Mistake unless a tensor fits a port of an M x N domain; M is the product of `rows`."""
    what = f"the {port.kind.value} port '{port.name.text}'"
    domain = stand_in(TensorType("f32", (*rows, columns)))
    try:
        verify_port(what, port.kind, stand_in(value.type), shape_of(domain))
        if port.group is not None and columns != product_of((value.dims[-1], port.group)):
            each = f"one element for each {port.group} columns"
            raise VerifyException(f"{what} has {value.dims[-1]} columns, expected {each}")
    except VerifyException as error:
        raise Mistake(
            with_type(str(error), value.type),
            f"the accumulator is {format_dims((*rows, columns))}",
            "E0306",
            argument=port.name.text,
        ) from error
