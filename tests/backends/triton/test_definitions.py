"""What emitted modules share is copied with all that it uses."""

import builtins
import re

import pytest

from coda_ir.backends.triton.definitions import (
    RUNTIME,
    Definition,
    read_definitions,
    render,
    used_names,
    with_uses,
)
from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.host.functions import host_functions, standard_modules
from coda_ir.backends.triton.prelude import MODULE_HEADER

FILES = {path.stem for path in RUNTIME.glob("*.py")} - {"__init__", "header"}
DEFINITIONS = read_definitions(*sorted(FILES))
HEADER = "\n".join([*Launch(is_dependent=True).imports, MODULE_HEADER])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_all_that_is_used_is_there(name: str):
    definition = DEFINITIONS[name]
    left = definition.uses - DEFINITIONS.keys() - vars(builtins).keys() - definition.modules
    assert left <= set(re.findall(r"\w+", HEADER))


def test_names_that_a_text_takes_from_its_module():
    text = "def f(a, b=C):\n    d = a\n    return [d + e + len(g) for e in b]\n"
    assert used_names(text) == {"C", "g", "len"}


def test_uses_of_uses_in_the_order_of_the_files():
    found = {
        name: Definition(f"{name} = 0\n", frozenset(uses), frozenset())
        for name, uses in {"a": "", "b": "d", "c": "", "d": "ax"}.items()
    }
    assert [each.source for each in with_uses(found, ["b"])] == ["a = 0\n", "b = 0\n", "d = 0\n"]


def test_comments_above_and_texts_below_belong_to_a_definition():
    functions = host_functions("library_gemm(x)\nPACKED.find(y)\n")
    text = render(functions)
    assert text.startswith(
        "# Whether products of 16-bit types can be had in float32.\nWIDE_PRODUCTS"
    )
    assert "PACKED = PackedWeights()" in text and "def dense" not in text
    assert standard_modules(functions) == ["collections", "threading", "weakref"]
