"""Attributes of the GEMM level: ports, pairing of columns, column ranges, schedules."""

import re
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

_EXTENT = re.compile(r"[0-9]{1,9}")

MOST_SPLITS = 64
"""Programs that share the K of a tile: the last one loads what all of them have summed."""


class PortKind(StrEnum):
    """How an operand of shape (...) is indexed by the element (m, n) of an M x N accumulator."""

    TILE = "tile"
    ROW = "row"
    COL = "col"
    SCALAR = "scalar"
    TABLE = "table"
    """Row (m // inner) % R and column n % C of R x C; `dialects/gemm/tables.py` has `inner`."""
    HALF_TILE = "half_tile"
    HALF_ROW = "half_row"
    HALF_TABLE = "half_table"
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
        """How a port of partials combines them; None for other kinds."""
        return Combiner(self.value[len("partial_") :]) if self in _PARTIALS else None

    @property
    def is_half(self) -> bool:
        """Whether the port is indexed by the pair instead of the column."""
        return self in (PortKind.HALF_TILE, PortKind.HALF_ROW, PortKind.HALF_TABLE)

    @property
    def has_columns(self) -> bool:
        """Whether the element depends on the column."""
        return self not in (PortKind.COL, PortKind.SCALAR, *_PARTIALS)

    @property
    def is_table(self) -> bool:
        """Whether rows of the operand serve several rows of the accumulator."""
        return self in (PortKind.TABLE, PortKind.HALF_TABLE)

    def halved(self) -> "PortKind":
        """The kind that indexes the same operand by pair instead of by column."""
        return PortKind(f"half_{self.value}") if self.has_columns else self


_PARTIALS = (PortKind.PARTIAL_ADD, PortKind.PARTIAL_MAX, PortKind.PARTIAL_LSE)


