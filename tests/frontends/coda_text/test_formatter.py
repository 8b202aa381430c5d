"""The formatter: canonical output, comments, idempotence, meaning."""

from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings, strategies as st

from coda_ir.diagnostics import DiagnosticError
from coda_ir.frontends.coda_text import format_text
from coda_ir.frontends.coda_text.parser import parse
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.syntax import File

ROOT = Path(__file__).parents[3]


def tree(text: str) -> File:
    return tree_and_comments(text)[0]


def check(text: str, expected: str) -> None:
    formatted = format_text(dedent(text))
    assert formatted == dedent(expected)
    assert format_text(formatted) == formatted
    assert tree(formatted) == tree(dedent(text))


def test_spacing():
    check(
        """\
        const A=-3*( 4+2 )//2
        fn f(x:bf16[M,2*A],weight w :bf16[ 8,8 ] )->(bf16[M , 8],f32[]){a,b=g(x@w,e =-1e-5,k=[1 ,2])
          y=-a-  -b/2;return(y , 1) ,y}
        epilogue e( acc,b:row )->(y:tile< f32 >,z : partial_row<max>){y=acc*b
        z=acc}
        """,
        """\
        const A = -3 * (4 + 2) // 2

        fn f(x: bf16[M, 2 * A], weight w: bf16[8, 8]) -> (bf16[M, 8], f32[]) {
            a, b = g(x @ w, e=-1e-5, k=[1, 2])
            y = -a - -b / 2
            return (y, 1), y
        }

        epilogue e(acc, b: row) -> (y: tile<f32>, z: partial_row<max>) {
            y = acc * b
            z = acc
        }
        """,
    )


def test_ranges_are_tight():
    check(
        """\
        fn f(x: f32[M, 64]) {
            return f(x [ : , 0 : 4]) [..., -2 :][::2 , 1]
        }
        """,
        """\
        fn f(x: f32[M, 64]) {
            return f(x[:, 0:4])[..., -2:][::2, 1]
        }
        """,
    )


def test_long_parameter_lists_are_broken():
    check(
        """\
        fn f(xxxxxxxxxxxxxxxx: bf16[M, 4096], weight yyyyyyyyyyyyyyyyyyyyyyyyyy: bf16[4096, 4096],
          z: f32[M]) { return xxxxxxxxxxxxxxxx }
        """,
        """\
        fn f(
            xxxxxxxxxxxxxxxx: bf16[M, 4096],
            weight yyyyyyyyyyyyyyyyyyyyyyyyyy: bf16[4096, 4096],
            z: f32[M],
        ) {
            return xxxxxxxxxxxxxxxx
        }
        """,
    )


def test_lists_that_fit_are_joined():
    check(
        """\
        fn f(
            x: bf16[M, 8],
        ) {
            return silu(
                x,
            )
        }
        """,
        """\
        fn f(x: bf16[M, 8]) {
            return silu(x)
        }
        """,
    )


def test_lines_of_100_columns_stay():
    body = f"    {'y' * 40} = {'f' * 20}({'x' * 31})\n"
    assert len(body) == 101
    check(f"fn f(x: bf16[M]) {{\n{body}}}\n", f"fn f(x: bf16[M]) {{\n{body}}}\n")


def test_longer_calls_are_broken():
    name = "x" * 60
    check(
        f"fn f(x: bf16[M]) {{\n    return g(h({name}), {name}, k=1)\n}}\n",
        f"""\
        fn f(x: bf16[M]) {{
            return g(
                h({name}),
                {name},
                k=1,
            )
        }}
        """,
    )


def test_parentheses_of_one_expression_get_no_comma():
    name = "x" * 60
    check(
        f"fn f(x: bf16[M]) {{\n    return ({name} + {name})\n}}\n",
        f"""\
        fn f(x: bf16[M]) {{
            return (
                {name} + {name}
            )
        }}
        """,
    )


def test_a_tuple_of_one_keeps_its_comma():
    check(
        "fn f(x: bf16[M]) { return ( x, ) }",
        """\
        fn f(x: bf16[M]) {
            return (x,)
        }
        """,
    )


COMMENTED = """\
#!first
import "a.coda"   # why
# of A
const A = 1 #one
const LONGER = 2  # two



# of f
fn f(x: bf16[M], # x
  # of y
  y: bf16[M]) { # body
  # of a
  a = g(x, # first
        y) + # plus
     # one
     1 # end

  return a
  # last
} # after f
# of B
const B = 3
"""

