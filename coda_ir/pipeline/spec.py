"""The text of a pipeline: `builtin.module(func.func(defer-norms,cse),schedule{target=sm_90})`.

    pipeline ::= element (`,` element)*
    element  ::= pass-name options? | anchor `(` pipeline? `)`
    options  ::= `{` (name (`=` value (`,` value)*)?)* `}`

The passes of a flat list run on the module, as those inside `builtin.module(...)`; those inside
`func.func(...)` run on every function separately. Spaces and line breaks may appear anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from json import JSONDecodeError, dumps, loads
from types import NoneType
from typing import Any, NoReturn, TypeAlias, get_args, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.hints import isa

from coda_ir.diagnostics import (
    CodaError,
    Diagnostic,
    DiagnosticError,
    OptionError,
    SourceRange,
    closest,
)

MODULE_ANCHOR, FUNCTION_ANCHOR = "builtin.module", "func.func"

ANCHORS = (MODULE_ANCHOR, FUNCTION_ANCHOR)
"""The operators that a pass can run on."""

BARE_WORD = re.compile(r"[A-Za-z0-9_.+\-]+")
INTEGER = re.compile(r"[-+]?[0-9]+")
REAL = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
KEYWORDS = {"true": True, "false": False}

OptionValue = str | int | bool | float


@dataclass(frozen=True)
class Pipeline:
    """Passes in order, and pipelines nested in them, which all run on operators named `anchor`.

    `str()` gives the canonical text, which parses to an equal pipeline.
    """

    steps: tuple[ModulePass | Pipeline, ...] = ()
    anchor: str = MODULE_ANCHOR

    def __str__(self) -> str:
        steps = (each if isinstance(each, Pipeline) else format_pass(each) for each in self.steps)
        return f"{self.anchor}({','.join(map(str, steps))})"


def format_pass(pass_: ModulePass) -> str:
    """Return a pass with its non-default options: `schedule{target=sm_90 warps=8}`."""
    options = pass_.spec().parameters.items()
    text = " ".join(_format_option(name, values) for name, values in options)
    return f"{pass_.name}{{{text}}}" if text else pass_.name


def _format_option(name: str, values: Iterable[OptionValue]) -> str:
    text = ",".join(map(format_value, values))
    name = name.replace("_", "-")
    return f"{name}={text}" if text else name


def format_value(value: OptionValue) -> str:
    """Return the text that `parse_word`, or a quoted string, reads as `value`."""
    match value:
        case bool():
            return str(value).lower()
        case str() if BARE_WORD.fullmatch(value) and parse_word(value) == value:
            return value
        case str():
            return dumps(value, ensure_ascii=False)
        case _:
            return repr(value)


def parse_word(word: str) -> OptionValue:
    """Return the value of an unquoted word: a truth value, a number, or the word itself."""
    if word in KEYWORDS:
        return KEYWORDS[word]
    if INTEGER.fullmatch(word):
        return int(word)
    return float(word) if REAL.fullmatch(word) else word


PassRegistry: TypeAlias = Mapping[str, Callable[[], type[ModulePass]]]
"""Maps each name of a pass to a function that imports its class."""

SOURCE_NAME = "pipeline"

ALL_PASSES = (
    "coda-opt --list-passes lists all; a pass of another package needs an entry point "
    "xdsl.universe of a package on the Python path (PYTHONPATH)"
)
"""The remedy for the name of a pass that is like no other."""

_TOKEN = re.compile(
    rf"""(?P<word>{BARE_WORD.pattern})|(?P<string>"(?:\\.|[^"\\\n])*")"""
    r"|(?P<mark>[{}(),=])"
)


_OPTION = re.compile(rf"""([\w-]+)\s*=\s*({BARE_WORD.pattern}|"[^"]+")""")


class PipelineError(DiagnosticError):
    """An error in the text of a pipeline; the message has the place and a caret."""


@dataclass(frozen=True)
class Token:
    kind: str
    """`word`, `string`, `mark`, or `end`."""
    text: str
    offset: int


def parse_pipeline(text: str, passes: PassRegistry) -> Pipeline:
    """Parse a pipeline of the passes in `passes`.

    Raises PipelineError where the syntax is wrong, and for an unknown pass, anchor or option and
    a value of the wrong type.
    """
    return _Parser(text, passes).parse()


