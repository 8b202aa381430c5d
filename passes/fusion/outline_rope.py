"""Pass `outline-rope`: turn a rotation without a projection into a kernel that others can join."""

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm.rotary import pairing_of
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dominance import uses_through
from coda_ir.passes.fusion.pair_rope import rotate_lanes
from coda_ir.passes.support.editing import EpilogueEditor, insert_map
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.groups import splits_columns


class OutlineRopePass(FunctionPass):
    """Turns a rotary embedding whose operand pointwise code also reads into a `gemm.map` of pairs.

        %dz = coda.rope %dq, %cos, %sin           %dz = gemm.map pair<halves, 128> tile(%dq)
        %p  = coda.mul %q, %dq             ->         half_table(%cos, %sin) {
                                                    yield a·cos + b·sin, b·cos − a·sin
                                                  }
                                                  %p  = coda.mul %q, %dq

    In the backward, the inverse rotation applies to the gradients of q and k, which come from
    attention, so no GEMM has them on chip. `join-pointwise` then moves the other code into the same
    kernel, so that their common operand is read once. Legal iff float32 represents the elements and
    the number of columns is static. Other rotations run as separate kernels.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.RopeOp) and _has_company(op) and _fits_map(op):
                rewriter.passed(op, "becomes one kernel with the other readers of its operand")
                _outline(op, rewriter)


def _has_company(op: coda.RopeOp) -> bool:
    """Return whether pointwise code reads the operand or the result of `op`, perhaps as heads."""

    def is_passed_on(op: Operation) -> bool:
        return isinstance(op, coda.CastOp) or splits_columns(op)

    uses = (use for value in (op.x, op.result) for use in uses_through(value, is_passed_on))
    return any(is_pointwise(use.operation) for use in uses)


def _fits_map(op: coda.RopeOp) -> bool:
    types = [element_type_of(value) for value in (op.x, op.cos, op.sin)]
    return all(map(computes_in_float32, types)) and shape_of(op.x)[-1] != DYNAMIC_INDEX


def _outline(op: coda.RopeOp, rewriter: FunctionRewriter) -> None:
    empty = insert_map(rewriter.order, op, op.location, [op.x], pairing_of(op))
    editor = EpilogueEditor(empty.op, rewriter.order)
    rotate_lanes(op, editor, 0, editor.segments[0].port_args(0))
