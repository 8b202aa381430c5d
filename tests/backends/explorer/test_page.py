"""The page of `--emit=html`: its contents, its texts as data, and clicks in a browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import torch

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.explorer import explore_module
from coda_ir.backends.explorer.page import as_script
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes.pipelines.differentiate import DifferentiatePass
from coda_ir.tools.coda_opt import main

ROOT = Path(__file__).parents[3]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

HOSTILE = "</script><script>document=1</script><img src=x>"

REFUSED = """fn f(x: bf16[M, 64], weight norm: bf16[64], weight w: bf16[96, 64]) -> bf16[M, 96] {
    return linear(rms_norm(x, norm, eps=1e-5), w)
}
"""

CLICKS = """
for (const level of ["1", "2", "3", "4"]) {
  document.dispatchEvent(new KeyboardEvent("keydown", {key: level}));
  chips("silu")[0].click();
  found.push([...document.querySelectorAll("#text .lit")].map(line => line.textContent));
}
type("rope");
found.push([...document.querySelectorAll(".chip.lit")].map(chip => chip.textContent));
"""

LAYER = """    h{n} = rms_norm(x{n}, norm, eps=1e-5)
    x{m} = x{n} + linear(silu(linear(h{n}, up)), down)
"""

FOLDS = """
const head = () => document.querySelector(".fold > button");
found.push(head().textContent, chips("silu").length);
type("x30");
found.push(document.querySelectorAll(".fold .chip.lit").length > 0);
head().click();
found.push(head().getAttribute("aria-expanded"), chips("silu").length);
head().click();
found.push(chips("silu").length);
"""

BESIDE = """
found.push([...document.querySelectorAll(".columns h3")].map(title => title.textContent));
const lines = [...document.querySelectorAll("#text [data-ops]")];
lines.find(line => line.textContent.includes("silu(")).click();
const columns = [...document.querySelectorAll(".columns > div")];
found.push(columns.map(column => column.querySelectorAll(".chip.lit").length));
document.dispatchEvent(new KeyboardEvent("keydown", {key: "4"}));
const text = document.getElementById("text").textContent;
found.push(text.split("def run(").length - 1);
"""

LAID_OUT = """
document.body.offsetHeight;
found.push(performance.now(), state.program.operators.length);
found.push(byId("kernels").clientHeight < innerHeight && byId("text").clientHeight < innerHeight);
"""

HARNESS = """<script>
const found = [];
function chips(name) {
  const all = [...document.querySelectorAll(".chip")];
  return all.filter(chip => chip.querySelector(".name").textContent === name);
}
function type(text) {
  document.getElementById("search").value = text;
  document.getElementById("search").dispatchEvent(new Event("input"));
}
%s
document.body.append(Object.assign(document.createElement("pre"),
  {id: "found", textContent: encodeURIComponent(JSON.stringify(found))}));
