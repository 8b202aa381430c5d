"""The codes of errors and warnings, such as E0201, from the page `errors.md` beside this module.

A comment below the title of a code is a regular expression. Of a mistake in a `.coda` program
(E01 to E05), the message begins with it; of another error, the name of the exception's class or
of a base, `: ` and the message. The first code that matches is the one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DEFECT = "E1901"

SYNTAX, INVALID = "E0601", "E0602"
COMMAND_LINE, PIPELINE, OPTION_VALUE = "E0701", "E0702", "E0703"
FILE, FAILED_CHECK = "E0801", "E1101"
"""The codes of diagnostics that no exception class tells."""

_SECTION = re.compile(r"^## (E\d{4}): (.*)\n(?:<!-- (.*) -->\n)?((?:(?!## ).*\n?)*)", re.MULTILINE)


@dataclass(frozen=True)
class ErrorKind:
    """A kind of mistake: its code and title, what its messages look like, and its explanation,
    in Markdown.
    """

    code: str
    title: str
    pattern: str | None
    explanation: str

    @property
    def is_of_language(self) -> bool:
        """Return whether it is a mistake in a `.coda` program."""
        return self.code < SYNTAX


@cache
def error_kinds() -> Mapping[str, ErrorKind]:
    """All kinds of mistakes by their codes, in order."""
    page = files("coda_ir").joinpath("errors.md").read_text(encoding="utf-8")
    found = (section.groups() for section in _SECTION.finditer(page))
    return {code: ErrorKind(code, title, form, text.strip()) for code, title, form, text in found}


def language_code(message: str) -> str:
    """The code of a message about a `.coda` program."""
    kinds = (kind for kind in error_kinds().values() if kind.is_of_language)
    return _first(kinds, message)


def exception_code(classes: Iterable[str], message: str) -> str:
    """The code of an error whose class and bases have the names `classes`, the class first."""
    kinds = [kind for kind in error_kinds().values() if not kind.is_of_language]
    *specific, last = (_first(kinds, f"{name}: {message}") for name in classes)
    return next((code for code in specific if code != kinds[-1].code), last)


def _first(kinds: Iterable[ErrorKind], text: str) -> str:
    return next(kind.code for kind in kinds if kind.pattern and re.match(kind.pattern, text))
