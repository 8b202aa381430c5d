"""Pass `pair-rope`: apply a rotary embedding in a pair epilogue of the projection."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, RotationTypes
from coda_ir.dialects.gemm.rotary import pairing_of, table_kind
from coda_ir.passes.fusion.pairing import pair_columns
from coda_ir.passes.support.editing import EpilogueEditor, Site, replace_by_result
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_rotation


class PairRopePass(FunctionPass):
    """Rotates the two columns of a pair (rotary embedding) while the tile is on chip.

        %z = gemm.fused ... columns(%w)            %q = gemm.fused ... columns(%w) pair<halves, 128>
        %q = coda.rope %z, %cos, %sin      ->          half_table(%cos, %sin) {
                                                     yield a·cos − b·sin, b·cos + a·sin
                                                   }

    The columns are not moved. The pair port states which columns form a pair (half-split: j and j +
    head_dim/2; interleaved: 2j and 2j + 1). Legal iff the operand is the tile of a GEMM that pairs
    no other columns, and cos and sin do not depend on that GEMM. Later passes may still fuse a
    rotation; `report-unfused` reports why the others remain.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops_of(coda.RopeOp):
            _rewrite(op, rewriter)


def _rewrite(op: coda.RopeOp, rewriter: FunctionRewriter) -> None:
    pairing = pairing_of(op)
    site = check_rotation(op, rewriter.order)
    if isinstance(site, Refusal):
        return
    rewriter.order.hoist([op.cos, op.sin], site.op)
    rewriter.passed(op, "fused into the GEMM of its projection")
    assert isinstance(site.op, FusedOp)
    pair_columns(site.op, site.segment, pairing, rewriter.order)
    _fuse_rope(op, rewriter)


def _fuse_rope(op: coda.RopeOp, rewriter: FunctionRewriter) -> None:
    site = Site.of(op.x)
    assert site is not None
    editor = EpilogueEditor(site.op, rewriter.order)
    rotate_lanes(op, editor, site.segment, editor.segments[site.segment].yielded(site.result))


def rotate_lanes(
    op: coda.RopeOp, editor: EpilogueEditor, number: int, lanes: Sequence[SSAValue]
) -> None:
    """Rotate the two columns of a pair in segment `number`, in place of `op`."""
    segment = editor.segments[number]
    cos, sin = (segment.add_port(table_kind(op), table) for table in (op.cos, op.sin))
    a, b = lanes
    builder = editor.builder(number, op.location)
    types = RotationTypes.of(element_type_of(op.x), element_type_of(op.cos))
    transposed = op.transposed is not None
    rotated = builder.rotate(a, b, cos, sin, types, transposed=transposed)
    replace_by_result(editor, op, number, rotated)
