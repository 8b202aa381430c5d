"""No module imports itself through others, and folders import what CONTRIBUTING.md allows."""

from pathlib import Path

import pytest
from support.import_graph import Graph, Layers, circle_of, import_graph, imported_names

ROOT = Path(__file__).parents[2]

TABLE = """
| layer | folders | may import |
|---|---|---|
| base | `errors` | |
| dialects | `dialects/` | |
| passes | `passes/`, `passes/support/` | base, dialects |
| api | `api` | all above |
"""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(ROOT)


@pytest.fixture(scope="module")
def layers() -> Layers:
    return Layers.parse((ROOT / "CONTRIBUTING.md").read_text())


class TestThePackage:
    def test_has_no_circle(self, graph: Graph):
        assert len(graph) > 300
        assert circle_of(graph) == []

    def test_follows_the_table(self, graph: Graph, layers: Layers):
        assert layers.faults(graph) == []

    def test_has_no_circle_of_folders(self, graph: Graph, layers: Layers):
        assert circle_of(layers.folders(graph)) == []

    def test_knows_the_imports_of_functions(self, graph: Graph):
        assert "launching/cuda_graphs" in graph["compiled"]
        assert "compiled" not in graph["launching/cuda_graphs"]


def graph_of(**imports: str) -> Graph:
    return {name.replace("_", "/"): frozenset(text.split()) for name, text in imports.items()}


class TestTheChecks:
    def test_finds_a_circle(self):
        graph = graph_of(a="b", b="c d", c="", d="e", e="b")
        assert circle_of(graph) == ["b", "d", "e"]

    def test_finds_no_circle_where_two_ways_meet(self):
        assert circle_of(graph_of(a="b c", b="d", c="d", d="")) == []

    def test_finds_a_forbidden_import(self):
        graph = graph_of(
            errors="", dialects_gemm="passes/fuse", passes_support_sites="errors", api="passes/fuse"
        )
        assert Layers.parse(TABLE).faults({**graph, "passes/fuse": frozenset({"api"})}) == [
            "dialects/gemm (dialects) imports passes/fuse (passes)",
            "passes/fuse (passes) imports api (api)",
        ]

    def test_finds_what_has_no_row_and_what_does_not_exist(self):
        graph = graph_of(errors="", dialects_coda="", passes_fuse="", api="", new="")
        assert Layers.parse(TABLE).faults(graph) == [
            "new has no row",
            "passes/support/ of the table does not exist",
        ]

    def test_finds_a_circle_of_folders(self):
        graph = graph_of(
            dialects_coda="passes/fuse", passes_fuse="errors", passes_lower="dialects/gemm"
        )
        assert circle_of(graph) == []
        assert circle_of(Layers.parse(TABLE).folders(graph)) == ["dialects/", "passes/"]

    def test_needs_a_table(self):
        with pytest.raises(ValueError, match="no table of layers"):
            Layers.parse("| folder | may import |\n")

    def test_reads_the_imports_of_functions_and_not_those_of_types(self):
        source = (
            "import a.b\n"
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import types_only\nelse:\n    import otherwise\n"
            "def f():\n    from c import d, e\n"
        )
        names = {"a.b", "typing.TYPE_CHECKING", "otherwise", "c.d", "c.e"}
        assert set(imported_names(source)) == names