</script>"""


def in_browser(page: str, script: str, folder: Path) -> Any:
    """Return the `found` of a script that runs in the page, which logs no errors."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"{HARNESS % script}</body>"))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    options.append("--window-size=1300,800")
    command = [str(BROWSER), *options, f"--user-data-dir={folder / 'browser'}"]
    shown = subprocess.run(
        [*command, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "CONSOLE" not in shown.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', shown.stdout)
    assert found is not None
    return json.loads(unquote(found[1]))


def contents(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def example(name: str) -> str:
    return explore_module(parse(ROOT / "examples" / name))


def test_operators_kernels_and_texts():
    data = contents(example("llama_layer.coda"))
    (layer,) = data["functions"]
    assert layer["counts"] == {"operators": 15, "kernels": 6}
    for number, kernel in enumerate(layer["kernels"]):
        for part in kernel["operators"]:
            assert number in layer["operators"][part["id"]]["kernels"]
    names = [kernel["name"] for kernel in layer["kernels"]]
    assert names[0] == "gemm_residual_scale_ssq" and f"def {names[0]}" in layer["triton"]
    (lines,) = layer["files"].values()
    silu = next(op for op in layer["operators"] if op["name"] == "silu")
    assert "silu(" in lines[silu["line"] - 1]


def test_refusals_have_reason_bytes_and_remedy():
    (function,) = contents(explore_module(parse_text(REFUSED)))["functions"]
    (norm,) = (op for op in function["operators"] if op["refusals"])
    (refusal,) = norm["refusals"]
    assert refusal["pass"] == "defer-rms-norm" and refusal["bytes"] == "256*M + 128"
    assert refusal["condition"] and refusal["suggestion"]


def test_texts_end_no_element():
    text = as_script({"name": "</script><b>&"})
    assert "<" not in text and json.loads(text) == {"name": "</script><b>&"}


def test_an_unknown_function_is_an_error():
    with pytest.raises(CodaError, match="no function 'g'"):
        explore_module(parse_text(REFUSED), "g")


def test_coda_opt_writes_the_page_without_links_to_a_network(tmp_path: Path):
    page = tmp_path / "page.html"
    assert main([str(ROOT / "examples/llama_mlp.coda"), "--emit=html", "-o", str(page)]) == 0
    assert not re.search(r"(src|href)=|https?://|@import|fetch\(", page.read_text())


@needs_browser
def test_clicks_light_up_all_levels(tmp_path: Path):
    found = in_browser(example("llama_layer.coda"), CLICKS, tmp_path)
    source, block, gemm, triton, searched = found
    assert source == ["29     a = silu(linear(h1, w_gate)) * linear(h1, w_up)"]
    assert len(block) == 1 and "coda.silu" in block[0]
    assert any("pair<halves>" in line for line in gemm)
    assert any("tl.exp" in line for line in triton)
    assert searched == ["rope", "rope"]


def layers(count: int) -> str:
    """The page of a model with as many layers."""
    arguments = "x0: bf16[M, 64], weight norm: bf16[64], weight up: bf16[96, 64], "
    body = "".join(LAYER.format(n=n, m=n + 1) for n in range(count))
    results = f") -> bf16[M, 64] {{\n{body}    return x{count}\n}}\n"
    text = f"fn f({arguments}weight down: bf16[64, 96]{results}"
    return explore_module(parse_text(text, "f.coda"), sources={"f.coda": text})


@needs_browser
def test_equal_layers_are_folded(tmp_path: Path):
    found = in_browser(layers(32), FOLDS, tmp_path)
    head, folded, is_found, expanded, unfolded, again = found
    assert head == "31 × 3 kernels (show all)"
    assert is_found and expanded == "true"
    assert (folded, unfolded, again) == (2, 32, 2)


@needs_browser
def test_a_backward_is_beside_its_forward(tmp_path: Path):
    module = parse(ROOT / "examples" / "llama_mlp.coda")
    DifferentiatePass().apply(make_context(), module)
    titles, lit, programs = in_browser(explore_module(module), BESIDE, tmp_path)
    assert titles == ["llama_mlp_forward", "llama_mlp_backward"]
    assert all(lit) and programs == 2


@needs_browser
def test_ten_thousand_operators_open_in_two_seconds(tmp_path: Path):
    page = layers(3)
    data = contents(page)
    (function,) = data["functions"]
    multiply(function, 10_000 // len(function["operators"]) + 1)
    before, _, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', page, maxsplit=1, flags=re.S)
    page = f"{before}{as_script(data)}{after}"
    # The first time at which the machine is not busy with something else.
    runs = (in_browser(page, LAID_OUT, tmp_path) for _ in range(4))
    opened, count, both_scroll = next((run for run in runs if run[0] < 2000), (None, 0, False))
    assert opened is not None
    assert count >= 10_000 and both_scroll


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


@needs_browser
def test_names_of_a_model_are_data(tmp_path: Path):
    page = tmp_path / "model.html"
    coda_ir.export(Hostile(), (torch.randn(3, 8),)).explore(page)
    script = 'found.push(document.title, chips("linear")[0].title, document.images.length);'
    title, named, images = in_browser(page.read_text(), script, tmp_path)
    assert title == "Hostile: CODA IR" and HOSTILE in named and images == 0


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.down(x))


def test_an_exported_model_shows_its_source(tmp_path: Path):
    coda_ir.export(Scaled(), (torch.randn(3, 8),)).explore(tmp_path / "page.html")
    (function,) = contents((tmp_path / "page.html").read_text())["functions"]
    linear, relu = function["operators"]
    assert linear["module"] == "down" and linear["kernels"] == relu["kernels"] == [0]
    assert "torch.relu(self.down(x))" in function["files"][relu["file"]][relu["line"] - 1]
