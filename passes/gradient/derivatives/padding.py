"""Sums of padded tensors: the gradient of what was sliced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of

Insert = Callable[[Operation], SSAValue]


def join_pads(parts: Sequence[SSAValue], insert: Insert) -> list[SSAValue]:
    """`parts`, of which those that pad neighbouring slices are one concatenation.

    pad(a) {start = 0} + pad(b) {start = 8}  ->  concat(a, b), where both together are whole.
    """
    pads = [part.owner for part in parts if isinstance(part.owner, coda.PadOp)]
    pads = [pad for pad in pads if pad.after is None and not pad.number]
    joined = [part for part in parts if part.owner not in pads]
    for run in _runs(pads):
        joined.append(_joined(run, insert))
    return joined


def _runs(pads: Sequence[coda.PadOp]) -> list[list[coda.PadOp]]:
    """`pads` in lists in which each begins where the one before it stops."""
    runs: list[list[coda.PadOp]] = []
    for pad in sorted(pads, key=lambda pad: pad.range):
        dim, start, _ = pad.range
        fitting = (run for run in runs if run[-1].range[::2] == (dim, start))
        run = next(fitting, None)
        if run is None:
            runs.append([pad])
        else:
            run.append(pad)
    return runs


def _joined(run: Sequence[coda.PadOp], insert: Insert) -> SSAValue:
    first = run[0]
    if len(run) == 1:
        return first.result
    dim, start, _ = first.range
    extent = shape_of(first.result)[dim]
    whole = insert(coda.ConcatOp([pad.x for pad in run], dim))
    if shape_of(whole)[dim] == extent:
        return whole
    return insert(coda.PadOp(whole, dim, start, extent, first.like))
