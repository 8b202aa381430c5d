"""Attributes of the GEMM level: ports, pairing of columns, column ranges."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from coda_ir.dialects.gemm.places import PlaceAttr


class PortKind(StrEnum):
    """The indexing of an operand of shape (...) by the element (m, n) of an M x N accumulator."""

    TILE = "tile"
    ROW = "row"
    COL = "col"
    SCALAR = "scalar"
    TABLE = "table"
    """Row (m // inner) % R and column n % C of R x C; `dialects/gemm/tables.py` has `inner`."""
    GROUP = "group"
    """Row (m // inner) % R and column n // G of R x N/G: an element for each G columns."""
    HALF_TILE = "half_tile"
    HALF_ROW = "half_row"
    HALF_TABLE = "half_table"
    HALF_GROUP = "half_group"
    GROUP_ROW = "group_row"
    """A row of N elements for each group of rows: E x N, where rows are in E groups."""
    HALF_GROUP_ROW = "half_group_row"
    GATHER_COL = "gather_col"
    """One element for each row of x, of which the GEMM gathers some: element gather[m]."""
    SCATTER_COL = "scatter_col"
    """One element for each row of the results as they are stored: element scatter[m]."""
    TILE_T = "tile_t"
    """A tile stored as N x M: the element (m, n) is at [n, m]."""
    PARTIAL_ADD = "partial_add"
    """Partials of M x T of an earlier `partial_row<add>`: their sum, one value per row."""
    PARTIAL_MAX = "partial_max"
    PARTIAL_LSE = "partial_lse"

    @staticmethod
    def partial(combiner: "Combiner") -> "PortKind":
        """The kind of a port that combines partials."""
        return PortKind(f"partial_{combiner.value}")

    @property
    def combiner(self) -> "Combiner | None":
        """The combiner of a port of partials, or None for other kinds."""
        return Combiner(self.value[len("partial_") :]) if self in _PARTIALS else None

    @property
    def is_half(self) -> bool:
        """True if the port is indexed by the pair instead of the column."""
        return self.value.startswith("half_")

    @property
    def has_columns(self) -> bool:
        """True if the element depends on the column."""
        return self not in (PortKind.COL, PortKind.SCALAR, *_MOVED, *_PARTIALS)

    @property
    def is_vector(self) -> bool:
        """True if there is one element for each row."""
        return not self.has_columns and self != PortKind.SCALAR

    @property
    def is_table(self) -> bool:
        """True if rows of the operand may serve several rows of the accumulator."""
        return self in (PortKind.TABLE, PortKind.HALF_TABLE) or self.is_group

    @property
    def is_group(self) -> bool:
        """True if columns of the operand serve groups of columns of the accumulator."""
        return self in (PortKind.GROUP, PortKind.HALF_GROUP)

    def halved(self) -> "PortKind":
        """The kind that indexes the same operand by pair instead of by column."""
        return PortKind(f"half_{self.value}") if self.has_columns else self


_MOVED = (PortKind.GATHER_COL, PortKind.SCATTER_COL)
_PARTIALS = (PortKind.PARTIAL_ADD, PortKind.PARTIAL_MAX, PortKind.PARTIAL_LSE)


class ResultKind(StrEnum):
    """The use of a yielded element."""

    TILE = "tile"
    HALF = "half"
    PARTIAL_ROW = "partial_row"
    PARTIAL_COL = "partial_col"
    SELECT = "select"
    TILE_T = "tile_t"
    """Stored transposed: the element (m, n) at [n, m]."""
    ACCUMULATE = "accumulate"
    """Stored in place of the element of a tile port, in that operand's memory."""
    GROUP = "group"
    """Stored once for each group of columns, on all of which the element is the same."""

    @property
    def has_index(self) -> bool:
        """True if the result names one of the ports."""
        return self in (ResultKind.SELECT, ResultKind.ACCUMULATE)

    @property
    def is_per_column(self) -> bool:
        """True if each column of a pair yields a separate element."""
        return self not in _PER_PAIR


_PER_PAIR = (ResultKind.HALF, ResultKind.PARTIAL_ROW, ResultKind.SELECT, ResultKind.GROUP)


class Combiner(StrEnum):
    """An associative combination with the identity 0 (add) or -inf (max, lse)."""

    ADD = "add"
    MAX = "max"
    LSE = "lse"


class Layout(StrEnum):
    """Storage of a weight: N x K (PyTorch's linear) or K x N."""

    NK = "nk"
    KN = "kn"


@irdl_attr_definition
class PortKindAttr(EnumAttribute[PortKind], SpacedOpaqueSyntaxAttribute):
    name = "gemm.port"


@irdl_attr_definition
class CombinerAttr(EnumAttribute[Combiner], SpacedOpaqueSyntaxAttribute):
    name = "gemm.combiner"


@irdl_attr_definition
class LayoutAttr(EnumAttribute[Layout], SpacedOpaqueSyntaxAttribute):
    name = "gemm.layout"


@irdl_attr_definition
class ResultKindAttr(EnumAttribute[ResultKind], SpacedOpaqueSyntaxAttribute):
    name = "gemm.result_kind"


@irdl_attr_definition
class ResultPortAttr(ParametrizedAttribute):
    """A result port: its kind, the combiner of a partial, the port of a select or an accumulate,
    the columns of a group, and the place of a tile that is stored as a part of another tensor.

    Written `tile`, `tile_t`, `half`, `partial_row<add>`, `partial_col<max>`, `select<2>`,
    `accumulate<0>` or `group<128>`, and `tile at<128, 64, 192>`; `tile<2> at<0, 128, 65536>` where
    port 2 has the number of the run of 128 elements within each 65536.
    """

    name = "gemm.result"
    kind: ResultKindAttr
    combiner: CombinerAttr | NoneAttr
    index: IntAttr | NoneAttr
    group: IntAttr | NoneAttr
    place: PlaceAttr | NoneAttr

    @staticmethod
    def of(
        kind: ResultKind,
        *,
        combiner: Combiner | None = None,
        index: int | None = None,
        group: int | None = None,
    ) -> "ResultPortAttr":
        return ResultPortAttr(
            ResultKindAttr(kind),
            NoneAttr() if combiner is None else CombinerAttr(combiner),
            NoneAttr() if index is None else IntAttr(index),
            NoneAttr() if group is None else IntAttr(group),
            NoneAttr(),
        )

    @staticmethod
    def tile() -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.TILE)

    @staticmethod
    def tile_t() -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.TILE_T)

    @staticmethod
    def half() -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.HALF)

    @staticmethod
    def partial_row(combiner: Combiner) -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.PARTIAL_ROW, combiner=combiner)

    @staticmethod
    def partial_col(combiner: Combiner) -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.PARTIAL_COL, combiner=combiner)

    @staticmethod
    def select(port: int) -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.SELECT, index=port)

    @staticmethod
    def accumulate(port: int) -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.ACCUMULATE, index=port)

    @staticmethod
    def of_group(columns: int) -> "ResultPortAttr":
        return ResultPortAttr.of(ResultKind.GROUP, group=columns)

    def renumbered(self, port: int) -> "ResultPortAttr":
        """Return the same result with another port number."""
        return ResultPortAttr(self.kind, self.combiner, IntAttr(port), self.group, self.place)

    def at(self, place: PlaceAttr | NoneAttr, port: int | None = None) -> "ResultPortAttr":
        """Return the same result, stored at a place of a larger tensor; a `port` has the number of
        the run, if it is known only when the kernel runs.
        """
        index = self.index if port is None else IntAttr(port)
        return ResultPortAttr(self.kind, self.combiner, index, self.group, place)

    @property
    def group_columns(self) -> int:
        """The columns that one element of a group result is stored for."""
        assert isinstance(self.group, IntAttr), "expected a group result"
        return self.group.data

    @property
    def is_placed(self) -> bool:
        """True if the result is stored as a part of another tensor."""
        return isinstance(self.place, PlaceAttr)

    @property
    def is_moved(self) -> bool:
        """True if a port has the number of the run in which the result is stored."""
        return self.is_placed and isinstance(self.index, IntAttr)

    @property
    def is_partial(self) -> bool:
        return isinstance(self.combiner, CombinerAttr)

    def verify(self) -> None:
        kind = self.kind.data
        partial = kind in (ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL)
        if partial != isinstance(self.combiner, CombinerAttr):
            raise VerifyException(
                f"result port {kind.value}: a combiner is expected for partials and only for them"
            )
        if kind.has_index != isinstance(self.index, IntAttr) and not self.is_moved:
            raise VerifyException(
                f"result port {kind.value}: the number of a port is expected for select, "
                "accumulate and runs that it numbers, and only for them"
            )
        if (kind == ResultKind.GROUP) != isinstance(self.group, IntAttr):
            raise VerifyException(
                f"result port {kind.value}: a number of columns is expected for group and only "
                "for it"
            )
        if isinstance(self.group, IntAttr) and self.group.data < 1:
            raise VerifyException(f"group<{self.group.data}>: expected at least 1 column")

    def print_port(self, printer: Printer) -> None:
        printer.print_string(self.kind.data.value)
        if isinstance(self.combiner, CombinerAttr):
            printer.print_string(f"<{self.combiner.data.value}>")
        elif isinstance(self.index, IntAttr):
            printer.print_string(f"<{self.index.data}>")
        elif isinstance(self.group, IntAttr):
            printer.print_string(f"<{self.group.data}>")
        if isinstance(self.place, PlaceAttr):
            printer.print_string(" at")
            self.place.print_parameters(printer)

    @classmethod
    def parse_port(cls, parser: AttrParser) -> "ResultPortAttr":
        kind = parser.parse_str_enum(ResultKind)
        if kind in (ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL):
            with parser.in_angle_brackets():
                return cls.of(kind, combiner=parser.parse_str_enum(Combiner))
        if kind.has_index or kind == ResultKind.GROUP:
            with parser.in_angle_brackets():
                number = parser.parse_integer(allow_boolean=False, allow_negative=False)
            return cls.of(kind, index=number) if kind.has_index else cls.of_group(number)
        number = None
        if parser.parse_optional_punctuation("<"):
            number = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(">")
        if number is not None or parser.parse_optional_keyword("at"):
            if number is not None:
                parser.parse_keyword("at")
            return cls.of(kind).at(PlaceAttr.new(PlaceAttr.parse_parameters(parser)), number)
        return cls.of(kind)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_port(printer)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            port = cls.parse_port(parser)
        return port.parameters