class ResultKind(StrEnum):
    """What becomes of a yielded element."""

    TILE = "tile"
    HALF = "half"
    PARTIAL_ROW = "partial_row"
    PARTIAL_COL = "partial_col"
    SELECT = "select"
    TILE_T = "tile_t"
    """Stored transposed: the element (m, n) at [n, m]."""
    ACCUMULATE = "accumulate"
    """Stored in place of the element of a tile port, in that operand's memory."""

    @property
    def has_index(self) -> bool:
        """Whether the result names one of the ports."""
        return self in (ResultKind.SELECT, ResultKind.ACCUMULATE)

    @property
    def is_per_column(self) -> bool:
        """Whether each column of a pair yields an element of its own."""
        return self not in (ResultKind.HALF, ResultKind.PARTIAL_ROW, ResultKind.SELECT)


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
    """A result port: its kind, the combiner of a partial, the port of a select or an accumulate.

    Written `tile`, `tile_t`, `half`, `partial_row<add>`, `partial_col<max>`, `select<2>` or
    `accumulate<0>`.
    """

    name = "gemm.result"
    kind: ResultKindAttr
    combiner: CombinerAttr | NoneAttr
    index: IntAttr | NoneAttr

    @staticmethod
    def tile() -> "ResultPortAttr":
        return ResultPortAttr(ResultKindAttr(ResultKind.TILE), NoneAttr(), NoneAttr())

    @staticmethod
    def tile_t() -> "ResultPortAttr":
        return ResultPortAttr(ResultKindAttr(ResultKind.TILE_T), NoneAttr(), NoneAttr())

    @staticmethod
    def half() -> "ResultPortAttr":
        return ResultPortAttr(ResultKindAttr(ResultKind.HALF), NoneAttr(), NoneAttr())

    @staticmethod
    def partial_row(combiner: Combiner) -> "ResultPortAttr":
        return ResultPortAttr(
            ResultKindAttr(ResultKind.PARTIAL_ROW), CombinerAttr(combiner), NoneAttr()
        )

    @staticmethod
    def partial_col(combiner: Combiner) -> "ResultPortAttr":
        return ResultPortAttr(
            ResultKindAttr(ResultKind.PARTIAL_COL), CombinerAttr(combiner), NoneAttr()
        )

    @staticmethod
    def select(port: int) -> "ResultPortAttr":
        return ResultPortAttr(ResultKindAttr(ResultKind.SELECT), NoneAttr(), IntAttr(port))

    @staticmethod
    def accumulate(port: int) -> "ResultPortAttr":
        return ResultPortAttr(ResultKindAttr(ResultKind.ACCUMULATE), NoneAttr(), IntAttr(port))

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
        if kind.has_index != isinstance(self.index, IntAttr):
            raise VerifyException(
                f"result port {kind.value}: the number of a port is expected for select and "
                "accumulate and only for them"
            )

    def print_port(self, printer: Printer) -> None:
        printer.print_string(self.kind.data.value)
        if isinstance(self.combiner, CombinerAttr):
            printer.print_string(f"<{self.combiner.data.value}>")
        elif isinstance(self.index, IntAttr):
            printer.print_string(f"<{self.index.data}>")

    @classmethod
    def parse_port(cls, parser: AttrParser) -> "ResultPortAttr":
        kind = parser.parse_str_enum(ResultKind)
        combiner: CombinerAttr | NoneAttr = NoneAttr()
        index: IntAttr | NoneAttr = NoneAttr()
        if kind in (ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL):
            with parser.in_angle_brackets():
                combiner = CombinerAttr(parser.parse_str_enum(Combiner))
        elif kind.has_index:
            with parser.in_angle_brackets():
                index = IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))
        return cls(ResultKindAttr(kind), combiner, index)

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
    """Which two columns the region sees together as the pair p.

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
        return (
            IntAttr(weights),
            LayoutAttr(layout),
            pairing,
            ArrayAttr(ports),
            ArrayAttr(results),
        )


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """How a GEMM is computed, never what: main loop, tile shape (BM x BN x BK), warps, pipeline
    stages, how many row tiles share the columns in L2 (`group_m`), and how many programs share the
    K of a tile (`split_k`, left out where it is 1).

    `#gemm.schedule<pointer, "128x256x64", warps = 8, stages = 3, group_m = 8, split_k = 4>`

    Extents of a tile are powers of two. Warp-specialized, BN may be three times one: a tile of 192
    columns is multiplied as 128 and 64 of them.
    """

    name = "gemm.schedule"
    mainloop_kind: IntAttr
    block_m: IntAttr
    block_n: IntAttr
    block_k: IntAttr
    warps: IntAttr
    stages: IntAttr
    group_m: IntAttr
    split_k: IntAttr

    MAINLOOPS: ClassVar = ("pointer", "tma", "warp_specialized", "ping_pong")

    @staticmethod
    def get(
        mainloop: str,
        tile: tuple[int, int, int],
        *,
        warps: int,
        stages: int,
        group_m: int = 8,
        split_k: int = 1,
    ) -> "ScheduleAttr":
        block_m, block_n, block_k = tile
        return ScheduleAttr(
            IntAttr(ScheduleAttr.MAINLOOPS.index(mainloop)),
            IntAttr(block_m),
            IntAttr(block_n),
            IntAttr(block_k),
            IntAttr(warps),
            IntAttr(stages),
            IntAttr(group_m),
            IntAttr(split_k),
        )

    @property
    def mainloop(self) -> str:
        return self.MAINLOOPS[self.mainloop_kind.data]

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.block_m.data, self.block_n.data, self.block_k.data

    @property
    def is_warp_specialized(self) -> bool:
        """Whether a warp of its own loads, for the warps that compute."""
        return self.mainloop in ("warp_specialized", "ping_pong")

    @property
    def alternates(self) -> bool:
        """Whether two groups of warps take tiles by turns, instead of all the same tile."""
        return self.mainloop == "ping_pong"

    @property
    def groups(self) -> int:
        """Groups of warps that compute tiles of their own."""
        return 2 if self.alternates else 1

    @property
    def tile_warps(self) -> int:
        """Warps that compute a tile together."""
        return self.warps.data // self.groups

    @property
    def accumulators(self) -> int:
        """Of a tile, per thread."""
        return self.block_m.data * self.block_n.data // (32 * self.tile_warps)

    @property
    def pieces(self) -> tuple[int, ...]:
        """The columns of a tile that are multiplied together: BN, or two thirds and one third."""
        bn = self.block_n.data
        return (bn,) if is_power_of_two(bn) else (2 * bn // 3, bn // 3)

    def with_split(self, split_k: int) -> "ScheduleAttr":
        """The same with so many programs for the K of a tile."""
        return ScheduleAttr.get(
            self.mainloop,
            self.tile,
            warps=self.warps.data,
            stages=self.stages.data,
            group_m=self.group_m.data,
            split_k=split_k,
        )

    def verify(self) -> None:
        for what, extent in zip(("BM", "BN", "BK"), self.tile, strict=True):
            may_be_three = what == "BN" and self.mainloop == "warp_specialized" and extent % 3 == 0
            if extent < 16 or not is_power_of_two(extent // 3 if may_be_three else extent):
                raise VerifyException(
                    f"schedule: {what} is {extent}, expected a power of two of at least 16"
                )
        if self.warps.data not in (1, 2, 4, 8, 16):
            raise VerifyException(
                f"schedule: warps is {self.warps.data}, expected 1, 2, 4, 8 or 16"
            )
        for what, number in (("stages", self.stages), ("group_m", self.group_m)):
            if number.data < 1:
                raise VerifyException(f"schedule: {what} is {number.data}, expected at least 1")
        if not 1 <= self.split_k.data <= MOST_SPLITS:
            raise VerifyException(
                f"schedule: split_k is {self.split_k.data}, expected 1 to {MOST_SPLITS}"
            )

    def print_parameters(self, printer: Printer) -> None:
        tile = "x".join(map(str, self.tile))
        with printer.in_angle_brackets():
            printer.print_string(
                f'{self.mainloop}, "{tile}", warps = {self.warps.data}, '
                f"stages = {self.stages.data}, group_m = {self.group_m.data}"
            )
            if self.split_k.data > 1:
                printer.print_string(f", split_k = {self.split_k.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            mainloop = parser.parse_identifier()
            if mainloop not in cls.MAINLOOPS:
                parser.raise_error(
                    f"unknown main loop '{mainloop}', expected one of {', '.join(cls.MAINLOOPS)}"
                )
            parser.parse_punctuation(",")
            extents = parser.parse_str_literal().split("x")
            if len(extents) != 3 or not all(map(_EXTENT.fullmatch, extents)):
                parser.raise_error('expected a tile shape such as "128x256x64"')
            bm, bn, bk = map(int, extents)
            warps, stages, group_m = (
                cls._parse_field(parser, field) for field in ("warps", "stages", "group_m")
            )
            split_k = 1
            if parser.parse_optional_punctuation(","):
                split_k = cls._parse_number(parser, "split_k")
        return cls.get(
            mainloop, (bm, bn, bk), warps=warps, stages=stages, group_m=group_m, split_k=split_k
        ).parameters

    @classmethod
    def _parse_field(cls, parser: AttrParser, field: str) -> int:
        parser.parse_punctuation(",")
        return cls._parse_number(parser, field)

    @staticmethod
    def _parse_number(parser: AttrParser, field: str) -> int:
        parser.parse_keyword(field)
        parser.parse_punctuation("=")
        return parser.parse_integer(allow_boolean=False)
