"""Models of transformers and diffusers at real widths: eager, torch.compile and coda.

    python -m fleet --models llama,sd3 --json fleet.json --jobs 4 --budget 540
    python -m fleet --parts training --json fleet.json
    python -m fleet --parts training --autocast --json fleet.json
    python -m fleet --members blocks.py --json blocks.json

Run in benchmarks/. Each part of each model has a process of its own: `--jobs` of them, or as many
as fit into memory, compile at a time; then one after the other is timed, while nothing compiles.
Records that are in the JSON file already are not measured again,
so that a run that ended early is continued by the same command. `--budget` is in seconds; a part
that does not fit is left for the next run.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from harness import read_options, table_of
from rich.console import Console

from coda_ir.progress import Progress
from fleet.measure import (
    CAPTURED,
    CODA,
    CODA_FOLDED,
    CODA_GRAPHS,
    CODA_INDUCTOR,
    CODA_KERNELS,
    CODA_TUNED,
    COMPILED,
    COMPILED_GRAPHS,
    EAGER,
    LIGER,
    MAX_AUTOTUNE,
    PARTS,
    VARIANTS,
    Record,
)
from fleet.members import members_of
from fleet.runner import run


def main(arguments: Sequence[str] | None = None) -> None:
    options = read_options(_parser(), arguments)
    records = _read(options.json)
    known = {(record.model, record.part) for record in records}
    patterns = options.models.split(",")
    tasks = [
        (member, part)
        for part in options.parts.split(",")
        for member in members_of(options.members)
        if any(fnmatchcase(member.name, pattern) for pattern in patterns)
        if (member.name, part) not in known
    ]
    console = Console(width=150)
    report = partial(print, file=sys.stderr)
    with Progress({"models": len(tasks)}) as progress:
        for record in run(tasks, options, report):
            records.append(record)
            _write(options.json, records)
            ratio = f"{record.ratio:.3f}" if record.ratio else "-"
            notes = "; ".join(f"{name}: {note}" for name, note in record.notes.items())
            progress.advance("models")
            equal = "by equal programs " if record.equal_programs else ""
            host = "".join(f"{name} {us:.0f} us, " for name, us in record.host_us.items())
            host = f"host: {host}" if host else ""
            report(f"{record.model}, {record.part}: {ratio} of torch.compile {equal}{host}{notes}")
    _print(console, records)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fleet", description=__doc__, formatter_class=_Raw)
    parser.add_argument("--models", default="*", metavar="PATTERN,...")
    parser.add_argument("--members", metavar="FILE.py", help="with MEMBERS to measure instead")
    parser.add_argument("--parts", default="forward", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--variants", default=",".join(VARIANTS), help=f"of {', '.join(ALL)}")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--jobs", type=int, default=1, help="models that compile at a time")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of one part")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--host", action="store_true", help="also time the host in a call")
    parser.add_argument("--energy", action="store_true", help="also count the energy of a call")
    parser.add_argument("--profile", type=int, default=0, help="kernels of each variant to print")
    parser.add_argument("--json", type=Path, default=Path("fleet.json"))
    parser.add_argument("--autocast", action="store_true", help="weights in float32")
    parser.add_argument("--float32", action="store_true", help="weights and products in float32")
    return parser


ALL = (
    *(*VARIANTS, CODA_KERNELS, CODA_INDUCTOR, CODA_TUNED, CODA_FOLDED, CODA_GRAPHS),
    *(COMPILED_GRAPHS, MAX_AUTOTUNE, LIGER, f"{COMPILED}{CAPTURED}", f"{CODA}{CAPTURED}"),
)

_Raw = argparse.RawDescriptionHelpFormatter


def _read(path: Path) -> list[Record]:
    return [Record(**data) for data in json.loads(path.read_text())] if path.exists() else []


def _write(path: Path, records: Sequence[Record]) -> None:
    path.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")


def _print(console: Console, records: Sequence[Record]) -> None:
    """Print the records by ratio, the slowest first, and the geometric means.

    A `=` after a ratio says that both run equal programs.
    """
    if not records:
        console.print("no part has a record")
        return
    timed = dict.fromkeys(name for record in records for name in record.milliseconds)
    names = [*(n for n in ALL if n in timed), *(n for n in timed if n not in ALL)]
    columns = ("model", "part", *names, "ratio", "error / eager's", "first call s", "GiB")
    table = table_of("", *columns, texts=2)
    for record in sorted(records, key=lambda record: -(record.ratio or 99)):
        table.add_row(*_row(record, names))
    console.print(table)
    _print_work(console, records)
    for part in PARTS:
        ratios = [r.ratio for r in records if r.part == part and r.ratio]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            console.print(f"{part}: {len(ratios)} models, geometric mean {mean:.3f}")


def _print_work(console: Console, records: Sequence[Record]) -> None:
    """Print a line for each variant of models whose work or energy is known."""
    columns = ("model", "variant", "ms", "x eager", "% of peak", "mJ", "mJ / token", "error")
    table = table_of("", *columns, texts=2)
    for record in records:
        if record.peak_ms is None and not record.millijoules:
            continue
        for name, ms in record.milliseconds.items():
            joules, eager = record.millijoules.get(name), record.milliseconds.get(EAGER)
            cells = (
                ("{:.3f}", ms),
                ("{:.3f}", eager and ms / eager),
                ("{:.1f}", record.peak_ms and 100 * record.peak_ms / ms),
                ("{:.0f}", joules),
                ("{:.3g}", joules and record.tokens and joules / record.tokens),
                ("{:.2e}", record.errors.get(name)),
            )
            shown = ["-" if value is None else text.format(value) for text, value in cells]
            table.add_row(f"{record.model}, {record.part}", name, *shown)
    if table.row_count:
        console.print(table)


def _row(record: Record, names: Sequence[str]) -> list[str]:
    times = [
        f"{record.milliseconds[name]:.3f}" if name in record.milliseconds else "-" for name in names
    ]
    errors = record.errors
    error = f"{errors[CODA] / errors[EAGER]:.2f}" if errors.get(EAGER) and CODA in errors else "-"
    first = " / ".join(
        f"{record.first_call_s[name]:.1f}" if name in record.first_call_s else "-"
        for name in (COMPILED, CODA)
    )
    peaks = " / ".join(f"{record.peak_gib.get(name) or 0:.2f}" for name in (COMPILED, CODA))
    ratio = f"{record.ratio:.3f}" if record.ratio else "-"
    ratio += " =" if record.equal_programs else ""
    return [record.model, record.part, *times, ratio, error, first, peaks]


if __name__ == "__main__":
    main()
