"""Texts made to break readers: deep, long, huge, or with strange characters."""

from collections.abc import Iterator

import pytest

from fuzz.oracle import bounded
from fuzz.targets import TARGETS

SLACK = 10

CODA = "fn f(x: bf16[M, 64], w: bf16[64, 64]) {\n    y = silu(x)\n    return STATEMENT\n}\n"
MLIR = (
    "func.func @f(%x: tensor<?x64xbf16>) {\n"
    "  %y = coda.silu %x {a = ATTRIBUTE} : (tensor<?x64xbf16>) -> tensor<?x64xbf16>\n"
    "  func.return\n}\n"
)


def of_bytes(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text as editors, shells and disks damage it."""
    yield "crlf", text.replace("\n", "\r\n")
    yield "cr", text.replace("\n", "\r")
    yield "no_newlines", text.replace("\n", " ")
    yield "byte_order_mark", "\ufeff" + text
    yield "nul", text[:20] + "\0" + text[20:]
    yield "nul_only", "\0" * 1000
    yield "empty", ""
    yield "white_space", " \t\r\n\f\v" * 1000
    yield "cut", text[: len(text) // 2]
    yield "line_separators", text.replace("\n", "\u2028")
    yield "wide_digits", text.replace("64", "６４")
    yield "combining", text.replace("f(", "f\u0301(")
    yield "emoji", text.replace("x", "\U0001f600")
    yield "right_to_left", text.replace("x", "\u202ex")
    yield "one_long_line", "x" * 100_000
    yield "quotes", '"' * 10_001
    yield "escaped_quotes", '"\\"' * 10_000
    yield "string_not_closed", text + '"' + "a" * 50_000


def in_coda() -> Iterator[tuple[str, str]]:
    def returning(statement: str) -> str:
        return CODA.replace("STATEMENT", statement)

    yield from of_bytes(returning("y"))
    yield "parentheses", returning("(" * 10_000 + "y" + ")" * 10_000)
    yield "open_parentheses", returning("(" * 10_000 + "y")
    yield "closed_parentheses", returning("y" + ")" * 10_000)
    yield "brackets", returning("reshape(y, " + "[" * 5_000 + "]" * 5_000 + ")")
    yield "calls", returning("silu(" * 5_000 + "y" + ")" * 5_000)
    yield "braces", "fn f() " + "{" * 10_000 + "}" * 10_000
    yield "signs", returning("-" * 500 + "y")
    yield "sum", returning(" + ".join(["y"] * 500))
    yield "arguments", returning(f"concat({', '.join(['y'] * 1_000)})")
    yield "huge_integer", returning(f"y * {'9' * 10_000}")
    yield "large_integer", returning(f"y * {'9' * 18}")
    yield "infinity", returning("y * 1e400")
    yield "tiny", returning("y * 1e-400")
    yield "negative_zero", returning("y * -0.0")
    yield "long_name", returning("y" * 100_000)
    yield "shape", CODA.replace("64", "9" * 18).replace("STATEMENT", "linear(x, w)")
    yield "reshape", returning(f"reshape(y, [M * {'9' * 18}, {'9' * 18}])")
    yield "rank", f"fn f(x: bf16[{', '.join(['1'] * 500)}]) {{\n    return silu(x)\n}}\n"
    yield "symbols", f"fn f(x: f32[{', '.join(f'A{i}' for i in range(200))}]) {{\n    return x\n}}"
    yield "nothing_but_keywords", "fn const import epilogue return " * 2_000
    yield "comment", "#" * 100_000
    yield "comments", "# a\n" * 5_000 + returning("y")


def in_mlir() -> Iterator[tuple[str, str]]:
    def with_attribute(attribute: str) -> str:
        return MLIR.replace("ATTRIBUTE", attribute)

    yield from of_bytes(with_attribute("1"))
    for name, (opening, closing) in {
        "arrays": ("[", "]"),
        "dictionaries": ("{a = ", "}"),
        "types": ("tuple<", ">"),
        "functions": ("(", ") -> ()"),
        "dense": ("dense<", ">"),
    }.items():
        yield name, with_attribute(opening * 5_000 + "i1" + closing * 5_000)
        yield f"{name}_some", with_attribute(opening * 40 + "i1" + closing * 40)
        yield f"{name}_open", with_attribute(opening * 5_000)
    yield "modules", "builtin.module {" * 5_000 + "}" * 5_000
    yield "generic_modules", '"builtin.module"() ({' * 300 + "}) : () -> ()" * 300
    yield "huge_integer", with_attribute("9" * 10_000)
    yield "large_integer", with_attribute("9" * 4_000 + " : i64")
    yield "hexadecimal", with_attribute("0x" + "f" * 10_000)
    yield "infinity", with_attribute("1.0e400 : f32")
    yield "not_a_number", with_attribute("0x7FC00000 : f32")
    yield "splat", with_attribute("dense<1> : tensor<99999x99999xi64>")
    yield "splats", with_attribute(f"[{', '.join(['dense<1> : tensor<999999xi8>'] * 5)}]")
    yield "bits", with_attribute("1 : i16777215")
    yield "rank", MLIR.replace("?x", "1x" * 2_000)
    yield "shape", MLIR.replace("64", "9" * 19)
    yield "long_name", MLIR.replace("%y", "%" + "y" * 100_000)
    yield "results", MLIR.replace("%y", "%y:99999999999")
    yield "index", MLIR.replace("silu %x", "silu %x#99999999999")
    yield "affine", with_attribute(f"affine_map<(d0) -> ({'(' * 60}d0{')' * 60})>")
    yield "affine_modulo_zero", with_attribute("affine_map<(d0) -> (d0 mod 0)>")
    yield "locations", MLIR.replace("func.return", f"func.return loc({'callsite(' * 300}")
    yield "resources", "{-# dialect_resources: { builtin: { a: " + '"0x08' * 1_000


ATTACKS = [
    pytest.param(language, text, id=f"{language}-{name}")
    for language, texts in (("coda", in_coda()), ("mlir", in_mlir()))
    for name, text in texts
]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text"), ATTACKS)
def test_attack_is_explained_or_round_trips(language: str, text: str):
    bounded(TARGETS[language].check, text, SLACK)
