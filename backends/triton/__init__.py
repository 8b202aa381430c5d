"""The Triton backend: emits a module as a readable Python file of kernels and a host program."""

from coda_ir.backends.triton.module import EmittedProgram, emit_module, emit_program
from coda_ir.backends.triton.target import TritonTarget

__all__ = ["EmittedProgram", "TritonTarget", "emit_module", "emit_program"]
