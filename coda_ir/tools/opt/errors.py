"""Exit codes of `coda-opt`, and what it says about an error."""

from __future__ import annotations

from coda_ir.diagnostics import CodaError, DefectError, DiagnosticError, render_diagnostics
from coda_ir.error_diagnostics import INPUT_ERRORS, diagnostics_of
from coda_ir.pipeline import InvalidAfterPassError, PipelineError, RewriteLoopError
from coda_ir.sources import Sources

SUCCESS, FAILURE, USAGE, DEFECT, INTERRUPTED = 0, 1, 2, 3, 130
"""The input is wrong, or a check failed; the command line is wrong; the tool has a defect."""

USER_ERRORS = (*INPUT_ERRORS, OSError)
"""What a wrong input raises, or a pass that refuses its input. The readers refuse what is nested
too deeply, so that a RecursionError is a defect of a pass.
"""


class UsageError(CodaError):
    """The command line asks for something that does not exist."""


def is_defect(error: BaseException) -> bool:
    """Return whether an error is a fault of the tool or of a pass, not of the input."""
    if isinstance(error, InvalidAfterPassError | DefectError):
        return True
    return not isinstance(error, USER_ERRORS)


def exit_code(error: BaseException) -> int:
    if is_defect(error):
        return DEFECT
    return USAGE if isinstance(error, UsageError | PipelineError) else FAILURE


def render_error(error: BaseException) -> str:
    """The message of an error in the input, its notes and its place, without a traceback."""
    match error:
        case OSError(filename=str(filename), strerror=str(reason)):
            text = f"{filename}: {reason}"
        case CodaError():
            text = _render_with_source(error)
        case _:
            text = "\n".join([str(error), *getattr(error, "__notes__", [])]).strip()
    return text if ": error: " in text else f"coda-opt: error: {text}"


def _render_with_source(error: CodaError) -> str:
    """The message, with the line of the source where it begins with a place."""
    diagnostics = diagnostics_of(error)
    if isinstance(error, DiagnosticError) or diagnostics[0].range is None:
        return str(error)
    return render_diagnostics(diagnostics, Sources())


def render_defect(error: BaseException) -> str:
    """One line about an error that is no fault of the input; all that a check has found."""
    if isinstance(error, DefectError):
        return f"coda-opt: error: {error}"
    return f"coda-opt: internal error: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """The kind of an error and the first line of its message."""
    first = (str(error).strip().splitlines() or [""])[0]
    if isinstance(error, InvalidAfterPassError | RewriteLoopError | DefectError):
        return first
    return f"{type(error).__name__}: {first}".removesuffix(": ")
