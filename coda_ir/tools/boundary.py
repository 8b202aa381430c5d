"""The boundary of the command-line tools: errors become a few lines on stderr."""

import os
import sys
from collections.abc import Callable

SUCCESS, INTERRUPTED = 0, 130


def exit_code_of(tool: str, run: Callable[[], int | None], *, debug: bool, form: str = "") -> int:
    """Run a tool; return its exit code, one of `coda_ir.tools.opt.errors`.

    With `debug`, an error is raised. `form` is that of diagnostics, by default text.
    """
    try:
        code = run()
        sys.stdout.flush()
        return code or SUCCESS
    except BrokenPipeError:
        # The reader of the output has seen enough, as in `coda-opt ... | head`. Python flushes
        # once more when it exits, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        # Whatever a pass, a model or a backend raises.
        if debug:
            raise
        return report_error(tool, error, form)


def report_error(tool: str, error: Exception, form: str = "") -> int:
    """Print an error; return its exit code."""
    # Tools that read no programs start without xDSL.
    from coda_ir.diagnostics import DiagnosticError
    from coda_ir.sources import Sources
    from coda_ir.tools.opt.diagnostics_output import print_diagnostics
    from coda_ir.tools.opt.errors import error_diagnostics, exit_code

    sources = error.sources if isinstance(error, DiagnosticError) else Sources()
    print_diagnostics(error_diagnostics(error), sources, form, tool)
    return exit_code(error)
