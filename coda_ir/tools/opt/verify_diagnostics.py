"""Warnings on stderr; `--verify-diagnostics` compares diagnostics with comments in the input."""

import argparse
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import get_args

from coda_ir.diagnostics import (
    Diagnostic,
    Severity,
    collect_diagnostics,
)
from coda_ir.error_diagnostics import diagnostics_of
from coda_ir.remarks import Remark
from coda_ir.tools.opt.errors import FAILURE, USER_ERRORS, exit_code
from coda_ir.tools.opt.expected_diagnostics import (
    ExpectationError,
    Mode,
    compare,
    parse_expectations,
)
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.remarks_output import RemarkSelection


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checks")
    group.add_argument(
        "--verify-diagnostics",
        nargs="?",
        const="all",
        choices=get_args(Mode),
        help="check that the input gives exactly the diagnostics that its comments expect, as in "
        "'// expected-error@+1 {{text}}'; with =only-expected, others are allowed",
    )


@contextmanager
def checked_diagnostics(session: Session) -> Generator[None]:
    """Compare the errors, warnings and remarks on a piece of the input with its comments.

    An error in the input ends here, whether expected or not.
    """
    if session.options.verify_diagnostics is None:
        with _printed_warnings(session):
            yield
        return
    errors: Sequence[Diagnostic] = ()
    with collect_diagnostics() as emitted:
        try:
            yield
        except USER_ERRORS as error:
            if isinstance(error, OSError) or exit_code(error) != FAILURE:
                raise
            errors = diagnostics_of(error)
    found = [*emitted, *map(Remark.to_diagnostic, _selected_remarks(session)), *errors]
    mismatches = check_diagnostics(
        found,
        session.text,
        session.chunk.name,
        mode=session.options.verify_diagnostics,
        counted=_counted(session),
    )
    if mismatches:
        session.fail(*mismatches)


@contextmanager
def _printed_warnings(session: Session) -> Generator[None]:
    """Print the warnings on a piece of the input to stderr, also where something is raised."""
    with collect_diagnostics() as emitted:
        try:
            yield
        finally:
            if emitted:
                session.report(*emitted)


def check_diagnostics(
    emitted: Sequence[Diagnostic],
    text: str,
    file: str,
    *,
    mode: Mode = "all",
    counted: frozenset[Severity] = frozenset(),
) -> list[Diagnostic]:
    """Return what does not fit between the diagnostics `emitted` for `text` and its comments.

    The remedy of a diagnostic is a note at its place. See `compare` for `mode` and `counted`.
    """
    try:
        expected = parse_expectations(text, file)
    except ExpectationError as error:
        return list(error.diagnostics)
    remedies = [
        Diagnostic("note", diagnostic.range, diagnostic.remedy)
        for diagnostic in emitted
        if diagnostic.remedy is not None
    ]
    return compare(expected, [*emitted, *remedies], file, mode=mode, counted=counted)


def _selected_remarks(session: Session) -> list[Remark]:
    """The remarks that `--remarks` asks for; all of them where it is not given."""
    selection = RemarkSelection.from_options(session.options)
    return [remark for remark in session.remarks if selection.wants(remark)]


def _counted(session: Session) -> frozenset[Severity]:
    """Unexpected remarks count even where none is expected, if they are asked for."""
    return frozenset({"remark"}) if session.options.remarks is not None else frozenset()
