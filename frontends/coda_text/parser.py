"""The parser: builds a syntax tree of .coda text, and continues after an error."""

import re
import unicodedata
from dataclasses import dataclass, field

from lark import Token
from lark.exceptions import UnexpectedToken

from coda_ir.frontends.coda_text.foreign_syntax import NO_POWER, foreign_remedy
from coda_ir.frontends.coda_text.layout import (
    CLOSING,
    CONTINUES,
    DEFINITION_STARTS,
    END,
    MAX_DEPTH,
    NEVER_IN_BRACKETS,
    OPENING,
    Layout,
)
from coda_ir.frontends.coda_text.push_parser import PushParser, raw_tokens
from coda_ir.frontends.coda_text.reporter import Reporter
from coda_ir.frontends.coda_text.syntax import File, Span
from coda_ir.frontends.coda_text.tree import span_of
from coda_ir.frontends.coda_text.values import ELEMENT_TYPES

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u201c\u201d\u201e\u2018\u2019", '"'),
        **dict.fromkeys("\u2212\u2013\u2014", "-"),
        **dict.fromkeys("\u00d7\u00b7", "*"),
        **{"\u00f7": "/", "\u2264": "<=", "\u2265": ">=", "\u2260": "!="},
    }
)
"""Characters that word processors put in place of those of the language."""

MAX_DIGITS = 18
EXPRESSION_STARTS = frozenset({"NAME", "INTEGER", "FLOAT", "STRING", "LPAR", "LSQB", "MINUS"})
OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "SLASHSLASH", "AT", "COMPARISON"})
TERMINALS = {
    "NAME": "a name",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LESSTHAN": "'<'",
    "MORETHAN": "'>'",
    "ARROW": "'->'",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "ELLIPSIS": "'...'",
    "MINUS": "'-'",
    "IMPORT": "'import'",
    "CONST": "'const'",
    "FN": "'fn'",
    "EPILOGUE": "'epilogue'",
    "RETURN": "'return'",
    END: "the end of the line",
}


BODY = "the body of a function is in braces: { return x }"
MISSING = {
    frozenset({"LSQB"}): "a type has its sizes in brackets: bf16[M, 64], or f32[] for one element",
    frozenset(
        {"COLON", "NAME", "EQUAL"}
    ): "parameters have types, x: bf16[M, 64], or defaults, eps=1e-5",
    frozenset({"ARROW", "LBRACE"}): BODY,
    frozenset({"ARROW"}): "an epilogue names its results: -> (y: tile)",
    frozenset({"LBRACE"}): BODY,
    frozenset({END}): "an import ends with its path: functions are called by their names",
    frozenset({"EQUAL"}): "consts are numbers: const D = 64",
    frozenset({"STRING"}): 'import takes a .coda file in quotes: import "norms.coda"',
}
"""Remedies by the terminals that are expected where there is only one place for them."""

KEYWORD_ARGUMENT = "keyword arguments have '=': rms_norm(x, w, eps=1e-6)"
SIZES = "a size is a number, a const, or a name for any number: bf16[M, 512]"
CONST = "a const gives a number a name: const D = 512 before the function, then bf16[M, D]"
CONST_IN_BODY = "consts are defined outside of functions; a name in one needs no keyword: n = 3"
NO_TYPE = "types of names follow from their values: y = silu(x)"


@dataclass(frozen=True)
class Parsed:
    """The tree of a file, with its tokens and comments; with errors, what the parser understood."""

    tree: File
    tokens: list[Token]
    comments: list[Token]


def parse(text: str, file: str, reporter: Reporter) -> Parsed:
    """Parse `text`, reporting lexical and syntax errors. `file` names it in messages."""
    reporter.sources[file] = text
    lines = reporter.lines(file)
    layout = Layout()
    tokens = layout.tokens(raw_tokens(text))
    lines_with_errors: set[int] = set()
    for token in layout.errors:
        if token.line not in lines_with_errors:
            message, remedy = _lexical_error(token)
            foreign = foreign_remedy(lines[(token.line or 1) - 1], token.column or 1)
            reporter.error(file, span_of(token), message, foreign or remedy, "E0101")
            lines_with_errors.add(token.line or 0)
    if _has_large_numbers(tokens, file, reporter):
        return Parsed(File(()), tokens, layout.comments)
    before = reporter.count
    tree = _Recovery(tokens, lines, file, reporter, lines_with_errors).parse()
    # Brackets that are not closed nest too; then the syntax errors say more.
    if layout.too_deep is not None and reporter.count == before:
        reporter.error(
            file,
            span_of(layout.too_deep),
            f"brackets are nested more than {MAX_DEPTH} levels deep",
            "assign the inner parts to names",
            "E0103",
        )
    return Parsed(tree, tokens, layout.comments)


def _has_large_numbers(tokens: list[Token], file: str, reporter: Reporter) -> bool:
    """Report integers of too many digits, which the tree could not hold."""
    count = reporter.count
    for token in tokens:
        if token.type == "INTEGER" and len(token) > MAX_DIGITS:
            reporter.error(
                file,
                span_of(token),
                "the number is too large",
                f"use {MAX_DIGITS} digits at most",
                "E0101",
            )
    return reporter.count > count


