"""`--print-completion`, and options whose values the shell completes as pipelines."""

import argparse
from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.transforms import get_all_passes as get_xdsl_passes

from coda_ir.registry import get_all_passes
from coda_ir.tools.completion import Action, add_print_completion

PASS_NAMES = " ".join(sorted(get_all_passes().keys() | get_xdsl_passes().keys()))

# The last name of a list is completed: after `cse,` or `builtin.module(`.
_BASH = f"""
_coda_opt_passes() {{
  local name="${{1##*[,(]}}"
  compgen -P "${{1%"$name"}}" -W "{PASS_NAMES}" -- "$name"
}}
"""

_ZSH = f"""
_coda_opt_passes() {{
  compset -P '*[,(]'
  compadd -S '' -- {PASS_NAMES}
}}
"""


class PassesAction(Action):
    """Stores its value, or extends a list by it; the shell completes it as a list of passes.

    A value that would take the place of another one is an error, unless the namespace has
    `overrides`.
    """

    complete: ClassVar[Mapping[str, Any]] = {
        "bash": "_coda_opt_passes",
        "zsh": "_coda_opt_passes",
        "preamble": {"bash": _BASH, "zsh": _ZSH},
    }

    def take(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any
    ) -> None:
        if isinstance(values, list):
            values = [*getattr(namespace, self.dest), *values]
        elif getattr(namespace, self.dest) and not hasattr(namespace, "overrides"):
            raise argparse.ArgumentError(
                self,
                f"there are passes already: '{getattr(namespace, self.dest)}'\n"
                "  help: write one list, with commas",
            )
        setattr(namespace, self.dest, values)


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("information")
    add_print_completion(group)
