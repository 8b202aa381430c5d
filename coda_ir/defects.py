"""Fallback to PyTorch for compiled programs that fail because of a defect of this package.

    run = WithFallback(compiled, eager, lambda: Described("f", "eager PyTorch", "..."))

If the user's code causes an error, PyTorch raises it too, or it is a CodaError. Running out of
memory is not a defect either. Any other error is: a warning reports it, and later calls use PyTorch
directly. A program that changes its inputs is not run again after a failure, because it may have
changed them already.
"""

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Generic, Literal, ParamSpec, TypeAlias, TypeVar

from coda_ir.diagnostics import CodaError

Parameters = ParamSpec("Parameters")
Results = TypeVar("Results")

Errors: TypeAlias = Literal["fallback", "raise"]
"""The response to a defect of this package: PyTorch runs the program, or the error is raised."""


class DefectWarning(UserWarning):
    """A compiled program failed because of a defect in coda_ir, and PyTorch runs it instead."""


@dataclass(frozen=True)
class Described:
    """A compiled program as a warning describes it."""

    name: str
    """The name of the function."""
    fallback: str
    """The name of its replacement."""
    remedy: str
    """The option that raises the error instead."""

    def warning(self, error: Exception, *, is_raised: bool) -> str:
        """Return the text of the warning: the error, the replacement, and how to report both."""
        first = (str(error).strip().splitlines() or [""])[0]
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{PurePath(frame.filename).name}:{frame.lineno}"
        runs = f"{self.fallback} runs it from now on"
        if is_raised:
            runs = f"the error is raised, as the call may have changed its inputs; {runs}"
        return (
            f"the compiled program of {self.name} failed because of a defect in coda_ir: "
            f"{type(error).__name__}: {first} ({place}); {runs}\n"
            f"  help: report this message with the model and the traceback, which {self.remedy} "
            "shows"
        )


class WithFallback(Generic[Parameters, Results]):
    """A compiled program that PyTorch replaces after it failed because of a defect."""

    def __init__(
        self,
        compiled: Callable[Parameters, Results],
        fallback: Callable[Parameters, Results],
        describe: Callable[[], Described],
        *,
        changes_inputs: bool = False,
    ):
        self._call = compiled
        self._compiled, self._fallback = compiled, fallback
        self._describe, self._changes_inputs = describe, changes_inputs

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Results:
        try:
            return self._call(*args, **kwargs)
        except Exception as error:
            if self._call is not self._compiled or not _may_be_defect(error):
                raise
            if self._changes_inputs:
                self._give_up(error)
                raise
            # Raises where PyTorch fails as well: then the call was wrong.
            results = self._fallback(*args, **kwargs)
            self._give_up(error)
            return results

    def _give_up(self, error: Exception) -> None:
        self._call = self._fallback
        text = self._describe().warning(error, is_raised=self._changes_inputs)
        warnings.warn(text, DefectWarning, stacklevel=3)


def _may_be_defect(error: Exception) -> bool:
    import torch

    return not isinstance(error, CodaError | MemoryError | torch.OutOfMemoryError)
