"""The formatter: the canonical layout of a .coda file. Only white space and trailing commas change.

The formatter works on tokens and comments, so that comments may appear wherever a line may break.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias, TypeGuard

from lark import Token

from coda_ir.frontends.coda_text.layout import CLOSING, END, OPENING
from coda_ir.frontends.coda_text.parser import parse
from coda_ir.frontends.coda_text.reporter import Reporter

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
    """Collects lines. Tokens are written one by one, with the space before each."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._previous = ""
        self._tight = False
        self._source_line = 0

    @property
    def line(self) -> int:
        """The number of the current line."""
        return len(self.lines) - 1

    def width(self, line: int) -> int:
        return len(self.lines[line].code)

    def text(self) -> str:
        """Return everything written, with aligned comments and a newline at the end."""
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
        """Append text unchanged."""
        self.lines[-1].code += text

    def token(self, token: Token, *, in_brackets: bool, continuation: int) -> None:
        """Append a token of a statement; after a comment it begins a line."""
        kind = token.type
        unary = kind == "MINUS" and self._previous not in OPERANDS
        keyword = kind == "EQUAL" and in_brackets
        tight = kind in TIGHT_BEFORE and not (kind == RANGE and self._previous == "COMMA")
        self._append(token, tight=keyword or tight, continuation=continuation)
        self._tight = unary or keyword
        self._previous = "INFIX" if kind in INFIX and not unary else kind

    def open(self, token: Token, after_name: bool) -> None:
        code = self.lines[-1].code
        self._append(token, tight=after_name, continuation=len(code) - len(code.lstrip()))

    def close(self, token: Token) -> None:
        self._append(token, tight=True)

    def _append(self, token: Token, *, tight: bool, continuation: int | None = None) -> None:
        """Append a token after a space, unless it or what stands before it is `tight`."""
        line = self.lines[-1]
        if continuation is not None and (line.comment or line.code.lstrip().startswith("#")):
            self.newline(continuation)
        if not (tight or self._previous in TIGHT_AFTER or self._tight):
            self.write(" ")
        self.write(str(token))
        self._tight = False
        self._previous = token.type
        self._source_line = token.end_line or 0

    def comma(self) -> None:
        self.write(",")
        self._tight = False
        self._previous = "COMMA"

    def comment(self, comment: Token, indent: int) -> None:
        """Write a comment in a line for itself, or after code where it stands so in the source."""
        if comment.line != self._source_line or self.lines[-1].comment:
            self.newline(indent)
            self.write(comment.rstrip())
        else:
            self.lines[-1].comment = comment.rstrip()


def _runs(lines: list[Line]) -> list[list[Line]]:
    """Neighbouring lines with comments after code that is not too wide."""
    runs: list[list[Line]] = [[]]
    for line in lines:
        if line.comment and len(line.code) <= ALIGNED_UP_TO:
            runs[-1].append(line)
        else:
            runs.append([])
    return [run for run in runs if run]


MAX_ATTEMPTS = 20
HEADS = frozenset({"FN", "EPILOGUE"})


def format_text(text: str, filename: str = "<text>") -> str:
    """Return the same program in canonical layout. Raises DiagnosticError for a syntax error."""
    reporter = Reporter()
    parsed = parse(text, filename, reporter)
    reporter.raise_if_errors()
    elements = sorted([*parsed.tokens, *parsed.comments], key=_position)
    return _File(elements).format()


def _position(token: Token) -> tuple[int, bool]:
    """Ends of lines that layout.py inserted come after the token they are placed at."""
    return token.start_pos or 0, token.type == END


