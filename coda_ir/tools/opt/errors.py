"""Exit codes of `coda-opt`, and its messages about errors."""

from collections.abc import Sequence
from pathlib import Path

from coda_ir.diagnostics import CodaError, DefectError, Diagnostic, FileError
from coda_ir.error_diagnostics import INPUT_ERRORS, diagnostics_of
from coda_ir.pipeline import InvalidAfterPassError, PipelineError

SUCCESS, FAILURE, USAGE, DEFECT, INTERRUPTED = 0, 1, 2, 3, 130
"""The input is wrong, or a check failed; the command line is wrong; the tool has a defect."""

USER_ERRORS = (*INPUT_ERRORS, OSError)
"""The errors that a wrong input raises, or a pass that refuses its input. The readers refuse what
is nested too deeply, so that a RecursionError is a defect of a pass.
"""


class UsageError(CodaError):
    """A command line that names something that does not exist."""

    code = "E0701"


def is_defect(error: BaseException) -> bool:
    """Return whether an error is a defect of the tool or of a pass, rather than of the input."""
    if isinstance(error, InvalidAfterPassError | DefectError):
        return True
    return not isinstance(error, USER_ERRORS)


def exit_code(error: BaseException) -> int:
    if is_defect(error):
        return DEFECT
    return USAGE if isinstance(error, UsageError | PipelineError) else FAILURE


def error_diagnostics(error: BaseException) -> Sequence[Diagnostic]:
    """Return the diagnostics of any error; for a defect, one line without a traceback."""
    match error:
        case OSError(filename=str(filename), strerror=str(reason)):
            return [
                Diagnostic(
                    "error", None, f"{filename}: {reason}", _file_remedy(error), FileError.code
                )
            ]
        case OSError():
            return [Diagnostic("error", None, str(error), code=FileError.code)]
        case DefectError():
            return [Diagnostic("error", None, error.message, error.remedy, error.code)]
        case _ if is_defect(error):
            message = f"internal error: {one_line(error)}"
            return [Diagnostic("error", None, message, code=DefectError.code)]
        case _:
            return diagnostics_of(error)


def _file_remedy(error: OSError) -> str | None:
    """Return the remedy for a folder in place of a file, or for a path that does not exist."""
    if isinstance(error, IsADirectoryError):
        return "name a file"
    if not isinstance(error, FileNotFoundError):
        return None
    folder = Path(error.filename).parent
    return "check the path" if folder.is_dir() else f"there is no folder {folder}"


def one_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    first = (str(error).strip().splitlines() or [""])[0]
    if isinstance(error, InvalidAfterPassError | DefectError):
        return first
    return f"{type(error).__name__}: {first}".removesuffix(": ")
