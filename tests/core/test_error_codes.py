"""Every error has a code with an explanation, and the examples of the page are what it says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coda_ir.diagnostics import CodaError, DiagnosticError
from coda_ir.error_codes import ErrorKind, error_kinds, exception_code, language_code
from coda_ir.frontends.coda_text import parse_text
from coda_ir.tools.coda_opt import main
from coda_ir.tools.opt.explain import EXAMPLE

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("coda_ir", "backends", "dialects", "frontends", "passes")
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
]
EXAMPLES = {
    kind.code: dict(re.findall(r"```(coda(?:-error)?)\n(.*?)```", kind.explanation, re.DOTALL))
    for kind in error_kinds().values()
}
OTHER = list(error_kinds())[-1]
"""The code of what no other code fits."""


def texts(node: ast.expr) -> str:
    """A message with `0` for each of its fields."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(map(texts, node.values))
        case _:
            return "0"


def raised(name: str) -> Iterator[tuple[str, str]]:
    """The places that make an exception of this class, with its message."""
    for path, source in zip(SOURCES, map(Path.read_text, SOURCES), strict=True):
        # Most sources make none, and need no syntax tree.
        for node in ast.walk(ast.parse(source)) if f"{name}(" in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name and node.args:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", texts(node.args[0])


def test_codes_are_in_order_and_explained():
    codes = list(error_kinds())
    assert codes == sorted(codes)
    assert all(kind.title and kind.explanation for kind in error_kinds().values())


def test_each_mistake_of_the_language_has_a_code():
    goldens = ROOT / "tests/frontends/coda_text/errors"
    found = {
        code
        for path in goldens.glob("*.txt")
        for code in re.findall(r": error\[(E\d+)\]: ", path.read_text())
    }
    assert not re.search(r": error: ", "".join(p.read_text() for p in goldens.glob("*.txt")))
    of_language = {code for code, kind in error_kinds().items() if kind.is_of_language}
    assert found <= of_language
    # Of files that are imported.
    assert of_language - found <= {"E0104", "E0103"}


@pytest.mark.parametrize("code", [code for code, found in EXAMPLES.items() if found])
def test_examples(code: str):
    with pytest.raises(DiagnosticError) as error:
        parse_text(EXAMPLES[code]["coda-error"], "a.coda")
    assert {each.code for each in error.value.diagnostics} == {code}
    parse_text(EXAMPLES[code]["coda"], "a.coda")


def test_each_class_of_errors_has_a_code():
    without = [
        name
        for path in SOURCES
        for name, base in re.findall(r"^class (\w+)\((\w+)\):", path.read_text(), re.MULTILINE)
        if base in ("CodaError", "DiagnosticError", "DefectError") and name != "DiagnosticError"
        if exception_code([name, base], "") == OTHER
    ]
    assert not without


def test_each_message_has_a_code():
    without = {
        place: message
        for place, message in raised("CodaError")
        # A message that consists of fields only is that of another error.
        if re.search(r"[a-z]", message) and exception_code(["CodaError"], message) == OTHER
    }
    assert not without


def test_codes_of_exceptions():
    assert CodaError("something new").code == OTHER
    assert CodaError("unknown target 'x'").code == "E0703"
    assert CodaError("no function 'g'").code == "E0703"
    assert CodaError("no program is named 'good'").code == "E0801"
    assert CodaError("a.coda:1:2: schedule: warps is 3, expected 1, 2 or 4").code == "E0703"
    assert language_code("unknown name 'x'") == "E0201"


@pytest.mark.parametrize("kind", error_kinds().values(), ids=lambda kind: kind.code)
def test_explain_codes(kind: ErrorKind, capsys: pytest.CaptureFixture[str]):
    assert main(["--explain", kind.code]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{kind.code}: {kind.title}\n\n") and "```" not in shown


@pytest.mark.parametrize(
    "word, said",
    [
        ("group_max", "group_max(x, *, group: integer)"),
        ("partial_row", "`finalize` gives [..., 1]"),
        ("tile", "The port `tile`"),
        ("epilogue", "each element of a GEMM's accumulator"),
        ("weight", "does not change between calls"),
        ("lse", "log of the sum"),
        ("rms_norm", "rms_norm(x, w?"),
        ("//", "a // b"),
    ],
)
def test_explain_words(word: str, said: str, capsys: pytest.CaptureFixture[str]):
    assert main(["--explain", word]) == 0
    assert said in capsys.readouterr().out


def test_the_example_of_epilogues():
    parse_text(EXAMPLE, "a.coda")
