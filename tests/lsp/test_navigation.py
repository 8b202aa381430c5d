"""Go to definition, references, highlights, renaming."""

from pathlib import Path
from textwrap import dedent

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.editor import Editor, text_at

NORMS = dedent(
    """\
    const EPS = 1e-6

    fn scaled_norm(x: bf16[R, C], gain: bf16[C]) {
        return rms_norm(x, eps=EPS) * gain
    }

    epilogue shifted(acc, shift: row) -> (y: tile) {
        y = acc + shift
    }
    """
)
MAIN = dedent(
    """\
    import "norms.coda"

    fn layer(x: bf16[M, 64], weight w: bf16[64, 64], weight b: bf16[64]) -> bf16[M, 64] {
        h = scaled_norm(x, gain=b)
        return shifted(linear(h, w), b)
    }
    """
)


@pytest.fixture
def files(editor: Editor, tmp_path: Path) -> tuple[str, str]:
    """The URIs of main.coda and norms.coda, both open."""
    (tmp_path / "norms.coda").write_text(NORMS)
    (tmp_path / "main.coda").write_text(MAIN)
    return editor.open(tmp_path / "main.coda"), editor.open(tmp_path / "norms.coda")


@pytest.mark.parametrize(
    "needle, target",
    [
        ("x, gain", "x: bf16[M"),
        ("h, w", "h = "),
        ("b)\n    return", "b: bf16[64]) ->"),
        ("M, 64] {", "M, 64], weight"),
    ],
)
def test_definitions_in_the_file(editor: Editor, files: tuple[str, str], needle: str, target: str):
    found = editor.definition(files[0], needle)
    assert found is not None and found.uri == files[0]
    assert found.range.start == editor.at(files[0], target)


@pytest.mark.parametrize(
    "needle, target",
    [
        ("scaled_norm", "scaled_norm(x: "),
        ("shifted", "shifted(acc, "),
        ("gain=", "gain: bf16"),
    ],
)
def test_definitions_in_an_imported_file(
    editor: Editor, files: tuple[str, str], needle: str, target: str
):
    found = editor.definition(files[0], needle)
    assert found is not None and found.uri == files[1]
    assert found.range.start == editor.at(files[1], target)


def test_an_import_leads_to_the_file(editor: Editor, files: tuple[str, str]):
    found = editor.definition(files[0], '"norms.coda"', 3)
    assert found is not None
    assert (found.uri, found.range.start) == (files[1], types.Position(0, 0))


def test_definitions_in_a_file_that_is_not_open(editor: Editor, tmp_path: Path):
    (tmp_path / "norms.coda").write_text(NORMS)
    uri = editor.open(tmp_path / "main.coda", MAIN)
    found = editor.definition(uri, "scaled_norm")
    assert found is not None and found.uri == (tmp_path / "norms.coda").as_uri()
    assert text_at(NORMS, found.range) == "scaled_norm"


def test_operators_and_numbers_have_no_definition(editor: Editor, files: tuple[str, str]):
    assert editor.definition(files[0], "linear") is None
    assert editor.definition(files[0], "64]") is None


def test_references_across_files(editor: Editor, files: tuple[str, str]):
    for uri in files:
        found = {(each.uri, each.range.start.line) for each in editor.references(uri, "shifted")}
        assert found == {(files[0], 4), (files[1], 6)}
    uses = editor.references(files[1], "shifted", declaration=False)
    assert [each.uri for each in uses] == [files[0]]


def test_references_in_files_that_are_not_open(editor: Editor, tmp_path: Path):
    (tmp_path / "main.coda").write_text(MAIN)
    (tmp_path / "broken.coda").write_bytes(b"\xff scaled_norm")
    uri = editor.open(tmp_path / "norms.coda", NORMS)
    found = editor.references(uri, "scaled_norm")
    assert {each.uri for each in found} == {uri, (tmp_path / "main.coda").as_uri()}


def test_a_name_has_only_its_own_references(editor: Editor, files: tuple[str, str]):
    found = editor.references(files[0], "x: bf16")
    assert [each.range.start for each in found] == [
        editor.at(files[0], "x: bf16"),
        editor.at(files[0], "x, gain"),
    ]


def test_highlights(editor: Editor, files: tuple[str, str]):
    document = types.TextDocumentIdentifier(files[0])
    params = types.DocumentHighlightParams(document, editor.at(files[0], "h = "))
    found = editor.run(editor.client.text_document_document_highlight_async(params))
    assert found is not None
    assert [text_at(MAIN, each.range) for each in found] == ["h", "h"]


class TestRename:
    def test_a_variable(self, editor: Editor, files: tuple[str, str]):
        texts = editor.rename(files[0], "h = ", "hidden")
        renamed = MAIN.replace("    h =", "    hidden =").replace("(h,", "(hidden,")
        assert texts == {files[0]: renamed}

    def test_a_parameter_with_the_calls_that_name_it(self, editor: Editor, files: tuple[str, str]):
        texts = editor.rename(files[1], "gain", "g")
        assert texts == {
            files[0]: MAIN.replace("gain", "g"),
            files[1]: NORMS.replace("gain", "g"),
        }

    def test_the_result_of_an_epilogue(self, editor: Editor, files: tuple[str, str]):
        texts = editor.rename(files[1], "y: tile", "result")
        renamed = NORMS.replace("y: tile", "result: tile").replace("    y =", "    result =")
        assert texts == {files[1]: renamed}

    def test_non_ascii_text_before_the_name(self, editor: Editor, tmp_path: Path):
        text = 'fn f(x: bf16[M, 8]) {\n    return glu(x, activation="🙂é"), silu(x)\n}\n'
        uri = editor.open(tmp_path / "a.coda", text)
        texts = editor.rename(uri, "x)\n}", "input")
        expected = text.replace("(x", "(input")
        assert texts == {uri: expected}

    @pytest.mark.parametrize(
        "name, why",
        [
            ("2x", "is not a name"),
            ("a b", "is not a name"),
            ("bf16", "is reserved"),
            ("fn", "is reserved"),
            ("w", "is already defined"),
        ],
    )
    def test_a_wrong_name_is_refused(
        self, editor: Editor, files: tuple[str, str], name: str, why: str
    ):
        with pytest.raises(JsonRpcException, match=why):
            editor.rename(files[0], "h = ", name)

    def test_what_can_be_renamed(self, editor: Editor, files: tuple[str, str]):
        document = types.TextDocumentIdentifier(files[0])
        for needle, renameable in (("h = ", True), ("linear", False), ("64]", False)):
            params = types.PrepareRenameParams(document, editor.at(files[0], needle))
            found = editor.run(editor.client.text_document_prepare_rename_async(params))
            assert (found is not None) == renameable
