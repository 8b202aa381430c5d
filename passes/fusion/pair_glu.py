"""Pass `pair-glu`: gated activations see both of their columns in one pair epilogue."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, tensor_type
from coda_ir.dialects.gemm import FusedOp, PairingAttr, ResultPortAttr
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.passes.fusion.fuse_pointwise import fuse_at
from coda_ir.passes.fusion.pairing import join_siblings, pair_columns
from coda_ir.passes.fusion.sides import Sides, sides_of_pairs
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_pairing, find_site, pair_of_siblings


@dataclass(frozen=True)
class PairGluPass(FunctionPass):
    """act(h·Wg) ⊙ (h·Wu) becomes one GEMM whose pairs are the columns (j, j + N/2).

        %g = gemm.fused %h columns(%wg)         %a = gemm.fused %h columns(%wg, %wu) pair<halves> {
        %u = gemm.fused %h columns(%wu)    ->     yield act(gate) * up
        %a = coda.mul (act %g), %u              }

    The weights are not moved or copied: two weights give the two halves, and a packed weight
    (`coda.glu`) is paired by view, or by neighbouring columns with `adjacent`. So are slices of a
    tile that pointwise code combines, `act(z[:, :F]) ⊙ z[:, F:]` or `act(z[:, ::2]) ⊙ z[:, 1::2]`:
    the GEMM gives both for each pair, and `fuse-pointwise` moves the code into its epilogue. Legal
    iff the GEMMs share the input, K, N and the types and neither depends on the other; any
    pointwise operator on two such GEMMs qualifies.
    """

    name: ClassVar[str] = "pair-glu"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.GluOp):
                _pair_packed(op, rewriter)
            elif (found := sides_of_pairs(op, rewriter.shapes)) is not None:
                _pair_sides(found, rewriter)
            elif is_pointwise(op):
                siblings = pair_of_siblings(op, rewriter.order)
                if siblings is not None:
                    rewriter.passed(op, "pairs two GEMMs of the same input")
                    _join(*siblings, rewriter)
                    site = find_site(op, rewriter.order)
                    if not isinstance(site, Refusal):
                        fuse_at(op, site, rewriter)


def _pair_sides(found: Sides, rewriter: FunctionRewriter) -> None:
    """Let the GEMM whose columns are sliced give one element of each slice for each pair."""
    site = check_pairing(found.x, found.pairing)
    if isinstance(site, Refusal):
        rewriter.missed(found.first, site)
        return
    rewriter.passed(found.first, "both columns of a pair are in the epilogue of the GEMM")
    assert isinstance(site.op, FusedOp)
    fused = pair_columns(site.op, site.segment, found.pairing, rewriter.order)
    editor = EpilogueEditor(fused, rewriter.order)
    segment = editor.segments[site.segment]
    slices = found.first, found.second
    for each, lane in zip(slices, segment.yielded(site.result), strict=True):
        (value,) = each.results
        port, type = ResultPortAttr.half(), tensor_type(value)
        editor.adopt(site.segment, editor.add_result(site.segment, port, type, [lane]), value)
        each.operands = ()
    editor.commit()
    for each in slices:
        rewriter.order.erase(each)


def _join(first: FusedOp, second: FusedOp, rewriter: FunctionRewriter) -> None:
    rewriter.order.hoist(second.operands, first)
    join_siblings(first, second, rewriter.order)


def _pair_packed(op: coda.GluOp, rewriter: FunctionRewriter) -> None:
    pairing = PairingAttr.adjacent_columns() if op.is_adjacent else PairingAttr.halves()
    site = check_pairing(op.x, pairing)
    if isinstance(site, Refusal):
        rewriter.missed(op, site)
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
