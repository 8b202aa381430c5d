"""Crash reproducers: the IR before a failing pass, and the command line that makes it fail.

If something else fails, such as the emission of code, the reproducer is the input.

A reproducer is an `.mlir` file that begins with comments:

    // coda-opt crash reproducer: coda-opt --run-reproducer FILE
    // configuration: --passes='builtin.module(cse)' --no-verify-each
    // pass 'cse' failed: KeyError: 'x'

In a `.coda` file, the comments begin with `#`.
"""

import argparse
import re
import shlex
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import Diagnostic, FileError
from coda_ir.pipeline import PassInstrumentation, PassRun, pipeline_of
from coda_ir.pipeline.printing import generic_text
from coda_ir.sources import read_source
from coda_ir.tools.opt.errors import UsageError, is_defect, one_line
from coda_ir.tools.opt.feature import Session
from coda_ir.tools.opt.passes import pass_manager

CONFIGURATION = re.compile(r"^(?://|#) configuration: (.*)$", re.MULTILINE)
COMMENTS = {"coda": "#"}
"""The beginning of a comment, where that is not `//`."""


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("crashes")
    group.add_argument(
        "--crash-reproducer",
        metavar="FILE",
        type=Path,
        help="if a pass fails, write its input and the remaining passes to FILE; if another part"
        " fails, the input of the tool (default: a new temporary file)",
    )
    group.add_argument(
        "--run-reproducer",
        action="store_true",
        help="run FILE with the passes and options that it records",
    )
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def recorded_arguments(options: argparse.Namespace) -> list[str]:
    """Read the command line in a reproducer. Raises CodaError for another file."""
    if options.input_file is None:
        raise UsageError("--run-reproducer needs a FILE", "name the reproducer")
    found = CONFIGURATION.search(read_source(options.input_file))
    if found is None:
        raise FileError(
            f"{options.input_file}: not a crash reproducer: no line '// configuration: ...'",
            "leave out --run-reproducer, and name the passes to run with -p",
        )
    try:
        return shlex.split(found[1])
    except ValueError as error:
        raise FileError(f"{options.input_file}: configuration: {error}") from error


def instrumentations(session: Session) -> Iterable[PassInstrumentation]:
    return (WriteReproducer(session),)


class WriteReproducer(PassInstrumentation):
    """Writes a reproducer if a pass fails because of a defect, and reports it on stderr."""

    def __init__(self, session: Session):
        self._session = session

    def after_failure(self, run: PassRun, module: ModuleOp, error: BaseException) -> None:
        if not is_defect(error):
            return
        self._session.reproduced = error
        reason = f"pass '{run}' failed: {one_line(error)}"
        text = reproducer(self._session, run, reason)
        _write(self._session, text.encode(), "mlir", reason)


@contextmanager
def kept_input(session: Session) -> Generator[None]:
    """Write a reproducer with the input if the block fails because of a defect outside passes."""
    try:
        yield
    except Exception as error:
        if not is_defect(error) or session.reproduced is error:
            raise
        try:
            _write_input(session, one_line(error))
        finally:
            # Even if the file cannot be written, report the first error.
            raise error


def _write_input(session: Session, reason: str) -> None:
    chunk = session.chunk
    configuration = [*arguments_without_input(session), f"--frontend={chunk.syntax}"]
    header = _header(configuration, reason, COMMENTS.get(chunk.syntax, "//"))
    _write(session, header.encode() + chunk.data, chunk.syntax, reason)


def arguments_without_input(session: Session) -> Sequence[str]:
    """Return the command line without the name of the input, which usually comes last."""
    arguments, name = list(session.arguments), session.options.input_file
    arguments = [each for each in arguments if each != "--run-reproducer"]
    if name in arguments:
        del arguments[len(arguments) - 1 - arguments[::-1].index(name)]
    return arguments


def _write(session: Session, data: bytes, suffix: str, reason: str) -> None:
    """Write a reproducer and report it."""
    path = _path(session.options, suffix)
    path.write_bytes(data)
    again = f"to see it again, with its traceback: coda-opt --run-reproducer {path} --debug"
    session.report(*(Diagnostic("note", None, text) for text in (reason, again)))


def _path(options: argparse.Namespace, suffix: str) -> Path:
    if options.crash_reproducer is not None:
        return options.crash_reproducer
    with tempfile.NamedTemporaryFile(prefix="coda-opt-", suffix=f".{suffix}", delete=False) as file:
        return Path(file.name)


def _header(configuration: Sequence[str], reason: str, comment: str) -> str:
    return (
        f"{comment} coda-opt crash reproducer: coda-opt --run-reproducer FILE\n"
        f"{comment} configuration: {shlex.join(configuration)}\n{comment} {reason}\n"
    )


def reproducer(session: Session, failing: PassRun, reason: str) -> str:
    """Return the text of a reproducer: the module before `failing`, and the passes that remain.

    The passes before it run once more, on the input; nothing has to be kept while all is well.
    """
    manager = pass_manager(session)
    runs = manager.runs()
    module = session.parse(session.chunk)
    done = pipeline_of(runs[: failing.index])
    replace(manager, pipeline=done, verify_each=False).run(session.context, module)
    remaining = pipeline_of(runs[failing.index :])
    configuration = configuration_of(session.options, str(remaining))
    return _header(configuration, reason, "//") + generic_text(module)


def configuration_of(options: argparse.Namespace, pipeline: str) -> Sequence[str]:
    """Return the options that determine what the passes do."""
    arguments = [f"--passes={pipeline}", "--frontend=mlir"]
    for flag in ("allow_unregistered_dialect", "disable_verify"):
        if getattr(options, flag):
            arguments.append(f"--{flag.replace('_', '-')}")
    if not options.verify_each:
        arguments.append("--no-verify-each")
    return arguments
