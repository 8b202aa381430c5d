"""Goldens rewritten with the current output of the tools: `pytest --update-goldens`.

In a golden of tests/filecheck, a block begins with a line `CHECK:` or `CHECK-LABEL:`, and goes on
with `CHECK-NEXT:` and `CHECK-EMPTY:`. A block keeps its first and its last line; what is between
them becomes what the tool prints between them. Lines that still match stay, with their patterns.
Where the first or the last line is not printed any more, the block stays, and the test fails.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RUN = re.compile(r"^(?://|#) RUN:\s*(.*)$", re.MULTILINE)
EXAMPLES = Path(__file__).parents[2] / "examples"


class Check(NamedTuple):
    """A line `// CHECK...: pattern` of a golden."""

    comment: str
    kind: str
    pattern: str
    column: int
    """The column at which the pattern begins."""

    @property
    def regex(self) -> str:
        parts = re.split(r"\{\{(.*?)\}\}|\[\[.*?\]\]", self.pattern)
        return "".join(
            (part or ".*") if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )

    def is_in(self, line: str) -> bool:
        return re.search(self.regex, line) is not None

    def is_all_of(self, line: str) -> bool:
        return re.fullmatch(self.regex, line.strip()) is not None


def refreshed_golden(path: Path) -> tuple[str, list[str]]:
    """The text of a golden with its blocks as printed now, and a line for each block that is left
    unchanged, with the reason.
    """
    lines, left = path.read_text().splitlines(), list[str]()
    for command in RUN.findall(re.sub(r"\\\n(?://|#) RUN:", "", path.read_text())):
        tool, _, check = command.rpartition("|")
        if check.split()[:1] == ["filecheck"]:
            prefix = re.search(r"--?check-prefix[ =](\S+)", check)
            printed = _output(tool, path).splitlines()
            lines = refreshed(lines, prefix[1] if prefix else "CHECK", printed, left)
    return "\n".join(lines) + "\n", left


def _output(command: str, path: Path) -> str:
    command = command.replace("%examples", str(EXAMPLES)).replace("%s", str(path))
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": tools, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, shell=True, env=environment, capture_output=True, text=True, check=False
    ).stdout


def refreshed(
    lines: Sequence[str], prefix: str, printed: Sequence[str], left: list[str] | None = None
) -> list[str]:
    """The lines of a golden with the blocks of `prefix` as `printed`. Why others were left
    unchanged is added to `left`.
    """
    done: list[str] = []
    rest, place = list(lines), 0
    while rest:
        block = _block(rest, prefix)
        old, rest = rest[: max(1, len(block))], rest[max(1, len(block)) :]
        found = _range(block, printed, place)
        if found is not None:
            place = found.stop
            old = [old[0], *_directives(block, prefix, printed, found)]
        elif block and left is not None:
            left += _why_left(block, prefix, printed[place:])
        done += old
    return done


def _why_left(block: Sequence[Check], prefix: str, printed: Sequence[str]) -> list[str]:
    """Return the reasons why a block without a range of lines was left unchanged; none for correct
    lines."""
    first, last = block[0].pattern, block[-1].pattern
    if not any(block[0].is_in(line) for line in printed):
        return [f"{prefix}: {first}: left unchanged: this line is not printed, from here on"]
    if len(block) < 2:
        return []
    return [
        f"{prefix}: {first}: left unchanged: no whole line after it, indented alike, is: {last}"
    ]


def _block(lines: Sequence[str], prefix: str) -> list[Check]:
    """The block that begins with the first of `lines`, if one does."""
    checks: list[Check] = []
    for line in lines:
        match = re.match(rf"(\s*(?://|#) ){re.escape(prefix)}(-[A-Z]+)?:( *)(.*)$", line)
        kind = (match[2] or "") if match else "none"
        if match is None or kind not in (("-NEXT", "-EMPTY") if checks else ("", "-LABEL")):
            break
        checks.append(Check(match[1], kind, match[4], match.start(4)))
    return checks


def _range(block: Sequence[Check], printed: Sequence[str], place: int) -> range | None:
    """The printed lines of a block: of the ends that they may have, the first one with which most
    of the block stays.
    """
    if len(block) < 2:
        return None
    first = next((i for i in range(place, len(printed)) if block[0].is_in(printed[i])), None)
    if first is None:
        return None
    margin = _indent(printed[first]) - block[0].column
    lines = printed[first + 1 : first + 1 + _lines_inside(block, printed[first + 1 :], margin)]
    depth, staying = margin + block[-1].column, _staying(block[1:], lines)
    ends = [
        number
        for number, line in enumerate(lines)
        if block[-1].is_all_of(line) and _indent(line) == depth
    ]
    # Of equals, `max` takes the first one.
    end = max(ends, key=lambda number: staying[number], default=None)
    return None if end is None else range(first, first + end + 2)


def _lines_inside(block: Sequence[Check], lines: Sequence[str], margin: int) -> int:
    """The number of lines after the first one of a block that may be in it: it does not leave its
    outermost operators, and where it has one of them, as a function is, it ends with that.
    """
    outer = min(check.column for check in block if check.pattern)
    columns = [check.column for check in block if not check.pattern.startswith("}")]
    is_one = columns.count(outer) <= (block[0].column == outer)

    def leaves(line: str) -> bool:
        column = _indent(line) - margin
        return column < outer or (is_one and column == outer and not line.strip().startswith("}"))

    outside = (number for number, line in enumerate(lines) if line.strip() and leaves(line))
    return next(outside, len(lines))


def _staying(checks: Sequence[Check], lines: Sequence[str]) -> list[int]:
    """The number of checks that can match up to each line, in their order."""
    counts = [0] * (len(lines) + 1)
    for check in checks:
        row = [0]
        for number, line in enumerate(lines):
            matched = counts[number] + check.is_all_of(line)
            row.append(max(counts[number + 1], row[number], matched))
        counts = row
    return counts[1:]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _directives(
    block: Sequence[Check], prefix: str, printed: Sequence[str], found: range
) -> list[str]:
    """The lines of a block after the first one."""
    margin = block[0].column - _indent(printed[found.start])
    old, lines = list(block[1:]), list[str]()
    for number in found[1:]:
        text = printed[number].strip()
        kept = next((i for i, check in enumerate(old) if check.is_all_of(text)), None)
        if kept is None and len(old) > 1 and old[0].is_in(text):
            kept = 0
        pattern = re.sub(r"\{\{|\[\[", lambda m: "{{" + re.escape(m[0]) + "}}", text)
        if kept is not None:
            pattern, old = old[kept].pattern, old[kept + 1 :]
        head = f"{block[0].comment}{prefix}-{'NEXT' if text else 'EMPTY'}:"
        lines.append(f"{head:{margin + _indent(printed[number])}}{pattern}" if text else head)
    return lines
