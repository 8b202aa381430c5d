"""Hovers: names, types, documentation, and the kernel that an operator ends up in."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from lsprotocol.types import Position
from support.editor import Editor, text_at

from coda_ir.backends.triton.module import emit_program
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.passes import get_all_passes

BLOCK = dedent(
    """\
    const D = 256
    const EPS = 1e-5

    fn block(
        y: bf16[B, T, D],
        x0: bf16[B, T, D],
        weight wo: bf16[D, D],
        weight w: bf16[2 * D, D],
        weight v: bf16[2 * D, D],
    ) -> bf16[B, T, 2 * D] {
        x1 = x0 + linear(y, wo)
        h = rms_norm(x1, eps=EPS)
        return silu(linear(h, w)) * linear(h, v)
    }
    """
)


@pytest.fixture(scope="module")
def block(editor: Editor, tmp_path_factory: pytest.TempPathFactory) -> str:
    return editor.open(tmp_path_factory.mktemp("hover") / "block.coda", BLOCK)


def emitted_kernels() -> list[str]:
    """The names of the kernels in the module that the Triton backend emits."""
    module = parse_text(BLOCK, "block.coda")
    for name in ("coda-to-gemm", "schedule", "plan-buffers"):
        get_all_passes()[name]()().apply(make_context(), module)
    return [kernel.name for kernel in emit_program(module).kernels]


@pytest.mark.parametrize(
    "needle, shown",
    [
        ("D = 256", "const D = 256"),
        ("EPS)", "const EPS = 1e-05"),
        ("x0: bf16", "x0: bf16[B, T, 256]"),
        ("wo: bf16", "weight wo: bf16[256, 256]"),
        ("x1 = ", "x1: bf16[B, T, 256]"),
        ("x1, eps", "x1: bf16[B, T, 256]"),
        ("h, v)", "h: bf16[B, T, 256]"),
    ],
)
def test_names_have_types_with_symbolic_dimensions(
    editor: Editor, block: str, needle: str, shown: str
):
    assert editor.hover(block, needle) == f"```coda\n{shown}\n```"


def test_a_dimension(editor: Editor, block: str):
    hover = editor.hover(block, "T, D]")
    assert hover is not None and "known at run time" in hover


def test_an_operator_has_signature_documentation_and_kernel(editor: Editor, block: str):
    hover = editor.hover(block, "silu")
    assert hover is not None
    assert "silu(x) -> bf16[B, T, 512]" in hover
    assert "x * sigmoid(x), also called swish" in hover
    kernel = re.search(r"Runs in kernel `(\w+)`: gemm.fused at 13:17, with `silu`", hover)
    assert kernel is not None and "glu" in kernel[1]
    assert kernel[1] in emitted_kernels()
    assert "A separate kernel would move 2048*B*T bytes" in hover


def test_an_operator_that_ends_up_in_several_kernels(editor: Editor, block: str):
    hover = editor.hover(block, "rms_norm")
    assert hover is not None
    names = re.findall(r"Runs in kernel `(\w+)`", hover)
    assert len(names) > 1
    assert set(names) <= set(emitted_kernels())


def test_an_infix_operator(editor: Editor, block: str):
    hover = editor.hover(block, "+ linear")
    assert hover is not None
    assert "a + b -> bf16[B, T, 256]" in hover
    assert "gemm.fused at 11:15, with `+`, `rms_norm`" in hover


def test_a_function_lists_its_kernels_and_bytes(editor: Editor, block: str):
    hover = editor.hover(block, "block")
    assert hover is not None
    assert hover.startswith("```coda\nfn block(\n    y: bf16[B, T, D],")
    assert ") -> bf16[B, T, 2 * D]\n```" in hover
    for kernel in emitted_kernels():
        assert f"- `{kernel}`: " in hover
    assert re.search(r"Moves [^;]*B\*T[^;]* bytes; with a kernel per operator", hover)


def test_why_an_operator_is_not_fused(editor: Editor, tmp_path: Path):
    text = "fn f(x: bf16[M, 16384]) {\n    return softmax(x)\n}\n"
    hover = editor.hover(editor.open(tmp_path / "a.coda", text), "softmax")
    assert hover is not None
    assert "Not fused (`report-unfused`): softmax runs as a separate kernel" in hover
    assert "Failed condition: the whole row is on chip. Costs 65536*M bytes." in hover


def test_a_view_moves_nothing(editor: Editor, tmp_path: Path):
    text = "fn f(x: bf16[M, 64]) {\n    return silu(reshape(x, [M, 8, 8]))\n}\n"
    hover = editor.hover(editor.open(tmp_path / "a.coda", text), "reshape")
    assert hover is not None
    assert "-> bf16[M, 8, 8]" in hover and "A view: nothing is computed or moved." in hover


class TestEpilogues:
    TEXT = dedent(
        """\
        epilogue biased(acc, bias: row) -> (y: tile, amax: partial_row<max>) {
            y = gelu(acc + bias)
            z = abs(acc)
            amax = z
        }

        fn f(x: bf16[M, 64], weight w: bf16[128, 64], weight b: bf16[128]) {
            y, amax = biased(linear(x, w), b)
            return y, finalize(amax)
        }
        """
    )

    @pytest.fixture
    def uri(self, editor: Editor, tmp_path: Path) -> str:
        return editor.open(tmp_path / "a.coda", self.TEXT)

    @pytest.mark.parametrize(
        "needle, shown",
        [
            ("acc, bias", "accumulator"),
            ("z = abs", "z: f32"),
            ("bias: row", "bias: row\n```\n\none element per column"),
            ("amax: partial", "amax: partial_row<max>\n```\n\ncombined over the columns"),
            ("amax = biased", "amax: partial_row<max>"),
            ("biased(linear", "epilogue biased(acc, bias: row) -> (y: tile, amax:"),
            ("finalize", "Runs in kernel `finalize_max`: gemm.finalize at 9:15"),
            ("gelu", "gemm.fused at 8:15, with `+`, `gelu`, `abs`"),
        ],
    )
    def test_what_is_shown(self, editor: Editor, uri: str, needle: str, shown: str):
        hover = editor.hover(uri, needle)
        assert hover is not None and shown in hover


def test_functions_that_are_inlined_and_imported(editor: Editor, tmp_path: Path):
    helper = "fn act(x: bf16[R, C]) {\n    return silu(x)\n}\n"
    (tmp_path / "act.coda").write_text(helper)
    text = (
        'import "act.coda"\n\nfn f(x: bf16[M, 64], w: bf16[64, 64]) {\n    return act(x @ w)\n}\n'
    )
    uri = editor.open(tmp_path / "main.coda", text)
    hover = editor.hover(uri, "@")
    assert hover is not None and "gemm.fused at 4:18, with `silu`" in hover
    hover = editor.hover(uri, "act(x")
    assert hover == "```coda\nfn act(x: bf16[R, C])\n```"
    hover = editor.hover(uri, '"act.coda"')
    assert hover is not None and hover.endswith("act.coda` defines `act`.")


def test_types_are_known_beside_errors(editor: Editor, tmp_path: Path):
    text = "fn f(x: bf16[M, 64]) {\n    y = silu(x)\n    z = y +\n}\n\nfn g(x: f32[M, 8]) {\n"
    uri = editor.open(tmp_path / "a.coda", text)
    assert editor.diagnostics(uri)
    assert editor.hover(uri, "y = silu") == "```coda\ny: bf16[M, 64]\n```"
    text = BLOCK.replace("eps=EPS", "epsilon=EPS")
    uri = editor.open(tmp_path / "b.coda", text)
    assert editor.hover(uri, "x1, eps") == "```coda\nx1: bf16[B, T, 256]\n```"


def test_types_are_known_beside_a_wrong_const(editor: Editor, tmp_path: Path):
    text = BLOCK.replace("EPS = 1e-5", "EPS = 1 / 0")
    uri = editor.open(tmp_path / "a.coda", text)
    (error,) = editor.diagnostics(uri)
    assert "division of 1 by zero" in error.message
    assert editor.hover(uri, "x0 + linear") == "```coda\nx0: bf16[B, T, 256]\n```"


def test_the_range_of_a_hover_counts_utf16_units(editor: Editor, tmp_path: Path):
    text = 'fn f(x: bf16[M, 8]) {\n    return glu(x, activation="🙂é"), silu(x)\n}\n'
    uri = editor.open(tmp_path / "a.coda", text)
    found = editor.hover_now(uri, editor.at(uri, "silu", 2))
    assert found is not None and found.range is not None
    assert text_at(text, found.range) == "silu"


def test_where_nothing_is(editor: Editor, block: str):
    for position in (Position(2, 0), Position(500, 0), Position(0, 500), Position(3, 100_000)):
        assert editor.hover_now(block, position) is None


def test_options_and_files_of_the_standard_library(editor: Editor, tmp_path: Path):
    text = (
        'import "std/residual.coda"\n\n'
        "fn f(x: bf16[B, T, 64], w: bf16[64, size], size=64, scale=0.5) {\n"
        "    return layer_scale(x, linear(x, w), w[0]) * scale\n}\n"
    )
    uri = editor.open(tmp_path / "main.coda", text)
    assert editor.hover(uri, "scale\n") == "```coda\nscale = 0.5\n```"
    hover = editor.hover(uri, "layer_scale")
    assert hover is not None and "fn layer_scale(x: bf16[B, T, D]" in hover
    found = editor.definition(uri, '"std/residual.coda"', 3)
    assert found is not None and found.uri.endswith("coda_text/std/residual.coda")
    found = editor.definition(uri, "size=64")
    assert found is not None and found.uri == uri
