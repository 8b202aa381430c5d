"""`--timing` and `--statistics`: reports on stderr about the time and the effects of passes."""

import argparse
import sys
from collections.abc import Iterable

from coda_ir.pipeline import PassInstrumentation
from coda_ir.pipeline.timing import CountOperators, TimePasses
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reports")
    group.add_argument(
        "--timing", action="store_true", help="print the time of each pass, as a tree, to stderr"
    )
    group.add_argument(
        "--statistics",
        action="store_true",
        help="print the operators and rewrites of each pass to stderr",
    )


def instrumentations(session: Session) -> Iterable[PassInstrumentation]:
    if session.options.statistics:
        yield CountOperators(session.remarks, sys.stderr)
    if session.options.timing:
        yield TimePasses(session.timer.part("passes"))


def report_timing(session: Session) -> None:
    if session.options.timing:
        sys.stderr.write(session.timer.report())
