"""Pass `pair-glu`: compute gated activations in an epilogue on pairs of columns."""

from collections import defaultdict
from collections.abc import Collection

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, PairingAttr
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import before, reached
from coda_ir.passes.fusion.fuse_pointwise import fuse_at
from coda_ir.passes.fusion.pairing import join_siblings, pair_columns
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_pairing, find_site, pair_of_siblings
from coda_ir.passes.support.views import Columns, View


class PairGluPass(FunctionPass):
    """Turns act(h·Wg) ⊙ (h·Wu) into one GEMM whose pairs are the columns (j, j + N/2).

        %g = gemm.fused %h columns(%wg)         %a = gemm.fused %h columns(%wg, %wu) pair<halves> {
        %u = gemm.fused %h columns(%wu)    ->     yield act(gate) * up
        %a = coda.mul (act %g), %u              }

    The weights are not moved or copied. Two weights give the two halves; a packed weight
    (`coda.glu`) is paired by a view, or by adjacent columns with `adjacent`. The pass also gives
    pointwise code the halves of a tile, `act(z[:, :F]) ⊙ z[:, F:]`, and its even and odd columns,
    `z[:, ::2]` and `z[:, 1::2]`. Legal iff the GEMMs share the input, K, N and the types, and
    neither depends on the other. Any pointwise operator on two such GEMMs qualifies.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        _pair_parts(rewriter)
        for op in rewriter.ops:
            if isinstance(op, coda.GluOp):
                _pair_packed(op, rewriter)
            elif is_pointwise(op):
                siblings = pair_of_siblings(op, rewriter.order)
                if siblings is not None:
                    rewriter.passed(op, "pairs two GEMMs of the same input")
                    _join(*siblings, rewriter)
                    site = find_site(op, rewriter.order)
                    if not isinstance(site, Refusal):
                        fuse_at(op, site, rewriter)


def _join(first: FusedOp, second: FusedOp, rewriter: FunctionRewriter) -> None:
    rewriter.order.hoist(second.operands, first)
    join_siblings(first, second, rewriter.order)


def _pair_packed(op: coda.GluOp, rewriter: FunctionRewriter) -> None:
    pairing = PairingAttr.adjacent_columns() if op.is_adjacent else PairingAttr.halves()
    site = rewriter.allowed(op, check_pairing(op.x, pairing))
    if site is None:
        return
    rewriter.passed(op, "fused into the GEMM of its packed gate and up projection")
    assert isinstance(site.op, FusedOp)
    pair_columns(site.op, site.segment, pairing, rewriter.order)
    _fuse_glu(op, op.x, rewriter)


def _fuse_glu(op: coda.GluOp, x: SSAValue, rewriter: FunctionRewriter) -> None:
    site = Site.of(x)
    assert site is not None
    editor = EpilogueEditor(site.op, rewriter.order)
    gate, up = editor.segments[site.segment].yielded(site.result)
    builder = editor.builder(site.segment, op.location)
    value = builder.gated(op.activation.data, gate, up, element_type_of(op.result))
    replace_by_result(editor, op, site.segment, [value], half=True)


# Halves of a tile, or every other column, which a pair epilogue has on chip separately


_VIEWS = (coda.ReshapeOp, coda.SliceOp)
Parts = dict[SSAValue, int]
"""Views of the first columns of all pairs, 0, or of the second ones, 1."""


def _pair_parts(rewriter: FunctionRewriter) -> None:
    """Let GEMMs store both halves of a tile separately if pointwise code combines them, and its
    even and odd columns if only these are read.

    z[..., ::2] and z[..., 1::2], or the same by a reshape, are views that no kernel reads in place,
    as their columns are not next to each other. Where one epilogue gives both, pointwise code on
    them fuses.
    """
    for (x, pairing), parts in _parts(rewriter).items():
        if {*parts.values()} != {0, 1}:
            continue
        if not (_reads_only(x, parts) if pairing.is_adjacent else _are_combined(parts)):
            continue
        first = next(part.owner for part in parts)
        assert isinstance(first, Operation)
        site = rewriter.allowed(first, check_pairing(x, pairing))
        if site is not None and isinstance(site.op, FusedOp):
            rewriter.passed(first, "fused into the GEMM, whose epilogue reads the columns as pairs")
            pair_columns(site.op, site.segment, pairing, rewriter.order)
            for part, number in parts.items():
                _replace(part, number, rewriter)


def _parts(rewriter: FunctionRewriter) -> dict[tuple[SSAValue, PairingAttr], Parts]:
    """Return views of half of the columns, by the tile of a GEMM and its pairs."""
    found: dict[tuple[SSAValue, PairingAttr], Parts] = defaultdict(dict)
    for op in rewriter.ops:
        if _may_select(op):
            view = View.of_columns(op.results[0], rewriter.shapes)
            part = _part(view) if isinstance(view.base.owner, FusedOp) else None
            if part is not None:
                pairing, number = part
                found[view.base, pairing][op.results[0]] = number
    return found


def _may_select(op: Operation) -> bool:
    is_call = isinstance(op, CallOp) and op.callee.data == "aten.slice.Tensor"
    is_split = isinstance(op, coda.ReshapeOp) and isinstance(op.x.owner, coda.SliceOp)
    return is_call or is_split or isinstance(op, coda.SliceOp)


def _part(view: View) -> tuple[PairingAttr, int] | None:
    """Return the pairs of which a view has one column each, and which of the two."""
    columns = Columns.of(view.dims[-1])
    is_half = columns is not None and 2 * columns.extent == view.extents[-1]
    if not is_half or view.dims[:-1] != View.whole(view.base, view.extents).dims[:-1]:
        return None
    if columns.step == 2:
        return PairingAttr.adjacent_columns(), view.offset
    number, rest = divmod(view.offset, columns.extent)
    return None if columns.step != 1 or rest else (PairingAttr.halves(), number)


def _are_combined(parts: Parts) -> bool:
    """Return whether pointwise code computes something from columns of both kinds."""

    def code_on(value: SSAValue) -> list[SSAValue]:
        users = [use.operation for use in value.uses if is_pointwise(use.operation)]
        return [user.results[0] for user in users]

    computed: tuple[set[SSAValue], set[SSAValue]] = (set(), set())
    for part, number in parts.items():
        computed[number].update(reached([part], code_on))
    return not computed[0].isdisjoint(computed[1])


def _reads_only(x: SSAValue, parts: Collection[SSAValue]) -> bool:
    """Return whether `x` is read, through views, only in `parts`."""
    readers = [use.operation for use in x.uses]
    return bool(readers) and all(
        (reader.results and reader.results[0] in parts)
        or (isinstance(reader, _VIEWS) and _reads_only(reader.results[0], parts))
        for reader in readers
    )


def _replace(part: SSAValue, number: int, rewriter: FunctionRewriter) -> None:
    """Replace a view by column `number` of a pair."""
    op = part.owner
    assert isinstance(op, Operation)
    site = Site.of(before(op.operands[0], _VIEWS))
    assert site is not None, "a GEMM computes the columns"
    views = _views_between(op)
    editor = EpilogueEditor(site.op, rewriter.order)
    lanes = editor.segments[site.segment].yielded(site.result)
    for view in views:
        view.operands = ()
    replace_by_result(editor, op, site.segment, [lanes[number]], half=True)
    for view in views:
        rewriter.order.erase(view)


def _views_between(op: Operation) -> list[Operation]:
    """Return the views through which `op` reads and that nothing else reads, the last one first."""
    found: list[Operation] = []
    value = op.operands[0]
    while isinstance(value.owner, _VIEWS) and value.has_one_use():
        found.append(value.owner)
        value = value.owner.x
    return found
