"""GEMMs of PyTorch's library on the GEMM level."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from coda_ir.dialects.coda.shapes import AnyTensor, optional_operand
from coda_ir.dialects.gemm import verify
from coda_ir.dialects.gemm.assembly import (
    parse_attributes,
    parse_operand,
    parse_sum,
    parse_terms,
    print_operand,
    print_sum,
    print_typed_values,
)
from coda_ir.dialects.gemm.attrs import Layout, LayoutAttr
from coda_ir.dialects.gemm.gemm_inputs import GemmInputs
from coda_ir.dialects.gemm.segment import Segment


@irdl_op_definition
class LibraryOp(GemmInputs):
    """A GEMM x · Wᵀ that the library of PyTorch computes (cuBLAS, rocBLAS), without an epilogue.

    The leading dimensions of x flatten to M. Products are accumulated in float32 and rounded once,
    to the element type of the result. Inputs that add up, layouts and `transposed` are those of
    `gemm.fused`; `tile_t` stores the result as N x M.

        %acc = gemm.library %y : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>)
            -> tensor<?x16xf32>
        %dw = gemm.library transposed %dz : tensor<?x16xbf16> columns(%x : tensor<?x8xbf16>) kn
            -> tensor<16x8xbf16>

    With `groups(%ends)` there is a weight for each group of rows, or, where x is transposed, a
    product for each, as in `gemm.fused`.
    """

    name = "gemm.library"
    layout = prop_def(LayoutAttr)
    tile_t = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        weights: Sequence[SSAValue],
        result_type: AnyTensor,
        *,
        layout: Layout = Layout.NK,
        transposed: bool = False,
        tile_t: bool = False,
        groups: SSAValue | None = None,
    ):
        """`weights` has one weight for each of `inputs`."""
        super().__init__(
            operands=[inputs, weights, optional_operand(groups)],
            properties={
                "layout": LayoutAttr(layout),
                "transposed": UnitAttr() if transposed else None,
                "tile_t": UnitAttr() if tile_t else None,
            },
            result_types=[result_type],
        )

    @property
    def gather(self) -> None:
        """The library gathers no rows."""

    @property
    def gather_weights(self) -> None:
        """The library gathers no rows."""

    @property
    def is_stored_transposed(self) -> bool:
        """True if the result is N x M instead of M x N."""
        return self.tile_t is not None

    @property
    def segment(self) -> Segment:
        """The columns, for reading: without ports, results and code."""
        first, *others = self.weights
        return Segment(
            weights=[first],
            ports=[],
            results=[],
            body=Region(),
            layout=self.layout.data,
            more_weights=[[weight] for weight in others],
        )

    def verify_(self) -> None:
        verify.verify_library(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" transposed " if self.is_transposed else " ")
        print_sum(printer, self.inputs)
        print_operand(printer, "groups", self.groups)
        printer.print_string(" columns")
        printer.print_list(self.weights, lambda each: print_typed_values(printer, [each]), " + ")
        if self.layout.data != Layout.NK:
            printer.print_string(f" {self.layout.data.value}")
        printer.print_string(" -> tile_t " if self.is_stored_transposed else " -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> "LibraryOp":
        transposed = bool(parser.parse_optional_keyword("transposed"))
        inputs = parse_sum(parser)
        groups = parse_operand(parser, "groups")
        parser.parse_keyword("columns")
        terms = parse_terms(parser, len(inputs))
        layout = Layout.KN if parser.parse_optional_keyword(Layout.KN.value) else Layout.NK
        parser.parse_punctuation("->")
        tile_t = bool(parser.parse_optional_keyword("tile_t"))
        op = cls(
            inputs,
            [weight for weights in terms for weight in weights],
            cast(AnyTensor, parser.parse_type()),  # The operator verifies it.
            layout=layout,
            transposed=transposed,
            tile_t=tile_t,
            groups=groups,
        )
        parse_attributes(parser, op)
        return op
