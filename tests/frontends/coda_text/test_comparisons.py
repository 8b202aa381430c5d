"""Comparisons as infix operators: what they are, how weakly they bind, and how they are spaced."""

import pytest

from coda_ir.frontends.coda_text import format_text, parse_text

SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}

PROGRAM = """epilogue chosen(acc, keep: tile<bool>) -> (y: tile<f32>) {{
    y = where(logical_and(keep, {inside}), acc, 0)
}}

fn f(x: f32[M, 64], w: f32[64, 64], keep: bool[M, 64]) {{
    y = chosen(linear(x, w), keep)
    return {outside}, {number}
}}
"""


@pytest.mark.parametrize("sign", SIGNS)
def test_infix_is_the_operator(sign: str):
    infix = PROGRAM.format(
        inside=f"acc * 2 {sign} acc - 1", outside=f"x + y {sign} -y", number=f"0 {sign} x"
    )
    name = SIGNS[sign]
    called = PROGRAM.format(
        inside=f"{name}(acc * 2, acc - 1)", outside=f"{name}(x + y, -y)", number=f"{name}(0, x)"
    )
    assert str(parse_text(infix)) == str(parse_text(called))
    assert format_text(infix) == infix


def test_spacing_and_lines():
    text = PROGRAM.format(inside="acc<1", outside="x>=\n0", number="x==y")
    spaced = PROGRAM.format(inside="acc < 1", outside="x >= 0", number="x == y")
    assert format_text(text) == spaced