class _Parser:
    def __init__(self, text: str, passes: PassRegistry):
        self.text = text
        self.passes = passes
        self.tokens = self._tokens()
        self.token = next(self.tokens)

    def parse(self) -> Pipeline:
        steps = self.parse_steps(MODULE_ANCHOR, closing=None)
        match steps:
            case (Pipeline(anchor=anchor) as whole,) if anchor == MODULE_ANCHOR:
                return whole
            case _:
                return Pipeline(steps)

    def parse_steps(self, anchor: str, closing: Token | None) -> tuple[ModulePass | Pipeline, ...]:
        """Parse elements up to the end of the text, or to the mark that closes `closing`."""
        steps: list[ModulePass | Pipeline] = []
        while not self._at_end(closing):
            steps.append(self.parse_element(anchor, outermost=closing is None and not steps))
            if self._at_end(closing):
                break
            comma = self.advance()
            if comma.text == ")":
                self.fail(comma, "unbalanced ')'", "remove it, or open a '(' before it")
            if comma.text != ",":
                self.fail(comma, f"expected ',' before '{comma.text}'")
            if self._at_end(closing):
                self.fail(comma, "expected a pass after ','", "remove the comma")
        return tuple(steps)

    def _at_end(self, closing: Token | None) -> bool:
        if self.token.kind == "end" and closing is not None:
            self.fail(closing, "unbalanced '('", "add a ')'")
        return self.token.kind == "end" or (closing is not None and self.token.text == ")")

    def parse_element(self, anchor: str, *, outermost: bool) -> ModulePass | Pipeline:
        name = self.advance()
        if name.kind != "word":
            self.fail(name, f"expected a pass, found {_describe(name)}")
        if self.token.text == "(":
            return self.parse_anchored(name, anchor, outermost=outermost)
        return self.parse_pass(name)

    def parse_anchored(self, name: Token, outer: str, *, outermost: bool) -> Pipeline:
        opening = self.advance()
        if name.text not in ANCHORS:
            remedy = closest(name.text, ANCHORS, f"the anchors are {' and '.join(ANCHORS)}")
            self.fail(name, f"unknown anchor '{name.text}'", remedy)
        if name.text == MODULE_ANCHOR and not outermost:
            self.fail(name, f"{MODULE_ANCHOR} inside a pipeline", "make it the outermost anchor")
        if name.text == FUNCTION_ANCHOR == outer:
            self.fail(name, f"{FUNCTION_ANCHOR} inside {FUNCTION_ANCHOR}", "remove the inner one")
        steps = self.parse_steps(name.text, opening)
        self.advance()
        if name.text == MODULE_ANCHOR and self.token.kind != "end":
            what = (
                "unbalanced ')'" if self.token.text == ")" else "expected the end of the pipeline"
            )
            self.fail(self.token, what, f"write all passes inside {MODULE_ANCHOR}(...)")
        return Pipeline(steps, name.text)

    def parse_pass(self, name: Token) -> ModulePass:
        if name.text not in self.passes:
            if name.text in ANCHORS:
                self.fail(name, f"the anchor {name.text} needs passes", f"write {name.text}(...)")
            remedy = closest(name.text, self.passes, ALL_PASSES)
            self.fail(name, f"unknown pass '{name.text}'", remedy)
        pass_class = self.passes[name.text]()
        options: dict[str, tuple[OptionValue, ...]] = {}
        if self.token.text == "{":
            options = self.parse_options(pass_class)
        try:
            return pass_class.from_pass_spec(ArgSpec(name.text, options))
        except ValueError as error:
            self.fail(name, str(error), _describe_options(pass_class))

    def parse_options(self, pass_class: type[ModulePass]) -> dict[str, tuple[OptionValue, ...]]:
        opening, options = self.advance(), dict[str, tuple[OptionValue, ...]]()
        types = option_types(pass_class)
        while self.token.text != "}":
            name = self.advance()
            if name.kind == "end":
                self.fail(opening, "unbalanced '{'", "add a '}'")
            if name.kind != "word":
                remedy = "separate options by spaces" if name.text == "," else None
                self.fail(name, f"expected an option, found {_describe(name)}", remedy)
            key = name.text.replace("-", "_")
            if key not in types:
                remedy = _describe_options(pass_class)
                self.fail(name, f"pass '{pass_class.name}' has no option '{name.text}'", remedy)
            if key in options:
                self.fail(name, f"option '{name.text}' is given twice")
            first = self.token
            options[key] = self.parse_values(_takes_text(types[key]))
            if not options[key] and types[key] is bool:
                options[key] = (True,)
            if not _fits(options[key], types[key]):
                given = self.text[first.offset + 1 : self.token.offset].strip()
                got = f"is '{given}'" if given else "has no value"
                self.fail(
                    name,
                    f"option '{name.text}' of '{pass_class.name}' {got}",
                    f"write {name.text}={_expected(types[key])}",
                )
        self.advance()
        return options

    def parse_values(self, are_texts: bool) -> tuple[OptionValue, ...]:
        """Parse what follows the name of an option: `= value, value`, or nothing."""
        values: list[OptionValue] = []
        while self.token.text == ("," if values else "="):
            self.advance()
            token = self.advance()
            value = self.parse_value(token)
            values.append(token.text if are_texts and not isinstance(value, str) else value)
            if self.token.text == "=":
                self.fail(self.token, "expected ' ' or '}'", "separate options by spaces")
        return tuple(values)

    def parse_value(self, token: Token) -> OptionValue:
        if token.kind == "word":
            return parse_word(token.text)
        if token.kind != "string":
            self.fail(token, f"expected a value, found {_describe(token)}", 'quote it: "..."')
        try:
            return loads(token.text)
        except JSONDecodeError as error:
            self.fail(token, f"malformed string: {error.msg}", 'the escapes are \\" \\\\ \\n \\t')

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.token = next(self.tokens)
        return token

    def _tokens(self) -> Iterator[Token]:
        offset = 0
        while offset < len(self.text):
            if self.text[offset].isspace():
                offset += 1
                continue
            match = _TOKEN.match(self.text, offset)
            if match is None:
                token = Token("unknown", self.text[offset], offset)
                self.fail(token, f"unexpected {_describe(token)}", 'quote values: x="..."')
            assert match.lastgroup is not None
            yield Token(match.lastgroup, match[0], offset)
            offset = match.end()
        yield Token("end", "", len(self.text))

    def fail(self, token: Token, message: str, remedy: str | None = None) -> NoReturn:
        before = self.text[: token.offset]
        column = token.offset - before.rfind("\n")
        width = max(1, len(token.text.split("\n")[0]))
        place = SourceRange(SOURCE_NAME, before.count("\n") + 1, column, column + width)
        diagnostic = Diagnostic("error", place, message, remedy, "E0702")
        raise PipelineError([diagnostic], {SOURCE_NAME: self.text})


