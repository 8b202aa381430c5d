"""Every other column of the tile of a GEMM, which a pair epilogue has on chip by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import tensor_type
from coda_ir.dialects.gemm import FusedOp, PairingAttr, ResultPortAttr
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.fusion.pairing import pair_columns
from coda_ir.passes.support.column_views import ColumnAxis, ColumnView, RowAxis
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_pairing
from coda_ir.symbolic_shapes import SymbolicShapes

_VIEWS = (coda.ReshapeOp, coda.SliceOp)
Neighbours = dict[SSAValue, int]
"""Views of every other column, with the number of the first one: 0 or 1."""


def pair_neighbours(rewriter: FunctionRewriter) -> None:
    """Have GEMMs give the even and the odd columns of a tile apart, where only these are read.

    z[..., ::2] and z[..., 1::2], or the same by a reshape, are views that no kernel reads in place,
    as their columns are not next to each other. Where one epilogue gives both, pointwise code on
    them fuses.
    """
    for x, parts in _neighbours(rewriter).items():
        if {*parts.values()} != {0, 1} or not _reads_only(x, parts):
            continue
        first = next(part.owner for part in parts)
        assert isinstance(first, Operation)
        site = check_pairing(x, PairingAttr.adjacent_columns())
        if isinstance(site, Refusal):
            rewriter.missed(first, site)
        elif isinstance(site.op, FusedOp):
            rewriter.passed(first, "reads columns of the pairs of the GEMM that computes them")
            pair_columns(site.op, site.segment, PairingAttr.adjacent_columns(), rewriter.order)
            for part, number in parts.items():
                _replace(part, number, rewriter)


def _neighbours(rewriter: FunctionRewriter) -> dict[SSAValue, Neighbours]:
    """Views of every other column, by the tile of a GEMM whose columns they are."""
    found: dict[SSAValue, Neighbours] = defaultdict(dict)
    for op in rewriter.ops:
        if _may_select(op):
            view = ColumnView.of(op.results[0], rewriter.shapes)
            if isinstance(view.base.owner, FusedOp) and _is_every_other(view, rewriter.shapes):
                found[view.base][op.results[0]] = view.offset
    return found


def _may_select(op: Operation) -> bool:
    is_call = isinstance(op, CallOp) and op.callee.data == "aten.slice.Tensor"
    return is_call or (isinstance(op, coda.ReshapeOp) and isinstance(op.x.owner, coda.SliceOp))


def _is_every_other(view: ColumnView, shapes: SymbolicShapes) -> bool:
    *rows, columns = shapes.dims(view.base)
    if not isinstance(columns, int) or columns % 2 or view.offset not in (0, 1):
        return False
    expected = [RowAxis(index, extent) for index, extent in enumerate(rows)]
    return list(view.axes) == [*expected, ColumnAxis(2, columns // 2)]


def _reads_only(x: SSAValue, parts: Collection[SSAValue]) -> bool:
    """Return whether all that is read of `x`, through views, are `parts`."""
    readers = [use.operation for use in x.uses]
    return bool(readers) and all(
        (reader.results and reader.results[0] in parts)
        or (isinstance(reader, _VIEWS) and _reads_only(reader.results[0], parts))
        for reader in readers
    )


def _replace(part: SSAValue, number: int, rewriter: FunctionRewriter) -> None:
    """Let the column `number` of a pair take the place of a view."""
    op = part.owner
    assert isinstance(op, Operation)
    x = op.operands[0]
    while isinstance(x.owner, _VIEWS):
        x = x.owner.x
    site = Site.of(x)
    assert site is not None, "a GEMM computes the columns"
    views = _views_between(op)
    editor = EpilogueEditor(site.op, rewriter.order)
    lanes = editor.segments[site.segment].yielded(site.result)
    half = ResultPortAttr.half()
    result = editor.add_result(site.segment, half, tensor_type(part), [lanes[number]])
    for view in views:
        view.operands = ()
    replace_by_result(editor, op, site.segment, result)
    for view in views:
        rewriter.order.erase(view)


def _views_between(op: Operation) -> list[Operation]:
    """The views of which `op` shows a part and that nothing else reads, the last one first."""
    found: list[Operation] = []
    value = op.operands[0]
    while isinstance(value.owner, _VIEWS) and value.has_one_use():
        found.append(value.owner)
        value = value.owner.x
    return found
