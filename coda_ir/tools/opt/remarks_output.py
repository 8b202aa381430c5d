"""`--remarks`: rewrites and refusals of the passes, as text or lines of JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from coda_ir.remarks import REMARK_KINDS, Remark, RemarkKind
from coda_ir.sources import Sources
from coda_ir.tools.opt.feature import Session

Format: TypeAlias = Literal["text", "json"]

JSON = "json"

NO_FILTER = re.compile("")


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("remarks")
    group.add_argument(
        "--remarks",
        nargs="?",
        action=RemarksAction,
        const=REMARK_KINDS,
        type=remark_kinds,
        metavar="KINDS",
        help="report rewrites and refused rewrites on stderr; KINDS is a list of passed, missed "
        "and analysis, or all or none (default: all); json means all, in JSON",
    )
    group.add_argument(
        "--remarks-filter",
        type=regex,
        default=NO_FILTER,
        metavar="REGEX",
        help="report only remarks of passes whose names match REGEX",
    )
    group.add_argument(
        "--remarks-format",
        choices=get_args(Format),
        help="text with source lines, or one line of JSON per remark (default: text, or json "
        "with --remarks-output)",
    )
    group.add_argument(
        "--remarks-output", metavar="FILE", help="write the remarks to FILE instead of stderr"
    )
    group.add_argument(
        "--remarks-summary",
        action="store_true",
        help="print the number of remarks of each kind and pass at the end, on stderr",
    )


class RemarksAction(argparse.Action):
    """Stores the kinds of remarks; `json` instead of kinds is the format of all of them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values == JSON:
            namespace.remarks_format, values = JSON, REMARK_KINDS
        namespace.remarks = values


def remark_kinds(text: str) -> tuple[RemarkKind, ...] | str:
    """Parse a list of kinds, `all`, `none` or `json`. Raises ArgumentTypeError for other texts."""
    if text == JSON:
        return text
    if text in ("all", "none"):
        return REMARK_KINDS if text == "all" else ()
    kinds = text.split(",")
    for kind in kinds:
        if kind not in REMARK_KINDS:
            raise argparse.ArgumentTypeError(
                f"invalid choice: '{kind}' (choose from {', '.join(REMARK_KINDS)}, all, none, json)"
            )
    chosen: tuple[RemarkKind, ...] = tuple(kind for kind in REMARK_KINDS if kind in kinds)
    return chosen


def regex(text: str) -> re.Pattern[str]:
    """Parse a regular expression. Raises ArgumentTypeError for one that is not well formed."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regex: {error}") from error


@dataclass(frozen=True)
class RemarkSelection:
    """The requested remarks."""

    kinds: tuple[RemarkKind, ...]
    passes: re.Pattern[str] = NO_FILTER

    @staticmethod
    def from_options(options: argparse.Namespace) -> RemarkSelection:
        """Select all kinds, unless `--remarks` names some."""
        kinds = REMARK_KINDS if options.remarks is None else options.remarks
        return RemarkSelection(kinds, options.remarks_filter)

    def wants(self, remark: Remark) -> bool:
        return remark.kind in self.kinds and self.passes.search(remark.pass_name) is not None


@contextmanager
def reported_remarks(session: Session) -> Generator[None]:
    """Report the remarks on a piece of the input, even if an error is raised.

    Any option of the group asks for remarks. `--verify-diagnostics` takes them from stderr.
    """
    try:
        yield
    finally:
        if is_requested(session.options):
            _report(session)


def is_requested(options: argparse.Namespace) -> bool:
    """True if an option requests remarks."""
    others = (options.remarks_format, options.remarks_output, options.remarks_summary)
    return options.remarks is not None or options.remarks_filter != NO_FILTER or any(others)


def _report(session: Session) -> None:
    options = session.options
    selection = RemarkSelection.from_options(options)
    remarks = [remark for remark in session.remarks if selection.wants(remark)]
    format = options.remarks_format or ("json" if options.remarks_output else "text")
    if format == "json":
        text = "".join(f"{json.dumps(remark.to_dict())}\n" for remark in remarks)
    else:
        text = to_text(remarks, session.sources)
    if options.remarks_output:
        # The pieces of a split input follow each other in one file.
        mode = "a" if session.chunk.index else "w"
        with Path(options.remarks_output).open(mode, encoding="utf-8") as file:
            file.write(text)
    elif not options.verify_diagnostics:
        sys.stderr.write(text)
    if options.remarks_summary:
        sys.stderr.write(summary(remarks))


def to_text(remarks: Sequence[Remark], sources: Sources) -> str:
    """Return the remarks one after the other, with source lines if these can be read."""
    return "".join(f"{_render(remark, sources)}\n" for remark in remarks)


def _render(remark: Remark, sources: Sources) -> str:
    position = remark.position
    return remark.render(None if position is None else sources.get(position[0]))


def summary(remarks: Sequence[Remark]) -> str:
    """Return the number of remarks of each kind, and their passes."""
    kinds = Counter(remark.kind for remark in remarks)
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in REMARK_KINDS if kinds[kind])
    lines = [f"{len(remarks)} remarks" + (f": {counts}" if counts else "")]
    by_pass = Counter((remark.pass_name, remark.kind) for remark in remarks)
    for (name, kind), count in sorted(by_pass.items()):
        lines.append(f"{count:6} {kind:8} {name}")
    return "\n".join(lines) + "\n"
