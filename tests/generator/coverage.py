"""Lines of the passes that random programs run, and those that they never reach."""

import sys
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

import coda_ir.passes
from generator.check import Tally, check_program


def pass_files() -> list[Path]:
    assert coda_ir.passes.__file__ is not None
    return sorted(Path(coda_ir.passes.__file__).parent.resolve().rglob("*.py"))


class LineTrace:
    """The lines that are run of some files."""

    def __init__(self, files: list[Path]):
        self._known = {str(path): path for path in files}
        self._resolved: dict[str, Path | None] = {}
        self.lines: defaultdict[Path, set[int]] = defaultdict(set)

    @contextmanager
    def running(self) -> Generator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _path(self, name: str) -> Path | None:
        if name not in self._resolved:
            self._resolved[name] = self._known.get(str(Path(name).resolve()))
        return self._resolved[name]

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        path = self._path(frame.f_code.co_filename)
        if path is None:
            return None
        lines = self.lines[path]

        def line(frame: FrameType, event: str, argument: object) -> Any:
            lines.add(frame.f_lineno)
            return line

        lines.add(frame.f_lineno)
        return line


def function_lines(path: Path) -> set[int]:
    """The lines of code inside of functions: what an import does not run."""
    lines: set[int] = set()
    pending: list[tuple[CodeType, bool]] = [(compile(path.read_text(), str(path), "exec"), False)]
    while pending:
        code, inside = pending.pop()
        if inside:
            lines |= {line for _, _, line in code.co_lines() if line is not None}
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                is_function = bool(constant.co_flags & 0x2) or constant.co_name == "<lambda>"
                pending.append((constant, inside or is_function))
    return lines


def measure(programs: int, seed: int) -> Mapping[Path, tuple[set[int], set[int]]]:
    """Return, by file, the lines of its functions, and those of them that the programs ran."""
    files = pass_files()
    trace = LineTrace(files)
    tally = Tally()
    with trace.running():
        for number in range(programs):
            check_program(seed, number, tally)
    return {path: (lines := function_lines(path), lines & trace.lines[path]) for path in files}


def print_coverage(measured: Mapping[Path, tuple[set[int], set[int]]], console: Console) -> None:
    table = Table("file", "lines", "run", "never", title="Lines of the passes")
    total = reached = 0
    for path, (lines, run) in measured.items():
        if lines:
            total, reached = total + len(lines), reached + len(run)
            missed = ", ".join(_ranges(sorted(lines - run)))
            table.add_row(path.name, str(len(lines)), f"{len(run) / len(lines):.0%}", missed)
    console.print(table)
    console.print(f"{reached} of {total} lines, {reached / max(total, 1):.1%}")


def _ranges(numbers: list[int]) -> list[str]:
    """Numbers as ranges: 3, 4, 5, 9 as 3-5, 9."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return [str(a) if a == b else f"{a}-{b}" for a, b in ranges]
