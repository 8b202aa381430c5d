"""The check of calls of PyTorch, and the places of operators."""

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from coda_ir.diagnostics import CodaError, Diagnostic, DiagnosticError, SourceRange
from coda_ir.dialects.torch import CallOp
from coda_ir.error_codes import INVALID
from coda_ir.remarks import source_position
from coda_ir.sources import Sources
from coda_ir.torch_signatures import check_call


class InvalidModuleError(DiagnosticError):
    """A call of PyTorch is not what its operator takes."""


def verify_calls(module: ModuleOp, sources: Mapping[str, str]) -> None:
    """Check calls of PyTorch against the signatures of its operators, which imports PyTorch.

    Raises InvalidModuleError that names the operator and shows its place. `sources` maps names of
    files to texts; those of other files are read from the files.
    """
    texts = Sources(sources)
    for op in module.walk():
        if isinstance(op, CallOp):
            try:
                check_call(op.callee.data, op.template, len(op.outputs), op.picks)
            except CodaError as error:
                place = source_range(op)
                if place is not None:
                    place = source_range(op, texts.get(place.file))
                message = f"{op.name}: {error.message}"
                diagnostic = Diagnostic("error", place, message, error.remedy, INVALID)
                raise InvalidModuleError([diagnostic], texts) from error


def source_range(op: Operation, source_text: str | None = None) -> SourceRange | None:
    """Return the location of an operator, or of the closest enclosing one that has a location.

    It spans the operator's name where `source_text` has it there (in .mlir, not in .coda).
    """
    around: Operation | None = op
    while around is not None:
        position = source_position(around.location)
        if position is not None:
            file, line, column = position
            width = _name_width(around.name, line, column, source_text)
            return SourceRange(file, line, column, column + width)
        around = around.parent_op()
    return None


def _name_width(name: str, line: int, column: int, source_text: str | None) -> int:
    lines = [] if source_text is None else source_text.split("\n")
    if not 1 <= line <= len(lines):
        return 1
    rest = lines[line - 1][column - 1 :]
    return next((len(n) for n in (name, f'"{name}"') if rest.startswith(n)), 1)
