"""The context of the cursor, from the tokens before it: the text may be incomplete."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from lark import Token

from coda_ir.frontends.coda_text.layout import Layout
from coda_ir.frontends.coda_text.push_parser import raw_tokens

Where: TypeAlias = Literal[
    "comment",
    "import",
    "string",
    "top",
    "const",
    "parameter",
    "type",
    "dims",
    "port",
    "port kind",
    "result kind",
    "kind argument",
    "statement",
    "expression",
]

_DEFINITION = re.compile(r"^(?:import|const|fn|epilogue)\b", re.MULTILINE)
_BRACKETS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class OpenCall:
    """A call whose bracket is open at the cursor; `position` counts the arguments before it."""

    callee: str
    position: int
    keyword: str | None
    given: frozenset[str]


@dataclass
class Cursor:
    """The context of the cursor. `call` is the innermost open call, `names` are those bound so far
    in the definition, and `head` is the word that begins the definition.
    """

    where: Where
    prefix: str
    head: str = ""
    call: OpenCall | None = None
    names: list[str] = field(default_factory=list[str])
    kind: str = ""
    """The kind of port or result whose argument is written, as `partial_row`."""


def cursor_at(text: str, offset: int) -> Cursor:
    """Return the cursor at an index of `text`."""
    starts = [match.start() for match in _DEFINITION.finditer(text, 0, offset)]
    start = starts[-1] if starts else 0
    before = text[start:offset]
    line = before.rpartition("\n")[2]
    prefix = re.search(r"\w*$", line)
    assert prefix is not None, "it matches nothing at least"
    raw = raw_tokens(before)
    last = raw[-1] if raw else None
    reached_end = last is not None and last.end_pos == len(before)
    if last is not None and reached_end and last.type == "COMMENT":
        return Cursor("comment", "")
    if last is not None and reached_end and last.type == "OPEN_STRING":
        return _in_string(raw, str(last)[1:])
    if prefix[0] and prefix[0][0].isdigit():
        return Cursor("comment", "")
    if last is not None and reached_end and prefix[0]:
        raw = raw[:-1]
    return _Around(Layout().tokens(raw)).cursor(prefix[0])


def _in_string(raw: Sequence[Token], prefix: str) -> Cursor:
    around = _Around(Layout().tokens(raw))
    if around.tokens and around.tokens[-1].type == "IMPORT":
        return Cursor("import", prefix)
    return Cursor("string", prefix, call=around.call())


class _Around:
    """Reads the tokens of a definition up to the cursor."""

    def __init__(self, tokens: Sequence[Token]):
        # The end that is put after the last token is not in the text.
        while (
            tokens
            and tokens[-1].type == "_END"
            and not tokens[-1].strip()
            and (tokens[-1].start_pos == tokens[-1].end_pos)
        ):
            tokens = tokens[:-1]
        self.tokens = tokens
        self.open = self._open_brackets()
        self.head = str(tokens[0]) if tokens else ""

    def _open_brackets(self) -> list[int]:
        """Return the indices of the open brackets."""
        stack: list[int] = []
        for index, token in enumerate(self.tokens):
            if token in ("(", "[", "{"):
                stack.append(index)
            elif token in _BRACKETS and stack and self.tokens[stack[-1]] == _BRACKETS[token]:
                stack.pop()
        return stack

    def cursor(self, prefix: str) -> Cursor:
        in_body = any(self.tokens[index] == "{" for index in self.open)
        if in_body:
            return self._in_body(prefix)
        if self.head == "const" and len(self.tokens) > 1 and self.tokens[-1].type != "_END":
            where: Where = "const" if len(self.tokens) > 2 else "comment"
            return Cursor(where, prefix, self.head, self.call())
        if self.head in ("fn", "epilogue") and "}" not in self.tokens:
            return self._in_header(prefix)
        return Cursor("top", prefix)

    def _in_body(self, prefix: str) -> Cursor:
        last = self.tokens[-1]
        begins = last.type in ("_END", "LBRACE")
        where: Where = "statement" if begins else "expression"
        return Cursor(where, prefix, self.head, self.call(), self._names())

    def _in_header(self, prefix: str) -> Cursor:
        last = str(self.tokens[-1])
        cursor = Cursor("comment", prefix, self.head, names=self._names())
        opening = str(self.tokens[self.open[-1]]) if self.open else ""
        if opening == "[":
            cursor.where = "dims"
        elif self.head == "fn":
            if last in (":", "->") or (opening == "(" and "->" in self.tokens):
                cursor.where = "type"
            elif opening == "(" and last in ("(", ","):
                cursor.where = "parameter"
        elif last == "<":
            cursor.where, cursor.kind = "kind argument", str(self.tokens[-2])
        elif last == ":":
            cursor.where = "result kind" if "->" in self.tokens else "port kind"
        return cursor

    def call(self) -> OpenCall | None:
        """Return the innermost open call, ignoring brackets of lists that are open inside."""
        for opening in reversed(self.open):
            before = self.tokens[opening - 1] if opening else None
            if self.tokens[opening] == "(" and before is not None and before.type == "NAME":
                if self.tokens[opening - 2 : opening - 1] in (["fn"], ["epilogue"]):
                    return None
                return self._open_call(str(before), opening)
        return None

    def _open_call(self, callee: str, opening: int) -> OpenCall:
        depth, position = 0, 0
        keyword: str | None = None
        given: set[str] = set()
        for index in range(opening + 1, len(self.tokens)):
            token = self.tokens[index]
            if token in ("(", "["):
                depth += 1
            elif token in (")", "]"):
                depth -= 1
            elif depth == 0 and token == ",":
                position, keyword = position + 1, None
            elif depth == 0 and token == "=":
                keyword = str(self.tokens[index - 1])
                given.add(keyword)
        return OpenCall(callee, position, keyword, frozenset(given))

    def _names(self) -> list[str]:
        """Return the parameters, the names in their types, and the names that statements bind."""
        body = next((i for i, token in enumerate(self.tokens) if token == "{"), len(self.tokens))
        return list(dict.fromkeys([*self._declared(body), *self._bound(body)]))

    def _declared(self, body: int) -> Iterator[str]:
        header = self.tokens[2:body]
        for index, token in enumerate(header[:-1]):
            is_type = header[index + 1] == "[" or header[index - 1] in (":", "<")
            if token.type == "NAME" and not is_type and token != "weight":
                yield str(token)

    def _bound(self, body: int) -> Iterator[str]:
        depth = 0
        names: list[str] = []
        targets: list[str] = []
        for token in self.tokens[body + 1 :]:
            depth += (token in ("(", "[")) - (token in (")", "]"))
            if token.type in ("_END", "RETURN"):
                # What the statement of the cursor binds is not known in it yet.
                yield from targets
                names, targets = [], []
            elif token.type == "NAME" and depth == 0:
                names.append(str(token))
            elif token == "=" and depth == 0:
                targets, names = names, []
