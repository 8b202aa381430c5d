"""Serve the language of .coda files to editors, over stdio or TCP."""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import coda_ir

MISSING = 'coda-lsp: error: the language server needs pygls\n  help: pip install "coda-ir[lsp]"'


def main(args: Sequence[str] | None = None) -> int:
    """Serve until the editor leaves; exit codes: 2 without pygls, 1 if the port cannot be used."""
    options = _parser().parse_args(args)
    if find_spec("pygls") is None:
        print(MISSING, file=sys.stderr)
        return 2
    from coda_ir.lsp.features import make_server

    logging.basicConfig(stream=sys.stderr, level=options.log_level.upper())
    server = make_server()
    if options.tcp is None:
        server.start_io()
        return 0
    try:
        server.start_tcp(options.host, options.tcp)
    except OSError as error:
        print(f"coda-lsp: error: {options.host}:{options.tcp}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="coda-lsp", description=__doc__)
    transport = parser.add_mutually_exclusive_group()
    transport.add_argument("--stdio", action="store_true", help="standard streams (default)")
    transport.add_argument("--tcp", type=_port, metavar="PORT", help="listen on a TCP port")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on with --tcp")
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="lowest level of the messages on standard error (default: warning)",
    )
    parser.add_argument("--version", action="version", version=f"coda-lsp {coda_ir.__version__}")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port, expected 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