@irdl_attr_definition
class PairingAttr(ParametrizedAttribute):
    """The two columns that a region processes together as the pair p.

    `adjacent`: columns 2p and 2p + 1. `halves, G`: columns j and j + G/2 inside each group of G;
    `halves` alone takes all N columns as one group.
    """

    name = "gemm.pair"
    group: IntAttr | NoneAttr
    adjacent: IntAttr

    @staticmethod
    def adjacent_columns() -> "PairingAttr":
        return PairingAttr(NoneAttr(), IntAttr(1))

    @staticmethod
    def halves(group: int | None = None) -> "PairingAttr":
        return PairingAttr(NoneAttr() if group is None else IntAttr(group), IntAttr(0))

    @property
    def is_adjacent(self) -> bool:
        return bool(self.adjacent.data)

    @property
    def group_size(self) -> int | None:
        """G of `halves, G`; None for `adjacent` and where the group is all columns."""
        return self.group.data if isinstance(self.group, IntAttr) else None

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("adjacent" if self.is_adjacent else "halves")
            if self.group_size is not None:
                printer.print_string(f", {self.group_size}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("adjacent"):
                return cls.adjacent_columns().parameters
            parser.parse_keyword("halves")
            if not parser.parse_optional_punctuation(","):
                return cls.halves().parameters
            return cls.halves(parser.parse_integer(allow_boolean=False)).parameters


@irdl_attr_definition
class SegmentAttr(ParametrizedAttribute):
    """One column range of a GEMM: how many weights it has, how they are stored, which columns
    pair up, and the kinds of its operand and result ports.

    `#gemm.segment<2, nk, pair<halves>, [half_row, col], [half]>`
    """

    name = "gemm.segment"
    weights: IntAttr
    layout: LayoutAttr
    pairing: PairingAttr | NoneAttr
    ports: ArrayAttr[PortKindAttr]
    results: ArrayAttr[ResultPortAttr]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.weights.data}, {self.layout.data.value}, ")
            if isinstance(self.pairing, PairingAttr):
                printer.print_string("pair")
                self.pairing.print_parameters(printer)
                printer.print_string(", ")
            with printer.in_square_brackets():
                printer.print_list(self.ports, lambda kind: printer.print_string(kind.data.value))
            printer.print_string(", ")
            with printer.in_square_brackets():
                printer.print_list(self.results, lambda port: port.print_port(printer))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        square = parser.Delimiter.SQUARE
        pairing: PairingAttr | NoneAttr = NoneAttr()
        with parser.in_angle_brackets():
            weights = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            layout = parser.parse_str_enum(Layout)
            parser.parse_punctuation(",")
            if parser.parse_optional_keyword("pair"):
                pairing = PairingAttr.new(PairingAttr.parse_parameters(parser))
                parser.parse_punctuation(",")
            ports = parser.parse_comma_separated_list(
                square, lambda: PortKindAttr(parser.parse_str_enum(PortKind))
            )
            parser.parse_punctuation(",")
            results = parser.parse_comma_separated_list(
                square, lambda: ResultPortAttr.parse_port(parser)
            )
        return (IntAttr(weights), LayoutAttr(layout), pairing, ArrayAttr(ports), ArrayAttr(results))
