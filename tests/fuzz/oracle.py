"""Properties of every text: an error with a place, or a module that round-trips."""

import resource
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from support.processor_time import processor_time_limit
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from coda_ir.diagnostics import Diagnostic, DiagnosticError
from coda_ir.frontends.coda_text import format_text, parse_text
from coda_ir.mlir.parser import MAX_DEPTH, too_deep
from coda_ir.mlir.reader import read_module
from fuzz.seeds import printed

Result = TypeVar("Result")

ROOT = Path(__file__).parents[2]
CODA_FILE = str(ROOT / "examples" / "fuzzed.coda")
MLIR_FILE = "fuzzed.mlir"

SECONDS = 2.0
SECONDS_PER_CHARACTER = 1 / 300
"""An operator may be one character, and atheris makes Python several times slower."""
KILOBYTES = 64_000
KILOBYTES_PER_CHARACTER = 8

OWN_FOLDERS = ("/coda_ir/", "/dialects/", "/frontends/")


class Finding(AssertionError):
    """A text that the product does not handle as it should."""


class TooMuch(Finding):
    """More time or memory than the length of the text explains."""


class TooSlow(BaseException):
    """Not an Exception, so that no reader takes it for a mistake in the text."""


def check_coda(text: str) -> None:
    """`.coda`: parse, print, read back; format twice; parse what was formatted. Raises Finding."""
    module, error = outcome(lambda: parse_text(text, CODA_FILE), text, CODA_FILE)
    if module is not None:
        module.verify()
        _check_round_trip(module, text)
    formatted, format_error = outcome(lambda: format_text(text, CODA_FILE), text, CODA_FILE)
    if formatted is None:
        if error is None:
            raise Finding(f"parses, but is not formatted: {format_error}")
        return
    if format_text(formatted, CODA_FILE) != formatted:
        raise Finding("formatting is not idempotent")
    again, error_again = outcome(lambda: parse_text(formatted, CODA_FILE), formatted, CODA_FILE)
    if (module is None) != (again is None):
        raise Finding(f"formatting changes what is accepted: {error or error_again}")
    if module is not None and str(module) != str(again):
        raise Finding("formatting changes the program")


def check_mlir(text: str) -> None:
    """`.mlir`: read, print, read back, in both syntaxes. Raises Finding."""
    module, _ = outcome(lambda: read_module(text, MLIR_FILE), text, MLIR_FILE)
    if module is not None:
        _check_round_trip(module, text)


def bounded(check: Callable[[str], None], text: str, slack: float = 1.0) -> None:
    """`check(text)` within time and memory that are linear in the length of `text`.

    `slack` multiplies both. Raises Finding where it takes more.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = slack * (SECONDS + SECONDS_PER_CHARACTER * len(text))
    try:
        with processor_time_limit(seconds, TooSlow()):
            check(text)
    except TooSlow as error:
        raise TooMuch(f"takes more than {seconds:.1f} s") from error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > slack * (KILOBYTES + KILOBYTES_PER_CHARACTER * len(text)):
        raise TooMuch(f"takes {grown // 1000} MB of memory")


def outcome(read: Callable[[], Result], text: str, file: str) -> tuple[Result | None, str | None]:
    """The result or the error, which has to be a DiagnosticError with places in `text`."""
    try:
        return read(), None
    except DiagnosticError as error:
        if not error.diagnostics:
            raise Finding("an error without a diagnostic") from error
        for diagnostic in error.diagnostics:
            _check_place(diagnostic, text, file)
        _check_cause(error.__cause__)
        rendered = str(error)
        if "error[E" not in rendered or "^" not in rendered:
            raise Finding(f"an error without a caret: {rendered}") from error
        return None, rendered


def _check_place(diagnostic: Diagnostic, text: str, file: str) -> None:
    place = diagnostic.range
    if place is None:
        raise Finding(f"an error without a place: {diagnostic.message}")
    if place.file != file:
        return
    lines = text.split("\n")
    if not (1 <= place.line <= len(lines) and 1 <= place.column <= len(lines[place.line - 1]) + 1):
        raise Finding(f"a place outside of the text: {place}: {diagnostic.message}")


def _check_cause(cause: BaseException | None) -> None:
    """xDSL may fail in any way, which the reader translates; the product says what is wrong."""
    if cause is None or isinstance(cause, ParseError | VerifyException | RecursionError):
        return
    innermost: TracebackType | None = cause.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return
    file = innermost.tb_frame.f_code.co_filename
    if "site-packages" not in file and any(folder in file for folder in OWN_FOLDERS):
        raise Finding(f"an unexplained {type(cause).__name__} in {file}: {cause}") from cause


def _check_round_trip(module: ModuleOp, text: str) -> None:
    """Print and read back in both syntaxes. Names of values and blocks may change: hints do."""
    # The two syntaxes nest brackets differently, by a few.
    if too_deep(text, MAX_DEPTH // 2) is not None:
        return
    for generic in (False, True):
        text = printed(module, generic=generic)
        try:
            again = read_module(text, "printed.mlir")
        except DiagnosticError as error:
            raise Finding(f"cannot be read back (generic={generic}): {error}") from error
        if not module.is_structurally_equivalent(again):
            raise Finding(f"is something else when read back (generic={generic}):\n{text}")
