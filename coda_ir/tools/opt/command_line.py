"""The command line of `coda-opt`."""

from __future__ import annotations

import argparse
from importlib.metadata import version

from coda_ir import __version__
from coda_ir.tools.opt.features import FEATURES

DESCRIPTION = "Read a program, run passes on it, and print it, emit code for it or execute it."


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with the options of every feature."""
    parser = argparse.ArgumentParser(prog="coda-opt", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version=_version())
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    for feature in FEATURES:
        feature.register_arguments(parser)
    return parser


def _version() -> str:
    return f"coda-opt {__version__} on xdsl {version('xdsl')}"
