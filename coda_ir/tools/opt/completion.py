"""Completion of command lines in a shell, by shtab.

An option whose `action` is one of the classes here completes files or names of passes; one with
`choices` completes those.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.transforms import get_all_passes as get_xdsl_passes

from coda_ir.registry import get_all_passes

SHELLS = ("bash", "zsh", "tcsh")

PASS_NAMES = sorted(get_all_passes().keys() | get_xdsl_passes().keys())

# The last name of a list is completed: after `cse,` or `builtin.module(`.
_BASH = """
_coda_opt_passes() {{
  local name="${{1##*[,(]}}"
  compgen -P "${{1%"$name"}}" -W "{names}" -- "$name"
}}
"""

_ZSH = """
_coda_opt_passes() {{
  compset -P '*[,(]'
  compadd -S '' -- {names}
}}
"""


class FileAction(argparse.Action):
    """Stores its value, which the shell completes as the name of a file."""

    complete: ClassVar[Mapping[str, str]] = {
        "bash": "_shtab_compgen_files",
        "zsh": "_files",
        "tcsh": "f",
    }

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)


class PassesAction(FileAction):
    """Stores its value, or extends a list by it; the shell completes it as a list of passes."""

    complete: ClassVar[Mapping[str, Any]] = {
        "bash": "_coda_opt_passes",
        "zsh": "_coda_opt_passes",
        "preamble": {
            "bash": _BASH.format(names=" ".join(PASS_NAMES)),
            "zsh": _ZSH.format(names=" ".join(PASS_NAMES)),
        },
    }

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if isinstance(values, list):
            values = [*getattr(namespace, self.dest), *values]
        setattr(namespace, self.dest, values)


class PrintCompletion(argparse.Action):
    """Prints the completion script of a parser and exits."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        # Not needed by any other run of the tool.
        import shtab

        print(shtab.complete(parser, shell=values))
        parser.exit()


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("information")
    group.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print a script that completes command lines in this shell, and exit",
    )