def _lexical_error(token: Token) -> tuple[str, str]:
    if token.type == "OPEN_STRING":
        return "the string is not closed", 'add a " at its end'
    if token == "'":
        return "unexpected character '", 'write strings in double quotes, "..."'
    shown = f"'{token}'" if token.isprintable() else f"U+{ord(token):04X}"
    meant = unicodedata.normalize("NFKC", token).translate(_TYPOGRAPHY)
    remedy = "remove it"
    is_number = token.isnumeric() and not token.isdecimal()  # such as a power of two
    if meant != token and meant.isascii() and not is_number:
        remedy = f"write {meant.replace(' ', 'a space')}"
    elif token.isalpha():
        remedy = "names consist of the letters a to z and A to Z, digits and _"
    return f"unexpected character {shown}", remedy


@dataclass
class _Recovery:
    """Feeds the parser; after an error, drops the statement or definition that contains it."""

    tokens: list[Token]
    lines: list[str]
    file: str
    reporter: Reporter
    lines_with_errors: set[int]
    parser: PushParser = field(default_factory=PushParser)

    def parse(self) -> File:
        index = 0
        while index < len(self.tokens):
            try:
                self.parser.feed(self.tokens[index])
                index += 1
            except UnexpectedToken:
                self._report(index)
                index = self._resume(index)
        last = self.tokens[-1] if self.tokens else None
        try:
            return self.parser.finish(last)
        except UnexpectedToken:
            self._report(len(self.tokens))
            self.parser.pop_to("FN")
            return self.parser.finish(last)

    def _report(self, index: int) -> None:
        token = self.tokens[min(index, len(self.tokens) - 1)]
        at_end = index >= len(self.tokens) or self._is_last(index)
        if token.line in self.lines_with_errors:
            return
        self.lines_with_errors.add(token.line or 0)
        expected = self.parser.expected()
        message = f"unexpected {_describe(token, at_end)}"
        if not {"RETURN", "FN"} & expected:
            message += f", expected {_describe_expected(expected)}"
        remedy = self._remedy(index, token, expected)
        if self._is_reserved_name(index):
            remedy = f"'{token}' is reserved: choose another name"
        self.reporter.error(self.file, _visible(token), message, remedy, "E0102")

    def _is_reserved_name(self, index: int) -> bool:
        """Return whether a reserved word is used as the name of a parameter or of a value."""
        kinds = [token.type for token in self.tokens[index : index + 2]]
        is_definition = bool(kinds) and kinds[0] in DEFINITION_STARTS
        match kinds:
            case [_, "COLON" | "EQUAL"]:
                return is_definition or kinds[0] == "RETURN"
            case _:
                return is_definition and self._inside_body() and not self._is_first(index)

    def _is_last(self, index: int) -> bool:
        """Return whether only ends of lines follow."""
        return all(token.type == END for token in self.tokens[index : index + 2]) and (
            index + 2 >= len(self.tokens)
        )

    def _remedy(self, index: int, token: Token, expected: set[str]) -> str:
        bracket = self._unclosed(index)
        at_boundary = token.type == END or token.type in NEVER_IN_BRACKETS
        starts_line = self._starts_line(index)
        if token == "const" and bracket is not None and not starts_line:
            return "a tensor that does not change between calls is a weight: weight w: bf16[64, 64]"
        closes_other = (bracket, token) in (("[", ")"), ("(", "]"))
        if bracket is not None and (at_boundary or starts_line or closes_other) and token != ";":
            return f"the '{bracket}' at {bracket.line}:{bracket.column} is not closed"
        previous = self.tokens[index - 1] if index else token
        if token == previous == "*":
            return NO_POWER
        if token.type == "EQUAL" and previous.type == "RSQB" and bracket is None:
            return "tensors do not change: scatter and concat make new ones"
        if expected == {"LSQB"} and (known := _remedy_of_type(token, previous)) is not None:
            return known
        if previous.type == "COLON" and token.type == "LSQB":
            return "an element type comes before the sizes: w: bf16[64, 64]"
        if token.type == "COMPARISON" and "PLUS" in expected:
            return "compare two at a time: logical_and(a < b, b < c)"
        if token.type == "COMMA" and expected == {"LBRACE"}:
            return "several results are in parentheses: -> (bf16[M, 8], bf16[M, 8])"
        if frozenset(expected) in MISSING:
            return MISSING[frozenset(expected)]
        line = self.lines[(token.line or 1) - 1]
        foreign = foreign_remedy(line, token.column or 1)
        if foreign is not None and token.type != END:
            return foreign
        if bracket == "[" and token.type != "COMMA" and not self._inside_body():
            return CONST if token.type == "EQUAL" else SIZES
        if token.type == "COLON":
            return KEYWORD_ARGUMENT if bracket is not None else NO_TYPE
        if bracket is None and previous.type in CONTINUES and starts_line:
            return f"line {previous.line} ends with '{previous}', so the statement continues here"
        if bracket is None and self._inside_body():
            if self._is_indented_const(token):
                return CONST_IN_BODY
            if token.type in DEFINITION_STARTS or index >= len(self.tokens):
                return "close the body before it with '}'"
            if token.type == "EQUAL" and previous.type == "RETURN":
                return "'return' is reserved: choose another name"
            if token.type == "EQUAL":
                return "'==' compares; '=' binds a new name"
            return "a statement is 'name = expression' or 'return expression', one per line"
        if self.parser.height_of("FN") == self.parser.height:
            if re.match(r"\s*\w+\s*=\s*[-\d]", line):
                return f"write const {line.strip()}"
            return "the top level holds only import, const, fn and epilogue"
        if previous.type == "ARROW" and expected == {"LPAR"}:
            return "results of an epilogue have names: (y: tile)"
        if token.type == "EQUAL" and {"COMMA", "RPAR"} <= expected:
            return "tensors and ports have no defaults: pass every argument, or write a const"
        if token.type == "LSQB" and previous in ELEMENT_TYPES and "COMMA" in expected:
            return "a port has a kind instead of a type: bias: row"
        if token.type == "COMMA":
            return "remove the comma"
        return f"write {_describe_expected(expected)} here"

    def _unclosed(self, index: int) -> Token | None:
        """Return the innermost open ( or [ of this statement before token `index`."""
        depth = 0
        for token in reversed(self.tokens[:index]):
            if token.type == END or token.type in NEVER_IN_BRACKETS:
                return None
            if token.type in CLOSING:
                depth += 1
            elif token.type in OPENING:
                if depth == 0:
                    return token
                depth -= 1
        return None

    def _resume(self, index: int) -> int:
        """Reset the parser to a state that can continue; return the index of the next token."""
        if self._inside_body() and not self._starts_definition(index):
            self.parser.pop_to("RETURN")
            return self._next_statement(index)
        self.parser.pop_to("FN")
        return self._next_definition(index)

    def _next_statement(self, index: int) -> int:
        """Return the index of the next statement, after any blocks of control flow in braces."""
        depth = 0
        for position in range(index, len(self.tokens)):
            token, is_first = self.tokens[position], self._starts_line(position)
            if self._starts_definition(position):
                return position
            if token.type == "LBRACE":
                depth += 1
            elif depth > 0:
                depth -= token.type == "RBRACE"
            elif token.type == END:
                return position + 1
            elif token.type == "RBRACE" or (is_first and token.type in ("NAME", "RETURN")):
                return position
        return len(self.tokens)

    def _next_definition(self, index: int) -> int:
        positions = range(index, len(self.tokens))
        return next(filter(self._starts_definition, positions), len(self.tokens))

    def _starts_definition(self, index: int) -> bool:
        """Return whether a definition starts at a token; in `return fn`, its word is a name."""
        token = self.tokens[index] if index < len(self.tokens) else None
        if token is None or token.type not in DEFINITION_STARTS:
            return False
        return self._is_first(index) and not self._is_indented_const(token)

    def _is_first(self, index: int) -> bool:
        """Return whether a token is the first one of a statement or of a line."""
        return index == 0 or self.tokens[index - 1].type == END or self._starts_line(index)

    def _is_indented_const(self, token: Token) -> bool:
        """Return whether a const stands inside of a body, rather than after one without a `}`."""
        return token.type == "CONST" and (token.column or 1) > 1 and self._inside_body()

    def _starts_line(self, index: int) -> bool:
        return 0 < index < len(self.tokens) and (
            self.tokens[index].line != self.tokens[index - 1].line
        )

    def _inside_body(self) -> bool:
        return self.parser.height_of("RETURN") > 0


