"""Attention with one query per head, as in decoding: the pattern for which kernels exist."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, i1
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects.coda import AttentionOp
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import numerics_mode
from coda_ir.dialects.torch import AttentionCall, CallOp
from coda_ir.symbolic_shapes import Dim, Dims, SymbolicShapes

MAX_COLUMNS = 256
"""Columns of a head, at most."""

MAX_QUERIES = 16
"""Heads of queries that share a head of keys, at most."""

_FLOATS = (BFloat16Type, Float16Type, Float32Type)


@dataclass(frozen=True)
class OneQueryAttention:
    """softmax(scale · q·kᵀ + mask)·v, where q has one row for each head.

    q is B x H x 1 x E, k is B x G x S x E and v B x G x S x F with G a divisor of H, and the mask
    broadcasts to B x H x 1 x S: truth values, or floats that are added. A query that sees no key
    gives 0.
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
    value_columns: int
    """F."""
    mask_dims: Dims
    """The four dimensions of the mask; 1 where it is the same for all."""
    has_columns: bool = False
    """True if heads lie side by side: k is B x S x G·E, v B x S x G·F, and q B x 1 x H·E."""

    @staticmethod
    def of(op: Operation, shapes: SymbolicShapes) -> OneQueryAttention | None:
        """Return the attention that `op` computes; None if it is another operator, or more than
        this class describes.

        What a function promises about its bits beyond the default is PyTorch's to keep.
        """
        if not isinstance(op, AttentionOp | CallOp):
            return None
        if numerics_mode(op).is_strict:
            return None
        return _called(op, shapes) if isinstance(op, CallOp) else _of_columns(op, shapes)


def _called(op: CallOp, shapes: SymbolicShapes) -> OneQueryAttention | None:
    call = AttentionCall.of(op)
    # A causal mask hides all keys but the first.
    if call is None or call.is_causal:
        return None
    queries, keys, values = (shapes.dims(x) for x in (call.q, call.k, call.v))
    if len(queries) != 4 or len(keys) != 4 or values[:-1] != keys[:-1]:
        return None
    if shapes.dims(op.outputs[0]) != (*queries[:-1], values[-1]):
        return None
    if queries[1] != keys[1] and not call.shares_keys:
        return None
    found = _attention(call.q, call.k, call.v, queries, keys, values[-1], call.scale)
    return _masked(found, call.mask, queries, shapes)


def _of_columns(op: AttentionOp, shapes: SymbolicShapes) -> OneQueryAttention | None:
    is_plain = all(x is None for x in (op.lse, op.sinks, op.softcap, op.window))
    q, k, width = shapes.dims(op.q), shapes.dims(op.k), op.head_dim.value.data
    if not is_plain or len(q) != 3 or shapes.dims(op.v)[:-1] != k[:-1]:
        return None
    (batch, rows, columns), (other, times, shared) = q, k
    if not isinstance(columns, int) or not isinstance(shared, int):
        return None
    queries, keys = (batch, columns // width, rows, width), (other, shared // width, times, width)
    scale = None if op.scale is None else op.scale.value.data
    found = _attention(op.q, op.k, op.v, queries, keys, op.value_columns, scale)
    found = found and replace(found, has_columns=True)
    return _masked(found, op.mask, queries, shapes)


def _attention(
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    queries: Dims,
    keys: Dims,
    value_columns: Dim,
    scale: float | None,
) -> OneQueryAttention | None:
    """Match attention of heads with these dimensions, without a mask; None if they differ."""
    (_, heads, _, columns), groups = queries, keys[1]
    if not _fit(queries, keys, {element_type_of(x) for x in (q, k, v)}):
        return None
    if not isinstance(value_columns, int) or value_columns not in range(1, MAX_COLUMNS + 1):
        return None
    assert isinstance(heads, int) and isinstance(groups, int) and isinstance(columns, int)
    factor = columns**-0.5 if scale is None else scale
    shared = heads // groups
    return OneQueryAttention(q, k, v, None, factor, shared, keys, value_columns, (1, 1, 1, 1))


def _masked(
    found: OneQueryAttention | None, mask: SSAValue | None, queries: Dims, shapes: SymbolicShapes
) -> OneQueryAttention | None:
    """Match the same with a mask; None if it does not broadcast to the scores."""
    if found is None or mask is None:
        return found
    dims: Dims = (1, 1, 1, 1, *shapes.dims(mask))[-4:]
    wanted = (*queries[:2], 1, found.keys[2])
    broadcasts = all(a in (1, b) for a, b in zip(dims, wanted, strict=True))
    return replace(found, mask=mask, mask_dims=dims) if broadcasts and _is_mask(mask) else None


def _fit(q: Dims, k: Dims, types: set[Attribute]) -> bool:
    if len(types) > 1 or not isinstance(next(iter(types)), _FLOATS):
        return False
    (batch, heads, rows, columns), (other, groups, _, width) = q, k
    if (rows, batch, columns) != (1, other, width) or not isinstance(columns, int):
        return False
    if not (isinstance(heads, int) and isinstance(groups, int)) or not groups or heads % groups:
        return False
    return heads // groups in range(1, MAX_QUERIES + 1) and columns in range(1, MAX_COLUMNS + 1)


def _is_mask(mask: SSAValue) -> bool:
    type = element_type_of(mask)
    return type == i1 or isinstance(type, _FLOATS)
