"""`python -m generator run --programs 20000 --seed 1 --jobs 2`, and `replay FILE` of a failure."""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from generator.triton_mode import use_interpreter

use_interpreter()
# Nobody runs a random program twice.
os.environ["CODA_CACHE_LIMIT"] = "0"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where every program has every property, 1 where one has not."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "replay":
            return _replay(options.file)
        case "coverage":
            return _coverage(options)
        case _:
            return _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("generator", description="Check random programs.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="check many programs")
    run.add_argument("--programs", type=int, default=1000)
    run.add_argument("--seed", type=int, default=0, help="the same programs for the same seed")
    run.add_argument("--jobs", type=int, default=1, help="processes")
    run.add_argument("--start", type=int, default=0, help="number of the first program")
    run.add_argument("--folder", type=Path, default=Path("random_failures"))
    run.add_argument("--shrink-seconds", type=float, default=90.0)
    run.add_argument("--seconds", type=float, default=math.inf, help="begin no program later")
    run.add_argument("--only", metavar="PROPERTY", help="such as gradients; by default all")
    coverage = commands.add_parser("coverage", help="the lines of the passes that programs run")
    coverage.add_argument("--programs", type=int, default=1000)
    coverage.add_argument("--seed", type=int, default=0)
    replay = commands.add_parser("replay", help="check the program of a failure file again")
    replay.add_argument("file", type=Path)
    return parser


def _run(options: argparse.Namespace) -> int:
    from generator.properties import PROPERTIES
    from generator.run import RunOptions, run
    from generator.summary import print_report

    if options.only not in {None, *PROPERTIES}:
        sys.exit(f"unknown property {options.only}; known are {', '.join(PROPERTIES)}")
    console = Console()
    report = run(
        RunOptions(
            programs=options.programs,
            seed=options.seed,
            jobs=options.jobs,
            start=options.start,
            folder=options.folder,
            shrink_seconds=options.shrink_seconds,
            only=options.only,
            seconds=options.seconds,
        ),
        console,
    )
    print_report(report, console)
    return 1 if report.distinct else 0


def _coverage(options: argparse.Namespace) -> int:
    from generator.coverage import measure, print_coverage

    print_coverage(measure(options.programs, options.seed), Console(width=120))
    return 0


def _replay(path: Path) -> int:
    from generator.check import replay
    from generator.violations import Violation

    try:
        replay(path.read_text())
    except Violation as violation:
        print(violation)
        return 1
    print("the program has the property now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
