"""Compiles every snippet of docs/language.md and compares every error message in it."""

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from coda_ir.diagnostics import DiagnosticError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.frontends.coda_text.epilogue_body import SIGNATURES
from coda_ir.frontends.coda_text.operators import OPERATORS

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "language.md").read_text()
FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    line: int
    kind: str
    text: str


def snippets() -> list[Snippet]:
    return [
        Snippet(TEXT.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in FENCE.finditer(TEXT)
    ]


SNIPPETS = snippets()
PROGRAMS = [snippet for snippet in SNIPPETS if snippet.kind == "coda"]
WRONG = [
    (snippet, following)
    for snippet, following in pairwise(SNIPPETS)
    if snippet.kind == "coda-error"
]


def line_id(value: Snippet) -> str:
    return f"line{value.line}"


@pytest.fixture(autouse=True)
def in_docs(monkeypatch: pytest.MonkeyPatch):
    """Imports in the snippets are relative to docs/."""
    monkeypatch.chdir(DOCS)


@pytest.mark.parametrize("snippet", PROGRAMS, ids=line_id)
def test_snippet_compiles(snippet: Snippet):
    module = parse_text(snippet.text, "example.coda")
    module.verify()
    assert list(module.body.block.ops), "the snippet emits no function"


@pytest.mark.parametrize(("snippet", "expected"), WRONG, ids=line_id)
def test_snippet_fails_as_stated(snippet: Snippet, expected: Snippet):
    assert expected.kind == "text"
    with pytest.raises(DiagnosticError) as error:
        parse_text(snippet.text, "example.coda")
    assert str(error.value) == expected.text.removesuffix("\n")


def test_no_snippet_is_of_an_unknown_kind():
    assert {snippet.kind for snippet in SNIPPETS} == {"coda", "coda-error", "text"}
    assert len(PROGRAMS) >= 17
    assert len(WRONG) >= 7


def test_every_operator_is_compiled_by_a_snippet():
    programs = "\n".join(snippet.text for snippet in PROGRAMS)
    names = {*OPERATORS, "pairs"}
    assert {name for name in names if not re.search(rf"\b{name}\(", programs)} == set()


def test_every_operator_of_epilogues_is_described():
    assert {name for name in SIGNATURES if f"`{name}(" not in TEXT} == set()
