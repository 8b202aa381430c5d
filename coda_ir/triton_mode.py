"""Whether Triton compiles for a GPU or interprets on the CPU, which it decides when imported."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from coda_ir.diagnostics import CodaError

if TYPE_CHECKING:
    import torch


def require_triton_for(device: torch.device) -> None:
    """Make sure that Triton can run kernels on `device`.

    For the CPU its interpreter is switched on, which is possible only before the first import of
    triton in the process. Raises CodaError where that is too late.
    """
    if device.type == "cpu":
        if "triton" not in sys.modules:
            os.environ["TRITON_INTERPRET"] = "1"
        if not _is_interpreting():
            raise CodaError(
                "Triton was imported without its interpreter, which the CPU needs",
                "set TRITON_INTERPRET=1 before Python starts, or compile for the CPU before "
                "anything imports triton",
            )
    elif _is_interpreting():
        warnings.warn(
            f"Triton runs in its interpreter, which is slow, although the device is {device}; "
            "unset TRITON_INTERPRET to compile the kernels",
            stacklevel=3,
        )


def _is_interpreting() -> bool:
    """Whether triton's own library functions were made for the interpreter."""
    library = import_module("triton.language.standard")
    return type(library.sigmoid).__name__ == "InterpretedFunction"
