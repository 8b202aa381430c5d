"""The tuner's decision about a GEMM as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Form: TypeAlias = Literal["fused", "unfused", "library"]
"""The form of a GEMM with an epilogue: one kernel; a kernel that stores products, and pointwise
kernels; or PyTorch's library and pointwise kernels.
"""

FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True)
class Configured:
    """A form of a GEMM and its schedule, as plain data."""

    mainloop: str
    tile: tuple[int, int, int]
    warps: int
    stages: int
    group_m: int
    split_k: int = 1
    form: Form = "fused"

    def __str__(self) -> str:
        if self == LIBRARY:
            return "PyTorch's library"
        tile = "x".join(map(str, self.tile))
        text = (
            f"{self.mainloop} {tile}, {self.warps} warps, {self.stages} stages, "
            f"group_m {self.group_m}"
        )
        text = text if self.split_k == 1 else f"{text}, split_k {self.split_k}"
        return text if self.form == "fused" else f"{self.form}, {text}"


LIBRARY = Configured("library", (0, 0, 0), 0, 0, 0, form="library")
"""Products by PyTorch's library, which has its own schedules."""


@dataclass(frozen=True)
class Tried:
    """One candidate: its predicted and its measured time."""

    configured: Configured
    predicted_us: float
    ratio: float | None = None
    """Its time over that of the model's choice, measured side by side; 1 for that itself."""
    skipped: str | None = None
    """The reason why there is no ratio."""


@dataclass(frozen=True)
class Decision:
    """The schedule of a GEMM for a bucket of rows on a device."""

    chosen: Configured
    predicted_us: float
    measured_us: float
    model_us: float
    """Measured for the model's choice; where that cannot run, for the next that can."""
    rows: int
    """The number of rows that was measured."""
    tried: tuple[Tried, ...]
    """The first is the model's choice."""
    is_complete: bool
    """True if every candidate was tried before the budget was spent."""

    @property
    def gain(self) -> float:
        """The speedup over the choice of the model."""
        return self.model_us / self.measured_us

    @property
    def keeps_model(self) -> bool:
        return self.chosen == self.tried[0].configured


def table(decision: Decision) -> Sequence[tuple[str, str, str, str]]:
    """The rows of a table: rank by the model, schedule, predicted and measured microseconds."""
    rows: list[tuple[str, str, str, str]] = []
    for rank, tried in enumerate(decision.tried, 1):
        found = tried.skipped if tried.ratio is None else f"{tried.ratio:.3f} x"
        if tried.configured == decision.chosen:
            found = f"{found} (chosen)"
        rows.append((str(rank), str(tried.configured), f"{tried.predicted_us:.1f}", found or ""))
    return rows
