"""List the compiled programs of the cache, and prune them."""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from coda_ir.cache import folder
from coda_ir.cache.programs import Header, read_header
from coda_ir.cache.toolchain import toolchain
from coda_ir.cache.tuned import TunedEntry, read
from coda_ir.diagnostics import counted
from coda_ir.tools.boundary import exit_code_of

ENVIRONMENT = """
environment:
  CODA_CACHE_DIR    the folder, by default coda_ir in $XDG_CACHE_HOME or ~/.cache
  CODA_CACHE_LIMIT  its maximum size, such as 500MB, by default 1GiB; 0 disables the cache

Exit codes: 0, 1 for invalid input, 2 for an invalid command line, 3 for a defect of the tool.
"""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool on command-line arguments; the exit codes are those of coda-opt."""
    options = _parser().parse_args(args)
    return exit_code_of("coda-cache", lambda: options.action(options), debug=options.debug)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coda-cache",
        description=__doc__,
        epilog=ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a defect")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add = _adder(commands)
    add("path", _print_path, "print the folder of the cache")
    listing = add("list", _list, "list the programs, the most recently used first")
    listing.add_argument("--json", action="store_true", help="as JSON, one program per line")
    tuned = add("tuned", _list_tuned, "list the results of tuning, the most recently used first")
    tuned.add_argument("--json", action="store_true", help="as JSON, one result per line")
    add("stats", _stats, "print the number of entries and their size")
    pruning = add("prune", _prune, "remove the least recently used programs beyond the limit")
    _add_pruning_arguments(pruning)
    return parser


def _adder(commands: Any) -> Callable[..., argparse.ArgumentParser]:
    def add(
        name: str, action: Callable[[argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(action=action)
        return parser

    return add


def _add_pruning_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-size", type=_size, metavar="SIZE", help="keep at most SIZE, such as 100MB or 1GiB"
    )
    parser.add_argument(
        "--max-age",
        type=_age,
        metavar="AGE",
        help="keep only programs used within AGE, such as 12h or 30d",
    )
    parser.add_argument("--outdated", action="store_true", help="remove programs of other versions")
    parser.add_argument("--all", action="store_true", help="remove everything")


def _size(text: str) -> int:
    try:
        return folder.parse_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a size; write bytes, or a size such as 500MB or 2GiB"
        ) from None


def _age(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not an age, such as 45m, 12h or 30d")
    return float(match[1]) * _UNITS[match[2]]


def _print_path(_: argparse.Namespace) -> None:
    print(folder.cache_directory())


def _programs() -> list[tuple[folder.CachedFile, Header | None]]:
    """Return the programs, the last used first, with their headers if readable."""
    files = [file for file in reversed(folder.cached_files()) if file.is_program]
    return [(file, read_header(file.path)) for file in files]


def _list(options: argparse.Namespace) -> None:
    programs, now = _programs(), time.time()
    if options.json:
        for file, header in programs:
            known = {} if header is None else asdict(header)
            data = {"key": file.path.stem, "size": file.size, "used": file.used, **known}
            print(json.dumps(data))
        return
    rows = [("KEY", "FUNCTION", "TARGET", "SIZE", "USED", "VERSIONS")]
    for file, header in programs:
        age = _format_age(now - file.used)
        key, size = file.path.stem[:12], folder.format_size(file.size)
        if header is None:
            rows.append((key, "?", "?", size, age, "damaged"))
        else:
            versions = "outdated" if _is_outdated(header) else "current"
            rows.append((key, header.function, header.architecture, size, age, versions))
    _print_table(rows)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _results() -> list[tuple[folder.CachedFile, TunedEntry | None]]:
    """Return the results of tuning, the last used first; None for a damaged one."""
    found: list[tuple[folder.CachedFile, TunedEntry | None]] = []
    for file in reversed(folder.cached_files()):
        if file.is_tuning:
            try:
                found.append((file, read(file.path)))
            except folder.DamagedEntryError:
                found.append((file, None))
    return found


def _is_current(entry: TunedEntry | None) -> bool:
    return entry is not None and entry.toolchain == toolchain()


def _list_tuned(options: argparse.Namespace) -> None:
    results = _results()
    if options.json:
        for file, entry in results:
            known = {} if entry is None else asdict(entry)
            print(json.dumps({"key": file.path.stem, "used": file.used, **known}))
        return
    rows = [("KEY", "GEMM", "ROWS", "DEVICE", "SCHEDULE", "US", "GAIN", "VERSIONS")]
    for file, entry in results:
        key = file.path.stem[:12]
        if entry is None:
            rows.append((key, "?", "?", "?", "?", "?", "?", "damaged"))
            continue
        found, versions = entry.decision, "current" if _is_current(entry) else "outdated"
        times = f"{found.measured_us:.1f}", f"{found.gain:.2f}"
        what = (entry.gemm, f"<= {entry.bucket}", entry.device, str(found.chosen))
        rows.append((key, *what, *times, versions))
    _print_table(rows)


def _is_outdated(header: Header) -> bool:
    return header.toolchain != toolchain()


def _format_age(seconds: float) -> str:
    for unit, length in reversed(_UNITS.items()):
        if seconds >= length:
            return f"{int(seconds / length)}{unit} ago"
    return "now"


def _stats(_: argparse.Namespace) -> None:
    files, programs = folder.cached_files(), _programs()
    modules = [file for file in files if file.path.suffix == ".py"]
    total, limit = sum(file.size for file in files), folder.size_limit()
    outdated = sum(header is None or _is_outdated(header) for _, header in programs)
    print(f"folder     {folder.cache_directory()}")
    print(f"programs   {_total([file for file, _ in programs])}, {outdated} of other versions")
    print(f"modules    {_total(modules)}")
    print(f"tuned      {_total([file for file in files if file.is_tuning])}")
    share = f"{total / limit:.0%} of {folder.format_size(limit)}" if limit else "the cache is off"
    print(f"together   {folder.format_size(total)}: {share}")


def _total(files: Sequence[folder.CachedFile]) -> str:
    return f"{len(files)} ({folder.format_size(sum(file.size for file in files))})"


def _prune(options: argparse.Namespace) -> None:
    chosen = options.max_size is not None or options.max_age is not None or options.outdated
    largest = options.max_size if chosen else folder.size_limit()
    removed = removed_bytes = 0
    if options.outdated:
        old = [file for file, header in _programs() if header is None or _is_outdated(header)]
        old += [file for file, entry in _results() if not _is_current(entry)]
        gone = folder.remove(old)
        removed, removed_bytes = len(gone), sum(file.size for file in gone)
    done = folder.prune(max_bytes=largest, max_age=options.max_age, everything=options.all)
    removed, removed_bytes = removed + done.removed, removed_bytes + done.removed_bytes
    print(
        f"removed {counted(removed, 'file')} ({folder.format_size(removed_bytes)}), "
        f"{done.left} are left ({folder.format_size(done.left_bytes)})"
    )


if __name__ == "__main__":
    sys.exit(main())
