"""Every error has a code with an explanation, and the examples of the page are what it says."""

import re
from pathlib import Path

import pytest

from coda_ir.diagnostics import CodaError, DiagnosticError, OptionError
from coda_ir.error_codes import SYNTAX, ErrorKind, error_kinds
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
CODES = re.compile(r'(?<=")E\d{4}(?=")')


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
    of_language = {code for code in error_kinds() if code < SYNTAX}
    assert found <= of_language
    # Of files that are imported.
    assert of_language - found <= {"E0104", "E0103"}


@pytest.mark.parametrize("code", [code for code, found in EXAMPLES.items() if found])
def test_examples(code: str):
    with pytest.raises(DiagnosticError) as error:
        parse_text(EXAMPLES[code]["coda-error"], "a.coda")
    assert {each.code for each in error.value.diagnostics} == {code}
    parse_text(EXAMPLES[code]["coda"], "a.coda")


def test_raised_codes_are_documented_ones():
    assert {code for path in SOURCES for code in CODES.findall(path.read_text())} == {
        *error_kinds()
    }


def test_errors_are_of_a_class_with_a_code():
    assert not [path for path in SOURCES if "raise CodaError(" in path.read_text()]


def test_codes_of_exceptions():
    assert CodaError("something new").code == "E1999"
    assert OptionError("unknown target 'x'").code == "E0703"
    with pytest.raises(DiagnosticError) as error:
        parse_text("fn f(x: bf16[M, 8]) { return silu(y) }", "a.coda")
    assert error.value.code == "E0201"


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
