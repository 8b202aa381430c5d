"""The page of `--emit=html` in headless Chromium: clicks, keys, search, folds, large programs."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.browser import in_browser, needs_browser
from support.daily import daily

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.explorer import PageOptions, explore_module
from coda_ir.backends.explorer.page import as_script
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.pipelines.differentiate import DifferentiatePass

from .test_page import REFUSED, contents, example

ROOT = Path(__file__).parents[3]

pytestmark = needs_browser

HOSTILE = "</script><script>document=1</script><img src=x>"

CLICKS = """
for (const level of ["1", "2", "3", "4", "5"]) {
  press(level);
  chips("silu")[0].click();
  const isLit = line => line.ops.some(op => state.lit.has(op));
  found.push(state.lines.filter(isLit).map(line => line.text));
}
type("rope");
found.push(chips("rope").map(chip => chip.classList.contains("lit")));
press("Escape");
found.push(all(".lit").length);
"""

EDGES = """
const widths = kind => all(`.edge${kind}`).map(edge => Number(edge.getAttribute("stroke-width")));
found.push(widths(".weight"), widths(""), all(".thread").length);
press("b");
found.push(all(".card.apart").length);
"""

RED = """
const red = document.querySelector(".edge.refused");
found.push(red.parentNode.textContent, texts(".refusal")[0]);
"""

LAYER = """    h{n} = rms_norm(x{n}, norm, eps=1e-5)
    x{m} = x{n} + linear(silu(linear(h{n}, up)), down)
