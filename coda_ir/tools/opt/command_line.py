"""The command line of `coda-opt`, and its manual page."""

import argparse
import re
import sys
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any, NoReturn

from coda_ir import __version__
from coda_ir.registry import get_all_passes
from coda_ir.tools.opt.errors import USAGE, UsageError
from coda_ir.tools.opt.features import FEATURES
from coda_ir.universe import get_multiverse

DESCRIPTION = """\
Read a program, run passes, and print the result, emit code or execute the program.
The input is a .coda program or IR in the syntax of MLIR (.mlir)."""

EPILOG = """\
pipelines:
  a,b{x=1 y=2}                   passes in order, with options
  builtin.module(func.func(a,b),c)
                                 a and b on each function separately, then c

examples:
  coda-opt layer.coda                                   the IR of a program
  coda-opt layer.coda -p coda-to-gemm --remarks=missed  fuse it, and report what was not fused
  coda-opt layer.coda -p coda-to-gemm,schedule,plan-buffers -t triton -o layer.py
                                                        emit Triton kernels
  coda-opt layer.coda -p coda-to-gemm --run --dim B=2   execute the fused program
  coda-opt layer.coda -p coda-to-gemm --print-ir-after-change -o /dev/null
                                                        what each pass changed
  coda-opt layer.coda -p coda-to-gemm --timing --statistics -o /dev/null
                                                        time and statistics of each pass

exit codes:
  0    success
  1    the input is invalid, or a requested check failed
  2    the command line is invalid
  3    a defect of the tool or of a pass; the tool writes a reproducer
  130  interrupted

environment:
  CODA_CACHE_DIR    folder of the generated kernels (default: ~/.cache/coda_ir)
  TRITON_INTERPRET  1 to run Triton kernels in its interpreter

The manual is docs/coda-opt.md."""

SIMILAR = 0.75
"""Least similarity of a misspelled option and the right one; `--cse` and `--seed` have less."""

OTHER_OPTIONS = {
    "--tune": "tuning is an option of the pass schedule (docs/tuning.md)",
    "--numerics": "numerics is an option of a pass: -p coda-to-gemm{numerics=eager-exact}",
    "--time": "did you mean --timing?",
    "--time-passes": "did you mean --timing?",
    "--print-between-passes": "did you mean --print-ir-after-all?",
    "--tile": "tiles are options of the pass schedule: -p coda-to-gemm,schedule{tile=128x128x64}",
}
"""Options that other tools have, or that are options of a pass here."""


class GroupedParser(argparse.ArgumentParser):
    """A parser in which features share groups: one group per title."""

    def __init__(self, *args: Any, **kwargs: Any):
        self._groups_by_title: dict[str | None, Any] = {}
        super().__init__(*args, **kwargs)

    def add_argument_group(self, *args: Any, **kwargs: Any) -> Any:
        """Return the group of this title, created if necessary."""
        title = args[0] if args else kwargs.get("title")
        if title not in self._groups_by_title:
            self._groups_by_title[title] = super().add_argument_group(*args, **kwargs)
        return self._groups_by_title[title]

    def error(self, message: str) -> NoReturn:
        """End with a message and its code; suggest a known option for an unknown one."""
        unknown = re.match(r"unrecognized arguments: (--?[\w-]+)", message)
        if unknown is not None:
            message += self._remedy(unknown[1])
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: error[{UsageError.code}]: {message}\n")

    def _remedy(self, option: str) -> str:
        """Return the remedy for an option that does not exist: passes are not options."""
        name = option.lstrip("-")
        if name in get_all_passes() or name in get_multiverse().all_passes:
            return f": passes run by -p {name}"
        if option in OTHER_OPTIONS:
            return f": {OTHER_OPTIONS[option]}"
        close = get_close_matches(option, self._option_string_actions, n=1, cutoff=SIMILAR)
        return f": did you mean {close[0]}?" if close else ""


class ManualPage(argparse.RawDescriptionHelpFormatter):
    """Formats options in a separate column, with descriptions beside them if they fit."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=98)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Format `-o, --output-file FILE`: the value once, not after each name of the option."""
        text = super()._format_action_invocation(action)
        first, *names = action.option_strings or [""]
        if not names or action.nargs == 0:
            return text
        value = text.removeprefix(first).partition(", ")[0]
        return ", ".join(action.option_strings) + value


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line, with the options of every feature."""
    parser = GroupedParser(
        prog="coda-opt",
        usage="%(prog)s [OPTION]... [FILE]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=ManualPage,
        allow_abbrev=False,
        add_help=False,
    )
    for feature in FEATURES:
        feature.register_arguments(parser)
    information = parser.add_argument_group("information")
    information.add_argument("-h", "--help", action="help", help="show this page, and exit")
    information.add_argument(
        "-v", "--version", action="version", version=_version(), help="show the version, and exit"
    )
    return parser


def _version() -> str:
    return f"coda-opt {__version__} on xdsl {version('xdsl')}"
