"""`coda.attention` with windows, masks and sinks: both backends against its definition."""

from typing import Any

import pytest
from support.attention import CASES, KINDS, definition, inputs, program
from support.emitted import load_module, relative_error

from coda_ir.api import find_entry, parse
from coda_ir.backends.reference import run_function
from coda_ir.backends.triton import emit_module


@pytest.mark.parametrize(("queries", "keys", "options"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_backends_agree_with_the_definition(
    queries: int, keys: int, options: dict[str, Any], kind: str
):
    tensors, numbers = inputs(queries, keys, options, kind)
    module = parse(program(tensors, numbers))
    expected = definition(**tensors, **numbers).transpose(1, 2).flatten(2)
    operands = list(tensors.values())
    (exact,) = run_function(find_entry(module), operands)
    assert relative_error(exact, expected) < 1e-13
    allowed = 1e-6 if kind == "f32" else 8e-3
    (stated,) = run_function(find_entry(module), operands, "stated")
    assert relative_error(stated, expected) < allowed
    assert relative_error(load_module(emit_module(module)).run(*operands), expected) < allowed
