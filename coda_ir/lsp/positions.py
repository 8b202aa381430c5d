"""Positions: the frontend counts lines and code points from 1, editors count from 0 and in the
units of an encoding that client and server agree on (UTF-16 unless they say otherwise).
"""

import re
from bisect import bisect_right

from lsprotocol.types import Position, PositionEncodingKind, Range
from pygls.workspace import PositionCodec

from coda_ir.frontends.coda_text.syntax import Span

_EDITOR_LINE_ENDS = re.compile(r"\r\n|\n|\r")


class SourceText:
    """A text with conversions between the positions of the front end and of editors.

    For the frontend, lines end at a line feed; for editors, also at a lone carriage return.
    """

    def __init__(self, text: str, encoding: str = PositionEncodingKind.Utf16):
        self.text = text
        self._codec = PositionCodec(PositionEncodingKind(encoding))
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._editor_starts = [0, *(match.end() for match in _EDITOR_LINE_ENDS.finditer(text))]

    def offset(self, position: Position) -> int:
        """Return the index of an editor's place; a place past the end of a line is at its end."""
        if position.line >= len(self._editor_starts):
            return len(self.text)
        line = self._editor_line(position.line)
        units = min(position.character, self._codec.client_num_units(line))
        found = self._codec.position_from_client_units([line], Position(0, units))
        return self._editor_starts[position.line] + found.character

    def position(self, offset: int) -> Position:
        line = bisect_right(self._editor_starts, offset) - 1
        before = self.text[self._editor_starts[line] : offset]
        return Position(line, self._codec.client_num_units(before))

    def place(self, position: Position) -> tuple[int, int]:
        """Return the line and column of the front end."""
        offset = self.offset(position)
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset_at(self, line: int, column: int) -> int:
        """Return the index of a line and column of the front end, at most the end of the line."""
        if line > len(self._starts):
            return len(self.text)
        stop = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return min(self._starts[line - 1] + column - 1, stop)

    def range(self, span: Span) -> Range:
        """Return the range of a span, which may end past the end of its line."""
        start = self.offset_at(span.line, span.column)
        stop = self.offset_at(span.end_line, span.end_column)
        return Range(self.position(start), self.position(max(start, stop)))

    @property
    def whole(self) -> Range:
        return Range(Position(0, 0), self.position(len(self.text)))

    def _editor_line(self, line: int) -> str:
        """Return a line of the editor without its end."""
        start = self._editor_starts[line]
        following = self._editor_starts[line + 1 : line + 2]
        return self.text[start : following[0] if following else None].rstrip("\r\n")
