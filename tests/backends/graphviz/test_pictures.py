"""Pictures: the DOT text is well formed, and shows what the module has and what was fused."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.examples import EXAMPLES
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.api import Level, Lowering, parse
from coda_ir.backends.graphviz import draw_module, render_svg
from coda_ir.backends.graphviz.fusion import analyze_fusion
from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.pipelines.differentiate import DifferentiatePass

EDGE = re.compile(r"(n\d+) -> (n\d+)( \[.*\])?;")
NODE = re.compile(r"(n\d+) \[(.*)\];")
BOX = re.compile(r"subgraph (cluster_\d+) \{")
ATTRIBUTE = r'\w+=(?:"(?:[^"\\]|\\.)*"|<.*>|[-\d.]+)'


@dataclass
class Picture:
    """The nodes, edges and boxes of a DOT text, which is checked line by line."""

    nodes: dict[str, str]
    boxes: dict[str, str]
    """Name of a box -> its label."""
    edges: list[tuple[str, str, str]]
    inside: dict[str, tuple[str, ...]]
    """Node -> the boxes around it, the outermost first."""

    @staticmethod
    def of(text: str) -> "Picture":
        lines = [line.strip() for line in text.splitlines()]
        assert lines[0].startswith("digraph ") and lines[-1] == "}"
        picture, around = Picture({}, {}, [], {}), list[str]()
        for line in lines[1:-1]:
            picture.read(line, around)
        assert not around, "every box is closed"
        assert {end for a, b, _ in picture.edges for end in (a, b)} <= picture.nodes.keys()
        return picture

    def read(self, line: str, around: list[str]) -> None:
        if line == "}":
            around.pop()
        elif match := BOX.fullmatch(line):
            around.append(match[1])
        elif match := EDGE.fullmatch(line):
            self.edges.append((match[1], match[2], match[3] or ""))
        elif match := NODE.fullmatch(line):
            assert re.fullmatch(f"{ATTRIBUTE}(, {ATTRIBUTE})*", match[2]), line
            self.nodes[match[1]] = match[2]
            self.inside[match[1]] = tuple(around)
        else:
            assert re.fullmatch(rf"{ATTRIBUTE};|(node|edge) \[.*\];", line), line
            if around and line.startswith("label="):
                self.boxes[around[-1]] = line

    def named(self, text: str) -> list[str]:
        """The nodes with that title."""
        return [
            name
            for name, attributes in self.nodes.items()
            if f"<B>{text}</B>" in attributes or f'label="{text}"' in attributes
        ]

    def has_edge(self, source: str, target: str) -> bool:
        return any(edge[:2] == (source, target) for edge in self.edges)


def lowered(name: str, level: Level = "gemm") -> ModuleOp:
    return Lowering(parse(EXAMPLES / f"{name}.coda")).module(level)


class TestIrView:
    def test_block_level(self):
        picture = Picture.of(draw_module(lowered("linear_bias_gelu", "block")))
        assert not picture.boxes
        (x,), (w,), (linear,), (gelu,) = map(picture.named, ("x", "w", "linear", "gelu"))
        assert "oval" in picture.nodes[x] and "cylinder" in picture.nodes[w]
        assert "bf16[M, 1024]" in picture.nodes[x]
        assert picture.has_edge(x, linear) and picture.has_edge(w, linear)
        assert "linear_bias_gelu.coda:" in picture.nodes[gelu]

    def test_gemm_is_a_box_with_segments(self):
        picture = Picture.of(draw_module(lowered("llama_layer")))
        titles = list(picture.boxes.values())
        assert sum("gemm.fused" in title for title in titles) == 4
        assert sum("gemm.finalize" in title for title in titles) == 2
        assert any("B·T × 12288 × 4096" in title for title in titles)
        segments = [title for title in titles if "columns of" in title]
        assert len(segments) == 6
        assert any("columns of wq, in pairs j, j + 64 of each 128" in title for title in segments)
        (exp,) = picture.named("exp")
        assert len(picture.inside[exp]) == 2, "a segment inside of a GEMM"

    def test_ports_label_edges_and_partials_are_dashed(self):
        picture = Picture.of(draw_module(lowered("llama_layer")))
        labels = {match[1] for *_, text in picture.edges if (match := re.search('" (.*?)"', text))}
        assert {"A", "W", "tile", "row", "col", "half_table", "first", "second"} <= labels
        partials = picture.named("partial")
        dashed = [edge for edge in picture.edges if "dashed" in edge[2]]
        assert sorted({source for source, _, _ in dashed}) == sorted(partials)
        assert all("dashed" in picture.nodes[name] for name in partials)

    def test_what_is_not_fused_is_coloured_and_says_why(self):
        picture = Picture.of(draw_module(lowered("gpt2_block")))
        (attention,) = picture.named("attention")
        assert "#ffe2cc" in picture.nodes[attention]
        assert "runs as PyTorch's scaled dot-product attention" in picture.nodes[attention]

    def test_scalar_operators(self):
        text = draw_module(lowered("lm_head_cross_entropy"))
        for label in ("= -100", "a ? 0 : c", "lse over tiles", "Σ over tiles"):
            assert f'label="{label}"' in text
        assert 'label="x²"' in draw_module(lowered("llama_layer"))

    def test_schedule_is_shown(self):
        text = draw_module(lowered("linear_bias_gelu", "scheduled"))
        assert re.search(r"tiles of \d+ × \d+ × \d+, \d warps, \d stages, pointer main loop", text)

    def test_text_is_escaped(self):
        text = """
            func.func @"a\\"<b>"(%x: tensor<2xf32> {coda.name = "<&\\">"}) -> tensor<2xf32> {
              func.return %x : tensor<2xf32>
            }"""
        drawn = draw_module(parse(text))
        assert "&lt;&amp;&quot;&gt;" in drawn
        Picture.of(drawn)

    def test_constants_are_in_the_labels(self):
        text = """
            func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
              %c = coda.constant {value = 0.5 : f64} : tensor<f32>
              %y = coda.mul %x, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
              func.return %y, %c : tensor<2xf32>, tensor<f32>
            }"""
        for view in ("ir", "fusion"):
            picture = Picture.of(draw_module(parse(text), view))
            assert picture.named("mul 0.5") and picture.named("constant 0.5")


class TestFusionView:
    def test_boxes_are_kernels(self):
        picture = Picture.of(draw_module(lowered("llama_layer", "block"), "fusion"))
        assert len(picture.boxes) == 6
        (silu,), (mul,) = picture.named("silu"), picture.named("mul")
        gate, up = sorted(
            name for name in picture.named("linear") if picture.inside[name] == picture.inside[mul]
        )
        assert picture.inside[silu] == picture.inside[mul]
        assert "gemm_row_scale_silu_glu" in picture.boxes[picture.inside[mul][0]]
        assert picture.has_edge(gate, silu) and picture.has_edge(silu, mul)
        assert picture.has_edge(up, mul)

    def test_a_deferred_norm_has_a_part_in_two_kernels(self):
        picture = Picture.of(draw_module(lowered("llama_layer", "block"), "fusion"))
        first, second, *_ = picture.named("rms_norm")
        assert "partials of each tile" in picture.nodes[first]
        assert "combines the partials" in picture.nodes[second]
        assert picture.inside[first] != picture.inside[second]
        (style,) = [style for a, b, style in picture.edges if (a, b) == (first, second)]
        assert "dashed" in style

    def test_refusals_are_tooltips(self):
        picture = Picture.of(draw_module(lowered("gpt2_block", "block"), "fusion"))
        (norm, *_) = [n for n in picture.named("layer_norm") if not picture.inside[n]]
        assert "failed condition" in picture.nodes[norm]
        assert all("dashed" in picture.nodes[name] for name in picture.named("slice"))

    def test_needs_no_locations(self):
        text = str(lowered("linear_bias_gelu", "block"))
        picture = Picture.of(draw_module(parse(text), "fusion"))
        (linear,), (gelu,) = picture.named("linear"), picture.named("gelu")
        assert picture.inside[linear] == picture.inside[gelu] != ()

    @pytest.mark.parametrize("name", ["gemma_block", "custom_epilogue", "norms"])
    def test_every_operator_is_drawn_once_per_kernel(self, name: str):
        module = parse(EXAMPLES / f"{name}.coda")
        before = str(module)
        Picture.of(draw_module(module, "fusion"))
        assert str(module) == before
        for func in module.ops:
            assert isinstance(func, FuncOp)
            fusion = analyze_fusion(module, func)
            for kernel, members in zip(fusion.kernels, fusion.members, strict=True):
                assert members, f"{kernel.name} computes something of the program"

    def test_a_module_on_the_gemm_level_is_shown_as_it_is(self):
        module = lowered("linear_bias_gelu")
        assert any(isinstance(op, FusedOp) for op in module.walk())
        assert "gemm_bias_gelu" in draw_module(module, "fusion")


class TestModules:
    TEXT = """
        func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
          func.return %x : tensor<2xf32>
        }
        func.func @g(%x: tensor<2xf32>) -> tensor<2xf32> {
          func.return %x : tensor<2xf32>
        }"""

    def test_a_box_for_each_of_several_functions(self):
        picture = Picture.of(draw_module(parse(self.TEXT)))
        assert len(picture.boxes) == 2
        assert not Picture.of(draw_module(parse(self.TEXT), entry="g")).boxes

    def test_mistakes(self):
        with pytest.raises(CodaError, match="no function 'h'\n  help: the functions are f, g"):
            draw_module(parse(self.TEXT), entry="h")
        with pytest.raises(CodaError, match="unknown view 'x'\n  help: use one of ir, fusion"):
            draw_module(parse(self.TEXT), "x")
        with pytest.raises(CodaError, match="arg0 has type f32, expected a tensor"):
            draw_module(parse("func.func @f(%x: f32) -> f32 { func.return %x : f32 }"))


class TestSvg:
    def test_without_dot(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(CodaError, match=r"needs the program 'dot' of Graphviz.*\n.*install"):
            render_svg("digraph {}")

    @pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz")
    @pytest.mark.parametrize("view", ["ir", "fusion"])
    def test_svg(self, view: str):
        tree = ElementTree.fromstring(render_svg(draw_module(lowered("gpt2_block"), view)))
        assert tree.tag.endswith("svg")
        assert any("attention" in (element.text or "") for element in tree.iter())

    @pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz")
    def test_dot_fails(self):
        with pytest.raises(CodaError, match=r"dot: .*syntax error"):
            render_svg("digraph {")


def test_sums_of_products_and_gradients_of_weights():
    program = Path(__file__).parents[2] / "passes/programs/gradients.mlir"
    text = program.read_text().partition("// -----")[0]
    picture = Picture.of(draw_module(Lowering(parse(text)).module("gemm")))
    titles = " ".join(picture.boxes.values())
    assert "B·T × 64 × (64 + 32 + 32)" in titles
    assert "64 × 128 × B·T" in titles
    products = [label for label in picture.nodes.values() if "accumulates in f32" in label]
    assert any("dq · wq + dk · wk + dv · wv" in label for label in products)
    assert any("hᵀ · dk" in label for label in products)


@pytest.mark.slow
def test_backward_of_attention():
    module = parse(EXAMPLES / "qwen3_block.coda")
    DifferentiatePass().apply(make_context(), module)
    fused = Lowering(module).module("gemm")
    picture = Picture.of(draw_module(fused))
    titles = " ".join(picture.boxes.values())
    assert "gemm.attention_dq" in titles and "gemm.attention_dkv" in titles
    sums = [label for label in picture.nodes.values() if "accumulates in f32" in label]
    assert any("dK, dV" in label for label in sums)
    sides = " ".join(attributes for _, _, attributes in picture.edges)
    assert "dK first" in sides and "dV second" in sides
    shown = " ".join(Picture.of(draw_module(module, "fusion")).boxes.values())
    assert "gemm.attention_dkv" in shown
