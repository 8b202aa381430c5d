"""The server lives on whatever happens, and the latest text wins."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from support.daily import is_nightly
from support.editor import Editor

from coda_ir.lsp.check import check_program
from coda_ir.lsp.completion import complete
from coda_ir.lsp.cursor import cursor_at
from coda_ir.lsp.hover import hover
from coda_ir.sources import read_source

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "custom_epilogue.coda"
STRANGE = [
    "",
    "\ufeff",
    "\x00",
    "\r",
    "fn f(x: bf16[M, 8]) {\r    return silu(x)\r}\r",
    "fn f(x: bf16[M, 8]) {\x0c\u2028 return x }\n",
    "fn f" + "(" * 5000,
    "- " * 5000,
    "fn f(x: bf16[M, 8]) { return " + "-" * 500 + "x }\n",
    "fn f(x: bf16[M, 8]) { return " + "x + " * 200 + "x }\n",
    'import "a.coda"\n',
    'import "."\nimport "\\u0000"\n',
    "const A = 1 / 0\nconst B = 9" + "9" * 100,
    "fn f(x: bf16[M, 8]) { return f(x) }\n",
    "\ud800 fn",
    "🙂" * 1000,
    "}" * 1000,
]


@pytest.mark.slow
@pytest.mark.parametrize("text", STRANGE, ids=range(len(STRANGE)))
def test_strange_texts(editor: Editor, tmp_path: Path, text: str):
    uri = editor.open(tmp_path / "a.coda", text)
    assert all(d.severity != types.DiagnosticSeverity.Hint for d in editor.diagnostics(uri))
    for position in (types.Position(0, 0), types.Position(0, 9), types.Position(3, 2)):
        editor.hover_now(uri, position)
        params = types.CompletionParams(types.TextDocumentIdentifier(uri), position)
        editor.run(editor.client.text_document_completion_async(params))
    editor.format(uri)
    editor.close(uri)


@pytest.mark.slow
def test_every_prefix_is_analyzed():
    """The server computes this while a file is typed, without the editor in between."""
    text = EXAMPLE.read_text()
    for end in range(0, len(text), 1 if is_nightly() else 7):
        prefix = text[:end]
        check = check_program(prefix, str(EXAMPLE), read_source)
        complete(check, cursor_at(prefix, end), snippets=True)
        lines = prefix.split("\n")
        hover(check, None, len(lines), len(lines[-1]))


@pytest.mark.slow
def test_all_prefixes_typed_fast(editor: Editor, tmp_path: Path):
    text = EXAMPLE.read_text()
    uri = editor.open(tmp_path / "a.coda", "")
    for end in range(len(text) + 1):
        editor.change(uri, text[:end])
    assert editor.diagnostics(uri) == []
    assert editor.hover(uri, "row_amax =") == "```coda\nrow_amax: f32[M, 1]\n```"


def test_an_answer_is_about_the_latest_text(editor: Editor, tmp_path: Path):
    text = "fn f(x: bf16[M, 64]) {\n    y = silu(x)\n    return y\n}\n"
    uri = editor.open(tmp_path / "a.coda", text)
    for columns in (8, 16, 32, 128):
        editor.change(uri, text.replace("64", str(columns)))
        found = editor.hover_now(uri, editor.at(uri, "y ="))
        assert found is not None and isinstance(found.contents, types.MarkupContent)
        assert f"bf16[M, {columns}]" in found.contents.value


def test_files_that_are_not_open(editor: Editor, tmp_path: Path):
    uri = (tmp_path / "unknown.coda").as_uri()
    editor.texts[uri] = "fn"
    assert editor.hover(uri, "fn") is None
    assert editor.complete(uri, "fn") == {}
    assert editor.definition(uri, "fn") is None
    assert editor.references(uri, "fn") == []
    assert editor.format(uri) is None
    assert editor.lenses(uri) == []
    editor.close(uri)


def test_a_text_without_a_file(editor: Editor):
    text = 'import "nowhere.coda"\nfn f(x: bf16[M, 8]) {\n    return silu(x)\n}\n'
    uri = "untitled:Untitled-1"
    editor.texts[uri], editor.versions[uri] = text, 1
    item = types.TextDocumentItem(uri, "coda", 1, text)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    (found,) = editor.diagnostics(uri)
    assert "cannot import" in found.message


@pytest.mark.slow
def test_a_big_file(editor: Editor, tmp_path: Path):
    body = "".join(f"    # {i}\n    y{i} = silu(x{i % 7}) + y{i - 1}\n" for i in range(1, 1500))
    parameters = ", ".join(f"x{i}: bf16[M, 64]" for i in range(7))
    text = f"# é\n\nfn f({parameters}) {{\n    y0 = x0\n{body}    return y1499 + missing\n}}\n"
    uri = editor.open(tmp_path / "big.coda", text)
    (error,) = editor.diagnostics(uri)
    assert error.message.startswith("unknown name 'missing'")
    assert editor.hover(uri, "y1400 =") == "```coda\ny1400: bf16[M, 64]\n```"
    assert "y1499" in editor.complete(uri, "missing")
    # The text is right now, and takes long to compile: neither an answer nor closing waits.
    editor.change(uri, text.replace(" + missing", ""))
    found = editor.hover_now(uri, editor.at(uri, "y1200 ="))
    assert found is not None
    editor.close(uri)


class TestCommand:
    @pytest.mark.slow
    def test_tcp(self, tmp_path: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "coda_ir.lsp", "--tcp", str(port), "--log-level", "info"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            for line in server.stderr:
                if "Serving on" in line:
                    break
            editor = Editor()
            editor.connect(port)
            result = editor.initialize()
            assert result.server_info is not None and result.server_info.name == "coda-lsp"
            assert editor.diagnostics(editor.open(tmp_path / "a.coda", "fn"))
            editor.stop()
            assert server.wait() == 0

    def test_help_and_wrong_arguments(self):
        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "coda_ir.lsp", *arguments]
            return subprocess.run(command, capture_output=True, text=True)

        assert "--tcp PORT" in run("--help").stdout
        assert run("--version").stdout.startswith("coda-lsp ")
        assert run("--tcp", "x").returncode == 2

    def test_without_pygls(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        from coda_ir.lsp import __main__

        def missing(_name: str) -> None:
            return None

        monkeypatch.setattr(__main__, "find_spec", missing)
        assert __main__.main(["--stdio"]) == 2
        assert 'pip install "coda-ir[lsp]"' in capsys.readouterr().err
