"""Slices of a tensor that calls of PyTorch store one after the other."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp

SLICE_SCATTER = "aten.slice_scatter.default"


class _Store(NamedTuple):
    """Elements `start` to `stop` of dimension `dim` of a tensor that are those of `part`."""

    tensor: SSAValue
    part: SSAValue
    dim: int
    start: int
    stop: int


def joined_slices(op: CallOp) -> coda.ConcatOp | None:
    """The concatenation of the slices that `op` and the calls before it store, if they are all of
    the tensor and do not overlap.
    """
    value, last = op.outputs[0], _store_of(op.outputs[0])
    stores: list[_Store] = []
    while last is not None and sum(x.stop - x.start for x in stores) < shape_of(value)[last.dim]:
        store = _store_of(value if not stores else stores[-1].tensor)
        if store is None or store.dim != last.dim or any(_overlap(store, x) for x in stores):
            return None
        stores.append(store)
    if last is None or not stores:
        return None
    stores.sort(key=lambda store: store.start)
    return coda.ConcatOp([store.part for store in stores if store.start < store.stop], last.dim)


def _store_of(value: SSAValue) -> _Store | None:
    """The slice that the call of `value` stores, if its number of elements is known."""
    op = value.owner
    if not isinstance(op, CallOp) or op.callee.data != SLICE_SCATTER or not op.template.is_literal:
        return None
    positional, named = op.template.evaluate(list(op.inputs), {}, {})
    tensor, part, dim, start, stop, step = (*positional, *(0, None, None, 1)[len(positional) - 2 :])
    dim %= len(shape_of(tensor))
    extent, types = shape_of(tensor)[dim], {element_type_of(x) for x in (tensor, part)}
    if named or step != 1 or extent == DYNAMIC_INDEX or len(types) > 1:
        return None
    first, end, _ = slice(start, stop).indices(extent)
    return _Store(tensor, part, dim, first, max(first, end))


def _overlap(a: _Store, b: _Store) -> bool:
    return a.start < b.stop and b.start < a.stop
