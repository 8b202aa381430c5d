"""Attention of one query for each head, as decoding has it: what backends have a kernel for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda import AttentionOp
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
    B x H x 1 x S: truth values, or floats that are added. A query that sees no key gives 0.
    """

    q: SSAValue
    k: SSAValue
    v: SSAValue
    mask: SSAValue | None
    scale: float
    queries: int
    """Heads of queries that share a head of keys: H / G."""
    keys: Dims
    """B, G, S and E."""
    mask_dims: Dims
    """Of the mask, four of them; 1 where it is the same for all."""
    has_columns: bool = False
    """Whether heads lie side by side in columns: k and v are B x S x G·E, and q is B x 1 x H·E."""

    @staticmethod
    def of(op: Operation, shapes: SymbolicShapes) -> OneQueryAttention | None:
        """What `op` computes; None where it is something else, or more than this describes.

        What a function promises about its bits beyond the default is PyTorch's to keep.
        """
        if not isinstance(op, AttentionOp | CallOp):
            return None
        if numerics_mode(op) != NumericsMode.FP32_EPILOGUE:
            return None
        return _called(op, shapes) if isinstance(op, CallOp) else _of_columns(op, shapes)


def _called(op: CallOp, shapes: SymbolicShapes) -> OneQueryAttention | None:
    if op.callee.data != ATTENTION or op.picks is not None or op.template.symbols:
        return None
    positional, named = op.template.evaluate(list(op.inputs), {}, {})
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given: dict[str, Any] = {**dict(zip(names, positional, strict=False)), **named}
    q, k, v = (given[name] for name in names[:3])
    dims = shapes.dims(q)
    # A causal mask hides all keys but the first.
    if given.get("dropout_p") or given.get("is_causal") or shapes.dims(k) != shapes.dims(v):
        return None
    if len(dims) != 4 or shapes.dims(op.outputs[0]) != dims:
        return None
    if dims[1:2] != shapes.dims(k)[1:2] and not given.get("enable_gqa"):
        return None
    operands = _Operands(q, k, v, given.get("attn_mask"), given.get("scale"))
    return operands.attention(dims, shapes.dims(k), shapes)


def _of_columns(op: AttentionOp, shapes: SymbolicShapes) -> OneQueryAttention | None:
    is_plain = all(x is None for x in (op.lse, op.sinks, op.softcap, op.window))
    q, k, width = shapes.dims(op.q), shapes.dims(op.k), op.head_dim.value.data
    if not is_plain or len(q) != 3 or shapes.dims(op.v) != k:
        return None
    (batch, rows, columns), (other, keys, shared) = q, k
    if not isinstance(columns, int) or not isinstance(shared, int):
        return None
    scale = None if op.scale is None else op.scale.value.data
    operands = _Operands(op.q, op.k, op.v, op.mask, scale, has_columns=True)
    heads, groups = columns // width, shared // width
    return operands.attention((batch, heads, rows, width), (other, groups, keys, width), shapes)


@dataclass(frozen=True)
class _Operands:
    q: SSAValue
    k: SSAValue
    v: SSAValue
    mask: SSAValue | None
    scale: float | None
    has_columns: bool = False

    def attention(self, q: Dims, k: Dims, shapes: SymbolicShapes) -> OneQueryAttention | None:
        """Attention of heads with these four dimensions; None where it is not described here."""
        types = {element_type_of(x) for x in (self.q, self.k, self.v)}
        if len(q) != 4 or len(k) != 4 or not _fit(q, k, types):
            return None
        mask_dims: Dims = (1, 1, 1, 1)
        if self.mask is not None:
            mask_dims = (*mask_dims, *shapes.dims(self.mask))[-4:]
            if not _is_mask(self.mask) or not _broadcasts(mask_dims, (q[0], q[1], 1, k[2])):
                return None
        heads, groups, columns = q[1], k[1], k[3]
        assert isinstance(heads, int) and isinstance(groups, int) and isinstance(columns, int)
        return OneQueryAttention(
            self.q,
            self.k,
            self.v,
            self.mask,
            columns**-0.5 if self.scale is None else self.scale,
            heads // groups,
            k,
            mask_dims,
            self.has_columns,
        )


def _fit(q: Dims, k: Dims, types: set[Attribute]) -> bool:
    if len(types) > 1 or not isinstance(next(iter(types)), _FLOATS):
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
