"""The .coda language: text to the block level (and, for epilogues, to the GEMM level)."""

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import ModuleOp

from coda_ir.collector import collector_paused
from coda_ir.frontends.coda_text.formatter import format_text
from coda_ir.frontends.coda_text.lowering import lower_program
from coda_ir.frontends.coda_text.program import Loader
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.syntax import Span
from coda_ir.sources import read_source

__all__ = ["format_text", "parse_text"]


def parse_text(
    text: str,
    filename: str = "<text>",
    constants: Mapping[str, int | float] | None = None,
    read: Callable[[str], str] = read_source,
) -> ModuleOp:
    """Parse the module of a program; imports are relative to the folder of `filename`.

    `constants` overrides consts of the file and its imports by name. `read` gives the text of an
    imported file, or raises CodaError. Raises `CodaError` where a name in `constants` is no const,
    `DiagnosticError` where the program is wrong.
    """
    reporter = Reporter()
    loader = Loader(reporter, constants or {}, read)
    try:
        with collector_paused():
            scope = loader.load(text, filename)
            return lower_program(scope, loader.scopes, reporter)
    except RecursionError:
        place = Span(1, 1, 1, 2)
        reporter.error(
            filename, place, "the program is nested too deeply", "name the inner parts", "E0103"
        )
        reporter.raise_if_errors()
        raise
