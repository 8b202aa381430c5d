"""The tables at the end of a run."""

from rich.console import Console
from rich.table import Table

from coda_ir.passes import get_all_passes
from generator.features import MOTIFS
from generator.properties import PROPERTIES
from generator.run import Report

SELDOM = 0.01
"""A pass that fires in fewer programs is not tested by them."""

WITHOUT_PASSED = {
    "coda-to-gemm",
    "drop-unused-results",
    "place-column-scale",
    "plan-buffers",
    "report-unfused",
    "schedule",
    "set-numerics",
}
"""Passes that are pipelines, only state facts, or need an option."""


def print_report(report: Report, console: Console) -> None:
    console.print(_properties(report), _motifs(report), _passes(report))
    console.print(_conditions(report), _notes(report))
    if report.distinct:
        console.print(_failures(report))
    programs = sum(report.tally.programs.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.tally.programs.items())
    checks = sum(report.tally.checks.values())
    console.print(
        f"{programs} programs ({kinds}), {checks} checks, "
        f"{len(report.tally.failures)} failures, {len(report.distinct)} distinct"
    )


def _properties(report: Report) -> Table:
    table = Table("property", "programs", "failures", "seconds", title="Properties")
    for name in PROPERTIES:
        failures = sum(failure.name == name for failure in report.tally.failures)
        seconds = f"{report.tally.seconds[name]:.0f}"
        table.add_row(name, str(report.tally.checks[name]), str(failures), seconds)
    return table


def _motifs(report: Report) -> Table:
    programs = sum(report.tally.programs.values()) or 1
    table = Table("motif", "in", title="Motifs")
    for motif in MOTIFS:
        share = report.tally.motifs[motif] / programs
        table.add_row(motif, f"{share:.1%}", style="red" if share < SELDOM else None)
    return table


def fired(report: Report) -> dict[str, float]:
    """The share of programs in which each pass rewrote something (and said so)."""
    programs = sum(report.tally.programs.values()) or 1
    return {name: report.tally.remarks["passed", name, ""] / programs for name in get_all_passes()}


def seldom_fired(report: Report) -> list[str]:
    shares = fired(report)
    return [name for name in shares if shares[name] < SELDOM and name not in WITHOUT_PASSED]


def _passes(report: Report) -> Table:
    table = Table("pass", "fired in", title="Passes")
    for name, share in sorted(fired(report).items(), key=lambda item: -item[1]):
        if share:
            table.add_row(name, f"{share:.1%}")
    for name in seldom_fired(report):
        table.add_row(name, "seldom or never", style="red")
    return table


def _conditions(report: Report) -> Table:
    table = Table("pass", "failed condition", "programs", title="Refused")
    for (kind, name, condition), count in sorted(report.tally.remarks.items()):
        if kind == "missed":
            table.add_row(name, condition, str(count))
    return table


def _notes(report: Report) -> Table:
    table = Table("note", "programs", title="Notes")
    for note, count in report.tally.notes.most_common():
        table.add_row(note, str(count))
    return table


def _failures(report: Report) -> Table:
    table = Table("failure", "programs", "smallest", title="Failures")
    for signature, failure in report.distinct.items():
        lines = failure.module.count("\n")
        table.add_row(signature, str(report.counts[signature]), f"{lines} lines")
    return table
