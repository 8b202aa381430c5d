"""Wrong programs of any kind end in a CodaError, and large ones are compiled in seconds."""

import random
import re
import time
from pathlib import Path

import pytest

from coda_ir.diagnostics import MAX_REPORTED, CodaError, DiagnosticError
from coda_ir.frontends.coda_text import format_text, parse_text
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


def large_program(statements: int) -> str:
    lines = [f"    y{i} = silu(y{i - 1}) + linear(x, w)" for i in range(1, statements)]
    body = "\n".join(["    y0 = x", *lines, f"    return y{statements - 1}"])
    return f"fn f(x: bf16[M, 64], w: bf16[64, 64]) {{\n{body}\n}}\n"


def test_thousands_of_lines_take_seconds():
    text = large_program(4_000)
    start = time.process_time()
    module = parse_text(text)
    # About 1 s on a laptop core; the margin is for busy CI machines, of which one took 8.
    assert time.process_time() - start < 24
    (func,) = module.body.block.ops
    assert len(list(func.regions[0].block.ops)) == 3 * 3_999 + 1


def test_formatting_is_linear():
    text = large_program(2_000)
    start = time.process_time()
    assert format_text(text) == text
    assert time.process_time() - start < 10


def test_ten_thousand_errors_take_seconds():
    text = "fn f(x: bf16[M]) {\n" + "    y = undefined(x)\n" * 10_000 + "    return x\n}\n"
    start = time.process_time()
    with pytest.raises(DiagnosticError) as error:
        parse_text(text)
    assert time.process_time() - start < 15
    assert len(error.value.diagnostics) == MAX_REPORTED


def test_ten_thousand_syntax_errors_take_seconds():
    text = "fn f(x: bf16[M]) {\n" + "    y = silu(x\n" * 10_000 + "    return x\n}\n"
    start = time.process_time()
    with pytest.raises(DiagnosticError) as error:
        parse_text(text)
    assert time.process_time() - start < 15
    assert len(error.value.diagnostics) == MAX_REPORTED
