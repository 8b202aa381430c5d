"""Errors and remarks as one types."""

from pathlib import Path
from textwrap import dedent

import pytest
from lsprotocol.types import Diagnostic, DiagnosticSeverity, Position, Range
from support.editor import Editor, text_at

ROOT = Path(__file__).parents[2]
MLP = dedent(
    """\
    const D = 256

    fn mlp(x: bf16[M, D], weight w: bf16[512, D]) {
        h = rms_norm(x)
        return silu(linear(h, w))
    }
    """
)


def errors(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.severity == DiagnosticSeverity.Error]


def test_an_error_has_its_range_and_the_remedy(editor: Editor, tmp_path: Path):
    uri = editor.open(tmp_path / "a.coda", MLP.replace("silu(linear", "silo(linear"))
    (found,) = editor.diagnostics(uri)
    assert found.severity == DiagnosticSeverity.Error
    assert found.message == "unknown function 'silo'\nhelp: did you mean 'silu'?"
    assert found.source == "coda"
    assert text_at(editor.texts[uri], found.range) == "silo"


def test_several_errors_at_once(editor: Editor, tmp_path: Path):
    text = "fn f(x: bf16[M, 8]) {\n    y = sillu(x)\n    z = x @ x @\n    return q\n}\n"
    uri = editor.open(tmp_path / "a.coda", text + text.replace("fn f", "fn g"))
    assert len(errors(editor.diagnostics(uri))) > 1


def test_more_errors_than_the_command_line_shows(editor: Editor, tmp_path: Path):
    lines = [f"    y{i} = unknown{i}(x)" for i in range(30)]
    text = "\n".join(["fn f(x: bf16[M, 8]) {", *lines, "    return x", "}", ""])
    found = errors(editor.diagnostics(editor.open(tmp_path / "a.coda", text)))
    assert [d.range.start.line for d in found] == list(range(1, 31))


@pytest.mark.slow
def test_errors_go_when_they_are_fixed_and_come_back(editor: Editor, tmp_path: Path):
    uri = editor.open(tmp_path / "a.coda", MLP)
    assert errors(editor.diagnostics(uri)) == []
    editor.change(uri, MLP.replace("(h, w)", "(h, v)"))
    (found,) = errors(editor.diagnostics(uri))
    assert found.message.startswith("unknown name 'v'")
    editor.change(uri, MLP)
    assert errors(editor.diagnostics(uri)) == []


def test_closing_a_file_clears_it(editor: Editor, tmp_path: Path):
    uri = editor.open(tmp_path / "a.coda", "fn")
    assert editor.diagnostics(uri)
    editor.close(uri)
    assert editor.wait_for(uri, lambda published: not published.diagnostics) == []


def test_columns_count_utf16_units(editor: Editor, tmp_path: Path):
    # The comment before the error on its line has characters of one and of two units.
    text = 'fn f(x: bf16[M, 8]) {\n    y = maximum(x, # é 🙂 𝔸\n x); return "🙂", sillu(y)\n}\n'
    uri = editor.open(tmp_path / "a.coda", text)
    found = errors(editor.diagnostics(uri))
    assert [text_at(text, d.range) for d in found] == ["sillu"]
    assert found[0].range.start == Position(2, 18)


def test_a_string_before_an_error_counts_utf16_units(editor: Editor, tmp_path: Path):
    text = 'fn f(x: bf16[M, 8]) {\n    return glu(x, activation="🙂🙂"), sillu(x)\n}\n'
    uri = editor.open(tmp_path / "a.coda", text)
    assert {text_at(text, d.range) for d in editor.diagnostics(uri)} == {'"🙂🙂"', "sillu"}


@pytest.mark.slow
def test_a_missed_fusion_says_condition_bytes_and_suggestion(editor: Editor, tmp_path: Path):
    (found,) = editor.diagnostics(editor.open(tmp_path / "a.coda", MLP))
    assert found.severity == DiagnosticSeverity.Information
    assert text_at(MLP, found.range) == "rms_norm"
    assert found.code == "defer-norms"
    assert found.message.startswith("not fused: the norm runs as a separate kernel")
    assert "failed condition: a GEMM or pointwise code in the same function " in found.message
    assert "costs 1024*M bytes" in found.message
    assert "\nhelp: compute the norm's input in the same function" in found.message