@dataclass
class Group:
    """A bracketed part: `items` are separated by commas."""

    open: Token
    after_name: bool
    items: list[list[Node]] = field(default_factory=lambda: [[]])
    close: Token | None = None
    exploded: bool = False

    @property
    def has_comment(self) -> bool:
        return any(_has_comment(item) for item in self.items)

    @property
    def count(self) -> int:
        """The number of items; a comma at the end begins none."""
        return sum(any(not _is_comment(node) for node in item) for item in self.items)

    @property
    def keeps_comma(self) -> bool:
        """`(a,)` is a tuple, `(a)` is not."""
        is_one = self.count == 1 and len(self.items) == 2
        return not self.after_name and self.open.type == "LPAR" and is_one

    @property
    def takes_comma(self) -> bool:
        """True if a comma may follow the last item."""
        named = self.after_name or self.open.type == "LSQB"
        return self.count > 0 and (named or self.count > 1 or self.keeps_comma)


Node: TypeAlias = Token | Group


def _is_comment(node: Node) -> TypeGuard[Token]:
    return isinstance(node, Token) and node.type == "COMMENT"


def _has_comment(nodes: Sequence[Node]) -> bool:
    return any(node.has_comment if isinstance(node, Group) else _is_comment(node) for node in nodes)


class _File:
    """Splits the elements of a file into logical lines and writes them in order."""

    def __init__(self, elements: list[Token]):
        self.elements = elements
        self.writer = Writer()
        self.indent = 0
        self.line: list[Token] = []
        self.last_source_line = 0
        self.previous = ""

    def format(self) -> str:
        for token in self.elements:
            self._step(token)
        self._flush()
        return self.writer.text()

    def _step(self, token: Token) -> None:
        if token.type == END:
            self._flush()
        elif token.type == "COMMENT" and not self.line:
            self._comment(token)
        elif token.type == "RBRACE":
            self._flush()
            self.indent = 0
            self._begin(token, "RBRACE")
            self.writer.write("}")
            self._ends_at(token)
        elif token.type == "LBRACE":
            self.line.append(token)
            self._flush()
            self.indent = INDENT
            self.previous = "LBRACE"
        else:
            self.line.append(token)

    def _comment(self, token: Token) -> None:
        """Write a comment between logical lines, or after the last one."""
        text = token.rstrip()
        if token.line == self.last_source_line:
            self.writer.lines[-1].comment = text
        else:
            self._begin(token, "COMMENT")
            self.writer.write(text)
        self._ends_at(token)

    def _flush(self) -> None:
        if not self.line:
            return
        line, self.line = self.line, []
        self._begin(line[0], line[0].type)
        _LogicalLine(_tree(line), self.indent, self.writer).write()
        self._ends_at(line[-1])

    def _begin(self, first: Token, kind: str) -> None:
        """Start a line, after a blank one if the source has one or the layout requires one."""
        gap = (first.line or 0) - self.last_source_line > 1
        wanted = self.previous == "RBRACE" or (kind in HEADS and self.previous != "COMMENT")
        unwanted = self.previous in ("", "LBRACE") or kind == "RBRACE"
        if (gap or wanted) and not unwanted:
            self.writer.blank()
        self.writer.newline(self.indent)
        self.previous = kind

    def _ends_at(self, token: Token) -> None:
        self.last_source_line = token.end_line or token.line or 0


def _tree(tokens: Sequence[Token]) -> list[Node]:
    """Return the tokens of a logical line with their brackets as groups."""
    nodes: list[Node] = []
    open_groups: list[Group] = []
    current = nodes
    previous = ""
    for token in tokens:
        if token.type in OPENING:
            is_subscript = token.type == "LSQB" and previous in CLOSING
            group = Group(token, previous == "NAME" or is_subscript)
            current.append(group)
            open_groups.append(group)
            current = group.items[-1]
        elif token.type in CLOSING:
            group = open_groups.pop()
            group.close = token
            current = open_groups[-1].items[-1] if open_groups else nodes
        elif token.type == "COMMA" and open_groups:
            open_groups[-1].items.append([])
            current = open_groups[-1].items[-1]
        elif token.type == "COLON" and open_groups and open_groups[-1].open.type == "LSQB":
            current.append(Token.new_borrow_pos(RANGE, token, token))
        else:
            current.append(token)
        if token.type != "COMMENT":
            previous = token.type
    return nodes


