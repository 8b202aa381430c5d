"""Every error, with its place, source line, caret and remedy, as listed in errors/*.txt.

A case is `## name`, the program, `--- gives`, and the whole message.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from coda_ir.diagnostics import DiagnosticError
from coda_ir.frontends.coda_text import parse_text

FOLDER = Path(__file__).parent / "errors"


class Case(NamedTuple):
    name: str
    program: str
    message: str

    def refresh(self, message: str) -> None:
        """Rewrite the message in the file."""
        path = FOLDER / f"{self.name.partition(':')[0]}.txt"
        head = f"{self.program}--- gives\n"
        text = path.read_text()
        assert text.count(f"{head}{self.message}") == 1
        path.write_text(text.replace(f"{head}{self.message}", f"{head}{message}"))


def read_cases(path: Path) -> list[Case]:
    cases: list[Case] = []
    for text in path.read_text().split("## ")[1:]:
        heading, _, rest = text.partition("\n")
        program, _, message = rest.partition("--- gives\n")
        cases.append(Case(f"{path.stem}: {heading}", program, message.removesuffix("\n\n")))
    return cases


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_error(case: Case, pytestconfig: pytest.Config):
    """The message, which has a place and a remedy."""
    with pytest.raises(DiagnosticError) as error:
        parse_text(case.program, "a.coda")
    if pytestconfig.getoption("update_goldens"):
        case.refresh(str(error.value))
    else:
        assert str(error.value) == case.message
    for diagnostic in error.value.diagnostics:
        assert diagnostic.range is not None
        assert diagnostic.remedy


def test_there_are_cases():
    assert len(CASES) > 80
