"""The LALR parser of coda.lark, fed token by token. No other module uses lark's internals.

lark's interactive parser has no types, and is therefore `Any` here.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import lark
from lark import Token

from coda_ir.frontends.coda_text.layout import KeepTerminals
from coda_ir.frontends.coda_text.syntax import File
from coda_ir.frontends.coda_text.tree import TreeBuilder


@cache
def _grammar() -> Any:
    text = (files("coda_ir.frontends.coda_text") / "coda.lark").read_text(encoding="utf-8")
    inline: Any = getattr(lark, "v_args")(inline=True)  # noqa: B009
    return lark.Lark(
        text,
        parser="lalr",
        lexer="basic",
        postlex=KeepTerminals(),
        transformer=inline(TreeBuilder)(),
    )


def raw_tokens(text: str) -> list[Token]:
    """Return the tokens of `text` with newlines, comments and wrong characters."""
    return list(_grammar().lex(text))


class PushParser:
    """A parser that can be reset to a state from which it can continue after an error."""

    def __init__(self) -> None:
        self._parser: Any = _grammar().parse_interactive()

    def feed(self, token: Token) -> None:
        """Feed a token. Raises lark's UnexpectedToken."""
        self._parser.feed_token(token)

    def finish(self, last: Token | None) -> File:
        """Return the tree. Raises lark's UnexpectedToken if the file is incomplete."""
        if last is None:
            return File(())
        return self._parser.feed_token(Token.new_borrow_pos("$END", "", last))

    def expected(self) -> set[str]:
        """Return the terminals that the parser would accept now."""
        return {str(name) for name in self._parser.accepts() if name != "$END"}

    @property
    def height(self) -> int:
        return len(self._parser.parser_state.state_stack)

    def height_of(self, terminal: str) -> int:
        """Return the stack's height at its topmost state that shifts `terminal`; 0 if none does."""
        state = self._parser.parser_state
        stack, table = state.state_stack, state.parse_conf.states
        return next((i for i in range(len(stack), 0, -1) if terminal in table[stack[i - 1]]), 0)

    def pop_to(self, terminal: str) -> None:
        """Drop the part of the stack above the topmost state that shifts `terminal`."""
        height = self.height_of(terminal)
        state = self._parser.parser_state
        del state.state_stack[height:]
        del state.value_stack[height - 1 :]
