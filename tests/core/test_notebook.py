"""Programs in notebooks: a picture and the remarks, all texts escaped."""

import shutil
from operator import methodcaller
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import coda_ir
from coda_ir.notebook import MAX_DRAWN, html_of
from coda_ir.remarks import Remark

MLP = Path(__file__).parents[2] / "examples" / "llama_mlp.coda"
shown_by_notebooks = methodcaller("_repr_html_")
SMALL = {"D": 16, "F": 32}


def texts(fragment: str) -> list[str]:
    """The texts of a fragment, which is well-formed XML."""
    root = ElementTree.fromstring(f"<div>{fragment}</div>")
    return [text for text in root.itertext() if text.strip()]


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz")
def test_a_function_has_a_picture_and_its_remarks():
    function = coda_ir.compile(MLP, constants=SMALL, device="cpu", target="reference")
    found = texts(shown_by_notebooks(function))
    assert found[0] == repr(function)
    assert {
        "silu",
        "defer-rms-norm",
        "compute the norm's input in the same function",
    } <= set(found)


def test_a_trained_function_shows_both_programs_once_it_was_called():
    function = coda_ir.compile(
        MLP, constants=SMALL, device="cpu", target="reference", training=True
    )
    assert "llama_mlp_backward" not in shown_by_notebooks(function)
    specs = function.signature.arguments
    given = [torch.randn([d if isinstance(d, int) else 2 for d in spec.dims]) for spec in specs]
    leaves = [x.bfloat16().requires_grad_() for x in given]
    function(*leaves).float().sum().backward()
    assert "llama_mlp_backward" in shown_by_notebooks(function)


def test_models_have_pictures_too():
    exported = coda_ir.export(torch.nn.Linear(8, 4), (torch.randn(3, 8),))
    compiled = exported.compile(target="reference")
    for shown in (exported, compiled):
        assert texts(shown_by_notebooks(shown))[0] == repr(shown)


def test_texts_are_escaped():
    module = coda_ir.parse("fn f(x: f32[M, 4]) -> f32[M, 4] {\n    return silu(x)\n}")
    (place,) = {op.location for op in module.walk() if op.name == "coda.silu"}
    name = "</script><img src=x onerror=alert(1)>"
    remark = Remark("missed", name, name, place, name, name, name, name)
    fragment = html_of(name, module, [remark])
    assert "<img" not in fragment and "</script" not in fragment
    assert name in texts(fragment)


def test_large_programs_are_not_drawn():
    lines = "".join(f"    x{n + 1} = silu(x{n})\n" for n in range(MAX_DRAWN))
    module = coda_ir.parse(
        f"fn f(x0: f32[M, 4]) -> f32[M, 4] {{\n{lines}    return x{MAX_DRAWN}\n}}"
    )
    fragment = html_of("f", module, [])
    assert "<svg" not in fragment and "operators; explore()" in fragment
