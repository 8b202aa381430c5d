"""The result of measuring the schedule of a GEMM."""

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
    that the cost model takes. `kernels` where the measured time is that of several kernels, which
    this one begins or is among. `partial` where the budget ended before every candidate was tried.

    `#gemm.tuned<"H100", rows = 16384, predicted = 612000, measured = 598000, model = 655000>`
    """

    name = "gemm.tuned"
    device: StringAttr
    rows: IntAttr
    predicted: IntAttr
    measured: IntAttr
    model: IntAttr
    kernels: IntAttr
    partial: IntAttr

    FIELDS: ClassVar = ("rows", "predicted", "measured", "model")

    @staticmethod
    def get(
        device: str,
        rows: int,
        times: tuple[int, int, int],
        *,
        kernels: int = 1,
        is_partial: bool = False,
    ) -> "TunedAttr":
        """The times in nanoseconds: predicted, measured, and the model's choice's."""
        numbers = map(IntAttr, (rows, *times, kernels, int(is_partial)))
        return TunedAttr(StringAttr(device), *numbers)

    @property
    def is_partial(self) -> bool:
        return bool(self.partial.data)

    def verify(self) -> None:
        for field in (*self.FIELDS, "kernels"):
            number = getattr(self, field).data
            if number < 1:
                raise VerifyException(f"tuned: {field} is {number}, expected at least 1")

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.device.data)
            for field in self.FIELDS:
                printer.print_string(f", {field} = {getattr(self, field).data}")
            if self.kernels.data != 1:
                printer.print_string(f", kernels = {self.kernels.data}")
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
                numbers.append(_parse_number(parser))
            kernels, is_partial = IntAttr(1), False
            while not is_partial and parser.parse_optional_punctuation(",") is not None:
                if parser.parse_optional_keyword("kernels") is not None:
                    kernels = _parse_number(parser)
                else:
                    parser.parse_keyword("partial")
                    is_partial = True
            numbers += [kernels, IntAttr(int(is_partial))]
        return StringAttr(device), *numbers


def _parse_number(parser: AttrParser) -> IntAttr:
    parser.parse_punctuation("=")
    return IntAttr(parser.parse_integer(allow_boolean=False))
