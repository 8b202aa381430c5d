"""Tests of the syntax trees by which emitters read and change their text."""

import ast

import pytest

from coda_ir.backends.triton.syntax import Edit, edited, names_in, without_unused


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["a = 1", "b = a + 1", "c = a", "b = b % 2", "use(", "    c,", ")"], [0, 2, 4, 5, 6]),
        (["a = f(", "    1,", ")", "b: int = 2", "x, y = 1, 2"], [4]),
        (["for k in range(n):", "    total += k", "    a = total"], [0, 1]),
        # What a later turn reads is needed in an earlier one.
        (["a = 0", "for k in range(n):", "    use(a)", "    a = k"], [0, 1, 2, 3]),
        (["a = 0", "while n:", "    a = a + 1", "use(n)"], [3]),
        (["if n:", "    a = 1", "else:", "    b = 2", "use(b)"], [0, 1, 2, 3, 4]),
        (["if n:", "    a = 1", "else:", "    b = 2"], []),
        # Other warps wait for the stage that is released.
        (["acc = accumulators()", "acc = finish(acc, empty)", "a = f(acc)"], [0, 1]),
        (["# why", "a = 1", "use(a.b[c])  # b"], [0, 1, 2]),
    ],
)
def test_unused_assignments_are_dropped(lines: list[str], kept: list[int]) -> None:
    assert without_unused(lines) == [lines[index] for index in kept]


def test_names_are_those_that_are_read() -> None:
    assert names_in(["a = b.c", "d += 1", "# e", "f(g=h)"]) == {"b", "d", "f", "h"}


def test_edits_keep_comments_and_count_letters_of_any_alphabet() -> None:
    source = "x = f(é, y)  # y"
    call = ast.parse(source).body[0]
    assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
    edits = [Edit.replace(call.value.args[1], "z"), Edit.append(call.value, "[0]")]
    assert edited(source, edits) == "x = f(é, z)[0]  # y"
