"""`--list-passes`, `--show-dialects` and `--dump-pass-pipeline`: what there is to run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from textwrap import fill, shorten

from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.utils.hints import type_repr

from coda_ir.pipeline import PipelinePass
from coda_ir.pipeline.spec_parser import option_types
from coda_ir.registry import get_all_dialects, get_all_passes
from coda_ir.tools.opt.errors import SUCCESS
from coda_ir.tools.opt.feature import Session

WIDTH = 100


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("information")
    group.add_argument(
        "--list-passes",
        action="store_true",
        help="list every pass with its options and their defaults, and exit",
    )
    group.add_argument(
        "--show-dialects", action="store_true", help="list the dialects that are known, and exit"
    )
    group.add_argument(
        "--dump-pass-pipeline",
        action="store_true",
        help="print the pipeline in its canonical form to stderr, and run it",
    )


def act(session: Session) -> int | None:
    """Print the lists that are asked for."""
    if session.options.dump_pass_pipeline:
        count = len(session.pipeline.steps)
        print(f"Pass Manager with {count} passes:\n{session.pipeline}", file=sys.stderr)
    if session.options.list_passes:
        print("\n".join(pass_lines(session)))
    if session.options.show_dialects:
        print("\n".join(dialect_lines(session)))
    return SUCCESS if session.options.list_passes or session.options.show_dialects else None


def pass_lines(session: Session) -> Iterator[str]:
    """The passes in groups: pipelines and passes of ours, then those of xDSL."""
    classes = {name: load() for name, load in sorted(session.passes.items())}
    ours = {name: classes[name] for name in get_all_passes()}
    pipelines = {name: each for name, each in ours.items() if issubclass(each, PipelinePass)}
    groups: dict[str, Mapping[str, type[ModulePass]]] = {
        "Pipelines of CODA IR": pipelines,
        "Passes of CODA IR": {n: c for n, c in sorted(ours.items()) if n not in pipelines},
        "Passes of xDSL": {n: c for n, c in classes.items() if n not in ours},
    }
    for title, group in groups.items():
        yield f"{title}:"
        for name, pass_class in group.items():
            yield from _describe(name, pass_class)
        yield ""


def _describe(name: str, pass_class: type[ModulePass]) -> Iterator[str]:
    """The name and the summary of a pass, and a line for each option."""
    summary = summary_of(pass_class)
    yield f"  {name:30} {shorten(summary, WIDTH - 33, placeholder='...')}".rstrip()
    types = option_types(pass_class)
    for option, _, default in get_pass_option_infos(pass_class):
        given = "" if default is None else f" = {default}"
        yield f"    {option.replace('_', '-')}: {type_repr(types[option])}{given}"


def summary_of(documented: type[object]) -> str:
    """The first sentence of a docstring, on one line; empty where there is none."""
    text = cleandoc(documented.__doc__ or "")
    # The docstring that `dataclass` makes is only the signature.
    if not text or text.startswith(f"{documented.__name__}("):
        return ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence, _, _ = paragraph.partition(". ")
    return sentence.rstrip(".:")


def dialect_lines(session: Session) -> Iterator[str]:
    """The dialects of ours with the number of their operators, then the names of xDSL's."""
    ours = get_all_dialects()
    yield "Dialects of CODA IR:"
    for name, load in ours.items():
        dialect = load()
        operators, attributes = len(list(dialect.operations)), len(list(dialect.attributes))
        yield f"  {name:12} {operators} operators, {attributes} attributes and types"
    yield ""
    yield "Dialects of xDSL:"
    others: Iterable[str] = sorted(session.context.registered_dialect_names - ours.keys())
    yield fill(", ".join(others), WIDTH, initial_indent="  ", subsequent_indent="  ")
