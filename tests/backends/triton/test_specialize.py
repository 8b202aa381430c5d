"""Functions of a module are specialized to the calls in it; comments and layout stay."""

from textwrap import dedent

import pytest

from coda_ir.backends.triton.definitions import Definition, render, used_names
from coda_ir.backends.triton.specialize import specialized

MODULE = '''
# Scales.
def scaled(x, factor=None, shift=None, IS_WIDE=False):
    """x times a factor.

    `factor`: one number.

    `shift`, IS_WIDE: of the result.
    """
    # Wide if wanted.
    y = widened(x, None) if IS_WIDE else x
    is_plain = factor is None and shift is None
    if is_plain:
        return y
    elif shift is None:
        # One product.
        return y * factor
    else:
        return y * factor + shift


def widened(x, type):
    if type is None:
        return x.double()
    return x.to(type)


def each(xs, factor=None, **options):
    return [scaled(x, factor) for x in xs]
'''


def specialized_text(callers: str, module: str = MODULE) -> str:
    definitions: dict[str, Definition] = {}
    for source in module.split("\n\n\n"):
        name = source.partition("def ")[2].partition("(")[0]
        source = f"{source.strip()}\n"
        definitions[name] = Definition(source, used_names(source), frozenset())
    return render(specialized(definitions, callers))


def test_branches_parameters_and_functions_that_no_call_needs_are_left_out():
    assert specialized_text("y = scaled(x)") == dedent('''\
        # Scales.
        def scaled(x):
            """x times a factor."""
            # Wide if wanted.
            y = x
            return y
        ''')


def test_a_branch_that_is_left_stands_where_the_others_were():
    assert specialized_text("y = scaled(x, z) + scaled(x)") == dedent('''\
        # Scales.
        def scaled(x, factor=None):
            """x times a factor.

            `factor`: one number.
            """
            # Wide if wanted.
            y = x
            is_plain = factor is None
            if is_plain:
                return y
            else:
                # One product.
                return y * factor
        ''')


def test_a_parameter_that_all_functions_pass_alike_is_a_constant():
    text = specialized_text("y = scaled(x, IS_WIDE=True)")
    assert text.endswith("def widened(x):\n    return x.double()\n")
    assert "y = widened(x) if IS_WIDE else x\n" in text


def test_a_constant_in_the_text_of_a_caller_stays_an_argument():
    assert "def widened(x, type):\n" in specialized_text("y = widened(x, None)")


@pytest.mark.parametrize(
    "callers", ["f = map(scaled, xs)", "y = scaled(*xs)", "y = scaled(x, **options)"]
)
def test_a_function_that_may_get_any_argument_stays(callers: str):
    text = specialized_text(callers)
    assert "def scaled(x, factor=None, shift=None, IS_WIDE=False):" in text
    assert "is_plain = factor is None and shift is None" in text and "+ shift" in text


def test_calls_in_functions_of_any_arguments_count():
    text = specialized_text("y = each(xs, z)")
    assert "def scaled(x, factor=None):" in text and "def each(xs, factor=None, **options):" in text


@pytest.mark.parametrize(
    "function",
    [
        "def f(x, n=None):\n    n = x if n is None else n\n    return n\n",
        "def f(x, n=None):\n    for n in x:\n        g = n is None\n    return g\n",
        "def f(x, n=None):\n    def g(n):\n        return n is None\n    return g(x)\n",
    ],
)
def test_a_parameter_that_is_bound_again_is_no_constant(function: str):
    assert "n is None" in specialized_text("f(x)", function)


def test_a_variable_with_the_name_of_a_function_is_no_call():
    text = specialized_text("def run(x, scaled):\n    return widened(scaled(x, 2), None)\n")
    assert text.startswith("def widened(x, type):") and "def scaled" not in text


def test_statements_after_a_branch_that_returns_are_left_out():
    function = """\
def f(x, IS_A=True):
    for y in x:  # all
        if IS_A or y:
            return y

        return 1
    if not IS_A:
        x = 2
    # Last.
    return x
"""
    assert specialized_text("f(x)", function) == dedent("""\
        def f(x):
            for y in x:  # all
                return y
            # Last.
            return x
        """)


def test_a_block_of_which_nothing_is_left():
    function = """\
def f(x, HAS_B=False):
    for y in x:
        # Both.
        if HAS_B:
            y.b()
    if x:
        z = x.b()
    else:
        if not HAS_B:
            return z
"""
    assert specialized_text("f(x)", function) == dedent("""\
        def f(x):
            for y in x:
                # Both.
                pass
            if x:
                z = x.b()
            else:
                return z
        """)
