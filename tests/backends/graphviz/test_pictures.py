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


class TestPictures:
    def test_boxes_are_kernels(self):
        picture = Picture.of(draw_module(lowered("llama_layer", "block")))
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
        picture = Picture.of(draw_module(lowered("llama_layer", "block")))
        first, second, *_ = picture.named("rms_norm")
        assert "partials of each tile" in picture.nodes[first]
        assert "combines the partials" in picture.nodes[second]
        assert picture.inside[first] != picture.inside[second]
        (style,) = [style for a, b, style in picture.edges if (a, b) == (first, second)]
        assert "dashed" in style

    def test_refusals_are_tooltips(self):
        picture = Picture.of(draw_module(lowered("gpt2_block", "block")))
        (norm, *_) = [n for n in picture.named("layer_norm") if not picture.inside[n]]
        assert "failed condition" in picture.nodes[norm]
        assert all("dashed" in picture.nodes[name] for name in picture.named("slice"))

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
        picture = Picture.of(draw_module(parse(text)))
        assert picture.named("mul 0.5") and picture.named("constant 0.5")

    def test_needs_no_locations(self):
        text = str(lowered("linear_bias_gelu", "block"))
        picture = Picture.of(draw_module(parse(text)))
        (linear,), (gelu,) = picture.named("linear"), picture.named("gelu")
        assert picture.inside[linear] == picture.inside[gelu] != ()

    @pytest.mark.parametrize("name", ["gemma_block", "custom_epilogue", "norms"])
    def test_every_operator_is_drawn_once_per_kernel(self, name: str):
        module = parse(EXAMPLES / f"{name}.coda")
        before = str(module)
        Picture.of(draw_module(module))
        assert str(module) == before
        for func in module.ops:
            assert isinstance(func, FuncOp)
            fusion = analyze_fusion(module, func)
            for kernel, members in zip(fusion.kernels, fusion.members, strict=True):
                assert members, f"{kernel.name} computes something of the program"

    def test_a_module_on_the_gemm_level_is_shown_as_it_is(self):
        module = lowered("linear_bias_gelu")
        assert any(isinstance(op, FusedOp) for op in module.walk())
        assert "gemm_bias_gelu" in draw_module(module)


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
        with pytest.raises(CodaError, match="arg0 has type f32, expected a tensor"):
            draw_module(parse("func.func @f(%x: f32) -> f32 { func.return %x : f32 }"))


class TestSvg:
    def test_without_dot(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(CodaError, match=r"needs the program 'dot' of Graphviz.*\n.*install"):
            render_svg("digraph {}")

    @pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz")
    def test_svg(self):
        tree = ElementTree.fromstring(render_svg(draw_module(lowered("gpt2_block", "block"))))
        assert tree.tag.endswith("svg")
        assert any("attention" in (element.text or "") for element in tree.iter())

    @pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz")
    def test_dot_fails(self):
        with pytest.raises(CodaError, match=r"dot: .*syntax error"):
            render_svg("digraph {")


@pytest.mark.slow
def test_backward_of_attention():
    module = parse(EXAMPLES / "qwen3_block.coda")
    DifferentiatePass().apply(make_context(), module)
    shown = " ".join(Picture.of(draw_module(module)).boxes.values())
    assert "gemm.attention_dkv" in shown
