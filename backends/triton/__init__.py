"""The Triton backend: emits a module as a readable Python file of kernels and a host program."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coda_ir.backends.triton.module import (
        EmittedProgram as EmittedProgram,
        emit_module as emit_module,
        emit_program as emit_program,
    )
    from coda_ir.backends.triton.target import TritonTarget as TritonTarget

__all__ = ["EmittedProgram", "TritonTarget", "emit_module", "emit_program"]


def __getattr__(name: str) -> object:
    """Import the public names on first use: a program of the cache needs no emitters."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = "target" if name == "TritonTarget" else "module"
    return getattr(import_module(f"{__name__}.{file}"), name)
