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


def read_cases(path: Path) -> list[Case]:
    cases: list[Case] = []
    for text in path.read_text().split("## ")[1:]:
        heading, _, rest = text.partition("\n")
        program, _, message = rest.partition("--- gives\n")
        cases.append(Case(f"{path.stem}: {heading}", program, message.removesuffix("\n\n")))
    return cases


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_error(case: Case):
    with pytest.raises(DiagnosticError) as error:
        parse_text(case.program, "a.coda")
    assert str(error.value) == case.message


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_error_has_a_place_and_a_remedy(case: Case):
    with pytest.raises(DiagnosticError) as error:
        parse_text(case.program, "a.coda")
    for diagnostic in error.value.diagnostics:
        assert diagnostic.range is not None
        assert diagnostic.remedy


def test_there_are_cases():
    assert len(CASES) > 80
