"""The result of measuring the schedule of a GEMM."""

from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.fields import FieldsAttr

TUNED_ATTRIBUTE = "coda.tuned"
"""Name of the attribute of a `gemm.fused` that has a `TunedAttr`."""


@irdl_attr_definition
class TunedAttr(FieldsAttr):
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

    UNNAMED: ClassVar = ("device",)
    DEFAULTS: ClassVar = {"kernels": IntAttr(1)}
    FLAGS: ClassVar = ("partial",)

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
        for field in ("rows", "predicted", "measured", "model", "kernels"):
            number = getattr(self, field).data
            if number < 1:
                raise VerifyException(f"tuned: {field} is {number}, expected at least 1")
