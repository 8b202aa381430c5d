"""Reads `.mlir` text: a verified module, or a `CodaError` with the place of the mistake.

xDSL's parser lets errors of Python itself (KeyError, AssertionError, OverflowError, ...) escape
on malformed text, and expands some short texts without a bound. Both end here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    ModuleOp,
    RankedStructure,
)
from xdsl.ir import Operation, TypeAttribute
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer

from coda_ir.context import make_context
from coda_ir.diagnostics import Diagnostic, DiagnosticError, Severity, SourceRange
from coda_ir.dominance import misplaced_use
from coda_ir.ir_locations import LineIndex

MAX_DEPTH = 64
MAX_WIDTH_DIGITS = 3
MAX_DENSE_ELEMENTS = 1 << 20

_INTEGER_TYPE = re.compile(r"[su]?i(\d+)")
_OPERATOR_NAME = re.compile(r'"?[\w.$]*"?')
_BRACKETS = re.compile(
    r"""
    "(?:[^"\\\n]|\\.)*+"?      # strings, also those that are not closed
    | //[^\n]*                 # comments
    | -> | [<>]=               # no brackets
    | (?P<open>[(\[{<]) | (?P<close>[)\]}>])
    """,
    re.VERBOSE,
)


def read_module(
    text: str,
    filename: str,
    context: Context | None = None,
    *,
    verify: bool = True,
    implicit_module: bool = True,
) -> ModuleOp:
    """The module that `text` describes, verified unless `verify` is False.

    `filename` names the text in messages. `context` has the dialects, by default those of
    `make_context`. Without `implicit_module`, the text has to be one `builtin.module`. Raises
    DiagnosticError, with a place in `text`, for whatever is wrong with it.
    """
    reader = _Reader(text, filename, context or make_context())
    module = reader.read(implicit_module=implicit_module)
    if verify:
        reader.verify(module)
    return module


class _Reader:
    """Turns every failure of the parser and of the verifier into a `DiagnosticError`."""

    def __init__(self, text: str, filename: str, context: Context):
        self.text = text
        self.filename = filename
        self.context = context
        self.parser: _Parser | None = None

    def read(self, *, implicit_module: bool) -> ModuleOp:
        """The module, not verified."""
        self._check_depth()
        try:
            self.parser = _Parser(self.context, self.text, self.filename)
            return self.parser.parse_module(implicit_module)
        except ParseError as error:
            raise self._syntax_error(error) from error
        except MemoryError:
            raise
        except Exception as error:  # whatever xDSL lets escape, see above
            position = 0 if self.parser is None else self.parser.pos
            raise self._error(position, position + 1, _message(error)) from error

    def verify(self, module: ModuleOp) -> None:
        """Raise DiagnosticError at the operator that does not verify, if there is one."""
        try:
            module.verify()
        except MemoryError:
            raise
        except Exception as error:  # as above, for the verifiers of xDSL's operators
            op = _failing(module, error)
            raise self._error(*self._place(op), _message(error)) from error
        misplaced = misplaced_use(module)
        if misplaced is not None:
            op, error = misplaced
            raise self._error(*self._place(op), _message(error)) from error

    def _check_depth(self) -> None:
        """Refuse what would exhaust the stack here or, in a later pass, anywhere."""
        depth = 0
        for match in _BRACKETS.finditer(self.text):
            if match["open"]:
                depth += 1
            elif match["close"]:
                depth = max(0, depth - 1)
            if depth > MAX_DEPTH:
                message = f"brackets are nested more than {MAX_DEPTH} levels deep"
                raise self._error(match.start(), match.end(), message)

    def _place(self, op: Operation | None) -> tuple[int, int]:
        """From where to where the name of an operator stands."""
        start = 0
        while op is not None and self.parser is not None:
            if op in self.parser.positions:
                start = self.parser.positions[op]
                break
            op = op.parent_op()
        name = _OPERATOR_NAME.match(self.text, start)
        return start, name.end() if name else start

    def _syntax_error(self, error: ParseError) -> DiagnosticError:
        notes: Iterable[tuple[Span[str] | Span[bytes], str | None]] = ()
        if isinstance(error, MultipleSpansParseError):
            notes = [(span, text or error.ref_text) for span, text in error.refs]
        return DiagnosticError(
            [
                self._diagnostic("error", error.span.start, error.span.end, error.msg),
                *(
                    self._diagnostic("note", span.start, span.end, text or "see here")
                    for span, text in notes
                ),
            ],
            {self.filename: self.text},
        )

    def _error(self, start: int, end: int, message: str) -> DiagnosticError:
        diagnostic = self._diagnostic("error", start, end, message)
        return DiagnosticError([diagnostic], {self.filename: self.text})

    def _diagnostic(self, severity: Severity, start: int, end: int, message: str) -> Diagnostic:
        start = min(start, len(self.text))
        line_start = self.text.rfind("\n", 0, start) + 1
        line = self.text.count("\n", 0, start) + 1
        column = start - line_start + 1
        place = SourceRange(self.filename, line, column, column + max(1, end - start))
        return Diagnostic(severity, place, message.strip() or "malformed IR")


class _Lexer(MLIRLexer):
    """xDSL's lexer, but linear: its own expression for strings takes time that is exponential in
    the length of one that is not closed.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class _Parser(Parser):
    """xDSL's parser with the places of the operators, and with bounds on what short texts make.

    `positions` has the offset of the name of each operator. An operator without a `loc(...)` gets
    that place as its location.
    """

    def __init__(self, context: Context, text: str, filename: str):
        super().__init__(context, "", filename)
        self._resume_from(ParserState(_Lexer(Input(text, filename))))
        self.positions: dict[Operation, int] = {}
        self._begun: list[int] = []
        self._lines = LineIndex(text, filename)
        self._dense_elements = 0

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        self._begun.append(self.pos)
        return results

    def parse_operation(self) -> Operation:
        op = super().parse_operation()
        self.positions[op] = position = self._begun.pop()
        self._lines.locate(op, position)
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        start = self._begun[-1]
        if self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack) is None:
            self.raise_error(f"Operation {name} is not registered", start, start + len(name))
        return super()._get_op_by_name(name)

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        integer = _INTEGER_TYPE.fullmatch(self._current_token.text)
        if integer is not None and len(integer[1]) > MAX_WIDTH_DIGITS:
            self.raise_error(
                f"the integer type has more than {MAX_WIDTH_DIGITS} digits, expected at most i999"
            )
        return super()._parse_optional_integer_or_float_type()

    def _parse_dense_literal_type(
        self,
    ) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        start = self.pos
        type = super()._parse_dense_literal_type()
        self._dense_elements += math.prod(type.get_shape())
        if self._dense_elements > MAX_DENSE_ELEMENTS:
            self.raise_error(
                f"the dense literals of the text have more than {MAX_DENSE_ELEMENTS} elements",
                start,
                start + 1,
            )
        return type


def _message(error: Exception) -> str:
    """What an exception says, for a reader who does not know that it is one."""
    if isinstance(error, RecursionError):
        return "the text is nested too deeply"
    if isinstance(error, VerifyException):
        return str(error)
    return f"malformed IR: {error}" if str(error) else "malformed IR"


def _failing(module: ModuleOp, error: Exception) -> Operation | None:
    """The operator whose own verification raises `error`; None where none does."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception as found:  # the verification has failed before: this compares
            if type(found) is type(error) and str(found) == str(error):
                return op
    return None
