"""The kinds of mistakes that the page `errors.md` beside this module explains, by their codes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SYNTAX, INVALID = "E0601", "E0602"
"""The codes of errors of xDSL."""

_SECTION = re.compile(r"^## (E\d{4}): (.*)\n((?:(?!## ).*\n?)*)", re.MULTILINE)


@dataclass(frozen=True)
class ErrorKind:
    """A kind of mistake: its code and title, and its explanation in Markdown."""

    code: str
    title: str
    explanation: str


@cache
def error_kinds() -> Mapping[str, ErrorKind]:
    """All kinds of mistakes by their codes, in order."""
    page = files("coda_ir").joinpath("errors.md").read_text(encoding="utf-8")
    found = (section.groups() for section in _SECTION.finditer(page))
    return {code: ErrorKind(code, title, text.strip()) for code, title, text in found}
