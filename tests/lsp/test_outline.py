"""Document symbols, types after names, code lenses, formatting."""

from pathlib import Path

import pytest
from lsprotocol import types
from support.editor import Editor

from coda_ir.frontends.coda_text import format_text

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "examples" / "llama_layer.coda"
UNFORMATTED = "const  D=8\nfn f( x:bf16[M,D] ){   # é 🙂\n  y=silu( x )\n  return y }\n"


@pytest.fixture
def layer(editor: Editor, tmp_path: Path) -> str:
    return editor.open(tmp_path / "layer.coda", LAYER.read_text())


def symbols(editor: Editor, uri: str) -> list[types.DocumentSymbol]:
    params = types.DocumentSymbolParams(types.TextDocumentIdentifier(uri))
    found = editor.run(editor.client.text_document_document_symbol_async(params)) or ()
    return [each for each in found if isinstance(each, types.DocumentSymbol)]


def test_document_symbols(editor: Editor, layer: str):
    found = {each.name: each for each in symbols(editor, layer)}
    assert found["D"].detail == "= 4096"
    function = found["llama_layer"]
    assert function.kind == types.SymbolKind.Function
    assert function.range.end.line == LAYER.read_text().count("\n") - 1
    inner = {each.name: each.detail for each in function.children or ()}
    assert list(inner)[:2] == ["y", "x0"] and list(inner)[-1] == "v"
    assert inner["a"] == "bf16[B, T, 11008]"


def test_symbols_lie_in_each_other(editor: Editor, tmp_path: Path):
    text = (ROOT / "examples" / "custom_epilogue.coda").read_text() + 'import "other.coda"\n'
    found = symbols(editor, editor.open(tmp_path / "a.coda", text))
    assert {"bias_gelu_amax", "quantizable_linear", "other.coda"} <= {each.name for each in found}
    for symbol in found:
        for each in (symbol, *(symbol.children or ())):
            start, end = each.selection_range.start, each.selection_range.end
            assert symbol.range.start <= start <= end <= symbol.range.end


def test_inlay_hints(editor: Editor, layer: str):
    visible = types.Range(types.Position(26, 0), types.Position(28, 0))
    params = types.InlayHintParams(types.TextDocumentIdentifier(layer), visible)
    found = editor.run(editor.client.text_document_inlay_hint_async(params)) or ()
    assert [(each.label, each.position) for each in found][:2] == [
        (": bf16[B, T, 4096]", types.Position(26, 6)),
        (": bf16[B, T, 4096]", types.Position(27, 6)),
    ]


def test_a_lens_counts_the_kernels(editor: Editor, layer: str):
    (lens,) = editor.lenses(layer)
    assert lens.range.start == editor.at(layer, "llama_layer(")
    assert lens.command is not None
    assert lens.command.title.startswith("4 gemm.fused, 2 gemm.finalize; moves ")


def test_a_wrong_program_has_no_lens(editor: Editor, tmp_path: Path):
    assert editor.lenses(editor.open(tmp_path / "a.coda", "fn f(")) == []


def test_formatting(editor: Editor, tmp_path: Path):
    uri = editor.open(tmp_path / "a.coda", UNFORMATTED)
    formatted = editor.format(uri)
    assert formatted is not None
    assert formatted == format_text(UNFORMATTED) != UNFORMATTED
    editor.change(uri, formatted)
    assert editor.format(uri) == formatted


def test_a_text_with_syntax_errors_is_not_formatted(editor: Editor, tmp_path: Path):
    assert editor.format(editor.open(tmp_path / "a.coda", UNFORMATTED + "fn (")) is None
