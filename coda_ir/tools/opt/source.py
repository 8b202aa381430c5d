"""The input: its kind, its pieces, and the module that each of them describes."""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import DiagnosticError
from coda_ir.functions import functions_of, only_called
from coda_ir.mlir.reader import read_module
from coda_ir.sources import decode_source
from coda_ir.tools.opt.arguments import named, number
from coda_ir.tools.opt.errors import UsageError
from coda_ir.tools.opt.feature import Chunk

STDIN = "-"

FRONTENDS = ("coda", "mlir")

_CODA_DEFINITION = re.compile(r"^(import|const|fn|epilogue) ", re.MULTILINE)

SEPARATORS = {"coda": (b"\n# -----", b"\n// -----"), "mlir": (b"// -----",)}
"""Separators of the pieces of an input that is split."""


def register_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input")
    group.add_argument(
        "input_file",
        nargs="?",
        metavar="FILE",
        help="a .coda or .mlir file; by default, stdin",
    )
    group.add_argument(
        "-f",
        "--frontend",
        choices=FRONTENDS,
        help="kind of the input (default: by the name of the file; mlir for stdin)",
    )
    group.add_argument(
        "--const",
        action="append",
        default=[],
        type=named(number),
        metavar="NAME=VALUE",
        help="override a constant of a .coda file; may be repeated",
    )
    group.add_argument(
        "--split-input-file",
        action="store_true",
        help="process the pieces between lines '// -----' (or '# -----') one by one",
    )
    _register_leniency(parser)


def _register_leniency(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input")
    group.add_argument(
        "--allow-unregistered-dialect",
        action="store_true",
        help="accept operators and attributes of unknown dialects",
    )
    group.add_argument(
        "--disable-verify",
        action="store_true",
        help="verify operators neither after parsing nor after passes",
    )


def input_name(options: argparse.Namespace) -> str:
    return "stdin" if options.input_file in (None, STDIN) else options.input_file


def read_chunks(options: argparse.Namespace) -> list[Chunk]:
    """Read the pieces of the input. Raises OSError, and UsageError for an unknown kind of file."""
    name, syntax = input_name(options), syntax_of(options)
    if options.const and syntax != "coda":
        raise UsageError(f"argument --const: {name} is MLIR, which has no constants to override")
    data = _read(options)
    if not options.split_input_file:
        return [Chunk(name, data, syntax)]
    pieces = _split(data, SEPARATORS[syntax])
    return [Chunk(name, piece, syntax, index) for index, piece in enumerate(pieces)]


def syntax_of(options: argparse.Namespace) -> str:
    """Return the kind of the input, `coda` or `mlir`. Raises UsageError for another kind."""
    if options.frontend:
        return options.frontend
    if options.input_file in (None, STDIN):
        return "mlir"
    suffix = PurePath(options.input_file).suffix.removeprefix(".")
    if suffix in FRONTENDS:
        return suffix
    # Report a directory or a missing file as such.
    _read(options)
    raise UsageError(
        f"{options.input_file}: unknown file type",
        "name the file *.coda or *.mlir, or pass -f coda or -f mlir",
    )


def _read(options: argparse.Namespace) -> bytes:
    if options.input_file in (None, STDIN):
        return sys.stdin.buffer.read()
    with open(options.input_file, "rb") as file:
        return file.read()


def _split(data: bytes, separators: Sequence[bytes]) -> list[bytes]:
    """Split the input, with empty lines ahead of each piece so that line numbers stay."""
    for separator in separators[1:]:
        data = data.replace(separator, separators[0])
    pieces, line = list[bytes](), 0
    for index, piece in enumerate(data.split(separators[0])):
        if index:
            line += separators[0].count(b"\n")
        pieces.append(b"\n" * line + piece)
        line += piece.count(b"\n")
    return pieces


def parse_chunk(chunk: Chunk, context: Context, options: argparse.Namespace) -> ModuleOp:
    """Return the verified module of a piece of the input, without the functions that the function
    `--entry` does not call. Raises CodaError for a wrong one.
    """
    module = _parsed(chunk, context, options)
    # Passes may make the function, such as a backward.
    is_there = options.entry in functions_of(module)
    return only_called(module, options.entry) if is_there else module


def _parsed(chunk: Chunk, context: Context, options: argparse.Namespace) -> ModuleOp:
    text = decode_source(chunk.data, chunk.name)
    if chunk.syntax != "coda":
        return _read_mlir(text, chunk, context, options)
    from coda_ir.frontends.coda_text import parse_text

    return parse_text(text, chunk.name, constants=dict(options.const))


def _read_mlir(text: str, chunk: Chunk, context: Context, options: argparse.Namespace) -> ModuleOp:
    try:
        module = read_module(text, chunk.name, context, verify=not options.disable_verify)
    except DiagnosticError as error:
        if options.frontend or not _CODA_DEFINITION.search(text):
            raise
        first, *rest = error.diagnostics
        remedy = "pass -f coda for a .coda program: this was read as MLIR"
        raise DiagnosticError([replace(first, remedy=remedy), *rest], error.sources) from error
    if not options.disable_verify and (options.run or options.check_equivalence or options.emit):
        from coda_ir.mlir.verification import verify_calls

        verify_calls(module, {chunk.name: text})
    return module
