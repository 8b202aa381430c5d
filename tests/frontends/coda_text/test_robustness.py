"""Wrong programs of any kind end in a CodaError, and large ones are compiled in seconds."""

import random
import re
from pathlib import Path

import pytest

from coda_ir.diagnostics import MAX_REPORTED, CodaError, DiagnosticError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.frontends.coda_text.push_parser import raw_tokens

EXAMPLES = Path(__file__).parents[3] / "examples"
SOURCES = {
    path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*.coda")) if path.stem != "norms"
}
EXTRA = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "=",
    "-",
    "->",
    "1",
    "0",
    "1e400",
    '"x"',
    "#",
    "\n",
    "$",
]
EXTRA_WORDS = [
    "x",
    "fn",
    "return",
    "epilogue",
    "const",
    "_",
    "bf16",
    "true",
    "M",
    "finalize",
    "pairs",
]


def mutated(text: str, generator: random.Random) -> str:
    """`text` with one to four tokens dropped, doubled, exchanged or replaced."""
    tokens = [(token.start_pos or 0, token.end_pos or 0) for token in raw_tokens(text)]
    words = [text[start:end] for start, end in tokens]
    for _ in range(generator.randint(1, 4)):
        start, end = generator.choice(tokens)
        if end > len(text):
            continue
        replacement = generator.choice(
            [
                "",
                text[start:end] * 2,
                generator.choice(words),
                generator.choice([*EXTRA, *EXTRA_WORDS]),
            ]
        )
        text = f"{text[:start]} {replacement} {text[end:]}"
    return text


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_mutated_examples_compile_or_are_explained(name: str):
    generator = random.Random(name)
    wrong = 0
    for _ in range(60):
        text = mutated(SOURCES[name], generator)
        try:
            parse_text(text, str(EXAMPLES / f"{name}.coda")).verify()
        except DiagnosticError as error:
            wrong += 1
            assert 1 <= len(error.diagnostics) <= MAX_REPORTED
            assert all(diagnostic.range for diagnostic in error.diagnostics)
    assert wrong > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_programs_cut_off_anywhere_are_explained(name: str):
    text = SOURCES[name]
    generator = random.Random(name)
    for _ in range(40):
        cut = text[: generator.randrange(len(text))]
        try:
            parse_text(cut, str(EXAMPLES / f"{name}.coda"))
        except CodaError as error:
            assert re.search(r": error\[E\d+\]: ", str(error))


def test_random_characters_are_explained():
    generator = random.Random(0)
    alphabet = "abM01. \n\t\r(){}[]<>,;:=+-*/@\"'#_$äβ\0\u2028" + "\ud7ff"
    for _ in range(300):
        text = "".join(generator.choices(alphabet, k=generator.randint(1, 80)))
        try:
            parse_text(text)
        except DiagnosticError as error:
            assert error.diagnostics


def test_few_of_many_errors_are_reported():
    text = "fn f(x: bf16[M]) {\n" + "    y = undefined(x)\n" * 3_000 + "    return x\n}\n"
    with pytest.raises(DiagnosticError) as error:
        parse_text(text)
    assert len(error.value.diagnostics) == MAX_REPORTED


def test_few_of_many_syntax_errors_are_reported():
    text = "fn f(x: bf16[M]) {\n" + "    y = silu(x\n" * 3_000 + "    return x\n}\n"
    with pytest.raises(DiagnosticError) as error:
        parse_text(text)
    assert len(error.value.diagnostics) == MAX_REPORTED
