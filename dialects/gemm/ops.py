"""Operators of the GEMM level."""

from collections.abc import Sequence
from itertools import islice

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, TensorType, UnitAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from coda_ir.dialects.coda import BlocksAttr, QuantizedAttr
from coda_ir.dialects.coda.shapes import AnyTensor, optional_operand
from coda_ir.dialects.gemm import verify
from coda_ir.dialects.gemm.assembly import (
    parse_attributes,
    parse_clause,
    parse_operand,
    parse_ports,
    parse_segment,
    parse_sum,
    parse_typed_value,
    print_clause,
    print_new_line,
    print_operand,
    print_ports,
    print_segment,
    print_sum,
    print_typed_value,
    segment_attr,
)
from coda_ir.dialects.gemm.attrs import Combiner, CombinerAttr, PortKindAttr, SegmentAttr
from coda_ir.dialects.gemm.fused_rows import OF_ROWS, RowsOfFused
from coda_ir.dialects.gemm.numerics import OrderAttr, verify_order
from coda_ir.dialects.gemm.read_ahead import verify_ahead
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import HasSegments, Port, Segment, read_segments
from coda_ir.dialects.gemm.verify_regions import PortsAreTheOnlyWayIn


@irdl_op_definition
class FusedOp(RowsOfFused):
    """A GEMM x · [W0; W1; ...]ᵀ with an epilogue region per column range (segment).

    The leading dimensions of x flatten to M. The region of a segment is applied to every element
    of its float32 accumulator (in pair mode: to every pair of columns) while the tile is on chip.

        %x1, %ssq = gemm.fused %y : tensor<?x8xbf16>
            columns(%w : tensor<16x8xbf16>) tile(%x0 : tensor<?x16xbf16>)
            -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
        ^epilogue(%acc : f32, %res : f32):
          %x = arith.addf %acc, %res : f32
          %sq = arith.mulf %x, %x : f32
          gemm.yield %x, %sq : f32, f32
        }

    The products of several inputs, each with its own weights, are added in one accumulator:
    `gemm.fused %x + %y columns(%w) + (%v)` is x · Wᵀ + y · Vᵀ. Where x is `transposed` it is
    K x M, its leading dimensions flatten to K, and so do those of the weights, which are K x N:
    `gemm.fused transposed %dz columns(%x) kn` is dzᵀ · x, the gradient of a weight.

    With `groups(%ends)`, the rows of x (M x K) are sorted by group, `ends` has the end of each of E
    groups, and each weight is one of N x K (K x N) for each group: E x N x K. Groups may be empty;
    results of rows after the last one are left open. Where x is transposed, the rows of each group
    are summed over, and results are E x M x N, with zeros for empty groups:

        %dw = gemm.fused transposed %dz : tensor<?x16xbf16> groups(%ends : tensor<4xi32>)
            columns(%x : tensor<?x8xbf16>) kn -> (tile : tensor<4x16x8xbf16>) {...}

    With `numbered(%ids)` instead, ids has the numbers of groups of each row of x, k of them. A row
    of K elements has k products, each a separate row. One of kK elements is k rows side by side,
    whose products are added: what the experts of a token compute, without a sort.

        %y = gemm.fused %x : tensor<2x8xbf16> numbered(%ids : tensor<6xi64>)
            columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<6x16xbf16>) {...}

    With `gather(%ids)`, x is a matrix of R x K, and row m of the product is that of row ids[m] of
    x; no id is negative, or above R - 1. With `scatter(%ids)`, the results of row m are stored in
    row ids[m]; the ids are a permutation of the rows. Both copy nothing. Rows in groups that are
    summed over may be gathered, too, and those of the weights with `gather_weights(%ids)`.

        %y = gemm.fused %x : tensor<?x8xbf16> gather(%ids : tensor<?xi64>)
            columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {...}

    With `blocks`, x and the weights are float8 with a scale for each block, as in
    `coda.scaled_linear`: the product of each block of K is scaled when it is added.

        %y = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
            columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
            -> (tile : tensor<?x512xbf16>) {...}

    With `quantized`, the weights are as in `coda.low_bit_linear`, with scales and zero points of
    groups along K, and dequantized on the way to the product.

        %y = gemm.fused %x : tensor<?x256xbf16> quantized<128, "k01234567">
            columns(%w : tensor<32x512xi32>) kn scales(%s : tensor<2x512xf32>)
            zeros(%z : tensor<2x512xui8>) -> (tile : tensor<?x512xbf16>) {...}

    Source: CODA, arXiv 2605.19269.
    """

    name = "gemm.fused"
    traits = traits_def(Pure(), PortsAreTheOnlyWayIn())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        inputs: SSAValue | Operation | Sequence[SSAValue],
        segments: Sequence[Segment],
        schedule: ScheduleAttr | None = None,
        order: OrderAttr | None = None,
        *,
        transposed: bool = False,
        groups: SSAValue | None = None,
        numbered: bool = False,
        gather: SSAValue | None = None,
        gather_weights: SSAValue | None = None,
        scatter: SSAValue | None = None,
        x_scales: SSAValue | None = None,
        blocks: BlocksAttr | QuantizedAttr | None = None,
    ):
        is_single = isinstance(inputs, SSAValue | Operation)
        optional = (groups, gather, gather_weights, scatter, x_scales)
        super().__init__(
            operands=[
                [inputs] if is_single else inputs,
                [w for segment in segments for weights in segment.terms for w in weights],
                *map(optional_operand, optional),
                [scales for segment in segments for scales in segment.scales],
                [zeros for segment in segments for zeros in segment.zeros],
                [port.value for segment in segments for port in segment.ports],
            ],
            properties={
                "segments": ArrayAttr([segment_attr(segment) for segment in segments]),
                "transposed": UnitAttr() if transposed else None,
                "numbered": UnitAttr() if numbered else None,
                "schedule": schedule,
                "order": order,
                "blocks": blocks,
            },
            regions=[[segment.body for segment in segments]],
            result_types=[[result.type for segment in segments for result in segment.results]],
        )

    @property
    def quantized(self) -> QuantizedAttr | None:
        """The scheme of weights that are quantized while x is not; None where there are none."""
        return self.blocks if isinstance(self.blocks, QuantizedAttr) else None

    def with_segments(
        self,
        segments: Sequence[Segment],
        *,
        inputs: SSAValue | Sequence[SSAValue] | None = None,
        **changed: SSAValue | None,
    ) -> "FusedOp":
        """Return the operator with other column ranges; omitted inputs and `changed` ids stay."""
        ids = ("gather", "gather_weights", "scatter")
        return FusedOp(
            self.inputs if inputs is None else inputs,
            segments,
            self.schedule,
            self.order,
            transposed=self.is_transposed,
            groups=self.groups,
            numbered=self.is_numbered,
            x_scales=self.x_scales,
            blocks=self.blocks,
            **{name: changed.get(name, getattr(self, name)) for name in ids},
        )

    def segments(self) -> list[Segment]:
        """The column ranges, for reading."""
        inputs, weights, *_, scatter, _, scales, zeros, ports = self._operands_by_definition()
        return read_segments(
            self.segment_attrs.data,
            weights,
            ports,
            self.results,
            self.regions,
            len(inputs),
            scales,
            zeros,
            is_stored_by_row=bool(scatter),
        )

    def _operands_by_definition(self) -> list[Sequence[SSAValue]]:
        """Return the operands by definition; each definition alone decodes all their numbers."""
        sizes = self.properties[AttrSizedOperandSegments.attribute_name]
        assert isinstance(sizes, DenseArrayBase), "the numbers of operands"
        operands = iter(self.operands)
        return [list(islice(operands, size)) for size in sizes.iter_values()]

    @property
    def _of_rows(self) -> tuple[tuple[str, SSAValue | None], ...]:
        groups = (None, self.groups) if self.is_numbered else (self.groups, None)
        values = (*groups, self.gather, self.gather_weights, self.scatter)
        return tuple(zip(OF_ROWS, values, strict=True))

    def verify_(self) -> None:
        verify_order(self.order, ("depth", "columns", "rows"))
        verify.verify_fused(self)
        verify_ahead(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" transposed " if self.is_transposed else " ")
        print_sum(printer, self.inputs)
        for keyword, value in self._of_rows:
            print_operand(printer, keyword, value)
        print_clause(printer, " blocks" if self.quantized is None else " quantized", self.blocks)
        print_operand(printer, "", self.x_scales)
        with printer.indented():
            for keyword, clause in (("schedule", self.schedule), ("order", self.order)):
                if clause is not None:
                    print_new_line(printer)
                    print_clause(printer, keyword, clause)
            for segment in self.segments():
                print_new_line(printer)
                print_segment(printer, segment)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> "FusedOp":
        transposed = bool(parser.parse_optional_keyword("transposed"))
        inputs = parse_sum(parser)
        of_groups, of_numbers, *of_rows = OF_ROWS
        groups = parse_operand(parser, of_groups)
        numbers = parse_operand(parser, of_numbers) if groups is None else None
        rows = {keyword: parse_operand(parser, keyword) for keyword in of_rows}
        blocks, x_scales = parse_clause(parser, "blocks", BlocksAttr), None
        if blocks is not None:
            with parser.in_parens():
                x_scales = parse_typed_value(parser)
        quantized = parse_clause(parser, "quantized", QuantizedAttr) if blocks is None else None
        schedule = parse_clause(parser, "schedule", ScheduleAttr)
        order = parse_clause(parser, "order", OrderAttr)
        parser.parse_keyword("columns")
        segments = [parse_segment(parser, inputs=len(inputs))]
        while parser.parse_optional_keyword("columns"):
            segments.append(parse_segment(parser, inputs=len(inputs)))
        op = cls(
            inputs,
            segments,
            schedule,
            order,
            transposed=transposed,
            groups=groups or numbers,
            numbered=numbers is not None,
            x_scales=x_scales,
            blocks=blocks or quantized,
            **rows,
        )
        parse_attributes(parser, op)
        return op


