"""Dialect `torch`: calls of PyTorch, for operators that the dialect `coda` lacks."""

from xdsl.ir import Dialect

from coda_ir.argument_template import (
    NOT_SYMBOLS as NOT_SYMBOLS,
    WORDS as WORDS,
    ArgumentTemplate as ArgumentTemplate,
)
from coda_ir.dialects.torch.determinism import (
    AnyCall as AnyCall,
    Determinism as Determinism,
    determinism_of as determinism_of,
)
from coda_ir.dialects.torch.fused_attention import (
    ATTENTION as ATTENTION,
    FUSED_ATTENTION as FUSED_ATTENTION,
    FUSED_ATTENTION_GRAD as FUSED_ATTENTION_GRAD,
    AttentionCall as AttentionCall,
    fused_attention_call as fused_attention_call,
    fused_attention_grad_call as fused_attention_grad_call,
    masked_operands as masked_operands,
)
from coda_ir.dialects.torch.ops import (
    CONVOLUTION_GRAD as CONVOLUTION_GRAD,
    COPY as COPY,
    PRODUCTS as PRODUCTS,
    CallOp as CallOp,
    Piece as Piece,
    StoredRow as StoredRow,
    Text as Text,
    VjpOp as VjpOp,
    in_place as in_place,
)

Torch = Dialect("torch", [CallOp, VjpOp], [])
