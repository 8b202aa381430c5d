"""The table of the zoo and its summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from harness import table_of
from rich.console import Console
from rich.table import Table

from zoo.accuracy import FLOOR, SMALL_RESULT
from zoo.fusion import FusionReport
from zoo.measure import Accuracy, Measurement

COLUMNS = (
    "exports", "runs", "f32: eager", "block", "gemm", "triton", "bf16: eager", "block", "gemm",
    "triton", "as exact", "linear", "GEMMs", "calls", "named", "fused", "bytes",
)  # fmt: skip

LEGEND = f"""\
exports: with which dynamic dimensions. runs: on the reference backend, at both levels.
block, gemm: the error of that level over eager's; triton: that of the emitted program, which runs
in memory with guards, each access checked where Triton interprets. as exact: at most 1.25. ~ is
more, and allowed: an error of at most 6 eps of float32 ({FLOOR:.1e}), since libraries split sums in
different ways, or of at most one eps of its type above 1.25 x eager's for a result of few elements
(< {SMALL_RESULT}).
named: operators of the block level other than linear maps; calls: those that run through PyTorch.
fused, bytes: how many of the operators on activations that are neither GEMM, convolution, attention
nor layout end inside of a GEMM kernel, and their part of the bytes that these operators move."""


def print_table(console: Console, measurements: Sequence[Measurement]) -> None:
    """One line for each architecture: errors of eager, and those of the two levels over them."""
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
    fusion = result.fusion
    if fusion is None:
        return [*cells, *["-"] * 6]
    cells += [str(fusion.linears), str(fusion.gemms), str(fusion.calls.total())]
    cells += [str(fusion.operators.total()), f"{fusion.fused}/{fusion.considered}"]
    return [*cells, _percent(fusion.fused_bytes, fusion.considered_bytes)]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def print_summary(console: Console, measurements: Sequence[Measurement], rows: int = 25) -> None:
    """Totals, totals by family, and the reasons for what is outside of GEMMs."""
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
    console.print(_families(exported))
    console.print(_named(exported))
    console.print(_reasons(exported, rows))


def _families(results: Sequence[Measurement]) -> Table:
    families: dict[str, list[Measurement]] = defaultdict(list)
    for result in results:
        families[result.family].append(result)
    columns = ("family", "architectures", "operators", "inside", "bytes")
    table = table_of("operators inside of GEMMs", *columns)
    for family, members in sorted(families.items()):
        reports = [member.fusion for member in members if member.fusion is not None]
        considered, fused = (sum(getattr(r, f) for r in reports) for f in ("considered", "fused"))
        size, inside = (
            sum(getattr(r, f) for r in reports) for f in ("considered_bytes", "fused_bytes")
        )
        table.add_row(
            family, str(len(members)), str(considered), _percent(fused, considered),
            _percent(inside, size),
        )  # fmt: skip
    return table


def _named(results: Sequence[Measurement]) -> Table:
    what = "operators raised, and those that run through PyTorch"
    table = table_of(what, "operator", "architectures", "count")
    for kind in ("operators", "calls"):
        counts = [getattr(r.fusion, kind) for r in results if r.fusion is not None]
        total = sum(counts, Counter[str]())
        for name, count in total.most_common(25):
            table.add_row(name, str(sum(name in entry for entry in counts)), str(count))
        table.add_section()
    return table


def reasons(measurements: Sequence[Measurement]) -> list[tuple[str, int, int]]:
    """Reason, architectures, operators: those of most architectures first."""
    operators, architectures = Counter[str](), Counter[str]()
    for result in measurements:
        if result.fusion is not None:
            operators += result.fusion.reasons
            architectures.update(result.fusion.reasons.keys())
    ordered = sorted(architectures, key=lambda reason: (-architectures[reason], reason))
    return [(reason, architectures[reason], operators[reason]) for reason in ordered]


def _reasons(results: Sequence[Measurement], rows: int) -> Table:
    columns = ("operator: pass: reason", "architectures", "operators")
    table = table_of("reasons for the others", *columns)
    for reason, architectures, operators in reasons(results)[:rows]:
        table.add_row(reason, str(architectures), str(operators))
    return table


def read_measurement(row: dict[str, Any]) -> Measurement:
    """The measurement of a row of the file."""
    known = {name: value for name, value in row.items() if name != "ok"}
    known["accuracy"] = {name: Accuracy(**entry) for name, entry in row["accuracy"].items()}
    if (counts := row["fusion"]) is not None:
        for name in ("operators", "calls", "reasons"):
            counts[name] = Counter(counts[name])
        known["fusion"] = FusionReport(**counts)
    return Measurement(**known)
