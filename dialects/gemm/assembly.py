"""Custom assembly of operators with segments.

gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
    -> (tile : tensor<?x16xbf16>) {
^epilogue(%acc : f32, %bias : f32):
  ...
}
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr
from xdsl.ir import Operation, ParametrizedAttribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from coda_ir.dialects.coda.shapes import AnyTensor
from coda_ir.dialects.gemm.attrs import (
    Layout,
    LayoutAttr,
    PairingAttr,
    PortKind,
    PortKindAttr,
    ResultPortAttr,
    SegmentAttr,
)
from coda_ir.dialects.gemm.segment import Port, Result, Segment

AttrT = TypeVar("AttrT", bound=ParametrizedAttribute)


def print_new_line(printer: Printer) -> None:
    """Begin a line with the indentation of the printer."""
    # xDSL's printer indents by this method alone. Without it lines are not indented.
    begin_line = getattr(printer, "_print_new_line", None)
    if begin_line is None:
        printer.print_string("\n")
    else:
        begin_line()


def parse_attributes(parser: Parser, op: Operation) -> None:
    """Read the attributes of `op` after the keyword `attributes`, if there are any."""
    attributes = parser.parse_optional_attr_dict_with_keyword()
    if attributes is not None:
        op.attributes |= attributes.data


def print_clause(printer: Printer, keyword: str, attr: ParametrizedAttribute | None) -> None:
    """`keyword<...>`: the parameters of an attribute, or nothing."""
    if attr is not None:
        printer.print_string(keyword)
        attr.print_parameters(printer)


def parse_clause(parser: Parser, keyword: str, kind: type[AttrT]) -> AttrT | None:
    """`keyword<...>`: an attribute by its parameters, or nothing."""
    if not parser.parse_optional_keyword(keyword):
        return None
    return kind.new(kind.parse_parameters(parser))


def print_typed_value(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


def print_typed_values(printer: Printer, values: Sequence[SSAValue]) -> None:
    with printer.in_parens():
        printer.print_list(values, lambda value: print_typed_value(printer, value))


def parse_typed_value(parser: Parser) -> SSAValue:
    name = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return parser.resolve_operand(name, parser.parse_type())


def parse_typed_values(parser: Parser) -> list[SSAValue]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parse_typed_value(parser)
    )


def print_sum(printer: Printer, values: Sequence[SSAValue]) -> None:
    """`%x : type + %y : type + ...`."""
    printer.print_list(values, lambda value: print_typed_value(printer, value), " + ")


def parse_sum(parser: Parser) -> list[SSAValue]:
    """`%x : type + %y : type + ...`."""
    values = [parse_typed_value(parser)]
    while parser.parse_optional_punctuation("+"):
        values.append(parse_typed_value(parser))
    return values


def print_operand(printer: Printer, keyword: str, value: SSAValue | None) -> None:
    """` keyword(%value : type)`, or nothing."""
    if value is not None:
        printer.print_string(f" {keyword}" if keyword else "")
        print_typed_values(printer, [value])


def parse_operand(parser: Parser, keyword: str) -> SSAValue | None:
    """`keyword(%value : type)`, or nothing."""
    if not parser.parse_optional_keyword(keyword):
        return None
    with parser.in_parens():
        return parse_typed_value(parser)


def print_ports(printer: Printer, ports: list[Port]) -> None:
    """Print the ports in order, neighbours of one kind in one group."""
    for kind, neighbours in groupby(ports, attrgetter("kind")):
        printer.print_string(f" {kind.value}")
        print_typed_values(printer, [port.value for port in neighbours])


def parse_ports(parser: Parser) -> list[Port]:
    ports: list[Port] = []
    while (kind := parser.parse_optional_str_enum(PortKind)) is not None:
        ports.extend(Port(kind, value) for value in parse_typed_values(parser))
    return ports


def print_segment(printer: Printer, segment: Segment) -> None:
    """Print the weights (if any), ports, results and region of a segment."""
    if segment.weights:
        printer.print_string("columns")
        printer.print_list(segment.terms, lambda each: print_typed_values(printer, each), " + ")
        if segment.layout != Layout.NK:
            printer.print_string(f" {segment.layout.value}")
    if segment.scales:
        printer.print_string(" scales")
        print_typed_values(printer, segment.scales)
    if segment.zeros:
        printer.print_string(" zeros")
        print_typed_values(printer, segment.zeros)
    print_clause(printer, " pair", segment.pairing)
    print_ports(printer, segment.ports)
    with printer.indented():
        print_new_line(printer)
        printer.print_string("-> ")
        with printer.in_parens():
            printer.print_list(segment.results, lambda r: _print_result(printer, *r))
    printer.print_string(" ")
    printer.print_region(segment.body)


def _print_result(printer: Printer, port: ResultPortAttr, type: AnyTensor) -> None:
    port.print_port(printer)
    printer.print_string(" : ")
    printer.print_attribute(type)


def _parse_result(parser: Parser) -> Result:
    port = ResultPortAttr.parse_port(parser)
    parser.parse_punctuation(":")
    return Result(port, cast(AnyTensor, parser.parse_type()))  # The operator verifies it.


def parse_terms(parser: Parser, count: int) -> list[list[SSAValue]]:
    """`(%a : type, ...) + (%b : type, ...) + ...`: the weights of `count` inputs."""
    first = parser.pos
    terms = [parse_typed_values(parser)]
    while parser.parse_optional_punctuation("+"):
        start = parser.pos
        terms.append(parse_typed_values(parser))
        if len(terms[-1]) != len(terms[0]):
            parser.raise_error(
                f"term {len(terms) - 1} of columns(...) has {len(terms[-1])} weights, expected "
                f"{len(terms[0])} as in term 0",
                start,
                start + 1,
            )
    if len(terms) != count:
        message = (
            f"number of terms of columns(...) is {len(terms)}, expected {count}, one per input"
        )
        parser.raise_error(message, first, first + 1)
    return terms


def parse_segment(parser: Parser, *, inputs: int) -> Segment:
    """Read one segment, after the keyword `columns` where there are inputs."""
    terms: list[list[SSAValue]] = [[]]
    layout, scales, zeros = Layout.NK, list[SSAValue](), list[SSAValue]()
    if inputs:
        terms = parse_terms(parser, inputs)
        if parser.parse_optional_keyword(Layout.KN.value):
            layout = Layout.KN
        if parser.parse_optional_keyword("scales"):
            scales = parse_typed_values(parser)
        if parser.parse_optional_keyword("zeros"):
            zeros = parse_typed_values(parser)
    pairing = parse_clause(parser, "pair", PairingAttr)
    ports = parse_ports(parser)
    parser.parse_punctuation("->")
    results = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_result(parser)
    )
    return Segment(
        terms[0],
        ports,
        results,
        parser.parse_region(),
        layout,
        pairing,
        more_weights=terms[1:],
        scales=scales,
        zeros=zeros,
    )


def segment_attr(segment: Segment) -> SegmentAttr:
    """The attribute that describes a segment."""
    return SegmentAttr(
        IntAttr(len(segment.weights)),
        LayoutAttr(segment.layout),
        segment.pairing or NoneAttr(),
        ArrayAttr([PortKindAttr(port.kind) for port in segment.ports]),
        ArrayAttr([result.port for result in segment.results]),
    )
