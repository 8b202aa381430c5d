"""`--verify-diagnostics` and `--parsing-diagnostics`: print the errors of the input and go on."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager

from xdsl.utils.exceptions import DiagnosticException, ParseError

from coda_ir.diagnostics import CodaError
from coda_ir.tools.opt.feature import Session


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checks")
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="print what the verifier finds, and exit with 0",
    )
    group.add_argument(
        "--parsing-diagnostics",
        action="store_true",
        help="print what the parser finds, and exit with 0",
    )


@contextmanager
def expected_errors(session: Session) -> Generator[None]:
    """Print an error of the kind that is asked for instead of raising it."""
    options = session.options
    try:
        yield
    except (DiagnosticException, ParseError, CodaError) as error:
        expected = options.verify_diagnostics and not isinstance(error, ParseError)
        expected |= options.parsing_diagnostics and not isinstance(error, DiagnosticException)
        if not expected:
            raise
        print("\n".join([str(error), *getattr(error, "__notes__", [])]))
