"""Pass `pair-glu`: compute gated activations in an epilogue on pairs of columns."""

from collections import defaultdict
from collections.abc import Collection

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.dialects.gemm import FusedOp, PairingAttr, ResultPortAttr
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.torch import CallOp
from coda_ir.dominance import before
from coda_ir.passes.fusion.fuse_pointwise import fuse_at
from coda_ir.passes.fusion.pairing import join_siblings, pair_columns
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_pairing, find_site, pair_of_siblings
from coda_ir.passes.support.matching import operand_pairs
from coda_ir.passes.support.views import Columns, View


class PairGluPass(FunctionPass):
    """Turns act(h·Wg) ⊙ (h·Wu) into one GEMM whose pairs are the columns (j, j + N/2).

        %g = gemm.fused %h columns(%wg)         %a = gemm.fused %h columns(%wg, %wu) pair<halves> {
        %u = gemm.fused %h columns(%wu)    ->     yield act(gate) * up
        %a = coda.mul (act %g), %u              }

    The weights are not moved or copied. Two weights give the two halves; a packed weight
    (`coda.glu`) is paired by a view, or by adjacent columns with `adjacent`. The pass also pairs
    the halves of a tile, `act(z[:, :F]) ⊙ z[:, F:]`, and its even and odd columns, `z[:, ::2]` and
    `z[:, 1::2]`, in any pointwise code. Legal iff the GEMMs share the input, K, N and the types,
    and neither depends on the other. Any pointwise operator on two such GEMMs qualifies.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        pair_neighbours(rewriter)
        for op in rewriter.ops:
            if isinstance(op, coda.GluOp):
                _pair_packed(op, rewriter)
            elif isinstance(op, coda.MulOp) and (glu := _gate_of_halves(op)) is not None:
                _replace_product(op, glu, rewriter)
                _pair_packed(glu, rewriter)
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


def _gate_of_halves(op: coda.MulOp) -> coda.GluOp | None:
    """Return act(z[:, :F]) ⊙ z[:, F:] as an operator, if a GEMM can compute it."""
    for activated, up in operand_pairs(op):
        x, name = _left_half(activated)
        right = up.owner
        if x is None or name is None or not isinstance(right, coda.SliceOp) or right.x is not x:
            continue
        n = shape_of(x)[-1]
        is_half = right.range == (len(shape_of(x)) - 1, n // 2, n)
        if is_half and isinstance(check_pairing(x, PairingAttr.halves()), Site):
            return coda.GluOp(x, name)
    return None


def _replace_product(op: coda.MulOp, glu: coda.GluOp, rewriter: FunctionRewriter) -> None:
    """Replace a product by `glu`, and erase the operators that only the product needed."""
    unused = [value.owner for value in op.operands]
    rewriter.order.substitute(op, glu)
    for each in unused:
        if isinstance(each, Operation) and not any(result.uses for result in each.results):
            unused += [value.owner for value in each.operands if value is not glu.x]
            rewriter.order.erase(each)


def _left_half(activated: SSAValue) -> tuple[SSAValue | None, str | None]:
    """Return x and the name of the activation, if `activated` applies one to the left half of x."""
    op = activated.owner
    part = op.operands[0].owner if isinstance(op, Operation) and len(op.operands) == 1 else None
    if not isinstance(op, Operation) or not isinstance(part, coda.SliceOp):
        return None, None
    rank, n = len(shape_of(part.x)), shape_of(part.x)[-1]
    if n == DYNAMIC_INDEX or n % 2 or part.range != (rank - 1, 0, n // 2):
        return None, None
    return part.x, _activation_name(op)


def _activation_name(op: Operation) -> str | None:
    name = op.name.removeprefix("coda.")
    return name if name in coda.ACTIVATIONS else None


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
    port = ResultPortAttr.half()
    index = editor.add_result(site.segment, port, tensor_type(op.result), [value])
    replace_by_result(editor, op, site.segment, index)


# Every other column of a tile, which a pair epilogue has on chip separately


_VIEWS = (coda.ReshapeOp, coda.SliceOp)
Neighbours = dict[SSAValue, int]
"""Views of every other column, with the number of the first one: 0 or 1."""


def pair_neighbours(rewriter: FunctionRewriter) -> None:
    """Let GEMMs store the even and the odd columns of a tile separately, if only these are read.

    z[..., ::2] and z[..., 1::2], or the same by a reshape, are views that no kernel reads in place,
    as their columns are not next to each other. Where one epilogue gives both, pointwise code on
    them fuses.
    """
    for x, parts in _neighbours(rewriter).items():
        if {*parts.values()} != {0, 1} or not _reads_only(x, parts):
            continue
        first = next(part.owner for part in parts)
        assert isinstance(first, Operation)
        site = rewriter.allowed(first, check_pairing(x, PairingAttr.adjacent_columns()))
        if site is not None and isinstance(site.op, FusedOp):
            rewriter.passed(
                first, "fused into the GEMM, whose epilogue reads neighbouring columns as pairs"
            )
            pair_columns(site.op, site.segment, PairingAttr.adjacent_columns(), rewriter.order)
            for part, number in parts.items():
                _replace(part, number, rewriter)


def _neighbours(rewriter: FunctionRewriter) -> dict[SSAValue, Neighbours]:
    """Return views of every other column, by the GEMM tile whose columns they are."""
    found: dict[SSAValue, Neighbours] = defaultdict(dict)
    for op in rewriter.ops:
        if _may_select(op):
            view = View.of_columns(op.results[0], rewriter.shapes)
            if isinstance(view.base.owner, FusedOp) and _is_every_other(view):
                found[view.base][op.results[0]] = view.offset
    return found


def _may_select(op: Operation) -> bool:
    is_call = isinstance(op, CallOp) and op.callee.data == "aten.slice.Tensor"
    return is_call or (isinstance(op, coda.ReshapeOp) and isinstance(op.x.owner, coda.SliceOp))


def _is_every_other(view: View) -> bool:
    columns = Columns.of(view.dims[-1])
    if columns is None or (columns.step, 2 * columns.extent) != (2, view.extents[-1]):
        return False
    return view.dims[:-1] == View.whole(view.base, view.extents).dims[:-1]


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
    half = ResultPortAttr.half()
    result = editor.add_result(site.segment, half, tensor_type(part), [lanes[number]])
    for view in views:
        view.operands = ()
    replace_by_result(editor, op, site.segment, result)
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
