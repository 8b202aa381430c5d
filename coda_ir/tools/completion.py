"""Shell completion of command lines, by shtab.

An option whose `action` is a `FileAction` completes names of files, one with `choices` those.
"""

import argparse
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

SHELLS = ("bash", "zsh", "tcsh")


class TakesArguments(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action: ...


def add_print_completion(parser: TakesArguments) -> None:
    """Add the option that prints a script for a shell."""
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print a script that completes command lines in this shell, and exit",
    )


class Action(argparse.Action):
    """An action whose subclasses implement `take` for a value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        self.take(parser, namespace, values)

    def take(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any
    ) -> None:
        """Store the value."""
        setattr(namespace, self.dest, values)


class FileAction(Action):
    """Stores its value; the shell completes file names."""

    complete: ClassVar[Mapping[str, Any]] = {
        "bash": "_shtab_compgen_files",
        "zsh": "_files",
        "tcsh": "f",
    }


class PrintCompletion(Action):
    """Prints the completion script of a parser and exits."""

    def take(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any
    ) -> None:
        # Not needed by any other run of the tool.
        import shtab

        print(shtab.complete(parser, shell=values))
        parser.exit()
