"""`--list-passes`, `--show-dialects` and `--dump-pass-pipeline`: lists of passes and dialects."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from textwrap import fill, wrap

from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.transforms import get_all_passes as get_xdsl_passes
from xdsl.utils.hints import type_repr

from coda_ir.pipeline import PipelinePass
from coda_ir.pipeline.spec import option_types
from coda_ir.registry import get_all_dialects, get_all_passes
from coda_ir.tools.opt.errors import SUCCESS
from coda_ir.tools.opt.feature import Session

WIDTH = 100


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("information")
    group.add_argument(
        "--list-passes",
        action="store_true",
        help="list the passes of CODA IR with their options and defaults, and the names of xDSL's "
        "passes, and exit",
    )
    group.add_argument(
        "--show-dialects", action="store_true", help="list the known dialects, and exit"
    )
    group.add_argument(
        "--dump-pass-pipeline",
        action="store_true",
        help="print the pipeline in its canonical form to stderr, and run it",
    )


def act(session: Session) -> int | None:
    """Print the requested lists."""
    if session.options.dump_pass_pipeline:
        count = len(session.pipeline.steps)
        print(f"Pass Manager with {count} passes:\n{session.pipeline}", file=sys.stderr)
    lists = {
        "list_passes": pass_lines,
        "show_dialects": dialect_lines,
    }
    wanted = [lines for option, lines in lists.items() if getattr(session.options, option)]
    for lines in wanted:
        print("\n".join(lines(session)))
    return SUCCESS if wanted else None


def pass_lines(session: Session) -> Iterator[str]:
    """Pipelines and passes of ours and of users, then the names of xDSL's, which stay unloaded."""
    classes = {name: load() for name, load in get_all_passes().items()}
    pipelines = {name: each for name, each in classes.items() if issubclass(each, PipelinePass)}
    yield from _group("Pipelines of CODA IR", pipelines)
    yield from _group(
        "Passes of CODA IR", {n: c for n, c in sorted(classes.items()) if n not in pipelines}
    )
    others = session.passes.keys() - get_all_passes().keys() - get_xdsl_passes().keys()
    if others:
        loaded = {name: session.passes[name]() for name in sorted(others)}
        yield from _group("Passes of other packages", loaded)
    yield "Passes of xDSL (--explain NAME describes one):"
    yield from _names(sorted(get_xdsl_passes().keys() - get_all_passes().keys()))


def _group(title: str, classes: Mapping[str, type[ModulePass]]) -> Iterator[str]:
    yield f"{title}:"
    for name, pass_class in classes.items():
        yield from _describe(name, pass_class)
    yield ""


def _names(names: Iterable[str]) -> Iterator[str]:
    text = ", ".join(names)
    yield fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _describe(name: str, pass_class: type[ModulePass]) -> Iterator[str]:
    """Yield the name and the summary of a pass, and a line for each option."""
    lines = wrap(summary_of(pass_class), WIDTH - 33, break_on_hyphens=False) or [""]
    for column, line in zip([name, *[""] * len(lines)], lines, strict=False):
        yield f"  {column:30} {line}".rstrip()
    yield from option_lines(pass_class)


def option_lines(pass_class: type[ModulePass]) -> Iterator[str]:
    """Yield the options of a pass with their types and defaults."""
    types = option_types(pass_class)
    for option, _, default in get_pass_option_infos(pass_class):
        shown = '""' if default == "" else default
        given = "" if default is None else f" = {shown}"
        yield f"    {option.replace('_', '-')}: {type_repr(types[option])}{given}"


def summary_of(documented: type[object]) -> str:
    """Return the first sentence of a docstring, on one line; empty if there is none."""
    text = cleandoc(documented.__doc__ or "")
    # The docstring that `dataclass` makes is only the signature.
    if not text or text.startswith(f"{documented.__name__}("):
        return ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence, _, _ = paragraph.partition(". ")
    return sentence.rstrip(".:")


def dialect_lines(session: Session) -> Iterator[str]:
    """Yield the dialects of this package and their operators, then the names of xDSL's."""
    ours = get_all_dialects()
    yield "Dialects of CODA IR:"
    for name, load in ours.items():
        dialect = load()
        operators, attributes = len(list(dialect.operations)), len(list(dialect.attributes))
        yield f"  {name:12} {operators} operators, {attributes} attributes and types"
    yield ""
    yield "Dialects of xDSL:"
    yield from _names(sorted(session.context.registered_dialect_names - ours.keys()))
