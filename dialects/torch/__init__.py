"""Dialect `torch`: what a program does through PyTorch, beside the operators of `coda`."""

from xdsl.ir import Dialect

from coda_ir.dialects.template import NOT_SYMBOLS, WORDS, ArgumentTemplate
from coda_ir.dialects.torch.determinism import AnyCall, Determinism, determinism_of
from coda_ir.dialects.torch.fused_attention import (
    ATTENTION,
    FUSED_ATTENTION,
    FUSED_ATTENTION_GRAD,
    AttentionCall,
    fused_attention_call,
    fused_attention_grad_call,
)
from coda_ir.dialects.torch.in_place import in_place
from coda_ir.dialects.torch.ops import CONVOLUTION_GRAD, COPY, CallOp, VjpOp
from coda_ir.dialects.torch.scan import LinearScanOp

Torch = Dialect("torch", [CallOp, VjpOp, LinearScanOp], [])

__all__ = [
    "ATTENTION",
    "CONVOLUTION_GRAD",
    "COPY",
    "FUSED_ATTENTION",
    "FUSED_ATTENTION_GRAD",
    "NOT_SYMBOLS",
    "WORDS",
    "AnyCall",
    "ArgumentTemplate",
    "AttentionCall",
    "CallOp",
    "Determinism",
    "LinearScanOp",
    "Torch",
    "VjpOp",
    "determinism_of",
    "fused_attention_call",
    "fused_attention_grad_call",
    "in_place",
]