@irdl_op_definition
class MapOp(HasSegments):
    """An epilogue without a GEMM: a pointwise kernel over an M x N domain given by the ports.

    %y = gemm.map tile(%x : tensor<?x8xbf16>) row(%b : tensor<8xbf16>)
        -> (tile : tensor<?x8xbf16>) {
    ^epilogue(%a : f32, %c : f32):
      %s = arith.addf %a, %c : f32
      gemm.yield %s : f32
    }

    With `pair<halves, G>` or `pair<adjacent>` the region takes both columns of a pair, as that of
    a GEMM does: `gemm.map pair<halves, 128> tile(%x : ...) half_table(%cos : ...) -> ...`.
    """

    name = "gemm.map"
    ports = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    segment_attr = prop_def(SegmentAttr, prop_name="segment")
    order = opt_prop_def(OrderAttr)
    body = region_def("single_block")
    traits = traits_def(Pure(), PortsAreTheOnlyWayIn())

    def __init__(self, segment: Segment, order: OrderAttr | None = None):
        super().__init__(
            operands=[[port.value for port in segment.ports]],
            properties={"segment": segment_attr(segment), "order": order},
            regions=[segment.body],
            result_types=[[result.type for result in segment.results]],
        )

    def segment(self) -> Segment:
        """The ports, results and region, for reading."""
        return read_segments([self.segment_attr], [], self.ports, self.outputs, [self.body])[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The dimensions of the domain's rows."""
        return (self.segment().domain or ())[:-1]

    @property
    def columns(self) -> int:
        """N of the domain, or `DYNAMIC_INDEX`; 1 of a single element."""
        return (self.segment().domain or (1,))[-1]

    def segments(self) -> list[Segment]:
        return [self.segment()]

    def with_segments(self, segments: Sequence[Segment]) -> "MapOp":
        (segment,) = segments
        return MapOp(segment, self.order)

    def verify_(self) -> None:
        verify_order(self.order, ("columns", "rows"))
        verify.verify_map(self.segment())

    def print(self, printer: Printer) -> None:
        print_clause(printer, " order", self.order)
        with printer.indented():
            print_segment(printer, self.segment())
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> "MapOp":
        order = parse_clause(parser, "order", OrderAttr)
        op = cls(parse_segment(parser, inputs=0), order)
        parse_attributes(parser, op)
        return op


@irdl_op_definition
class FinalizeOp(IRDLOperation):
    """Combines tile partials to vectors and applies a scalar region to the combined values.

    `row` combines the last dimension of (... x tiles); the results are (... x 1) or (...).
    `col` combines the dimension before the last of (... x tiles x N); the results are (... x N),
    where `...` are the dimensions of samples, if their rows were combined by sample. The extra
    ports are `col` (one element per result element, in either direction) or `scalar`.

        %rstd = gemm.finalize row (add %ssq : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
        ^epilogue(%sum : f32):
          ...
          gemm.yield %r : f32
        }
    """

    name = "gemm.finalize"
    partials = var_operand_def(TensorType)
    ports = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    axis = prop_def(StringAttr)
    combiners = prop_def(ArrayAttr[CombinerAttr])
    port_kinds = prop_def(ArrayAttr[PortKindAttr])
    order = opt_prop_def(OrderAttr)
    body = region_def("single_block")
    traits = traits_def(Pure(), PortsAreTheOnlyWayIn())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        partials: Sequence[tuple[Combiner, SSAValue]],
        ports: Sequence[Port],
        result_types: Sequence[AnyTensor],
        body: Region,
        *,
        axis: str = "row",
        order: OrderAttr | None = None,
    ):
        super().__init__(
            operands=[[value for _, value in partials], [port.value for port in ports]],
            properties={
                "axis": StringAttr(axis),
                "combiners": ArrayAttr([CombinerAttr(kind) for kind, _ in partials]),
                "port_kinds": ArrayAttr([PortKindAttr(port.kind) for port in ports]),
                "order": order,
            },
            regions=[body],
            result_types=[result_types],
        )

    @property
    def partial_list(self) -> list[tuple[Combiner, SSAValue]]:
        return [(c.data, v) for c, v in zip(self.combiners, self.partials, strict=True)]

    @property
    def port_list(self) -> list[Port]:
        return [Port(k.data, v) for k, v in zip(self.port_kinds, self.ports, strict=True)]

    def verify_(self) -> None:
        verify_order(self.order, ("partials",))
        verify.verify_finalize(self)

    def print(self, printer: Printer) -> None:
        def print_partial(partial: tuple[Combiner, SSAValue]) -> None:
            printer.print_string(f"{partial[0].value} ")
            print_typed_value(printer, partial[1])

        printer.print_string(f" {self.axis.data}")
        print_clause(printer, " order", self.order)
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.partial_list, print_partial)
        print_ports(printer, self.port_list)
        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(self.outputs.types, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> "FinalizeOp":
        def parse_partial() -> tuple[Combiner, SSAValue]:
            return parser.parse_str_enum(Combiner), parse_typed_value(parser)

        axis = "col" if parser.parse_optional_keyword("col") else "row"
        if axis == "row":
            parser.parse_keyword("row")
        order = parse_clause(parser, "order", OrderAttr)
        partials = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_partial)
        ports = parse_ports(parser)
        parser.parse_punctuation("->")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        body = parser.parse_region()
        op = cls(partials, ports, types, body, axis=axis, order=order)  # pyright: ignore[reportArgumentType]
        parse_attributes(parser, op)
        return op
