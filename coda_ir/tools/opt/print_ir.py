"""`--print-ir-before`, `--print-ir-after` and similar options: the IR around passes."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from coda_ir.diagnostics import closest
from coda_ir.pipeline import PassInstrumentation
from coda_ir.pipeline.printing import PrintIR, PrintSelection
from coda_ir.pipeline.spec import ALL_PASSES
from coda_ir.tools.opt.errors import UsageError
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.passes import pass_manager


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("printing the IR around passes")
    for point in ("before", "after"):
        group.add_argument(
            f"--print-ir-{point}",
            metavar="PASS,...",
            action="extend",
            type=_names,
            default=[],
            help=f"print the IR {point} these passes to stderr",
        )
        group.add_argument(
            f"--print-ir-{point}-all", action="store_true", help=f"the same {point} every pass"
        )
    group.add_argument(
        "--print-ir-after-change",
        action="store_true",
        help="print the IR only after passes that change it (of all passes, or of those named)",
    )
    group.add_argument(
        "--print-ir-after-failure",
        action="store_true",
        help="print the IR after a pass that fails, in the generic form",
    )
    group.add_argument(
        "--print-ir-tree-dir",
        metavar="DIR",
        type=Path,
        help="write a file per pass, DIR/NN_PASS.mlir, instead (of all passes, or of those named)",
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def instrumentations(session: Session) -> Iterable[PassInstrumentation]:
    """Return the requested printer, if any. Raises UsageError for an unknown pass."""
    options, selection = session.options, select(session.options)
    for name in (*options.print_ir_before, *options.print_ir_after):
        if name not in session.passes:
            remedy = closest(name, session.passes, ALL_PASSES)
            raise UsageError(f"argument --print-ir-before/after: unknown pass '{name}'", remedy)
    if selection == PrintSelection():
        return ()
    folder = options.print_ir_tree_dir
    if folder is not None and options.split_input_file:
        folder = folder / str(session.chunk.index)
    runs = pass_manager(session).runs()
    return (PrintIR(selection, folder or sys.stderr, session.print_module, runs),)


def select(options: argparse.Namespace) -> PrintSelection:
    """Return when to print: files or changes of all passes, unless some are named."""
    named = options.print_ir_before or options.print_ir_after or options.print_ir_before_all
    alone = options.print_ir_tree_dir is not None and not named
    alone = alone and not options.print_ir_after_failure
    changed = options.print_ir_after_change and not options.print_ir_after
    after_all = options.print_ir_after_all or alone or changed
    return PrintSelection(
        before=None if options.print_ir_before_all else tuple(options.print_ir_before),
        after=None if after_all else tuple(options.print_ir_after),
        after_change=options.print_ir_after_change,
        after_failure=options.print_ir_after_failure,
    )
