"""The table of the zoo and its summary."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from coda_ir.dialects.gemm import FusedOp
from zoo.accuracy import FLOOR, SMALL_RESULT
from zoo.measure import Accuracy, Measurement

COLUMNS = (
    "exports", "runs", "f32: eager", "block", "gemm", "triton", "bf16: eager", "block", "gemm",
    "triton", "as exact", "GEMMs", "others",
)  # fmt: skip

LEGEND = f"""\
exports: with which dynamic dimensions. runs: on the reference backend, at both levels.
block, gemm: the error of that level over eager's; triton: that of the emitted program, which runs
in memory with guards, each access checked where Triton interprets. as exact: at most 1.25. ~ is
more, and allowed: an error of at most 6 eps of float32 ({FLOOR:.1e}), since libraries split sums in
different ways, or of at most one eps of its type above 1.25 x eager's for a result of few elements
(< {SMALL_RESULT}). others: kernels that are no GEMMs, and calls of PyTorch."""


def print_measurements(console: Console, measurements: Sequence[Measurement]) -> None:
    """One line for each architecture: errors of eager, and of each level over these; totals."""
    table = Table(title="error against float64: eager's, and that of each level over eager's")
    table.add_column("architecture", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for result in measurements:
        table.add_row(result.name, *_cells(result))
    console.print(table)
    console.print(LEGEND, highlight=False)
    for result in measurements:
        for text in (result.note, result.failure):
            if text:
                console.print(f"{result.name}: {text}", highlight=False, markup=False)
    _print_summary(console, measurements)


def _cells(result: Measurement) -> list[str]:
    cells = [result.shapes or "NO", "yes" if result.accuracy else "NO"]
    for name in ("f32", "bf16"):
        if name in result.accuracy:
            entry = result.accuracy[name]
            ratios = (entry.block_ratio, entry.gemm_ratio, entry.triton_ratio)
            cells += [f"{entry.eager:.1e}", *("-" if r is None else f"{r:.2f}" for r in ratios)]
        else:
            cells += ["-"] * 4
    allowed = any(entry.needs_allowance for entry in result.accuracy.values())
    cells.append(("~" if allowed else "yes") if result.ok else "NO")
    gemms = result.operators.get(FusedOp.name, 0)
    return [*cells, str(gemms), str(sum(result.operators.values()) - gemms)]


def _print_summary(console: Console, measurements: Sequence[Measurement]) -> None:
    """Print how many architectures export, run, and are as exact as eager PyTorch."""
    exported = [result for result in measurements if result.shapes]
    console.print(
        f"{len(measurements)} architectures: {len(exported)} export, "
        f"{sum(result.shapes == 'dynamic' for result in exported)} of them with dynamic shapes; "
        f"{sum(bool(result.accuracy) for result in exported)} run"
    )
    for name in ("f32", "bf16"):
        entries = [result.accuracy[name] for result in exported if name in result.accuracy]
        console.print(
            f"{name}: {sum(e.ok for e in entries)} of {len(entries)} as exact as eager, "
            f"{sum(e.ok and e.needs_allowance for e in entries)} of them by the allowance"
        )


def read_measurement(row: dict[str, Any]) -> Measurement:
    """The measurement of a row of the file."""
    known = {name: value for name, value in row.items() if name != "ok"}
    known["accuracy"] = {name: Accuracy(**entry) for name, entry in row["accuracy"].items()}
    return Measurement(**known)


CONTROL_FLOW = "control flow or a Python number depends on the values of a tensor"
SIZES = "a size depends on the values of a tensor"
COMPLEX = "tensors of type torch.complex64 cannot be represented"
NO_FFT = "Unsupported dtype BFloat16"
"""The error of PyTorch for a Fourier transform on a CPU."""

EXPLAINED: Mapping[str, Sequence[str]] = {
    "aria_text": [CONTROL_FLOW],
    "fnet": [COMPLEX, NO_FFT],
    "jetmoe": [SIZES],
    "longformer": [CONTROL_FLOW],
    "pixtral": [CONTROL_FLOW],
    "vilt": [CONTROL_FLOW],
}
"""Parts of the notes that are allowed, by architecture."""


def is_explained(name: str, note: str) -> bool:
    """Return whether `note` is what is known of an architecture that fails."""
    return any(part in note for part in EXPLAINED.get(name, ()))


def is_not_captured(note: str) -> bool:
    """Return whether `torch.export` refuses a model, before this package sees a graph."""
    return "cannot be captured" in note
