"""Definitions that emitted modules share are copied with all that they use."""

import ast
import builtins
import re

import pytest

from coda_ir.backends.triton.definitions import (
    RUNTIME,
    Definition,
    read_definitions,
    render,
    used_by,
    used_names,
    with_uses,
)
from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.host.functions import host_functions, standard_modules
from coda_ir.backends.triton.prelude import MODULE_HEADER
from coda_ir.backends.triton.warp_specialized.gluon import (
    IMPORTS,
    gluon_definitions,
    translated,
)

FILES = {path.stem for path in RUNTIME.glob("*.py")} - {"__init__", "header"}
DEFINITIONS = read_definitions(*sorted(FILES))
HEADER = "\n".join([*Launch(is_dependent=True).imports, *IMPORTS, MODULE_HEADER])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_all_that_is_used_is_there(name: str):
    definition = DEFINITIONS[name]
    known = DEFINITIONS.keys() | gluon_definitions().keys() | vars(builtins).keys()
    assert definition.uses - known - definition.modules <= set(re.findall(r"\w+", HEADER))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_modules_are_loaded_without_pytorch(name: str):
    """Processes that compile kernels do not import it."""
    definition = DEFINITIONS[name]
    statement = ast.parse(definition.source).body[0]
    assert not isinstance(statement, ast.Assign) or "torch" not in definition.uses


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
    assert DEFINITIONS["SUM_TYPE"].source.startswith("# The accumulator type of a tile")
    assert "PACKED = PackedWeights()" in text and "def dense" not in text
    assert standard_modules(functions) == ["collections", "functools", "threading", "weakref"]


def test_functions_in_gluon_keep_what_is_no_name_of_triton():
    source = """\
@triton.jit
def group_max(x, GROUP: tl.constexpr):  # tl.max
    a = tl.reduce(x, 1, maximum, propagate_nan=tl.PropagateNan.ALL)
    return to_bf16(tl.broadcast_to(a, x.shape).to(tl.float32)), x.dot, other(a)
"""
    assert (
        translated(source)
        == """\
@gluon.jit
def gluon_group_max(x, GROUP: gl.constexpr):  # tl.max
    a = gl.reduce(x, 1, gluon_maximum, propagate_nan=tl.PropagateNan.ALL)
    return gluon_to_bf16(gl.broadcast(a, x)[0].to(gl.float32)), x.dot, other(a)
"""
    )


def test_functions_in_gluon_that_variables_are_named_after():
    kernel = "@gluon.jit\ndef kernel(x, y):\n    tanh = gluon_tanh(x)\n    return tanh + log1p(y)\n"
    prelude = render(used_by(kernel, gluon_definitions()))
    assert re.findall(r"^def (\w+)", prelude, re.MULTILINE) == ["gluon_tanh"]
