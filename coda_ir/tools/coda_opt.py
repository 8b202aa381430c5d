"""`coda-opt`: read a program, run passes on it, and print it, emit code for it or execute it."""

import sys
from collections.abc import Sequence
from functools import partial

from coda_ir.tools.boundary import exit_code_of
from coda_ir.tools.opt.diagnostics_output import form_of
from coda_ir.tools.opt.driver import run


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool on command-line arguments; the exit code is one of `coda_ir.tools.opt.errors`.

    With --debug, an error is raised instead of reported in a few lines.
    """
    arguments = sys.argv[1:] if args is None else list(args)
    return exit_code_of(
        "coda-opt", partial(run, arguments), debug="--debug" in arguments, form=form_of(arguments)
    )


if __name__ == "__main__":
    sys.exit(main())
