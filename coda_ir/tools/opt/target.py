"""The output: IR as text, or the output of a target."""

import argparse
import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from coda_ir.diagnostics import closest
from coda_ir.tools.opt.errors import UsageError
from coda_ir.tools.opt.feature import Session

STDOUT = "-"


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output-file", metavar="FILE", help="by default, stdout")
    group.add_argument(
        "-t", "--target", help="what to print: mlir (default), triton, or another target of xDSL"
    )
    group.add_argument(
        "--print-op-generic", action="store_true", help="print operators in the generic form"
    )
    group.add_argument(
        "--print-debuginfo", action="store_true", help="print the locations of operators"
    )


def target_spec(session: Session) -> ArgSpec:
    """Return the target of the command line. Raises UsageError for one that does not exist."""
    try:
        spec = parse_spec(session.options.target or "mlir")
    except ArgSpecParseError as error:
        raise UsageError(f"argument -t/--target: {error}") from error
    if spec.name not in session.targets:
        remedy = closest(spec.name, session.targets, f"use one of {', '.join(session.targets)}")
        raise UsageError(f"argument -t/--target: invalid choice: '{spec.name}'", remedy)
    return spec


def mlir_target(options: argparse.Namespace, target: MLIRTarget | None = None) -> MLIRTarget:
    """Return the printer of IR with the options of the command line added to `target`'s."""
    target = target or MLIRTarget()
    return replace(
        target,
        print_generic_format=target.print_generic_format or options.print_op_generic,
        print_debuginfo=target.print_debuginfo or options.print_debuginfo,
    )


def print_module(context: Context, options: argparse.Namespace, module: ModuleOp) -> str:
    """Print the IR with the options of the command line."""
    output = StringIO()
    mlir_target(options).emit(context, module, output)
    return output.getvalue()


def write(session: Session, module: ModuleOp) -> str:
    """Return the output of the target of the command line for `module`."""
    spec, output = target_spec(session), StringIO()
    try:
        target = session.targets[spec.name]().from_spec(spec)
    except ValueError as error:
        raise UsageError(f"argument -t/--target: {error}") from error
    if isinstance(target, MLIRTarget):
        target = mlir_target(session.options, target)
    target.emit(session.context, module, output)
    return output.getvalue()


@contextmanager
def opened_output(options: argparse.Namespace) -> Generator[IO[str]]:
    """Yield the output stream; a file is written when the `with` block ends without an error.

    Raises OSError for a file that cannot be written, where that can be known at once.
    """
    if options.output_file in (None, STDOUT):
        yield sys.stdout
        return
    path, output = Path(options.output_file), StringIO()
    _check_writable(path)
    yield output
    path.write_text(output.getvalue())


def _check_writable(path: Path) -> None:
    """Raise OSError for a file that cannot be written, before its content is computed."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.exists() and not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
