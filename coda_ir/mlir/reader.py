"""The reader of `.mlir` text: returns a verified module, or raises `CodaError` with the place of
the mistake.

xDSL's parser lets errors of Python itself (KeyError, AssertionError, OverflowError, ...) escape
on malformed text. They end here, and only here.
"""

import re
from collections.abc import Iterable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Span

from coda_ir.context import make_context
from coda_ir.diagnostics import Diagnostic, DiagnosticError, Severity, SourceRange
from coda_ir.dominance import misplaced_use
from coda_ir.error_codes import INVALID, SYNTAX
from coda_ir.mlir.parser import MAX_DEPTH, MistakeError, ModuleParser, too_deep
from coda_ir.symbolic_shapes import metadata_fault

_OPERATOR_NAME = re.compile(r'"?[\w.$]*"?')


def read_module(
    text: str, filename: str, context: Context | None = None, *, verify: bool = True
) -> ModuleOp:
    """Read the module that `text` describes, verified unless `verify` is False.

    `filename` names the text in messages. `context` has the dialects, by default those of
    `make_context`. Raises DiagnosticError, with a place in `text`, for whatever is wrong with it.
    """
    reader = _Reader(text, filename, context or make_context())
    module = reader.read()
    if verify:
        reader.verify(module)
    return module


class _Reader:
    """Turns every failure of the parser and of the verifier into a `DiagnosticError`."""

    def __init__(self, text: str, filename: str, context: Context):
        self.text = text
        self.filename = filename
        self.context = context
        self.parser: ModuleParser | None = None

    def read(self) -> ModuleOp:
        """Read the module without verifying it."""
        self._check_depth(self.text)
        try:
            self.parser = ModuleParser(self.context, self.text, self.filename)
            return self.parser.parse_module()
        except ParseError as error:
            raise self._syntax_error(error) from error
        except MemoryError:
            raise
        except VerifyException as error:
            position = None if self.parser is None else self.parser.operator_position
            raise self._error(*self._name_at(position or 0), _message(error), INVALID) from error
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
            op = _failing(module)
            raise self._error(*self._place(op), _message(error), INVALID) from error
        for op in module.walk():
            if isinstance(op, FuncOp) and (fault := _fault(op)) is not None:
                raise self._error(*self._place(op), fault, INVALID)
        misplaced = misplaced_use(module)
        if misplaced is not None:
            op, error = misplaced
            raise self._error(*self._place(op), _message(error), INVALID) from error
        if self.parser is not None and (self.parser.attribute_aliases or "affine_" in self.text):
            self._check_depth(self._printed(module))

    def _check_depth(self, text: str) -> None:
        """Refuse a module that would exhaust the stack, here or in a later pass."""
        position = too_deep(text)
        if position is not None:
            # The place is in the expansion of the text, so it means nothing in the text itself.
            position = position if text is self.text else 0
            message = f"brackets are nested more than {MAX_DEPTH} levels deep"
            raise self._error(position, position + 1, message)

    def _printed(self, module: ModuleOp) -> str:
        """Return the text of a module. Raises DiagnosticError if its attributes nest too deeply."""
        try:
            return str(module)
        except RecursionError as error:
            raise self._error(0, 1, _message(error)) from error

    def _place(self, op: Operation | None) -> tuple[int, int]:
        """Return the range of an operator's name."""
        start = 0
        while op is not None and self.parser is not None:
            if op in self.parser.positions:
                start = self.parser.positions[op]
                break
            op = op.parent_op()
        return self._name_at(start)

    def _name_at(self, start: int) -> tuple[int, int]:
        """Return the range of the operator's name that begins at `start`."""
        name = _OPERATOR_NAME.match(self.text, start)
        return start, name.end() if name else start

    def _syntax_error(self, error: ParseError) -> DiagnosticError:
        notes: Iterable[tuple[Span[str] | Span[bytes], str | None]] = ()
        if isinstance(error, MultipleSpansParseError):
            notes = [(span, text or error.ref_text) for span, text in error.refs]
        remedy = error.remedy if isinstance(error, MistakeError) else None
        # xDSL does not fill in its message.
        start = error.span.start
        message = error.msg.replace("{first_char}", f"'{self.text[start : start + 1]}'")
        if not message.strip() or message.startswith(" in "):
            found = self.text[start : error.span.end].strip()
            shown = f"'{found}'" if found else "end of the text"
            message = f"unexpected {shown}{message}"
        return DiagnosticError(
            [
                self._diagnostic(
                    "error", error.span.start, error.span.end, message, remedy, SYNTAX
                ),
                *(
                    self._diagnostic("note", span.start, span.end, text or "see here")
                    for span, text in notes
                ),
            ],
            {self.filename: self.text},
        )

    def _error(self, start: int, end: int, message: str, code: str = SYNTAX) -> DiagnosticError:
        diagnostic = self._diagnostic("error", start, end, message, code=code)
        return DiagnosticError([diagnostic], {self.filename: self.text})

    def _diagnostic(
        self,
        severity: Severity,
        start: int,
        end: int,
        message: str,
        remedy: str | None = None,
        code: str | None = None,
    ) -> Diagnostic:
        start = min(start, len(self.text))
        line_start = self.text.rfind("\n", 0, start) + 1
        line = self.text.count("\n", 0, start) + 1
        column = start - line_start + 1
        place = SourceRange(self.filename, line, column, column + max(1, end - start))
        return Diagnostic(severity, place, message.strip() or "malformed IR", remedy, code)


def _message(error: Exception) -> str:
    """Return the message of an exception for a reader who does not know it is one."""
    if isinstance(error, RecursionError):
        return "the text is nested too deeply"
    if isinstance(error, VerifyException):
        return str(error)
    if "integer string conversion" in str(error):
        return "the number has too many digits"
    return f"malformed IR: {error}" if str(error) else "malformed IR"


def _fault(func: FuncOp) -> str | None:
    """Return what is wrong with a function that its verifier accepts, if anything is."""
    blocks = len(func.body.blocks)
    return f"function has {blocks} blocks, expected 1" if blocks > 1 else metadata_fault(func)


def _failing(module: ModuleOp) -> Operation:
    """The first operator that does not verify, inner ones first; `module` if there is none."""
    for op in module.walk(region_first=True):
        try:
            op.verify()
        except Exception:  # xDSL's verifiers let errors of Python itself escape, see above
            return op
    return module
