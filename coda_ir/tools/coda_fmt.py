"""Print .coda files in canonical layout, rewrite them, or check them."""

import argparse
import sys
from collections.abc import Sequence

from coda_ir.diagnostics import CodaError, FileError
from coda_ir.frontends.coda_text import format_text
from coda_ir.sources import decode_source, read_source, write_file
from coda_ir.tools.boundary import report_error

STDIN = "-"


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool; the exit code is 1 if a file is wrong or, with --check, not formatted."""
    options = _parser().parse_args(args)
    if options.in_place and STDIN in options.files:
        print("coda-fmt: error: -i needs files, not '-'", file=sys.stderr)
        return 2
    failed = False
    for file in options.files:
        try:
            failed |= not _format(file, in_place=options.in_place, check=options.check)
        except CodaError as error:
            report_error("coda-fmt", error)
            failed = True
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="coda-fmt", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a .coda file, or - for stdin")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("-i", "--in-place", action="store_true", help="rewrite the files")
    mode.add_argument("--check", action="store_true", help="list the files that are not formatted")
    return parser


def _format(file: str, *, in_place: bool, check: bool) -> bool:
    """Format one file; return False if --check finds it not formatted.

    Raises CodaError where it cannot be read or written, or has a syntax error.
    """
    if file.endswith(".mlir"):
        raise FileError(f"{file}: not a .coda file", "coda-opt prints .mlir in canonical form")
    name = "<stdin>" if file == STDIN else file
    source = decode_source(sys.stdin.buffer.read(), name) if file == STDIN else read_source(file)
    text = format_text(source, name)
    if check:
        if text != source:
            print(f"{name}: not formatted; run coda-fmt -i", file=sys.stderr)
        return text == source
    if not in_place:
        sys.stdout.write(text)
    elif text != source:
        write_file(file, text.encode())
    return True


if __name__ == "__main__":
    sys.exit(main())
