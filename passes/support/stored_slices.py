"""Slices of a tensor that calls of PyTorch store one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.norms import OpInserter
from coda_ir.symbolic_shapes import dims_attribute

SLICE_SCATTER = "aten.slice_scatter.default"


class _Store(NamedTuple):
    """Elements of dimension `dim` of a tensor that are those of `part`, in order."""

    tensor: SSAValue
    part: SSAValue
    dim: int
    places: range


def joined_slices(op: CallOp, insert: OpInserter) -> SSAValue | None:
    """Join the slices that `op` and the calls before it store, if they are all of the tensor
    and do not overlap. Slices of each nth element are the parts of a new dimension.
    """
    value, last = op.outputs[0], _store_of(op.outputs[0])
    stores: list[_Store] = []
    while last is not None and sum(len(x.places) for x in stores) < shape_of(value)[last.dim]:
        store = _store_of(value if not stores else stores[-1].tensor)
        if store is None or not _joins(store, last) or any(_overlap(store, x) for x in stores):
            return None
        stores.append(store)
    if last is None or not stores:
        return None
    stores.sort(key=lambda store: store.places.start)
    parts, dim = [store.part for store in stores if store.places], last.dim
    if last.places.step == 1:
        return insert.insert(coda.ConcatOp(parts, dim))
    return _interleaved(parts, dim, value, insert)


def _interleaved(
    parts: Sequence[SSAValue], dim: int, value: SSAValue, insert: OpInserter
) -> SSAValue:
    """A tensor like `value` with the elements of `parts` along `dim` in turn."""
    views: list[SSAValue] = []
    dims = insert.rewriter.shapes.dims(parts[0])
    for part in parts:
        shape = shape_of(part)
        view = coda.ReshapeOp(part, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
        view.attributes["coda.dims"] = dims_attribute((*dims[: dim + 1], 1, *dims[dim + 1 :]))
        views.append(insert.insert(view, part.name_hint))
    flat = coda.ReshapeOp(insert.insert(coda.ConcatOp(views, dim + 1)), shape_of(value))
    extent = shape_of(value)[dim]
    flat.attributes["coda.dims"] = dims_attribute((*dims[:dim], extent, *dims[dim + 1 :]))
    return insert.insert(flat)


def _store_of(value: SSAValue) -> _Store | None:
    """The slice that the call of `value` stores, if its number of elements is known."""
    op = value.owner
    if not isinstance(op, CallOp) or op.callee.data != SLICE_SCATTER or not op.template.is_literal:
        return None
    positional, named = op.template.evaluate(list(op.inputs), {}, {})
    tensor, part, *given = positional
    axis, start, stop, step = (*given, *(0, None, None, 1)[len(given) :])
    dim = int(axis or 0) % len(shape_of(tensor))
    extent, types = shape_of(tensor)[dim], {element_type_of(x) for x in (tensor, part)}
    if named or extent == DYNAMIC_INDEX or len(types) > 1:
        return None
    return _Store(tensor, part, dim, range(extent)[start:stop:step])


def _joins(a: _Store, b: _Store) -> bool:
    """Return whether both are runs of elements of one dimension, or equally many of its nth."""
    if (a.dim, a.places.step) != (b.dim, b.places.step):
        return False
    return a.places.step == 1 or len(a.places) == len(b.places)


def _overlap(a: _Store, b: _Store) -> bool:
    return bool(set(a.places) & set(b.places))
