"""The schedule attribute of the GEMM level."""

import re
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

DEPENDENT_ATTRIBUTE = "coda.dependent"
"""Name of the unit attribute of a `gemm.fused`, `gemm.map` or `gemm.finalize` whose kernel waits
for the kernels before in its own text, so that its launch may overlap with them."""

AHEAD_ATTRIBUTE = "coda.ahead"
"""Attribute of a dependent `gemm.fused` whose kernel may read weights before it waits."""


_EXTENT = re.compile(r"[0-9]{1,9}")

MAX_SPLITS = 64
"""Programs that share the K of a tile: the last one loads what all of them have summed."""


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """The way to compute a GEMM, which does not change the result: main loop, tile shape (BM x BN x
    BK), warps, pipeline stages, how many row tiles share the columns in L2 (`group_m`), and how
    many programs share the K of a tile (`split_k`, left out where it is 1).

    `#gemm.schedule<pointer, "128x256x64", warps = 8, stages = 3, group_m = 8, split_k = 4>`

    Extents of a tile are powers of two. Warp-specialized, BN may be three times one: a tile of 192
    columns is multiplied as 128 and 64 of them. The tiles of `one_row` have a
    single row, and as few columns as there may be.
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

    MAINLOOPS: ClassVar = (
        *("pointer", "tma", "warp_specialized", "ping_pong", "split_rows"),
        *("one_row", "three_parts", "wgmma"),
    )

    @staticmethod
    @cache
    def get(
        mainloop: str,
        tile: tuple[int, int, int],
        *,
        warps: int,
        stages: int,
        group_m: int = 8,
        split_k: int = 1,
    ) -> "ScheduleAttr":
        number = ScheduleAttr.MAINLOOPS.index(mainloop)
        return ScheduleAttr(*map(IntAttr, (number, *tile, warps, stages, group_m, split_k)))

    @property
    def mainloop(self) -> str:
        return self.MAINLOOPS[self.mainloop_kind.data]

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.block_m.data, self.block_n.data, self.block_k.data

    @property
    def is_warp_specialized(self) -> bool:
        """True if a dedicated warp loads for the warps that compute."""
        return self.mainloop in ("warp_specialized", "ping_pong", "split_rows")

    @property
    def loads_boxes_of_heads(self) -> bool:
        """True if TMA loads the tensors of attention."""
        return self.mainloop in ("tma", "wgmma")

    @property
    def has_one_row(self) -> bool:
        """True if a tile is a part of a single row."""
        return self.mainloop == "one_row"

    @property
    def multiplies_parts(self) -> bool:
        """True if elements of float32 are multiplied as sums of three numbers of bfloat16."""
        return self.mainloop == "three_parts"

    @property
    def alternates(self) -> bool:
        """True if two groups of warps alternate between tiles, instead of sharing each tile."""
        return self.mainloop == "ping_pong"

    @property
    def splits_rows(self) -> bool:
        """True if two groups of warps with separate code each compute half of a tile's rows."""
        return self.mainloop == "split_rows"

    @property
    def groups(self) -> int:
        """The number of groups of warps that compute tiles, or parts of tiles, independently."""
        return 2 if self.alternates or self.splits_rows else 1

    @property
    def group_rows(self) -> int:
        """Rows that a group of warps computes at a time."""
        return self.block_m.data // (2 if self.splits_rows else 1)

    @property
    def tile_warps(self) -> int:
        """Warps of a group."""
        return self.warps.data // self.groups

    @property
    def accumulators(self) -> int:
        """The accumulators of a tile, per thread."""
        return self.group_rows * self.block_n.data // (32 * self.tile_warps)

    @property
    def pieces(self) -> tuple[int, ...]:
        """The columns of a tile that are multiplied together: BN, or two thirds and one third."""
        bn = self.block_n.data
        return (bn,) if is_power_of_two(bn) else (2 * bn // 3, bn // 3)

    def with_split(self, split_k: int) -> "ScheduleAttr":
        """Return the same schedule with another number of programs for the K of a tile."""
        return ScheduleAttr.new((*self.parameters[:-1], IntAttr(split_k)))

    def verify(self) -> None:
        if self.has_one_row and self.block_m.data != 1:
            raise VerifyException(f"schedule: BM is {self.block_m.data}, expected 1 for one_row")
        for what, extent in zip(("BM", "BN", "BK"), self.tile, strict=True):
            may_be_three = what == "BN" and self.mainloop == "warp_specialized" and extent % 3 == 0
            least = 1 if self.has_one_row and what != "BK" else 16
            if extent < least or not is_power_of_two(extent // 3 if may_be_three else extent):
                raise VerifyException(
                    f"schedule: {what} is {extent}, expected a power of two of at least {least}"
                )
        if self.warps.data not in (1, 2, 4, 8, 16):
            raise VerifyException(
                f"schedule: warps is {self.warps.data}, expected 1, 2, 4, 8 or 16"
            )
        for what, number in (("stages", self.stages), ("group_m", self.group_m)):
            if number.data < 1:
                raise VerifyException(f"schedule: {what} is {number.data}, expected at least 1")
        if not 1 <= self.split_k.data <= MAX_SPLITS:
            raise VerifyException(
                f"schedule: split_k is {self.split_k.data}, expected 1 to {MAX_SPLITS}"
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
