"""Functions that take a list of their arguments and empty it."""

import gc
import re
from types import ModuleType

import torch
from support.emitted import load_module
from torch.multiprocessing.reductions import StorageWeakRef

from coda_ir.api import parse
from coda_ir.backends.reference import run_module
from coda_ir.backends.triton import emit_module

ROWS = "tensor<?x8xf32>"
METADATA = 'coda.dims = ["M", 8]'


def program(attributes: str = "attributes {coda.boxed}") -> str:
    return f"""
func.func @f(%x: {ROWS} {{{METADATA}}}, %unused: {ROWS} {{{METADATA}}},
             %w: tensor<8x8xf32> {{coda.weight}}, %z: {ROWS} {{{METADATA}}})
    -> ({ROWS}, {ROWS}) {attributes} {{
  %v = coda.reshape %x : ({ROWS}) -> {ROWS}
  %s = coda.softmax %v : ({ROWS}) -> {ROWS}
  %t = coda.softmax %s : ({ROWS}) -> {ROWS}
  %n = torch.call "aten.matmul.default"(%t, %w) {{arguments = "{{0}}, {{1}}"}}
    : ({ROWS}, tensor<8x8xf32>) -> {ROWS}
  func.return %n, %z : {ROWS}, {ROWS}
}}"""


def emitted(text: str) -> tuple[str, ModuleType]:
    source = emit_module(parse(text))
    return source, load_module(source)


def tensors() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(rows, 8, generator=generator) for rows in (5, 5, 8, 5)]


def test_the_list_is_emptied_and_the_results_are_the_same():
    _, module = emitted(program())
    given = tensors()
    expected = run_module(parse(program()), given)
    for results in (module.run(*given), module.run_boxed(given)):
        torch.testing.assert_close([r.double() for r in results], list(expected))
    assert given == []


def test_arguments_are_dropped_after_their_last_use():
    """With their views; but weights, which somebody else holds, and what is returned."""
    source, _ = emitted(program())
    text = source[source.index("def run_boxed") : source.index("def run(")]
    head, rest = text.split("arguments.clear()")
    assert "x, unused, w, z = arguments" in head
    assert rest.index("del unused") < rest.index("softmax") < rest.index("del x, v")
    assert rest.index("del x, v") < rest.rindex("softmax")
    assert not re.search(r"del .*\b(w|z)\b", rest)


def test_what_nobody_else_holds_is_freed():
    _, module = emitted(program())
    given = tensors()
    watched = [StorageWeakRef(x.untyped_storage()) for x in given]
    _, z = module.run_boxed(given)
    gc.collect()  # Triton's interpreter makes cycles
    assert [storage.expired() for storage in watched] == [True, True, True, False]
    assert z.shape == (5, 8)


def test_other_functions_take_no_list():
    source, module = emitted(program(""))
    assert "arguments" not in source and not hasattr(module, "run_boxed")


def test_one_argument():
    _, module = emitted(f"""
func.func @f(%x: {ROWS} {{{METADATA}}}) -> {ROWS} attributes {{coda.boxed}} {{
  %s = coda.softmax %x : ({ROWS}) -> {ROWS}
  func.return %s : {ROWS}
}}""")
    x = tensors()[0]
    torch.testing.assert_close(module.run_boxed([x]), x.softmax(-1))
