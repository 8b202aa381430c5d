"""Places of operators: from an offset in an `.mlir` text to a location, and back to the text."""

from bisect import bisect_right
from itertools import accumulate

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Operation

from coda_ir.diagnostics import SourceRange
from coda_ir.remarks import source_position


class LineIndex:
    """The lines of a text, for the location of an offset in it."""

    def __init__(self, text: str, filename: str):
        self._file = StringAttr(filename)
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def location(self, offset: int) -> FileLineColLoc:
        """The location of the character at `offset`, which counts from 0."""
        line = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[line] + 1
        return FileLineColLoc(self._file, IntAttr(line + 1), IntAttr(column))

    def locate(self, op: Operation, offset: int) -> None:
        """Give `op` the location of `offset`, unless its text has a `loc(...)`.

        A written `loc(unknown)` stays unknown.
        """
        # What is parsed is a new `UnknownLoc`; only the default is this object.
        if op.location is UNKNOWN_LOC:
            op.location = self.location(offset)


def source_range(op: Operation, source_text: str | None = None) -> SourceRange | None:
    """The place of an operator, or else of the closest one around it that has a place.

    It spans the operator's name where `source_text` has it there (in .mlir, not in .coda).
    """
    around: Operation | None = op
    while around is not None:
        position = source_position(around.location)
        if position is not None:
            file, line, column = position
            width = _name_width(around.name, line, column, source_text)
            return SourceRange(file, line, column, column + width)
        around = around.parent_op()
    return None


def _name_width(name: str, line: int, column: int, source_text: str | None) -> int:
    lines = [] if source_text is None else source_text.split("\n")
    if not 1 <= line <= len(lines):
        return 1
    rest = lines[line - 1][column - 1 :]
    return next((len(n) for n in (name, f'"{name}"') if rest.startswith(n)), 1)
