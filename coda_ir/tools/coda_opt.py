"""`coda-opt`: read a program, run passes on it, and print it, emit code for it or execute it."""

import os
import sys
from collections.abc import Sequence

from coda_ir.diagnostics import DiagnosticError
from coda_ir.sources import Sources
from coda_ir.tools.opt.diagnostics_output import form_of, print_diagnostics
from coda_ir.tools.opt.driver import run
from coda_ir.tools.opt.errors import INTERRUPTED, SUCCESS, error_diagnostics, exit_code


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool on command-line arguments; the exit code is one of `coda_ir.tools.opt.errors`.

    With --debug, an error is raised instead of told in a few lines.
    """
    arguments = sys.argv[1:] if args is None else list(args)
    try:
        return run(arguments)
    except BrokenPipeError:
        # The reader of the output has seen enough, as in `coda-opt ... | head`. Python flushes
        # once more when it exits, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        # The boundary of the tool: whatever a pass or a backend raises is told in one line.
        if "--debug" in arguments:
            raise
        sources = error.sources if isinstance(error, DiagnosticError) else Sources()
        print_diagnostics(error_diagnostics(error), sources, form_of(arguments))
        return exit_code(error)


if __name__ == "__main__":
    sys.exit(main())
