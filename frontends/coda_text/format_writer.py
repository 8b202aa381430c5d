"""Spacing between tokens, and the alignment of comments, for the formatter."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token

INDENT = 4
WIDTH = 100
ALIGNED_UP_TO = 60

OPERANDS = frozenset({"NAME", "INTEGER", "FLOAT", "STRING", "RPAR", "RSQB"})
INFIX = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "SLASHSLASH", "AT", "ARROW", "COMPARISON"})
RANGE = "RANGE"
"""The type of a `:` in a subscript."""

TIGHT_BEFORE = frozenset({"COLON", RANGE, "COMMA", "RPAR", "RSQB", "LESSTHAN", "MORETHAN"})
TIGHT_AFTER = frozenset({"LPAR", "LSQB", RANGE, "LESSTHAN", ""})


@dataclass
class Line:
    code: str
    comment: str = ""


class Writer:
    """Collects lines. Tokens are written one by one; each knows what space stands before it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._previous = ""
        self._tight = False
        self._source_line = 0

    @property
    def line(self) -> int:
        """The number of the line that is being written."""
        return len(self.lines) - 1

    def width(self, line: int) -> int:
        return len(self.lines[line].code)

    def text(self) -> str:
        """Everything written, with aligned comments and a newline at the end."""
        for run in _runs(self.lines):
            column = max(len(line.code) for line in run)
            for line in run:
                line.code = line.code.ljust(column)
        lines = [
            f"{line.code}  {line.comment}" if line.comment else line.code for line in self.lines
        ]
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def newline(self, indent: int) -> None:
        self.lines.append(Line(" " * indent))
        self._previous = ""

    def blank(self) -> None:
        self.lines.append(Line(""))

    def write(self, text: str) -> None:
        """Append text as it is."""
        self.lines[-1].code += text

    def continue_at(self, indent: int) -> None:
        """Break the line inside of a statement."""
        self.newline(indent)

    def token(self, token: Token, *, in_brackets: bool, continuation: int) -> None:
        """Append a token of a statement; behind a comment it begins a line."""
        if self.lines[-1].comment or self._is_comment_line():
            self.newline(continuation)
        kind = token.type
        unary = kind == "MINUS" and self._operand_expected()
        keyword = kind == "EQUAL" and in_brackets
        tight = kind in TIGHT_BEFORE and not (kind == RANGE and self._previous == "COMMA")
        if not (keyword or tight or self._previous in TIGHT_AFTER or self._tight):
            self.write(" ")
        self.write(str(token))
        self._tight = unary or keyword
        self._previous = "INFIX" if kind in INFIX and not unary else kind
        self._source_line = token.end_line or 0

    def _is_comment_line(self) -> bool:
        return self.lines[-1].code.lstrip().startswith("#")

    def _operand_expected(self) -> bool:
        return self._previous not in OPERANDS

    def open(self, token: Token, after_name: bool) -> None:
        if self.lines[-1].comment or self._is_comment_line():
            indent = len(self.lines[-1].code) - len(self.lines[-1].code.lstrip())
            self.newline(indent)
        if not (after_name or self._previous in TIGHT_AFTER or self._tight):
            self.write(" ")
        self.write(str(token))
        self._tight = False
        self._previous = token.type
        self._source_line = token.end_line or 0

    def close(self, token: Token) -> None:
        self.write(str(token))
        self._tight = False
        self._previous = token.type
        self._source_line = token.end_line or 0

    def comma(self) -> None:
        self.write(",")
        self._tight = False
        self._previous = "COMMA"

    def stands_alone(self, comment: Token) -> bool:
        """Return whether a comment has a line for itself in the source."""
        return comment.line != self._source_line or bool(self.lines[-1].comment)

    def comment_line(self, comment: Token, indent: int) -> None:
        self.newline(indent)
        self.write(comment.rstrip())

    def comment_behind(self, comment: Token) -> None:
        self.trailing_comment(comment.rstrip())

    def trailing_comment(self, text: str) -> None:
        self.lines[-1].comment = text


def _runs(lines: list[Line]) -> list[list[Line]]:
    """Neighbouring lines with comments behind code that is not too wide."""
    runs: list[list[Line]] = [[]]
    for line in lines:
        if line.comment and len(line.code) <= ALIGNED_UP_TO:
            runs[-1].append(line)
        else:
            runs.append([])
    return [run for run in runs if run]
