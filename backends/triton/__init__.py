"""The Triton backend: a module becomes a readable Python file of kernels and a host program."""

from coda_ir.backends.triton.module import emit_module
from coda_ir.backends.triton.target import TritonTarget

__all__ = ["TritonTarget", "emit_module"]
