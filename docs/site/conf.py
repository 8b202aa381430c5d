"""The documentation site, which `make site` builds from the Markdown of the repository."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

project = "CODA IR"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "*.md",
    "benchmarks/README.md",
    "coda_ir/errors.md",
    "examples/authoring/tasks.md",
]
# Folders that are not searched for pages: an environment has many files.
exclude_patterns = [".*", "build", "tests"]
myst_heading_anchors = 4
default_role = "code"
html_theme = "furo"
html_title = "CODA IR"
html_extra_path = ["../llms.txt"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"


class CodaLexer(RegexLexer):
    """Colours of the language `.coda`."""

    name = "CODA"
    aliases: ClassVar[Sequence[str]] = ["coda", "coda-error"]
    tokens: ClassVar[dict[str, list[tuple[Any, ...]]]] = {
        "root": [
            (r"#.*$", Comment),
            (r'"[^"\n]*"', String),
            (words(("const", "fn", "epilogue", "import", "from", "return"), r"\b", r"\b"), Keyword),
            (words(("weight", "as"), r"\b", r"\b"), Keyword.Declaration),
            (r"\b(bf16|f16|f32|f64|f8e4m3|f8e5m2|i8|u8|i32|i64|bool)\b", Keyword.Type),
            (r"\b(true|false)\b", Keyword.Constant),
            (r"\d+(\.\d+)?(e[+-]?\d+)?", Number),
            (r"\w+(?=\()", Name.Function),
            (r"\w+", Name),
            (r"->|//|[-+*/@=<>!]+", Operator),
            (r"[\[\](){},:.]", Punctuation),
            (r"\s+", Text),
            (r".", Text),
        ]
    }


class MlirLexer(RegexLexer):
    """Colours of IR in the syntax of MLIR."""

    name = "MLIR"
    aliases: ClassVar[Sequence[str]] = ["mlir"]
    tokens: ClassVar[dict[str, list[tuple[Any, ...]]]] = {
        "root": [
            (r"//.*$", Comment),
            (r'"[^"\n]*"', String),
            (r"%[\w.]+", Name.Variable),
            (r"@[\w.]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"\b[a-z]\w*\.[\w.]+", Keyword),
            (r"\b(tensor<[^>]*>|bf16|f16|f32|f64|i\d+)", Keyword.Type),
            (r"\d+(\.\d+)?(e[+-]?\d+)?", Number),
            (r"\w+", Name),
            (r"\s+", Text),
            (r".", Text),
        ]
    }


def setup(app: Any) -> None:
    for lexer in (CodaLexer, MlirLexer):
        for alias in lexer.aliases:
            app.add_lexer(alias, lexer)
    app.connect("source-read", leave_folders_out)
    app.connect("source-read", fill_in)


def leave_folders_out(_app: Any, _document: str, source: list[str]) -> None:
    """Make links to folders of the repository, which have no page, plain text."""
    source[0] = re.sub(r"\[([^\]]*)\]\((?:\.\./)+[\w/]*\w\)", r"\1", source[0])


def fill_in(_app: Any, _document: str, source: list[str]) -> None:
    """Replace each comment `generated` by the part of the reference that it names."""
    source[0] = re.sub(r"^<!-- generated: (\w+) -->$", reference, source[0], flags=re.MULTILINE)


def reference(comment: re.Match[str]) -> str:
    """The text of a part of the reference, from the sources."""
    from coda_ir.registry import get_all_passes
    from coda_ir.tools.opt.command_line import make_parser
    from coda_ir.tools.opt.explain import language_words, pass_lines

    match comment[1]:
        case "options":
            return as_block(make_parser().format_help())
        case "words":
            words = sorted(language_words().items())
        case "passes":
            passes = sorted(get_all_passes().items())
            words = [(name, "\n".join(pass_lines(name, load()))) for name, load in passes]
        case other:
            raise ValueError(f"nothing generates '{other}'")
    return "\n\n".join(f"### `{name}`\n\n{as_block(text)}" for name, text in words)


def as_block(text: str) -> str:
    return f"``````text\n{text.strip()}\n``````"
