"""The option `explore` and $CODA_EXPLORE: a page about each graph."""

import logging
import re
from pathlib import Path

import pytest
import torch
from support.torch_compile import compiled, reset
from torch import nn

from coda_ir.diagnostics import OptionError
from coda_ir.frontends.torch.compile_options import EXPLORE_VARIABLE, Options


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))


def run(explore: str | None = None) -> None:
    reset()
    with torch.no_grad():
        compiled(network(), target="reference", explore=explore)(torch.randn(3, 8))


def test_each_graph_gets_a_page_of_its_own(tmp_path: Path):
    folder = tmp_path / "pages"
    run(explore=str(folder))
    run(explore=str(folder))
    pages = sorted(page.name for page in folder.iterdir())
    assert pages == ["graph1.html", "graph2.html"]
    assert '"gemm.fused"' in (folder / "graph1.html").read_text()


def test_pages_are_for_a_gpu_and_the_sizes_of_the_call(tmp_path: Path):
    reset()
    arch = "sm_80"
    model = compiled(network(), dynamic=True, explore=str(tmp_path), explore_arch=arch)
    with torch.no_grad():
        model(torch.randn(6, 8))
    page = (tmp_path / "graph1.html").read_text()
    assert ".target sm_80" in page and re.search(r'"sizes":\{"\w+":6\}', page)


def test_an_unknown_gpu_is_an_error():
    with pytest.raises(OptionError, match="explore_arch: unknown architecture 'sm_1'"):
        Options.of(None, {"explore_arch": "sm_1"})


def test_the_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(EXPLORE_VARIABLE, str(tmp_path / "pages"))
    run()
    assert (tmp_path / "pages" / "graph1.html").exists()


def test_training_has_the_page_of_the_graph(tmp_path: Path):
    reset()
    model = network()
    function = compiled(model, target="reference", explore=str(tmp_path))
    function(torch.randn(3, 8)).sum().backward()
    assert [page.name for page in tmp_path.iterdir()] == ["graph1.html"]


def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "file"
    file.write_text("")
    with caplog.at_level(logging.WARNING):
        run(explore=str(file))
    assert "the page of a graph is not written to" in caplog.text
