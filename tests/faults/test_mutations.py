"""The kinds of changes, in code and in code in texts."""

import ast

import pytest

from faults.mutations import mutants


def changes(source: str) -> set[tuple[str, str, str]]:
    tree = ast.parse(source).body[0]
    return {
        (kind, label, ast.unparse(ast.fix_missing_locations(changed)))
        for kind, label, changed in mutants(tree)
    }


@pytest.mark.parametrize(
    "source, expected",
    [
        ("a = x + y", ("keep", "Add", "a = x")),
        ("a = x + y", ("swap", "Add", "a = y + x")),
        ("a = x + y", ("operator", "Add", "a = x - y")),
        ("a = x + y", ("drop", "a", "pass")),
        ("a = b.mul(x, y)", ("keep", "mul", "a = x")),
        ("a = b.mul(x, y)", ("swap", "mul", "a = b.mul(y, x)")),
        ("a = b.mul(x, y)", ("operator", "Attribute", "a = b.add(x, y)")),
        ("a = load(x, mask=m)", ("drop", "load", "a = load(x)")),
        ("a = x < 3", ("operator", "Lt", "a = x <= 3")),
        ("a = x < 3", ("constant", "Constant", "a = x < 4")),
        ("a = x < 3", ("never", "Lt", "a = False")),
        ("a = x and y", ("drop", "And", "a = y")),
        ("a = x if y else z", ("keep", "IfExp", "a = z")),
        ("a = [x for x in y if x]", ("drop", "comprehension", "a = [x for x in y]")),
        ("a += b", ("keep", "a", "a = b")),
        ("if x:\n    y()", ("always", "If", "if True:\n    y()")),
        ("if x:\n    y()", ("drop", "y", "if x:\n    pass")),
        ("def f(a):\n    return g(a)", ("return", "FunctionDef", "def f(a):\n    return a")),
        ("a = f'{x} + {y}[:, None]'", ("keep", "Add", "a = f'{x}'")),
        ("a = f'tl.load({x}, mask={m})'", ("drop", "load", "a = f'tl.load({x})'")),
        ("a = f'while i < {n}:'", ("operator", "Lt", "a = f'while i <= {n}:'")),
        ("a = f'({x} + 1'", ("drop", "a", "pass")),
    ],
)
def test_mutants(source: str, expected: tuple[str, str, str]):
    assert expected in changes(source)


def test_what_is_no_code_stays():
    source = 'def f():\n    """The sum of x + y."""\n    return f"sum of {x}, not"'
    assert changes(source) == set()