COMMENTED_NEATLY = """\
#!first
import "a.coda"  # why
# of A
const A = 1       #one
const LONGER = 2  # two

# of f
fn f(
    x: bf16[M],  # x
    # of y
    y: bf16[M],
) {  # body
    # of a
    a = g(
        x,  # first
        y,
    ) +  # plus
        # one
        1  # end

    return a
    # last
}  # after f

# of B
const B = 3
"""


def test_comments():
    check(COMMENTED, COMMENTED_NEATLY)


def test_comments_in_every_gap():
    check(
        """\
        fn f( # 1
        # 2
        ) # 3
        -> # 4
        bf16[ # 5
        M # 6
        , # 7
        ] # 8
        { # 9
        y = ( # 10
        x # 11
        ) # 12
        return y
        }
        """,
        """\
        fn f(  # 1
            # 2
        )          # 3
            ->     # 4
            bf16[  # 5
            M,     # 6
            # 7
        ]          # 8
            {      # 9
            y = (  # 10
                x  # 11
            )      # 12
            return y
        }
        """,
    )


def test_blank_lines():
    check(
        """\


        const A = 1


        const B = 2
        fn f(x: bf16[M]) {

            y = x


            return y

        }
        const C = 3
        """,
        """\
        const A = 1

        const B = 2

        fn f(x: bf16[M]) {
            y = x

            return y
        }

        const C = 3
        """,
    )


def test_only_comments():
    assert format_text("\n# a\n\n\n# b") == "# a\n\n# b\n"


def test_nothing():
    assert format_text(" \n\n") == ""


def test_syntax_error():
    with pytest.raises(DiagnosticError) as error:
        format_text("fn f(x: bf16[M]) {\n    return x +\n}\n", "a.coda")
    assert str(error.value).startswith(
        "a.coda:3:1: error[E0102]: unexpected '}', expected an expression"
    )


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.coda")), ids=lambda path: path.stem)
def test_examples_are_formatted(path: Path):
    text = path.read_text()
    assert format_text(text, str(path)) == text


# Random programs: every gap between tokens may hold spaces, a line break where the line goes on, or
# a comment.

names = st.sampled_from(["x", "weights", "a" * 30, "b1"])
numbers = st.sampled_from(["1", "0.5", "1e-5", "4_096"])


@cache
def expressions() -> st.SearchStrategy[list[str]]:
    """Expressions as lists of tokens."""
    atoms = st.one_of(names, numbers, st.just('"text"')).map(lambda token: [token])

    def extend(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        argument = st.one_of(
            inner, st.tuples(names, inner).map(lambda pair: [pair[0], "=", *pair[1]])
        )
        return st.one_of(
            st.tuples(inner, st.sampled_from("+-*/@"), inner).map(
                lambda parts: [*parts[0], parts[1], *parts[2]]
            ),
            inner.map(lambda tokens: ["-", *tokens]),
            inner.map(lambda tokens: ["(", *tokens, ")"]),
            inner.map(lambda tokens: ["(", *tokens, ",", ")"]),
            st.lists(argument, max_size=4).map(lambda items: ["f", "(", *joined(items), ")"]),
            st.lists(inner, max_size=3).map(lambda items: ["[", *joined(items), "]"]),
        )

    return st.recursive(atoms, extend, max_leaves=12)


def joined(items: list[list[str]]) -> list[str]:
    return [token for item in items for token in (*item, ",")][:-1]


@st.composite
def programs(draw: st.DrawFn) -> str:
    gaps = st.sampled_from(["", " ", "  "])
    breaks = st.sampled_from(["", " ", "\n", "  # c\n", "\n# own\n  ", "\n\n"])
    lines: list[str] = [draw(st.sampled_from(["", "# head\n", "const A = 1 # one\n\n\n"]))]
    lines.append("fn g(x: bf16[M], weight w: bf16[8, 8]) {\n")
    for index in range(draw(st.integers(1, 3))):
        text, depth = f"v{index} =", 0
        for token in draw(expressions()):
            depth -= token in ")]"
            text += draw(breaks if depth else gaps) + token
            depth += token in "(["
        lines.append(text + draw(st.sampled_from(["\n", ";", " # end\n", "\n# between\n\n"])))
    return "".join([*lines, "return x }", draw(st.sampled_from(["", "# last", "\n\n"]))])


def tree_and_comments(text: str) -> tuple[File, list[str]]:
    reporter = Reporter()
    parsed = parse(text, "a.coda", reporter)
    reporter.raise_if_errors()
    return parsed.tree, [str(token) for token in parsed.comments]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(programs())
def test_formatting_keeps_meaning_and_comments_and_is_idempotent(program: str):
    formatted = format_text(program)
    assert tree_and_comments(formatted) == tree_and_comments(program)
    assert format_text(formatted) == formatted
