"""Verification of modules, with the place of the operator that does not verify."""

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from coda_ir.diagnostics import CodaError, Diagnostic, DiagnosticError
from coda_ir.dialects.torch import CallOp
from coda_ir.error_codes import INVALID
from coda_ir.mlir.locations import source_range
from coda_ir.sources import Sources
from coda_ir.torch_signatures import check_call


class InvalidModuleError(DiagnosticError):
    """An operator of a module does not verify."""


def verify_module(module: ModuleOp, sources: Mapping[str, str] | None = None) -> None:
    """Verify `module`. Raises InvalidModuleError that names the operator and shows its place.

    `sources` maps file names to texts; the texts of other files are read from the files.
    """
    try:
        module.verify()
    except VerifyException as error:
        op, found = failing_operation(module) or (module, error)
        raise _invalid(op, one_line(found), None, sources) from error


def verify_calls(module: ModuleOp, sources: Mapping[str, str] | None = None) -> None:
    """Check calls of PyTorch against the signatures of its operators, which imports PyTorch.

    Raises InvalidModuleError as `verify_module`.
    """
    for op in module.walk():
        if isinstance(op, CallOp):
            try:
                check_call(op.callee.data, op.template, len(op.outputs), op.picks)
            except CodaError as error:
                raise _invalid(op, error.message, error.remedy, sources) from error


def _invalid(
    op: Operation, message: str, remedy: str | None, sources: Mapping[str, str] | None
) -> InvalidModuleError:
    texts = Sources(sources)
    place = source_range(op)
    if place is not None:
        place = source_range(op, texts.get(place.file))
    diagnostic = Diagnostic("error", place, f"{op.name}: {message}", remedy, INVALID)
    return InvalidModuleError([diagnostic], texts)


def failing_operation(module: Operation) -> tuple[Operation, VerifyException] | None:
    """The first operator that does not verify, and its error; inner operators come first."""
    for region in module.regions:
        for block in region.blocks:
            for op in block.ops:
                failure = failing_operation(op)
                if failure is not None:
                    return failure
    try:
        module.verify()
    except VerifyException as error:
        return module, error
    return None


def one_line(error: BaseException) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split())
