"""The VS Code extension: its files are valid, and its grammar colors what the language has."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coda_ir.frontends.coda_text import epilogue_ports
from coda_ir.frontends.coda_text.push_parser import raw_tokens
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES
from coda_ir.lsp.documentation import COMBINERS, PORT_KINDS, RESULT_KINDS, SIGNATURES
from coda_ir.lsp.settings import SHOWN_REMARKS, Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "frontends" / "coda_text" / "editors" / "vscode"
EXAMPLES = sorted((ROOT / "examples").glob("*.coda"))


def load(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


PACKAGE = load("package.json")
GRAMMAR = load("syntaxes/coda.tmLanguage.json")
LANGUAGE = load("language-configuration.json")


def rules() -> list[dict[str, Any]]:
    """The rules in the order in which an editor tries them."""
    repository = GRAMMAR["repository"]
    included = [repository[part["include"].removeprefix("#")] for part in GRAMMAR["patterns"]]
    return [rule for part in included for rule in part["patterns"]]


def scopes_of_line(line: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and scope of each part, as an editor finds them: the first match, and of several
    at one place the first rule.
    """
    position = 0
    while position < len(line):
        found = [(re.compile(rule["match"]).search(line, position), rule) for rule in rules()]
        matches = [(match, rule) for match, rule in found if match is not None and match[0]]
        if not matches:
            return
        match, rule = min(matches, key=lambda item: item[0].start())
        if "name" in rule:
            yield match.start(), match.end(), rule["name"]
        for group, capture in rule.get("captures", {}).items():
            yield *match.span(int(group)), capture["name"]
        position = match.end()


def scopes(text: str) -> dict[tuple[int, int], str]:
    """The scope of each character by line and column, both from 1."""
    return {
        (number, column + 1): scope
        for number, line in enumerate(text.split("\n"), 1)
        for start, end, scope in scopes_of_line(line)
        for column in range(start, end)
    }


EXPECTED = {
    "FN": "storage.type.function.coda",
    "EPILOGUE": "storage.type.epilogue.coda",
    "CONST": "storage.type.const.coda",
    "IMPORT": "keyword.control.import.coda",
    "RETURN": "keyword.control.flow.coda",
    "INTEGER": "constant.numeric.integer.coda",
    "FLOAT": "constant.numeric.float.coda",
    "STRING": "string.quoted.double.coda",
    "COMMENT": "comment.line.number-sign.coda",
    "ARROW": "keyword.operator.arrow.coda",
    "EQUAL": "keyword.operator.assignment.coda",
    **dict.fromkeys(
        ("PLUS", "MINUS", "STAR", "SLASH", "SLASHSLASH", "AT"), "keyword.operator.arithmetic.coda"
    ),
}


def expected_name_scope(text: str, before: str, after: str) -> str | None:
    """The scope of a name between two tokens; None for a name without a fixed meaning."""
    if before in ("fn", "epilogue"):
        return "entity.name.function.coda"
    if text in ELEMENT_TYPES:
        return "support.type.element.coda"
    if text in SIGNATURES and after == "(":
        return "entity.name.function.call.coda"
    if before == ":" and text in {*PORT_KINDS, *RESULT_KINDS}:
        return "support.type.port.coda"
    if before == "<" and text in COMBINERS:
        return "support.constant.combiner.coda"
    if text == "weight":
        return "storage.modifier.coda"
    return "constant.language.coda" if text in ("true", "false") else None


def test_kinds_of_ports_are_those_of_the_language():
    assert {*PORT_KINDS} == {*epilogue_ports.OPERAND_KINDS}
    assert {*RESULT_KINDS} == {*epilogue_ports.RESULT_KINDS}
    kinds = {*PORT_KINDS, *RESULT_KINDS}
    documented = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    assert not [kind for kind in kinds if not re.search(rf"`{kind}[`<]", documented)]
    for kind in kinds:
        ((_, _, scope),) = [found for found in scopes_of_line(f": {kind}") if "port" in found[2]]
        assert scope == "support.type.port.coda"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_token_of_an_example_has_its_scope(path: Path):
    text = path.read_text()
    found = scopes(text)
    tokens = [token for token in raw_tokens(text) if token.type != "NEWLINE"]
    for index, token in enumerate(tokens):
        wanted = EXPECTED.get(token.type)
        if token.type == "NAME":
            before = str(tokens[index - 1]) if index else ""
            after = str(tokens[index + 1]) if index + 1 < len(tokens) else ""
            wanted = expected_name_scope(str(token), before, after)
        if wanted is not None:
            for column in (token.column or 0, (token.end_column or 0) - 1):
                assert found.get((token.line or 0, column)) == wanted, f"{token.line}: {token}"


