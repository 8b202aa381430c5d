"""Completion and signature help, in complete and incomplete texts."""

from pathlib import Path
from textwrap import dedent

import pytest
from lsprotocol import types
from support.editor import Editor, position_of

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.operators import OPERATORS
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES
from coda_ir.lsp.documentation import CHOICES, INFIX, SIGNATURES, description, summary, usage

BASE = dedent(
    """\
    const WIDTH = 256

    fn helper(x: bf16[R, C]) {
        return silu(x)
    }

    epilogue biased(acc, bias: row) -> (y: tile) {
        y = acc + bias
    }

    """
)


def completed(
    editor: Editor, tmp_path: Path, text: str, *, base: str = BASE
) -> dict[str, types.CompletionItem]:
    """The items at the `|` of a text after the definitions of BASE."""
    before, _, after = text.partition("|")
    uri = editor.open(tmp_path / "a.coda", base + before + after)
    place = types.TextDocumentIdentifier(uri)
    position = position_of(base + before + "|", "|", 0) if "|" not in base else None
    assert position is not None
    params = types.CompletionParams(place, position)
    found = editor.run(editor.client.text_document_completion_async(params))
    editor.close(uri)
    assert isinstance(found, types.CompletionList)
    return {item.label: item for item in found.items}


BODY = "fn f(x: bf16[M, 64], weight wide: bf16[N, 64]) {\n    h = silu(x)\n    "


@pytest.mark.slow
def test_an_expression(editor: Editor, tmp_path: Path):
    items = completed(editor, tmp_path, BODY + "y = |\n    return h\n}\n")
    assert {"x", "wide", "h", "M", "WIDTH", "helper", "biased", *OPERATORS} <= set(items)
    assert not {"y", "fn", "eps=", "bf16"} & set(items)
    assert items["h"].detail == "bf16[M, 64]"
    assert items["WIDTH"].detail == "const WIDTH = 256"
    assert items["linear"].detail == OPERATORS["linear"].signature.text
    assert items["linear"].insert_text == "linear(${1:x}, ${2:w})"
    assert items["rope"].insert_text == "rope(${1:x}, ${2:cos}, ${3:sin}, head_dim=${4:head_dim})"


@pytest.mark.slow
def test_names_of_pytorch_become_what_the_language_has(editor: Editor, tmp_path: Path):
    items = completed(editor, tmp_path, BODY + "y = |\n    return h\n}\n")
    assert items["swish"].insert_text == "silu(x)"
    assert items["expand"].insert_text == "broadcast(x, [M, 64])"
    assert items["clip"].detail == "minimum(maximum(x, y), z)"
    assert not {"max/2", "min/2"} & set(items)
    order = [items[name].sort_text or "" for name in ("h", "WIDTH", "helper", "silu", "swish")]
    assert order == sorted(order)


def test_names_of_pytorch_in_epilogues(editor: Editor, tmp_path: Path):
    items = completed(editor, tmp_path, "epilogue e(acc) -> (y: tile) {\n    y = |\n}\n")
    assert items["max"].insert_text == "maximum(x, y)"
    assert not {"chunk", "topk"} & set(items)


def test_names_of_pytorch_that_the_file_defines(editor: Editor, tmp_path: Path):
    text = "fn swish(x: bf16[M, 8]) { return silu(x) }\nfn f(x: bf16[M, 8]) {\n    return |\n}\n"
    items = completed(editor, tmp_path, text)
    assert items["swish"].detail == "swish(x)"


def test_while_the_brackets_are_open(editor: Editor, tmp_path: Path):
    items = completed(editor, tmp_path, BODY + "y = linear(h, w|")
    assert {"x", "wide", "h", "b=", "dtype="} <= set(items)


def test_keyword_arguments_that_are_not_given_yet(editor: Editor, tmp_path: Path):
    items = completed(editor, tmp_path, BODY + "y = attention(h, h, h, head_dim=8, |)\n}\n")
    arguments = {label for label in items if label.endswith("=")}
    assert arguments == {
        "causal=",
        "window=",
        "scale=",
        "softcap=",
        "sinks=",
        "mask=",
        "value_dim=",
    }
    assert items["causal="].detail == "causal: boolean = false"
    first = min(items.values(), key=lambda item: item.sort_text or item.label)
    assert first.label == "causal="


@pytest.mark.parametrize(
    "call, words",
    [
        ("cast(h, |)", set(ELEMENT_TYPES)),
        ("linear(h, wide, dtype=|)", set(ELEMENT_TYPES)),
        ("attention(h, h, h, head_dim=8, causal=|)", {"true", "false"}),
        ('glu(h, activation="|")', set(coda.ACTIVATIONS)),
        ('rope(h, x, x, head_dim=8, layout="|', set(coda.ROPE_LAYOUTS)),
        ("helper(|)", {"x="}),
    ],
)
def test_values_of_arguments(editor: Editor, tmp_path: Path, call: str, words: set[str]):
    assert words <= set(completed(editor, tmp_path, f"{BODY}y = {call}"))


