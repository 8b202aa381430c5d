"""The ends of statements: newlines become `_END` tokens, except where a line continues.

A line continues inside of ( ) and [ ], after a comma, an infix operator, `=` or `->`, and from
`fn` or `epilogue` to the `{` of the body. There `<` and `>` are brackets, elsewhere they compare.
"""

from collections.abc import Iterable, Iterator

from lark import Token
from lark.lark import PostLex

END = "_END"
DEFINITION_STARTS = frozenset({"IMPORT", "CONST", "FN", "EPILOGUE"})
NEVER_IN_BRACKETS = DEFINITION_STARTS | {"RETURN", "LBRACE", "RBRACE"}
CONTINUES = frozenset(
    {
        *("PLUS", "MINUS", "STAR", "SLASH", "SLASHSLASH", "AT", "COMPARISON"),
        *("EQUAL", "COMMA", "ARROW", "COLON"),
    }
)
ANGLES = frozenset({"LESSTHAN", "MORETHAN"})
OPENING = frozenset({"LPAR", "LSQB"})
CLOSING = frozenset({"RPAR", "RSQB"})
LEXICAL_ERRORS = frozenset({"UNKNOWN", "OPEN_STRING"})
MAX_DEPTH = 64


class KeepTerminals(PostLex):
    """Keeps the terminals that no rule of the grammar uses; the parser calls `Layout` itself."""

    def __init__(self) -> None:
        self.always_accept = ("COMMENT", "NEWLINE", "SEMICOLON", *LEXICAL_ERRORS)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


class Layout:
    """Turns the raw tokens of a file into those of the grammar; puts comments and errors aside."""

    comments: list[Token]
    errors: list[Token]
    too_deep: Token | None

    def __init__(self) -> None:
        self.comments = []
        self.errors = []
        self.too_deep = None
        self._previous = END
        self._depth = 0
        self._in_header = False

    def tokens(self, raw: Iterable[Token]) -> list[Token]:
        result: list[Token] = []
        last: Token | None = None
        for last in raw:
            result.extend(self._step(last))
        if last is not None and self._previous != END:
            result.append(_end_after(last))
        return result

    def _step(self, token: Token) -> Iterator[Token]:
        kind = token.type
        if kind == "COMMENT":
            self.comments.append(token)
        elif kind in LEXICAL_ERRORS:
            self.errors.append(token)
        elif kind == "NEWLINE":
            if not self._line_continues():
                yield from self._end(token)
        elif kind == "SEMICOLON":
            yield from self._end(token)
        else:
            yield from self._significant(token)

    def _significant(self, token: Token) -> Iterator[Token]:
        if token.type in ANGLES and not self._in_header:
            token = token.update(type="COMPARISON")
        kind = token.type
        if kind in NEVER_IN_BRACKETS:
            self._depth = 0
            self._in_header = kind in ("FN", "EPILOGUE")
        if kind == "RBRACE" and self._previous != "LBRACE":
            yield from self._end(token)
        if kind in OPENING:
            self._depth += 1
            if self._depth > MAX_DEPTH and self.too_deep is None:
                self.too_deep = token
        elif kind in CLOSING:
            self._depth = max(0, self._depth - 1)
        self._previous = kind
        yield token
        if kind == "RBRACE":
            yield from self._end(token)

    def _line_continues(self) -> bool:
        return (
            self._depth > 0
            or self._in_header
            or self._previous in CONTINUES
            or self._previous == "LBRACE"
        )

    def _end(self, token: Token) -> Iterator[Token]:
        if self._previous not in (END, "LBRACE"):
            self._previous = END
            # The text is what messages say is unexpected; it is empty for the end of a line.
            yield Token.new_borrow_pos(END, str(token).strip(), token)


def _end_after(token: Token) -> Token:
    """An `_END` at the end of the file, placed after its last token."""
    at_next_line = token.type == "NEWLINE"
    line, column = (
        (token.line, token.column) if at_next_line else (token.end_line, token.end_column)
    )
    position = token.end_pos
    return Token(END, "", position, line, column, line, column, position)
