"""The page: a single file for a browser, which needs no network access."""

import json
from collections.abc import Mapping
from importlib.resources import files

from xdsl.dialects.builtin import ModuleOp

from coda_ir.backends.explorer.data import describe_function
from coda_ir.backends.explorer.options import PageOptions
from coda_ir.backends.graphviz.target import chosen_functions
from coda_ir.sources import Sources

PARTS = (("/* STYLE */", "page.css"), ("/* SCRIPT */", "page.js"))
"""Places of the template, and the files that belong there."""

DATA = "/* DATA */"
"""The place of the contents in the template."""


def explore_module(
    module: ModuleOp,
    entry: str | None = None,
    sources: Mapping[str, str] | None = None,
    options: PageOptions | None = None,
) -> str:
    """Return the page about the functions of a block-level module, or about one of them.

    `sources` has the texts of source files by name; others are read. Raises CodaError for an
    unknown function, and for an unknown architecture of the options.
    """
    texts = Sources() if sources is None else sources
    chosen = options or PageOptions()
    functions = [
        describe_function(module, func, texts, chosen) for func in chosen_functions(module, entry)
    ]
    folder = files("coda_ir.backends.explorer")
    page = folder.joinpath("page.html").read_text()
    for place, name in PARTS:
        page = page.replace(place, folder.joinpath(name).read_text())
    return page.replace(DATA, as_script({"functions": functions}))


def as_script(contents: object) -> str:
    """Return JSON that is safe inside a `<script>` element, whatever text it contains."""
    return json.dumps(contents, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
