"""xDSL's parser with source locations of operators, and with limits that xDSL lacks.

Some short texts expand to something exponentially large or deep: an alias of aliases, a dense
literal, the width of an integer. They are syntax errors here.

xDSL documents no hooks for this. The classes override methods of its parser and its lexer that
begin with `_`, which is why pyproject.toml admits one version of xDSL.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyFloat,
    ComplexType,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    RankedStructure,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import AttributeInvT, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

MAX_DEPTH = 64
MAX_WIDTH_DIGITS = 3
MAX_EXTENT = 2**63 - 1
MAX_DENSE_ELEMENTS = 1 << 20
MAX_ALIAS_SIZE = 1000

_INTEGER_TYPE = re.compile(r"[su]?i(\d+)")
_ALIAS = re.compile(r"[#!][\w$.-]+")
_BRACKETS = re.compile(
    r"""
    "(?:[^"\\\n]|\\.)*+"?      # strings, also those that are not closed
    | //[^\n]*                 # comments
    | -> | [<>]=               # no brackets
    | (?P<open>(?P<pair>[(<](?=\{))|[(\[{<]) | (?P<close>[)\]}>])
    """,
    re.VERBOSE,
)


def too_deep(text: str, limit: int = MAX_DEPTH) -> int | None:
    """Return the offset of the first bracket that is nested too deeply for recursion; None without
    one.

    The pairs `({` and `<{` of the generic syntax count as one.
    """
    weights: list[int] = []
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match["open"]:
            weights.append(0 if match["pair"] else 1)
            depth += weights[-1]
        elif match["close"] and weights:
            depth -= weights.pop()
        if depth > limit:
            return match.start()
    return None


class LineIndex:
    """The lines of a text, to convert offsets to locations."""

    def __init__(self, text: str, filename: str):
        self._file = StringAttr(filename)
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def location(self, offset: int) -> FileLineColLoc:
        """Return the location of the character at `offset`, which counts from 0."""
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


class StringLexer(MLIRLexer):
    """xDSL's lexer with strings that are read in linear time and as they are printed.

    Its own expression takes time that is exponential in the length of a string that is not closed.
    What it prints of a string beyond ASCII, escapes, it reads as bytes.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT and _is_utf8(token.span):
            return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)
        return token


@dataclass
class MistakeError(ParseError):
    """A syntax error with a remedy."""

    remedy: str | None


class ModuleParser(Parser):
    """Parses one text. `positions` has the offset of the name of each operator, which is also the
    location of an operator without a `loc(...)`.
    """

    def __init__(self, context: Context, text: str, filename: str):
        super().__init__(context, "", filename)
        self._resume_from(ParserState(StringLexer(Input(text, filename))))
        self.positions: dict[Operation, int] = {}
        self._begun: list[int] = []
        self._lines = LineIndex(text, filename)
        self._dense_elements = 0
        self._alias_sizes: dict[str, int] = {}
        self._undefined: dict[str, MistakeError] = {}

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        if allow_implicit_module and self._current_token.kind is MLIRTokenKind.EOF:
            return ModuleOp([])
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            # xDSL's error about values without a definition is at the end of the text.
            missing = [name for name in self.forward_ssa_references if name in self._undefined]
            if missing and "used but not defined" in error.msg:
                raise self._undefined[missing[0]] from error
            raise

    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        name = operand.operand_name
        if name not in self.ssa_values and name not in self.forward_ssa_references:
            message, known = f"%{name} is used but not defined", self.ssa_values
            remedy = _did_you_mean(name, known, lambda match: f"%{match}")
            self._undefined[name] = MistakeError(operand.span, message, remedy)
        return super().resolve_operand(operand, type)

    @property
    def operator_position(self) -> int | None:
        """The offset of the name of the operator that is being parsed, if there is one."""
        return self._begun[-1] if self._begun else None

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        self._begun.append(self.pos)
        return results

    def parse_operation(self) -> Operation:
        op = super().parse_operation()
        self.positions[op] = position = self._begun.pop()
        if isinstance(op, FuncOp):
            self._check_declaration(op, position)
        self._lines.locate(op, position)
        return op

    def _check_declaration(self, func: FuncOp, start: int) -> None:
        """xDSL prints a function without a body without these attributes."""
        if not func.body.blocks and (func.arg_attrs is not None or func.res_attrs is not None):
            message = "a function without a body has no attributes of parameters and results"
            self.raise_error(message, start, start + len("func.func"))

    def _get_op_by_name(self, name: str) -> type[Operation]:
        if self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack) is None:
            start = self._begun[-1]
            span = Span(start, start + len(name), self.lexer.input)
            raise MistakeError(span, f"Operation {name} is not registered", self._similar(name))
        return super()._get_op_by_name(name)

    def _similar(self, name: str) -> str | None:
        """Return a remedy for an operator name that its dialect lacks."""
        if name in ("fn", "epilogue", "const", "import"):
            return "this is a .coda program: name the file .coda, or state -f coda"
        if self.ctx.get_optional_op(f"func.{name}") is not None:
            return f"did you mean func.{name}?"
        prefix, _, suffix = name.partition(".")
        dialect = self.ctx.get_optional_dialect(prefix)
        if dialect is None:
            return _did_you_mean(prefix, self.ctx.registered_dialect_names, str)
        names = [op.name.partition(".")[2] for op in dialect.operations]
        return _did_you_mean(suffix, names, lambda match: f"{prefix}.{match}")

    def _parse_alias_def(self) -> None:
        start, name = self.pos, self._current_token.text
        super()._parse_alias_def()
        used = _ALIAS.findall(self.lexer.input.slice(start + len(name), self.pos) or "")
        self._alias_sizes[name] = 1 + sum(self._alias_sizes.get(each, 1) for each in used)
        if self._alias_sizes[name] > MAX_ALIAS_SIZE:
            message = f"the alias {name} expands to more than {MAX_ALIAS_SIZE} others"
            self.raise_error(message, start, start + len(name))

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        start = self.pos
        extent = super().parse_shape_dimension(allow_dynamic)
        if extent > MAX_EXTENT:
            self.raise_error("the extent has more than 64 bits", start, start + 1)
        return extent

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        integer = _INTEGER_TYPE.fullmatch(self._current_token.text)
        if integer is not None and len(integer[1]) > MAX_WIDTH_DIGITS:
            self.raise_error(f"the integer type has more than {'9' * MAX_WIDTH_DIGITS} bits")
        return super()._parse_optional_integer_or_float_type()

    def _parse_dense_literal_type(
        self,
    ) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        start = self.pos
        type = super()._parse_dense_literal_type()
        self._dense_elements += math.prod(type.get_shape())
        if self._dense_elements > MAX_DENSE_ELEMENTS:
            message = f"the dense literals have more than {MAX_DENSE_ELEMENTS} elements"
            self.raise_error(message, start, start + 1)
        return type


def _did_you_mean(name: str, known: Iterable[str], written: Callable[[str], str]) -> str | None:
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {written(close[0])}?" if close else None


def _is_utf8(span: Span) -> bool:
    try:
        StringLiteral(span.start, span.end, span.input).bytes_contents.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
