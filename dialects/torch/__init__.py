"""Dialect `torch`: what a program does through PyTorch, beside the operators of `coda`."""

from xdsl.ir import Dialect

from coda_ir.dialects.torch.determinism import Determinism, determinism_of
from coda_ir.dialects.torch.ops import CallOp, VjpOp
from coda_ir.dialects.torch.template import ArgumentTemplate

Torch = Dialect("torch", [CallOp, VjpOp], [])

__all__ = ["ArgumentTemplate", "CallOp", "Determinism", "Torch", "VjpOp", "determinism_of"]