"""

FOLDS = """
const head = () => document.querySelector(".fold");
found.push(head().textContent, chips("silu").length);
type("x30");
found.push(all(".row.inside .chip.lit").length > 0);
head().click();
const kernels = () => state.columns[0].rows.filter(row => row.parts).length;
found.push(head().getAttribute("aria-expanded"), kernels());
head().click();
found.push(kernels());
"""

BESIDE = """
found.push(texts(".heads h3:last-child"));
all("#text [data-ops]").find(line => line.textContent.includes("silu(")).click();
found.push(all(".column").map(column => column.querySelectorAll(".chip.lit").length));
const hints = () => texts(".note").filter(text => /before fusion, are hidden/.test(text)).length;
found.push(hints());
press("b");
found.push(hints());
press("b");
found.push(all("option").length);
press("4");
found.push(state.lines.filter(line => line.text.startsWith("def run(")).length);
"""

LARGE = """
found.push(state.program.operators.length, document.querySelectorAll("*").length);
document.querySelector(".fold").click();
byId("kernels").scrollTop = 1e6;
paint();
found.push(document.querySelectorAll("*").length, byId("kernels").clientHeight < innerHeight);
"""

TOUR = """
const colour = () => getComputedStyle(document.body).backgroundColor;
const light = colour();
press("d");
found.push(light !== colour());
found.push(all("[role=tab]").map((tab, index) => {
  press(String(index + 1));
  return tab.getAttribute("aria-selected") === "true" && all("#text .lines > div").length > 0;
}));
press("j");
found.push(document.activeElement.tagName, all(".lit").length > 0);
press("/");
found.push(document.activeElement.id);
type("linear");
found.push(state.lit.size > 0);
const rows = () => state.columns[0].rows.length;
const folded = rows();
byId("kernels").scrollTop = state.columns[0].rows.find(row => row.inside).top;
paint();
document.querySelector(".fold").click();
found.push(folded, rows());
dispatchEvent(new Event("beforeprint"));
found.push(all(".row").length === rows());
dispatchEvent(new Event("afterprint"));
found.push(all(".row").length < rows());
const narrow = all(".card").filter(card => card.scrollHeight > card.clientHeight + 1);
found.push(narrow.map(card => card.textContent));
"""


def test_clicks_light_up_all_levels(tmp_path: Path):
    found = in_browser(example("llama_layer.coda"), CLICKS, tmp_path)
    source, block, gemm, triton, machine, searched, left = found
    assert source == ["    a = silu(linear(h1, w_gate)) * linear(h1, w_up)"]
    assert len(block) == 1 and "coda.silu" in block[0]
    assert any("pair<halves>" in line for line in gemm)
    assert any("gl.exp" in line for line in triton)
    assert not machine
    assert searched == [True] * 2 and not left


def test_edges_are_as_wide_as_tensors_are_large(tmp_path: Path):
    weights, edges, threads, apart = in_browser(example("llama_layer.coda"), EDGES, tmp_path)
    assert 1 < max(weights) < max(edges) == 18
    assert threads >= 3
    assert not apart


def test_a_refusal_is_an_edge_with_its_bytes(tmp_path: Path):
    page = explore_module(parse_text(REFUSED), options=PageOptions(sizes={"M": 1000}))
    edge, text = in_browser(page, RED, tmp_path)
    assert "refused256 kB" in edge
    assert "costs256kB(256·M+128bytes)" in text.replace(" ", "") and "remedy" in text


def layers(count: int) -> str:
    """The page of a model with as many layers."""
    arguments = "x0: bf16[M, 64], weight norm: bf16[64], weight up: bf16[96, 64], "
    body = "".join(LAYER.format(n=n, m=n + 1) for n in range(count))
    results = f") -> bf16[M, 64] {{\n{body}    return x{count}\n}}\n"
    text = f"fn f({arguments}weight down: bf16[64, 96]{results}"
    return explore_module(parse_text(text, "f.coda"), sources={"f.coda": text})


def test_equal_layers_are_folded(tmp_path: Path):
    found = in_browser(layers(32), FOLDS, tmp_path)
    head, chips, is_found, expanded, unfolded, folded = found
    assert head == "31 × 3 kernels (show all)" and chips >= 1
    assert is_found and expanded == "true"
    assert unfolded - folded == 30 * 3


def test_a_backward_is_beside_its_forward(tmp_path: Path):
    module = parse(ROOT / "examples" / "llama_mlp.coda")
    DifferentiatePass().apply(make_context(), module)
    found = in_browser(explore_module(module), BESIDE, tmp_path)
    titles, lit, hidden, shown, options, programs = found
    assert titles == ["llama_mlp_forward 4 kernels", "llama_mlp_backward 6 kernels"]
    assert hidden == 2 and shown == 0
    assert all(lit) and options == 4 and programs == 2


def test_ten_thousand_operators_have_few_elements(tmp_path: Path):
    page = layers(3)
    data = contents(page)
    (function,) = data["functions"]
    multiply(function, 10_000 // len(function["operators"]) + 1)
    before, _, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', page, maxsplit=1, flags=re.S)
    count, opened, unfolded, scrolls = in_browser(
        f"{before}{as_script(data)}{after}", LARGE, tmp_path
    )
    assert count >= 10_000 and scrolls
    assert opened < 3000 and unfolded < 3000


def multiply(function: Any, copies: int) -> None:
    """Repeat the operators, the kernels and the lines of a program, each copy apart."""
    (file,) = function["files"]
    count, kernels = len(function["operators"]), len(function["kernels"])
    lines = len(function["files"][file])
    function["operators"] = [
        {
            **op,
            "line": op["line"] + n * lines,
            "kernels": [kernel + n * kernels for kernel in op["kernels"]],
        }
        for n in range(copies)
        for op in function["operators"]
    ]
    function["kernels"] = [
        {
            **kernel,
            "applied": [op + n * count for op in kernel["applied"]],
            "operators": [{**part, "id": part["id"] + n * count} for part in kernel["operators"]],
        }
        for n in range(copies)
        for kernel in function["kernels"]
    ]
    function["files"][file] *= copies


class Hostile(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add_module(HOSTILE, torch.nn.Linear(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.get_submodule(HOSTILE)(x)


def test_names_of_a_model_are_data(tmp_path: Path):
    page = tmp_path / "model.html"
    coda_ir.export(Hostile(), (torch.randn(3, 8),)).explore(page)
    script = 'found.push(document.title, chips("linear")[0].title, document.images.length);'
    title, named, images = in_browser(page.read_text(), script, tmp_path)
    assert title == "Hostile: CODA IR" and HOSTILE in named and images == 0


@daily(lambda name: name == "llama")
@pytest.mark.parametrize("name", ["llama", "sd3", "mixtral"])
def test_models(name: str, tmp_path: Path):
    pytest.importorskip("diffusers" if name == "sd3" else "transformers")
    from zoo import ARCHITECTURES

    example = next(each for each in ARCHITECTURES if each.name == name).build(3)
    page = tmp_path / "model.html"
    coda_ir.export(example.model, (), dict(example.inputs)).explore(page)
    dark, levels, focus, lit, searching, hits, folded, unfolded, printed, left, clipped = (
        in_browser(page.read_text(), TOUR, tmp_path)
    )
    assert dark and all(levels) and len(levels) == 5
    assert focus == "H2" and lit and searching == "search" and hits
    assert unfolded > folded
    assert printed and left
    assert not clipped