@pytest.mark.parametrize(
    "line, part, scope",
    [
        ("# fn const 12", "fn", "comment.line.number-sign.coda"),
        ('x = "# no comment" # one', "# one", "comment.line.number-sign.coda"),
        ('import "open', '"open', "invalid.illegal.unclosed-string.coda"),
        ("y = 4_096 * x", "4_096", "constant.numeric.integer.coda"),
        ("y = 1e-5", "1e-5", "constant.numeric.float.coda"),
        ("y = 1. + x", "1.", "constant.numeric.float.coda"),
        ("y = glu(x, activation=a)", "activation", "variable.parameter.coda"),
        ("y = layer(x)", "layer", "entity.name.function.call.coda"),
        ("fn_x = weight + tile", "tile", "variable.other.coda"),
        ("fn_x = weight + tile", "weight", "variable.other.coda"),
        ("fn_x = silu", "silu", "variable.other.coda"),
        ("D // HEAD", "HEAD", "variable.other.constant.coda"),
        ("D // HEAD", "//", "keyword.operator.arithmetic.coda"),
    ],
)
def test_scopes(line: str, part: str, scope: str):
    start, stop = line.index(part), line.index(part) + len(part)
    covering = [name for first, last, name in scopes_of_line(line) if first <= start < last]
    ends = [last for first, last, _ in scopes_of_line(line) if first <= start < last]
    assert covering == [scope] and ends[0] >= stop


def test_the_grammar_is_whole():
    included = {part["include"] for part in GRAMMAR["patterns"]}
    assert included == {f"#{name}" for name in GRAMMAR["repository"]}
    assert all(rule.get("name") or rule.get("captures") for rule in rules())
    assert GRAMMAR["scopeName"] == "source.coda"


def test_the_manifest_names_files_that_exist():
    contributes = PACKAGE["contributes"]
    (language,), (grammar,) = contributes["languages"], contributes["grammars"]
    for name in (PACKAGE["main"], language["configuration"], grammar["path"]):
        assert (FOLDER / name).is_file()
    assert (language["id"], language["extensions"]) == ("coda", [".coda"])
    assert (grammar["language"], grammar["scopeName"]) == ("coda", GRAMMAR["scopeName"])
    assert "vscode-languageclient" in PACKAGE["dependencies"]


def test_the_settings_are_those_of_the_server():
    properties = PACKAGE["contributes"]["configuration"]["properties"]
    assert tuple(properties["coda.remarks"]["enum"]) == SHOWN_REMARKS
    defaults = {name.removeprefix("coda."): each["default"] for name, each in properties.items()}
    assert Settings.read({"coda": defaults}) == Settings()
    other = {"remarks": "all", "schedule": "target=sm_90", "inlayHints": False}
    assert set(other) == set(defaults) - {"server.command"}
    assert Settings.read(other) == Settings("all", "target=sm_90", False)
    assert Settings.read(["not", "a", "mapping"]) == Settings()


def test_brackets_and_comments():
    assert LANGUAGE["comments"] == {"lineComment": "#"}
    assert ["(", ")"] in LANGUAGE["brackets"]
    assert re.fullmatch(LANGUAGE["wordPattern"], "w_gate2")
    increase = re.compile(LANGUAGE["indentationRules"]["increaseIndentPattern"])
    assert increase.match("fn f(  # the parameters") and not increase.match("# in a comment {")


def test_the_script_is_valid_javascript():
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    subprocess.run([node, "--check", str(FOLDER / "extension.js")], check=True)