class _LogicalLine:
    """Writes one logical line, exploding as few groups as necessary to fit."""

    def __init__(self, nodes: list[Node], indent: int, writer: Writer):
        while nodes and isinstance(nodes[-1], Token) and nodes[-1].type == "COMMA":
            nodes.pop()
        self.nodes = nodes
        self.indent = indent
        self.writer = writer

    def write(self) -> None:
        self._explode_comments(self.nodes)
        for attempt in count():
            trial = Writer()
            trial.newline(self.indent)
            wide: dict[int, list[Group]] = {}
            for group, line in self._write_nodes(trial, self.nodes, self.indent):
                if trial.width(line) > WIDTH and group.count:
                    wide.setdefault(line, []).append(group)
            if not wide:
                break
            for groups in wide.values():
                # One at a time, so that no more break than have to; a line of thousands would
                # take thousands of attempts.
                widest = max(groups, key=_flat_width)
                for group in groups if attempt >= MAX_ATTEMPTS else (widest,):
                    group.exploded = True
        self._write_nodes(self.writer, self.nodes, self.indent)

    def _explode_comments(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, Group):
                node.exploded |= node.has_comment
                for item in node.items:
                    self._explode_comments(item)

    def _write_nodes(
        self, writer: Writer, nodes: Sequence[Node], indent: int, depth: int = 0
    ) -> list[tuple[Group, int]]:
        """Write `nodes`; return the outermost groups that are still flat, with their lines."""
        flat: list[tuple[Group, int]] = []
        for node in nodes:
            if _is_comment(node):
                writer.comment(node, indent + INDENT)
            elif isinstance(node, Token):
                writer.token(node, in_brackets=depth > 0, continuation=indent + INDENT)
            elif node.exploded:
                flat += self._write_exploded(writer, node, indent, depth)
            else:
                flat.append((node, writer.line))
                self._write_flat(writer, node, indent, depth)
        return flat

    def _write_flat(self, writer: Writer, group: Group, indent: int, depth: int) -> None:
        writer.open(group.open, group.after_name)
        items = [item for item in group.items if item]
        for index, item in enumerate(items):
            if index:
                writer.comma()
            self._write_nodes(writer, item, indent, depth + 1)
        if group.keeps_comma:
            writer.comma()
        assert group.close is not None
        writer.close(group.close)

    def _write_exploded(
        self, writer: Writer, group: Group, indent: int, depth: int
    ) -> list[tuple[Group, int]]:
        writer.open(group.open, group.after_name)
        flat: list[tuple[Group, int]] = []
        written, count, takes_comma = 0, group.count, group.takes_comma
        for item in group.items:
            leading, body, trailing = _comments_around(item)
            for comment in leading:
                writer.comment(comment, indent + INDENT)
            if body:
                written += 1
                writer.newline(indent + INDENT)
                flat += self._write_nodes(writer, body, indent + INDENT, depth + 1)
                if written < count or takes_comma:
                    writer.comma()
            for comment in trailing:
                writer.comment(comment, indent + INDENT)
        assert group.close is not None
        writer.newline(indent)
        writer.close(group.close)
        return flat


def _comments_around(item: list[Node]) -> tuple[list[Token], list[Node], list[Token]]:
    """The comments in front of an item, the item, and the comments after it."""
    start, stop = 0, len(item)
    while start < stop and _is_comment(item[start]):
        start += 1
    while stop > start and _is_comment(item[stop - 1]):
        stop -= 1

    def tokens(nodes: Sequence[Node]) -> list[Token]:
        return [node for node in nodes if isinstance(node, Token)]

    return tokens(item[:start]), item[start:stop], tokens(item[stop:])


def _flat_width(group: Group) -> int:
    return sum(
        _flat_width(node) + 2 if isinstance(node, Group) else len(node) + 1
        for item in group.items
        for node in item
    )
