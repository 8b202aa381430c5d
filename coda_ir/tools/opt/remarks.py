"""`--remarks`: what the passes did and refused, on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import contextmanager

from coda_ir.remarks import REMARK_KINDS
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("remarks")
    group.add_argument(
        "--remarks",
        nargs="?",
        const="all",
        default="none",
        choices=("all", *REMARK_KINDS, "none"),
        help="print the remarks of the passes, or those of one kind, to stderr",
    )


@contextmanager
def printed_remarks(session: Session) -> Generator[None]:
    """Print the remarks on a piece of the input to stderr, also where something is raised."""
    chosen = session.options.remarks
    kinds = REMARK_KINDS if chosen == "all" else (chosen,)
    try:
        yield
    finally:
        for remark in session.remarks:
            if remark.kind in kinds:
                print(remark, file=sys.stderr)