def at_option(error: CodaError, text: str) -> CodaError:
    """Place an error of a pass about the value of an option at the first option of the pipeline
    `text` with this value; other errors stay unchanged.
    """
    if not isinstance(error, OptionError):
        return error
    for option in _OPTION.finditer(text):
        value = re.escape(option[2].strip('"'))
        if re.search(rf"(?<![\w-]){value}(?![\w-])", error.message):
            before = text[: option.start()]
            column = len(before) - before.rfind("\n")
            end = column + len(option[0].split("\n")[0])
            place = SourceRange(SOURCE_NAME, before.count("\n") + 1, column, end)
            found = Diagnostic("error", place, error.message, error.remedy, error.code)
            return DiagnosticError([found], {SOURCE_NAME: text})
    return error


def option_types(pass_class: type[ModulePass]) -> dict[str, object]:
    """Return the options of a pass by the names of its fields, with their types."""
    hints = get_type_hints(pass_class)
    return {field.name: hints[field.name] for field in fields(pass_class) if field.init}


def _takes_text(type: object) -> bool:
    """Return whether an option of this type is a text, even if its value looks like a number."""
    return {*(get_args(type) or (type,))} - {NoneType} == {str}


def _fits(values: tuple[OptionValue, ...], type: Any) -> bool:
    """Return whether xDSL accepts a given value for this type; `true` is not the integer 1."""
    if not values:
        return NoneType in get_args(type) or isa(values, type)
    if any(isinstance(value, bool) for value in values) and bool not in (type, *get_args(type)):
        return False
    return isa(values, type) or (len(values) == 1 and isa(values[0], type))


def _expected(type: object) -> str:
    """Return a description of the values that follow the `=` of an option of this type."""
    types = {*(get_args(type) or (type,))} - {NoneType}
    if bool in types:
        return "true or false"
    if float in types:
        return "NUMBER"
    return "INTEGER" if int in types else "NAME,NAME,..." if Ellipsis in types else "TEXT"


def _describe(token: Token) -> str:
    return "the end" if token.kind == "end" else f"'{token.text}'"


def _describe_options(pass_class: type[ModulePass]) -> str:
    names = [name.replace("_", "-") for name in option_types(pass_class)]
    return (
        f"the options of {pass_class.name} are {', '.join(names)}"
        if names
        else (f"{pass_class.name} has no options")
    )
