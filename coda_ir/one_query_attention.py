"""Attention of one query for each head, as decoding has it, among the calls of PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, i1
from xdsl.ir import Attribute, SSAValue

from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import NumericsMode, numerics_mode
from coda_ir.dialects.torch import ATTENTION, CallOp
from coda_ir.symbolic_shapes import Dims, SymbolicShapes

MOST_COLUMNS = 256
"""Columns of a head, at most."""

MOST_QUERIES = 16
"""Heads of queries that share a head of keys, at most."""

_FLOATS = (BFloat16Type, Float16Type, Float32Type)


@dataclass(frozen=True)
class OneQueryAttention:
    """softmax(scale · q·kᵀ + mask)·v, where q has one row for each head.

    q is B x H x 1 x E, k and v are B x G x S x E with G a divisor of H, and the mask broadcasts to
    B x H x 1 x S: truth values, or floats that are added.
    """

    q: SSAValue
    k: SSAValue
    v: SSAValue
    mask: SSAValue | None
    scale: float
    queries: int
    """Heads of queries that share a head of keys: H / G."""
    mask_dims: Dims
    """Of the mask, four of them; 1 where it is the same for all."""

    @staticmethod
    def of(op: CallOp, shapes: SymbolicShapes) -> OneQueryAttention | None:
        """What `op` computes; None where it is something else, or more than this describes.

        What a function promises about its bits beyond the default is PyTorch's to keep.
        """
        is_called = op.callee.data == ATTENTION and op.picks is None and not op.template.symbols
        if not is_called or numerics_mode(op) != NumericsMode.FP32_EPILOGUE:
            return None
        given = _arguments(op)
        q, k, v = (given[name] for name in ("query", "key", "value"))
        mask, scale = given.get("attn_mask"), given.get("scale")
        # A causal mask hides all keys but the first.
        if given.get("dropout_p") or given.get("is_causal"):
            return None
        types = {element_type_of(x) for x in (q, k, v)}
        is_known = shapes.dims(op.outputs[0]) == shapes.dims(q)
        if not is_known or not _fit(shapes.dims(q), shapes.dims(k), shapes.dims(v), types):
            return None
        batch, heads, _, columns = shapes.dims(q)
        groups, keys = shapes.dims(k)[1:3]
        if heads != groups and not given.get("enable_gqa"):
            return None
        assert isinstance(heads, int) and isinstance(groups, int) and isinstance(columns, int)
        mask_dims: Dims = (1, 1, 1, 1)
        if mask is not None:
            mask_dims = (*mask_dims, *shapes.dims(mask))[-4:]
            if not _is_mask(mask) or not _broadcasts(mask_dims, (batch, heads, 1, keys)):
                return None
        scale = columns**-0.5 if scale is None else scale
        return OneQueryAttention(q, k, v, mask, scale, heads // groups, mask_dims)


def _arguments(op: CallOp) -> dict[str, Any]:
    """What the call is given, by the names of the parameters."""
    positional, named = op.template.evaluate(list(op.inputs), {}, {})
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    return {**dict(zip(names, positional, strict=False)), **named}


def _fit(q: Dims, k: Dims, v: Dims, types: set[Attribute]) -> bool:
    if len(types) > 1 or not isinstance(next(iter(types)), _FLOATS):
        return False
    if len(q) != 4 or len(k) != 4 or k != v:
        return False
    (batch, heads, rows, columns), (other, groups, _, width) = q, k
    if (rows, batch, columns) != (1, other, width) or not isinstance(columns, int):
        return False
    if not (isinstance(heads, int) and isinstance(groups, int)) or not groups or heads % groups:
        return False
    return heads // groups in range(1, MOST_QUERIES + 1) and columns in range(1, MOST_COLUMNS + 1)


def _is_mask(mask: SSAValue) -> bool:
    type = element_type_of(mask)
    return type == i1 or isinstance(type, _FLOATS)


def _broadcasts(dims: Dims, wanted: Dims) -> bool:
    return all(a in (1, b) for a, b in zip(dims, wanted, strict=True))
