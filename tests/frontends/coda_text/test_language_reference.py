"""Compiles every snippet of docs/language.md and compares every error message in it.

Each operator is in a snippet (see test_operator_matrix.py), so that what holds of all snippets
holds of all operators: they are formatted, written, lowered, computed by the reference, emitted as
Triton and differentiated.
"""

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from generator.coda_text import check_text
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.api import Lowering
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError, DiagnosticError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.frontends.coda_text.writer import write_text
from coda_ir.passes.gradient.derive_gradient import DeriveGradientPass, NoDerivativeError
from coda_ir.random_inputs import random_inputs
from coda_ir.random_inputs.draw import symbols_of

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


@pytest.mark.slow
@pytest.mark.parametrize("snippet", PROGRAMS, ids=line_id)
def test_snippet_is_the_same_when_it_is_formatted(snippet: Snippet):
    check_text(snippet.text, parse_text(snippet.text, "example.coda"))


@pytest.mark.slow
@pytest.mark.parametrize("snippet", PROGRAMS, ids=line_id)
def test_snippet_is_the_same_when_it_is_written(snippet: Snippet):
    module = parse_text(snippet.text, "example.coda")
    names = {op.name for op in module.walk()}
    if any(name.startswith("gemm.") for name in names):
        return  # Epilogues are not written.
    text = write_text(module)
    again = parse_text(text, "written.coda")
    assert {op.name for op in again.walk()} == names
    assert write_text(again) == text


@pytest.mark.slow
@pytest.mark.parametrize("snippet", PROGRAMS, ids=line_id)
def test_snippet_is_computed_and_emitted(snippet: Snippet):
    """Columns of symbols, which only kernels of rows have, are refused with a remedy."""
    small = snippet.text.replace("const D = 4096", "const D = 64")
    lowering = Lowering(parse_text(small, "example.coda"))
    for func in functions_of(lowering.module("block")):
        inputs = random_inputs(func, dict.fromkeys(symbols_of(func), 4))
        results = run_function(func, list(inputs.values()), "stated")
        assert [tuple(result.shape) for result in results]
        try:
            source = emit_module(lowering.module("scheduled"), func.sym_name.data)
        except CodaError as error:
            assert error.remedy, error
        else:
            compile(source, "example.py", "exec")


@pytest.mark.parametrize("snippet", PROGRAMS, ids=line_id)
def test_snippet_is_differentiated_or_a_reason_is_given(snippet: Snippet):
    module = parse_text(snippet.text, "example.coda")
    if any(op.name.startswith("gemm.") for op in module.walk()):
        return
    for func in functions_of(module):
        try:
            DeriveGradientPass(func.sym_name.data).apply(make_context(), module)
        except NoDerivativeError as error:
            assert error.remedy, error


def functions_of(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp)]


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
