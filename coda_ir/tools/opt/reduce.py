"""`--reduce`: shrink the input while a command still finds it interesting."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CheckError, counted
from coda_ir.tools.opt import source, target
from coda_ir.tools.opt.arguments import positive
from coda_ir.tools.opt.errors import SUCCESS, UsageError
from coda_ir.tools.opt.feature import Session

if TYPE_CHECKING:
    from coda_ir.reduction import Progress

MAX_TESTS, TIMEOUT = 1000, 60


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reduction")
    group.add_argument(
        "--reduce",
        action="store_true",
        help="print the smallest module that is found for which the command of --test exits with 0",
    )
    group.add_argument(
        "--test",
        metavar="COMMAND",
        help="shell command that exits with 0 if a module is interesting; the file with the "
        "module replaces %%s, or is appended",
    )
    group.add_argument(
        "--reduce-max-tests",
        type=positive,
        default=MAX_TESTS,
        metavar="N",
        help=f"stop after N runs of the command (default: {MAX_TESTS})",
    )
    group.add_argument(
        "--reduce-timeout",
        type=positive,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"a module for which the command takes longer is not interesting (default: {TIMEOUT})",
    )


def reduce_input(session: Session) -> int | None:
    """Write the reduced input; return None unless that is requested.

    Raises UsageError for options that do not go together, and CodaError for an input that is not
    interesting.
    """
    options = session.options
    if not options.reduce:
        return None
    if options.test is None:
        raise UsageError("argument --reduce: no test", "add --test 'COMMAND %s'")
    chunks = source.read_chunks(options)
    if len(chunks) > 1:
        raise UsageError("--reduce takes one module", "reduce the pieces of the input one by one")
    module = session.parse(chunks[0])
    reduced = _reduce(session, module)
    with target.opened_output(options) as output:
        output.write(session.print_module(reduced))
    return SUCCESS


def _reduce(session: Session, module: ModuleOp) -> ModuleOp:
    from coda_ir.reduction import NotInterestingError, reduce_module

    options = session.options
    with TemporaryDirectory(prefix="coda-opt-") as folder, _reporter() as report:
        path = Path(folder) / "candidate.mlir"
        test = CommandTest(options.test, path, options.reduce_timeout, session.print_module)
        try:
            return reduce_module(
                module, test, max_tests=options.reduce_max_tests, on_progress=report
            )
        except NotInterestingError as error:
            raise CheckError(
                f"the input is not interesting: the command of --test {test.outcome}",
                "the command must exit with 0 for the input and for every reduced module",
            ) from error


@dataclass
class CommandTest:
    """The test that a shell command exits with 0 for a module in a file."""

    command: str
    path: Path
    timeout: int
    """Seconds."""
    print_module: Callable[[ModuleOp], str]
    outcome: str = ""
    """The outcome of the last run."""

    def __call__(self, module: ModuleOp) -> bool:
        self.path.write_text(self.print_module(module), encoding="utf-8")
        code = self._run()
        self.outcome = (
            f"takes longer than {self.timeout} s" if code is None else f"exits with {code}"
        )
        return code == 0

    def _run(self) -> int | None:
        """Return the exit code; None if the command takes too long."""
        name = shlex.quote(str(self.path))
        command = self.command if "%s" in self.command else f"{self.command} %s"
        # A separate session, so that all processes of the shell can be terminated.
        process = subprocess.Popen(
            command.replace("%s", name),
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def _reporter() -> Generator[Callable[[Progress], None]]:
    """Shows progress on stderr: a live line on a terminal, else a line for each smaller module."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("coda-opt: reduce") as status:
            yield lambda progress: status.update(describe(progress))
        return
    sizes: list[int] = []

    def report(progress: Progress) -> None:
        if not sizes or progress.operators < sizes[-1]:
            sizes.append(progress.operators)
            print(describe(progress), file=sys.stderr)

    yield report


def describe(progress: Progress) -> str:
    return (
        f"coda-opt: reduce: {counted(progress.operators, 'operator')} after "
        f"{counted(progress.tests, 'test')} ({progress.strategy})"
    )
