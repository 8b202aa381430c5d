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
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.tools.coda_opt import main

ROOT = Path(__file__).parents[3]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

REFUSED = """fn f(x: bf16[M, 64], weight norm: bf16[64], weight w: bf16[96, 64]) -> bf16[M, 96] {
    return linear(rms_norm(x, norm, eps=1e-5), w)
}
"""

CLICKS = """<script>
const found = [];
for (const level of ["1", "2", "3", "4"]) {
  document.dispatchEvent(new KeyboardEvent("keydown", {key: level}));
  [...document.querySelectorAll(".chip")].find(chip => chip.textContent === "silu").click();
  found.push([...document.querySelectorAll("#text .lit")].map(line => line.textContent));
}
document.getElementById("search").value = "rope";
document.getElementById("search").dispatchEvent(new Event("input"));
found.push([...document.querySelectorAll(".chip.lit")].map(chip => chip.textContent));
document.body.replaceChildren(Object.assign(document.createElement("pre"),
  {id: "found", textContent: encodeURIComponent(JSON.stringify(found))}));
</script>"""


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
    assert names[0] == "gemm_residual_scale_ssq" and f"def {names[0]}" in data["triton"]
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


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_clicks_light_up_all_levels(tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(example("llama_layer.coda").replace("</body>", f"{CLICKS}</body>"))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    command = [str(BROWSER), *options, f"--user-data-dir={tmp_path / 'browser'}"]
    shown = subprocess.run(
        [*command, "--enable-logging=stderr", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "CONSOLE" not in shown.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', shown.stdout)
    assert found is not None
    source, block, gemm, triton, searched = json.loads(unquote(found[1]))
    assert source == ["29     a = silu(linear(h1, w_gate)) * linear(h1, w_up)"]
    assert len(block) == 1 and "coda.silu" in block[0]
    assert any("pair<halves>" in line for line in gemm)
    assert any("tl.exp" in line for line in triton)
    assert searched == ["rope", "rope"]


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
