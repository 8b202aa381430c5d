"""The page of `--emit=html`: its contents, and its texts as data."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.browser import in_browser, needs_browser
from support.compile_cache import use_cache
from support.fake_measurer import FakeMeasurer

import coda_ir
from coda_ir.api import parse
from coda_ir.backends.explorer import PageOptions, explore_module
from coda_ir.backends.explorer.machine_code import spans
from coda_ir.backends.explorer.page import as_script
from coda_ir.diagnostics import CodaError
from coda_ir.frontends.coda_text import parse_text
from coda_ir.pages import page_of
from coda_ir.tools.coda_opt import main
from coda_ir.tuning.context import use_measurer
from coda_ir.tuning.stage import TunePass

EXAMPLES = Path(__file__).parents[3] / "examples"

REFUSED = """fn f(x: bf16[M, 64], weight norm: bf16[64], weight w: bf16[96, 64]) -> bf16[M, 96] {
    return linear(rms_norm(x, norm, eps=1e-5), w)
}
"""


def contents(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def example(name: str) -> str:
    return explore_module(parse(EXAMPLES / name))


def test_operators_kernels_and_texts():
    data = contents(example("llama_layer.coda"))
    (layer,) = data["functions"]
    assert layer["counts"] == {"operators": 15, "kernels": 6}
    for number, kernel in enumerate(layer["kernels"]):
        for part in kernel["operators"]:
            assert number in layer["operators"][part["id"]]["kernels"]
    names = [kernel["name"] for kernel in layer["kernels"]]
    assert names[0] == "gemm_residual_scale_ssq" and f"def {names[0]}" in layer["triton"]["text"]
    (lines,) = layer["files"].values()
    silu = next(op for op in layer["operators"] if op["name"] == "silu")
    assert "silu(" in lines[silu["line"] - 1]


def test_refusals_have_reason_bytes_and_remedy():
    (function,) = contents(explore_module(parse_text(REFUSED)))["functions"]
    (norm,) = (op for op in function["operators"] if op["refusals"])
    (refusal,) = norm["refusals"]
    assert refusal["pass"] == "defer-norms" and refusal["symbolic"] == "256*M + 128"
    assert refusal["bytes"] == 256 * 16384 + 128
    assert refusal["condition"] and refusal["suggestion"]


def test_texts_end_no_element():
    text = as_script({"name": "</script><b>&"})
    assert "<" not in text and json.loads(text) == {"name": "</script><b>&"}


def test_an_unknown_function_is_an_error():
    with pytest.raises(CodaError, match="no function 'g'"):
        explore_module(parse_text(REFUSED), "g")


def test_errors_of_passes_name_the_place_in_the_program():
    text = "fn f(x: f32[M, K], weight w: i8[96, K]) {\n    return linear(x, w)\n}"
    with pytest.raises(CodaError, match=r"^x\.coda:2:12: schedule: K of "):
        explore_module(parse_text(text, "x.coda"))


def test_coda_opt_writes_the_page_without_links_to_a_network(tmp_path: Path):
    page = tmp_path / "page.html"
    assert main([str(EXAMPLES / "llama_mlp.coda"), "--emit=html", "-o", str(page)]) == 0
    assert not re.search(r"(src|href)=|https?://|@import|fetch\(", page.read_text())


def test_tensors_have_the_bytes_of_the_sizes_that_are_asked_for():
    options = PageOptions(sizes={"B": 2, "T": 8192})
    (layer,) = contents(explore_module(parse(EXAMPLES / "llama_layer.coda"), options=options))[
        "functions"
    ]
    y = layer["tensors"][layer["arguments"][0]]
    assert (y["name"], y["bytes"]) == ("y", 2 * 8192 * 4096 * 2)
    for op in layer["operators"]:
        moved = sum(layer["tensors"][t]["bytes"] for t in {*op["reads"], *op["writes"]})
        assert op["roofline"]["bytes"] == moved


def test_times_are_not_below_the_roof():
    (layer,) = contents(example("llama_layer.coda"))["functions"]
    assert layer["device"] == "H100 SXM (sm_90)" and layer["sizes"] == {"B": 128, "T": 128}
    for each in (*layer["operators"], *layer["kernels"]):
        assert 0 < each["roofline"]["roof"] < each["roofline"]["us"]
    gemm, finalize, *_ = layer["kernels"]
    assert gemm["roofline"]["flops"] == 2 * 128 * 128 * 4096 * 4096
    assert gemm["roofline"]["roof"] == pytest.approx(gemm["roofline"]["flops"] / 989.4e6, rel=1e-3)
    assert gemm["roofline"]["bound"] == "FLOPs" and finalize["roofline"]["bound"] == "bytes"


def test_a_deferred_norm_is_in_the_kernels_that_apply_it():
    (layer,) = contents(example("llama_layer.coda"))["functions"]
    norms = [n for n, op in enumerate(layer["operators"]) if op["name"] == "rms_norm"]
    assert [k["applied"] for k in layer["kernels"] if k["applied"]] == [[n] for n in norms]


def test_measured_times_are_beside_predicted_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    use_cache(monkeypatch, tmp_path)
    module, sizes = parse(EXAMPLES / "llama_mlp.coda"), {"B": 2, "T": 4096}
    with use_measurer(FakeMeasurer(lambda configured: 1234.0)):
        schedule = partial(TunePass, mode="measure")
        explore_module(module, options=PageOptions(sizes=sizes, schedule=schedule))
        (stored,) = contents(page_of(module, sizes=sizes))["functions"]
    (nothing,) = contents(page_of(module, sizes=sizes))["functions"]
    measured = {"us": 1234.0, "device": "Fake GPU", "rows": 8192, "kernels": 1}
    gemms = [kernel["measured"] for kernel in stored["kernels"] if kernel["kind"] == "gemm.fused"]
    assert gemms == [measured] * 2
    assert not any(kernel["measured"] for kernel in nothing["kernels"])


SUMMARY = "found.push(byId('summary').textContent);"


@needs_browser
def test_a_gemm_of_several_kernels_has_one_measured_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    use_cache(monkeypatch, tmp_path)
    module, sizes = parse(EXAMPLES / "llama_mlp.coda"), {"B": 2, "T": 4096}
    times = {"fused": 100.0, "unfused": 100.0, "library": 50.0}
    with use_measurer(FakeMeasurer(lambda configured: times[configured.form])):
        options = PageOptions(sizes=sizes, schedule=partial(TunePass, mode="measure"))
        page = explore_module(module, options=options)
    (function,) = contents(page)["functions"]
    gate_and_up, down = filter(None, (kernel["measured"] for kernel in function["kernels"]))
    assert gate_and_up["us"] == down["us"] == 50.0
    assert (gate_and_up["kernels"], down["kernels"]) == (3, 2)
    shown = in_browser(page, SUMMARY, tmp_path)
    assert re.search(r"measured 100 µs for 5 of the kernels \(\S+ ms predicted\)", shown[0])


def test_lines_belong_to_the_operator_of_the_comment_before():
    text = "x = 1\n# operator:3:0\ny = 2\n# operator:4:0\nz = 3\n\nw = 4\n# operator:5:0"
    assert list(spans(text)) == [(1, 3, 3), (3, 5, 4), (7, 8, 5)]


def test_machine_code_is_linked_to_operators():
    module = parse_text("fn f(x: f32[M, 64], y: f32[M, 64]) -> f32[M, 64] { return x * silu(y) }")
    (function,) = contents(explore_module(module, options=PageOptions("sm_90")))["functions"]
    (kernel,) = function["machine"]["kernels"]
    lines = kernel["text"].split("\n")
    # The statement of the product computes silu, too.
    product = [n for first, end, op in kernel["spans"] if op == 1 for n in range(first, end)]
    assert any("ex2.approx" in lines[n] for n in product)
    assert kernel["name"] == function["kernels"][0]["emitted"]


def test_a_page_without_machine_code_says_how_to_get_it():
    (function,) = contents(example("llama_mlp.coda"))["functions"]
    assert not function["machine"]["kernels"] and "--arch" in function["machine"]["reason"]


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(CodaError, match="sm_1"):
        explore_module(parse_text(REFUSED), options=PageOptions("sm_1"))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.down(x))


@pytest.mark.slow
def test_an_exported_model_shows_its_source(tmp_path: Path):
    coda_ir.export(Scaled(), (torch.randn(3, 8),)).explore(tmp_path / "page.html")
    (function,) = contents((tmp_path / "page.html").read_text())["functions"]
    linear, relu = function["operators"]
    assert linear["module"] == "down" and linear["kernels"] == relu["kernels"] == [0]
    assert "torch.relu(self.down(x))" in function["files"][relu["file"]][relu["line"] - 1]


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"N": 3}, "no function has a dimension 'N'\n  help: the symbols are M"),
        ({"M": 0}, "the size of M is 0\n  help: pass an integer, 1 or more"),
    ],
)
def test_sizes_are_of_symbols(sizes: dict[str, int], message: str, tmp_path: Path):
    shapes = ({0: torch.export.Dim("M")},)
    exported = coda_ir.export(Scaled(), (torch.randn(3, 8),), dynamic_shapes=shapes)
    with pytest.raises(CodaError) as error:
        exported.explore(tmp_path / "page.html", sizes=sizes)
    assert str(error.value) == message
    exported.explore(tmp_path / "page.html", sizes={"M": 256})