@pytest.mark.slow
def test_settings(tmp_path: Path):
    editor = Editor()
    editor.start()
    editor.initialize({"remarks": "none", "schedule": "target=sm_90"})
    uri = editor.open(tmp_path / "a.coda", MLP)
    assert editor.diagnostics(uri) == []
    editor.configure({"coda": {"remarks": "all", "schedule": "target=sm_90"}})
    found = editor.diagnostics(uri)
    assert {d.severity for d in found} == {
        DiagnosticSeverity.Information,
        DiagnosticSeverity.Hint,
    }
    editor.configure({"coda": {"schedule": "tiles=3", "remarks": 7}})
    (failure,) = editor.diagnostics(uri)
    editor.stop()
    assert failure.severity == DiagnosticSeverity.Warning
    assert "the setting schedule is 'tiles=3'" in failure.message
    assert editor.messages == ["the setting coda.remarks is 7, expected none, missed, all"]


def test_a_program_that_the_backend_cannot_run(editor: Editor, tmp_path: Path):
    text = "fn f(x: bf16[M, 8], w: i8[N, 8]) {\n    return linear(x, w)\n}\n"
    failure, missed = editor.diagnostics(editor.open(tmp_path / "a.coda", text))
    assert failure.severity == DiagnosticSeverity.Warning
    assert failure.message.startswith("schedule: N of gemm.fused is symbolic")
    assert missed.severity == DiagnosticSeverity.Information
    assert {each.range.start.line for each in (failure, missed)} == {1}


class TestImports:
    MAIN = 'import "norm.coda"\n\nfn f(x: bf16[M, 8]) {\n    return norm(x)\n}\n'
    NORM = "fn norm(x: bf16[R, C]) {\n    return rms_norm(x)\n}\n"

    def test_an_error_of_an_imported_file_is_shown_at_the_import(
        self, editor: Editor, tmp_path: Path
    ):
        norm = tmp_path / "norm.coda"
        norm.write_text(self.NORM.replace("rms_norm", "rsm_norm"))
        found = editor.diagnostics(editor.open(tmp_path / "main.coda", self.MAIN))
        (error,) = errors(found)
        assert error.message.startswith("in norm.coda:2:12: unknown function 'rsm_norm'")
        assert text_at(self.MAIN, error.range) == '"norm.coda"'
        assert error.related_information is not None
        (related,) = error.related_information
        assert related.location.uri == norm.as_uri()
        assert related.location.range == Range(Position(1, 11), Position(1, 19))

    def test_a_remark_in_the_standard_library_is_shown_at_its_import(
        self, editor: Editor, tmp_path: Path
    ):
        (tmp_path / "norm.coda").write_text(self.NORM)
        text = self.MAIN.replace("\n\n", '\nimport "std/residual.coda"\n\n', 1)
        text += "fn g(x: bf16[B, T, 8]) {\n    return mean_of_positions(x)\n}\n"
        uri = editor.open(tmp_path / "main.coda", text)
        found = editor.wait_for(
            uri, lambda published: any("residual" in each.message for each in published.diagnostics)
        )
        places = {text_at(text, each.range) for each in found if "residual" in each.message}
        assert places == {'"std/residual.coda"'}

    def test_unsaved_contents_of_an_imported_file_are_used(self, editor: Editor, tmp_path: Path):
        (tmp_path / "norm.coda").write_text(self.NORM)
        main = editor.open(tmp_path / "main.coda", self.MAIN)
        assert errors(editor.diagnostics(main)) == []
        norm = editor.open(tmp_path / "norm.coda", self.NORM.replace("fn norm", "fn normal"))
        (found,) = editor.wait_for(main, lambda published: bool(errors([*published.diagnostics])))
        assert found.message.startswith("unknown function 'norm'")
        editor.change(norm, self.NORM)
        editor.wait_for(main, lambda published: not errors([*published.diagnostics]))

    def test_a_missing_file(self, editor: Editor, tmp_path: Path):
        found = editor.diagnostics(editor.open(tmp_path / "main.coda", self.MAIN))
        assert text_at(self.MAIN, found[0].range) == '"norm.coda"'
        assert "cannot import" in found[0].message

    def test_a_missing_file_that_appears(self, editor: Editor, tmp_path: Path):
        main = editor.open(tmp_path / "main.coda", self.MAIN)
        assert errors(editor.diagnostics(main))
        norm = tmp_path / "norm.coda"
        norm.write_text(self.NORM)
        editor.tell_of_new_file(norm)
        editor.wait_for(main, lambda published: not errors([*published.diagnostics]))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.coda")), ids=lambda p: p.stem)
def test_the_examples_have_no_errors(editor: Editor, path: Path):
    uri = editor.open(path)
    found = editor.diagnostics(uri)
    editor.close(uri)
    assert {d.severity for d in found} <= {DiagnosticSeverity.Information}
