"""`--diagnostics`: errors, warnings and notes on stderr, as text or as lines of JSON."""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from coda_ir.diagnostics import Diagnostic, render_diagnostics

Form: TypeAlias = Literal["text", "json"]


def register_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("checks").add_argument(
        "--diagnostics",
        choices=get_args(Form),
        default="text",
        help="print errors, warnings and notes as text with source lines (default), or as one line "
        "of JSON each",
    )


def form_of(arguments: Sequence[str]) -> Form:
    """Return the form that a command line requests, even if it cannot be parsed."""
    found = re.findall(r"--diagnostics[= ](\w+)", " ".join(arguments))
    return "json" if found[-1:] == ["json"] else "text"


def print_diagnostics(
    diagnostics: Sequence[Diagnostic], sources: Mapping[str, str], form: str, tool: str = "coda-opt"
) -> None:
    """Print diagnostics to stderr; in text, those without a place begin with the tool's name."""
    if form == "json":
        text = "".join(json.dumps(diagnostic.to_dict()) + "\n" for diagnostic in diagnostics)
    else:
        text = render_diagnostics(diagnostics, sources) + "\n"
        without_place = r"^(?=(error|warning|note)(\[E\d+\])?: )"
        text = re.sub(without_place, f"{tool}: ", text, flags=re.MULTILINE)
    sys.stderr.write(text)
