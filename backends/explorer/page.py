"""The target `html`: one file with everything in it, for a browser without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import IO, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from coda_ir.backends.explorer.data import describe_function
from coda_ir.backends.graphviz.target import chosen_functions
from coda_ir.backends.triton import emit_module
from coda_ir.diagnostics import CodaError
from coda_ir.passes.pipelines.lower_to import LowerToPass
from coda_ir.sources import Sources

DATA = "/* DATA */"
"""The place of the contents in the template."""


def explore_module(
    module: ModuleOp, entry: str | None = None, sources: Mapping[str, str] | None = None
) -> str:
    """The page about the functions of a module on the block level, or about one of them.

    `sources` has the texts of source files by name; others are read. Raises CodaError for an
    unknown function.
    """
    texts = Sources() if sources is None else sources
    functions = chosen_functions(module, entry)
    lowered = _scheduled(module)
    contents: dict[str, Any] = {
        "functions": [
            {
                **describe_function(module, func, texts),
                "triton": _triton(lowered, func.sym_name.data),
            }
            for func in functions
        ]
    }
    template = files("coda_ir.backends.explorer").joinpath("page.html").read_text()
    return template.replace(DATA, as_script(contents))


def as_script(contents: object) -> str:
    """JSON that ends no element of HTML, whatever texts are in it."""
    return json.dumps(contents, ensure_ascii=True).replace("<", "\\u003c")


def _scheduled(module: ModuleOp) -> ModuleOp | CodaError:
    lowered = module.clone()
    try:
        LowerToPass("scheduled").apply(Context(), lowered)
    except CodaError as error:
        return error
    return lowered


def _triton(lowered: ModuleOp | CodaError, function: str) -> str:
    """The emitted module of a function, or why there is none, as a comment."""
    try:
        if isinstance(lowered, CodaError):
            raise lowered
        return emit_module(lowered, function)
    except CodaError as error:
        return f"# {error}".replace("\n", "\n# ")


@dataclass(frozen=True)
class HtmlTarget(Target):
    """Writes the page (see `explore_module`)."""

    name = "html"

    entry: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(explore_module(module, self.entry))
