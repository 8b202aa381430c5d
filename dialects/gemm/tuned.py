"""What a measurement said about the schedule of a GEMM."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

TUNED_ATTRIBUTE = "coda.tuned"
"""Name of the attribute of a `gemm.fused` that has a `TunedAttr`."""


@irdl_attr_definition
class TunedAttr(ParametrizedAttribute):
    """A schedule was chosen by measurement: on which device, for how many rows (of K where x is
    transposed), and nanoseconds: those predicted and measured, and those measured for the schedule
    that the cost model takes. `partial` where the budget ended before every candidate was tried.

    `#gemm.tuned<"H100", rows = 16384, predicted = 612000, measured = 598000, model = 655000>`
    """

    name = "gemm.tuned"
    device: StringAttr
    rows: IntAttr
    predicted: IntAttr
    measured: IntAttr
    model: IntAttr
    partial: IntAttr

    FIELDS: ClassVar = ("rows", "predicted", "measured", "model")

    @staticmethod
    def get(
        device: str, rows: int, times: tuple[int, int, int], *, is_partial: bool = False
    ) -> "TunedAttr":
        """The times in nanoseconds: predicted, measured, and the model's choice's."""
        numbers = map(IntAttr, (rows, *times, int(is_partial)))
        return TunedAttr(StringAttr(device), *numbers)

    @property
    def is_partial(self) -> bool:
        return bool(self.partial.data)

    def verify(self) -> None:
        for field in self.FIELDS:
            number = getattr(self, field).data
            if number < 1:
                raise VerifyException(f"tuned: {field} is {number}, expected at least 1")

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.device.data)
            for field in self.FIELDS:
                printer.print_string(f", {field} = {getattr(self, field).data}")
            if self.is_partial:
                printer.print_string(", partial")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        numbers: list[Attribute] = []
        with parser.in_angle_brackets():
            device = parser.parse_str_literal()
            for field in cls.FIELDS:
                parser.parse_punctuation(",")
                parser.parse_keyword(field)
                parser.parse_punctuation("=")
                numbers.append(IntAttr(parser.parse_integer(allow_boolean=False)))
            is_partial = parser.parse_optional_punctuation(",") is not None
            if is_partial:
                parser.parse_keyword("partial")
            numbers.append(IntAttr(int(is_partial)))
        return StringAttr(device), *numbers
