"""`--verify-roundtrip`: printed IR must be read again as the same IR."""

import argparse
from collections.abc import Iterable
from itertools import zip_longest

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CodaError
from coda_ir.mlir.reader import read_module
from coda_ir.pipeline import PassInstrumentation
from coda_ir.pipeline.printing import generic_text
from coda_ir.tools.opt.feature import Session

MISSING = "<end of the text>"


class RoundTripError(CodaError):
    """Printed IR that cannot be read, or is read as other IR."""


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checks")
    group.add_argument(
        "--verify-roundtrip",
        action="store_true",
        help="check that printing and parsing give the same IR, before and after the passes",
    )


def instrumentations(session: Session) -> Iterable[PassInstrumentation]:
    return (VerifyRoundTrip(session.context),) if session.options.verify_roundtrip else ()


class VerifyRoundTrip(PassInstrumentation):
    """Checks the round trip of the module before the first pass and after the last one."""

    def __init__(self, context: Context):
        self._context = context

    def before_pipeline(self, module: ModuleOp) -> None:
        check_round_trip(module, self._context, "the input")

    def after_pipeline(self, module: ModuleOp) -> None:
        check_round_trip(module, self._context, "the result of the passes")


def check_round_trip(module: ModuleOp, context: Context, what: str) -> None:
    """Print, parse and print again, in the custom and in the generic form.

    Raises RoundTripError, which names the first line that differs.
    """
    for form, to_text in (("custom", str), ("generic", generic_text)):
        text = to_text(module)
        try:
            again = read_module(text, f"<{what}, {form} form>", context)
        except CodaError as error:
            raise RoundTripError(
                f"the {form} form of {what} is not read again: {error}",
                "this is a defect of a printer or a parser of an operator",
            ) from error
        _compare(text, to_text(again), f"the {form} form of {what}")
        # What the custom form does not print at all shows in the generic form only.
        _compare(_canonical(module), _canonical(again), f"{what}, read from its {form} form,")


def _compare(before: str, after: str, what: str) -> None:
    pairs = zip_longest(before.splitlines(), after.splitlines(), fillvalue=MISSING)
    for number, (first, second) in enumerate(pairs, 1):
        if first != second:
            raise RoundTripError(
                f"{what} differs after a round trip, first in line {number}:\n"
                f"  - {first.strip()}\n  + {second.strip()}",
                "this is a defect of a printer or a parser of an operator",
            )


def _canonical(module: ModuleOp) -> str:
    """Return the generic form, with properties and attributes in the order of their names."""
    copy = module.clone()
    for op in copy.walk():
        op.properties = dict(sorted(op.properties.items()))
        op.attributes = dict(sorted(op.attributes.items()))
    return generic_text(copy)