NOTHING: set[str] = set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, words, others",
    [
        ("|", {"fn", "const", "import", "epilogue"}, {"silu", "return"}),
        ("const A = |", {"WIDTH", "sqrt"}, {"silu", "helper"}),
        ("fn f(|", {"weight"}, {"silu"}),
        ("fn f(x: |", set(ELEMENT_TYPES), {"silu"}),
        ("fn f(x: bf16[M, 8]) -> |", set(ELEMENT_TYPES), {"silu"}),
        ("fn f(x: bf16[M, |", {"WIDTH", "M"}, {"silu"}),
        (BODY + "|", {"return"}, {"silu"}),
        ("epilogue e(acc, bias: |", {"tile", "row", "half_table"}, {"silu", "half"}),
        ("epilogue e(acc) -> (y: |", {"tile", "half", "partial_row"}, {"row"}),
        ("epilogue e(acc) -> (y: partial_row<|", {"add", "max", "lse"}, {"acc"}),
        ("epilogue e(acc, t: col) -> (y: select<|", {"t"}, {"add"}),
        ("epilogue e(acc, b: row) -> (y: tile) {\n    y = |", {"acc", "b", "gelu"}, {"linear"}),
        ("# a comm|ent", NOTHING, {"fn"}),
        (BODY + "y = x * 12|", NOTHING, {"silu"}),
    ],
)
def test_what_fits_where(
    editor: Editor, tmp_path: Path, text: str, words: set[str], others: set[str]
):
    labels = set(completed(editor, tmp_path, text))
    assert words <= labels
    assert not others & labels


def test_files_to_import(editor: Editor, tmp_path: Path):
    (tmp_path / "norms.coda").write_text(BASE)
    (tmp_path / "blocks").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert set(completed(editor, tmp_path, 'import "|', base="")) == {
        "norms.coda",
        "blocks/",
        "std/",
    }
    assert "llama.coda" in completed(editor, tmp_path, 'import "std/|', base="")
    assert completed(editor, tmp_path, 'import "nowhere/|', base="") == {}


def help_at(editor: Editor, tmp_path: Path, text: str) -> types.SignatureHelp | None:
    before = text.partition("|")[0]
    uri = editor.open(tmp_path / "a.coda", BASE + text.replace("|", ""))
    params = types.SignatureHelpParams(
        types.TextDocumentIdentifier(uri), position_of(BASE + before + "|", "|")
    )
    found = editor.run(editor.client.text_document_signature_help_async(params))
    editor.close(uri)
    return found


@pytest.mark.parametrize(
    "call, signature, active",
    [
        ("linear(|", "linear(x, w, b?, *, dtype: type?)", 0),
        ("linear(x, |", "linear(x, w, b?, *, dtype: type?)", 1),
        ("linear(x, wide, dtype=|", "linear(x, w, b?, *, dtype: type?)", 3),
        ("linear(silu(x), [1, |", "linear(x, w, b?, *, dtype: type?)", 1),
        ("linear(silu(|", "silu(x)", 0),
        ("helper(|", "helper(x)", 0),
        ("biased(x, |", "biased(acc, bias: row)", 1),
    ],
)
def test_signature_help(editor: Editor, tmp_path: Path, call: str, signature: str, active: int):
    found = help_at(editor, tmp_path, f"{BODY}y = {call}")
    assert found is not None
    assert [each.label for each in found.signatures] == [signature]
    assert found.active_parameter == active


def test_signature_help_for_options(editor: Editor, tmp_path: Path):
    mlp = 'fn mlp(x: f32[M, 8], eps=1e-5, name="silu", flag=true, n=2) { return x }\n'
    found = help_at(editor, tmp_path, mlp + BODY + "y = mlp(x, name=|")
    assert found is not None
    assert [each.label for each in found.signatures] == [
        'mlp(x, eps: number = 1e-05, name: string = "silu", flag: boolean = true, n: integer = 2)'
    ]
    assert found.active_parameter == 2


def test_no_signature_help_outside_of_calls(editor: Editor, tmp_path: Path):
    for text in ("|", "fn f(|", BODY + "y = |", BODY + "y = unknown(|", BODY + "y = (|"):
        assert help_at(editor, tmp_path, text) is None


def test_every_infix_operator_is_documented():
    for name in INFIX:
        assert usage(name) and description(name) and summary(name)


def test_choices_belong_to_parameters():
    for operator, parameter in CHOICES:
        assert parameter in [formal.name for formal in SIGNATURES[operator].formals]