def _remedy_of_type(token: Token, previous: Token) -> str | None:
    """Return the remedy for a token in place of the sizes of a type."""
    if token.type == "EQUAL" or previous in ("int", "float", "str"):
        return "an option has a default and no type: eps=1e-5"
    if token.type == "COLON":
        return "results of a function are types without names: -> bf16[M, 64]"
    if previous == "weight":
        return "the word weight comes before the name: weight w: bf16[64, 64]"
    return None


def _describe(token: Token, at_end: bool) -> str:
    if at_end:
        return "end of the file"
    return "end of the line" if token.type == END and not token else f"'{token}'"


def _visible(token: Token) -> Span:
    """Return the place of a token; the end of a line is one character wide."""
    span = span_of(token)
    return Span(*span[:2], span.line, span.column + 1) if token.type == END else span


def _describe_expected(terminals: set[str]) -> str:
    """Return the expected terminals in words; infix operators are omitted."""
    words: list[str] = []
    rest = set(terminals)
    if rest >= EXPRESSION_STARTS:
        words.append("an expression")
        rest -= EXPRESSION_STARTS
    if "PLUS" in rest:
        rest -= OPERATORS | {"LPAR", "LSQB"}
    if "COMMA" in rest and "RPAR" in rest:
        rest -= {"EQUAL"}
    words += sorted({TERMINALS[terminal] for terminal in rest if terminal in TERMINALS})
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
